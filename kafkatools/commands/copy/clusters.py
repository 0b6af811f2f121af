"""The two clusters of kt copy: addresses, client settings, and checks of both topics."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.admin.configs import TOPIC, TOPIC_CONFIG, ConfigEntry, describe_configs
from kafkatools.core.admin.topics import NewTopic, TopicDescription, create_topics, describe_topics
from kafkatools.core.config import Table
from kafkatools.exit_status import CommandError, UsageError
from kafkatools.options import Args, client_settings, read_properties
from kafkatools.options.profiles import find_profile

_TIMESTAMP_TYPE = "message.timestamp.type"
_LOG_APPEND_TIME = "LogAppendTime"
_UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"


class CopyCluster(NamedTuple):
    """The address of a cluster and the settings of its clients."""

    bootstrap: str
    settings: Mapping[str, str]

    def admin(self, console: Console) -> AdminClient:
        """Return an AdminClient, which connects at its first request."""
        return AdminClient(self.bootstrap, dict(self.settings), console.clock)

    def client(self, table: Table, **settings: object) -> dict[str, object]:
        """Return the settings of a producer or consumer of this cluster; `settings` override the cluster's."""
        own = {name: value for name, value in self.settings.items() if name in table or table.is_prefixed(name)}
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return {**own, "bootstrap.servers": self.bootstrap, "client.id": "kt-copy", **named}


def clusters_of(console: Console, args: Args) -> tuple[CopyCluster, CopyCluster]:
    """Return the source and the target cluster. Raises UsageError or CommandError for a profile without brokers."""
    source = CopyCluster(console.connect(args), client_settings(args))
    if args.to_bootstrap_server is not None:
        settings = read_properties(args.to_command_config) if args.to_command_config else {}
        return source, CopyCluster(args.to_bootstrap_server, settings)
    if args.to_profile is None:
        return source, source
    profile = find_profile(args.to_profile, console.environ, os.getcwd())
    if profile is None or profile.bootstrap_servers is None:
        raise UsageError(f"The profile '{args.to_profile}' has no bootstrap_servers")
    return source, CopyCluster(profile.bootstrap_servers, profile.settings)


def cluster_id(admin: AdminClient) -> str:
    """Return the id of a cluster; `unknown` from brokers that do not report it."""
    return describe_cluster(admin).cluster_id or "unknown"


def described(admin: AdminClient, topic: str) -> TopicDescription | None:
    """Return a topic, None if it does not exist. Raises CommandError for any other error."""
    description = describe_topics(admin, [topic])[topic]
    if description.error is None:
        return description
    if description.error.name == _UNKNOWN_TOPIC:
        return None
    raise CommandError(f"Topic {topic}: {description.error}", kind=description.error.name)


def create_target(source: AdminClient, target: AdminClient, like: TopicDescription, args: Args) -> None:
    """Create the target topic with the partition count and the configs that are set on the source topic. Timestamps are
    kept, so message.timestamp.type is not copied if it is LogAppendTime. Raises KafkaError."""
    configs = _own_configs(source, like.name)
    if configs.get(_TIMESTAMP_TYPE) == _LOG_APPEND_TIME:
        del configs[_TIMESTAMP_TYPE]
    name = topic_name(args.operands[1])
    topic = NewTopic(name, len(like.partitions), args.replication_factor or -1, configs=configs)
    error = create_topics(target, [topic])[name].error
    if error is not None:
        raise error


def _own_configs(admin: AdminClient, topic: str) -> dict[str, str]:
    entries = _entries(admin, topic)
    return {entry.name: entry.value for entry in entries if entry.source == TOPIC_CONFIG and entry.value is not None}


def _entries(admin: AdminClient, topic: str, names: Iterable[str] | None = None) -> tuple[ConfigEntry, ...]:
    config = describe_configs(admin, [(TOPIC, topic)], names=None if names is None else list(names))[TOPIC, topic]
    if config.error is not None:
        raise config.error
    return config.entries


def ensure_keeps_timestamps(admin: AdminClient, topic: str) -> None:
    """Raise CommandError when the broker would replace the timestamps of copied records."""
    if any(entry.value == _LOG_APPEND_TIME for entry in _entries(admin, topic, [_TIMESTAMP_TYPE])):
        raise CommandError(
            f"Topic {topic} has {_TIMESTAMP_TYPE}={_LOG_APPEND_TIME}: the copied records would get other timestamps",
            hint=f"kt configs --alter --topic {topic} --add-config {_TIMESTAMP_TYPE}=CreateTime",
        )


def topic_name(operand: str) -> str:
    """Return the topic of an operand, which may have the prefix `topic:` as in kt pipeline."""
    return operand.removeprefix("topic:")
