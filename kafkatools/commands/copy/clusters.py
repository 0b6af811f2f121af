"""The two clusters of kt copy: addresses, client settings, and checks of both topics."""

from __future__ import annotations

from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import TOPIC_CONFIG
from kafkatools.core.admin.topics import NewTopic, TopicDescription, create_topics
from kafkatools.exit_status import CommandError, UsageError
from kafkatools.options import Args, client_settings
from kafkatools.options.common import properties_file
from kafkatools.options.connection import Connection
from kafkatools.tools.copying.client_cluster import ClientCluster, topic_configs

_TIMESTAMP_TYPE = "message.timestamp.type"
_LOG_APPEND_TIME = "LogAppendTime"
_CLIENT_ID = "kt-copy"


def clusters_of(console: Console, args: Args) -> tuple[ClientCluster, ClientCluster, Connection]:
    """Return the source and the target cluster, and the connection to the target. Raises UsageError or CommandError for
    a profile without brokers."""
    source = ClientCluster(console.connect(args), client_settings(args), _CLIENT_ID)
    if args.to_bootstrap_server is not None:
        settings = properties_file(args, "to_command_config")
        target = ClientCluster(args.to_bootstrap_server, settings, _CLIENT_ID)
        return source, target, Connection(target.bootstrap, None, args.to_command_config)
    if args.to_profile is None:
        return source, source, Connection(source.bootstrap, args.profile, args.command_config)
    profile = args.target_profile
    if profile is None or profile.bootstrap_servers is None:
        raise UsageError(f"The profile '{args.to_profile}' has no bootstrap_servers")
    target = ClientCluster(profile.bootstrap_servers, args.indirect.of_profile(profile), _CLIENT_ID)
    return source, target, Connection(target.bootstrap, profile, None)


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
    entries = topic_configs(admin, topic)
    return {entry.name: entry.value for entry in entries if entry.source == TOPIC_CONFIG and entry.value is not None}


def ensure_keeps_timestamps(admin: AdminClient, topic: str) -> None:
    """Raise CommandError when the broker would replace the timestamps of copied records."""
    if any(entry.value == _LOG_APPEND_TIME for entry in topic_configs(admin, topic, [_TIMESTAMP_TYPE])):
        raise CommandError(
            f"Topic {topic} has {_TIMESTAMP_TYPE}={_LOG_APPEND_TIME}: the copied records would get other timestamps",
            hint=f"kt configs --alter --topic {topic} --add-config {_TIMESTAMP_TYPE}=CreateTime",
        )


def topic_name(operand: str) -> str:
    """Return the topic of an operand, which may have the prefix `topic:` as in kt pipeline."""
    return operand.removeprefix("topic:")
