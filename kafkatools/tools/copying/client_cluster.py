"""A cluster that records are copied from or to: the settings of its clients, and descriptions of its topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin import configs
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.admin.configs import ConfigEntry, describe_configs
from kafkatools.core.admin.topics import TopicDescription, describe_topics
from kafkatools.core.clock import Clock
from kafkatools.core.config import CONSUMER, PRODUCER, Table
from kafkatools.core.topic_partition import partitions_text
from kafkatools.exit_status import CommandError
from kafkatools.tools.rights import TOPIC, Right, naming

_UNKNOWN_TOPIC = "UNKNOWN_TOPIC_OR_PARTITION"
_BATCH_BYTES = 1 << 18
_LARGEST_REQUEST_BYTES = 1 << 27
_MEMORY_BYTES = 1 << 27


class ClientCluster(NamedTuple):
    """The address of a cluster, the settings of its clients and their client.id."""

    bootstrap: str
    settings: Mapping[str, str]
    client_id: str

    def admin(self, clock: Clock) -> AdminClient:
        """Return an AdminClient, which connects at its first request."""
        return AdminClient(self.bootstrap, dict(self.settings), clock)

    def client(self, table: Table, **settings: object) -> dict[str, object]:
        """Return the settings of a producer or consumer of this cluster; `settings` override the cluster's."""
        own = {name: value for name, value in self.settings.items() if name in table or table.is_prefixed(name)}
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return {**own, "bootstrap.servers": self.bootstrap, "client.id": self.client_id, **named}

    def reader(self, isolation_level: str) -> dict[str, object]:
        """Return the settings of a consumer that raises an error instead of skipping records."""
        return self.client(
            CONSUMER,
            auto_offset_reset="none",
            enable_auto_commit="false",
            allow_auto_create_topics="false",
            isolation_level=isolation_level,
            receive_buffer_bytes="-1",
            fetch_max_wait_ms="50",
        )

    def writer(self, transactional_id: str, codec: str) -> dict[str, object]:
        """Return the settings of a transactional producer for many records."""
        return self.client(
            PRODUCER,
            transactional_id=transactional_id,
            acks="all",
            compression_type=codec,
            batch_size=_BATCH_BYTES,
            linger_ms=20,
            buffer_memory=_MEMORY_BYTES,
            max_request_size=_LARGEST_REQUEST_BYTES,
        )


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
    error = naming(description.error, Right("DESCRIBE", TOPIC, topic))
    raise CommandError(f"Topic {topic}: {error}", kind=error.name)


def partition_numbers(topic: TopicDescription, requested: Sequence[int]) -> list[int]:
    """Return the requested partitions of a topic in order, all without a request. Raises CommandError for one that the
    topic does not have."""
    numbers = [part.partition for part in topic.partitions]
    missing = [number for number in requested if number not in numbers]
    if missing:
        raise CommandError(f"Topic {topic.name} has no partition {missing[0]}: {partitions_text(numbers)}")
    return sorted(set(requested or numbers))


def topic_configs(admin: AdminClient, topic: str, names: Iterable[str] | None = None) -> tuple[ConfigEntry, ...]:
    """Return the configs of a topic, all or those with these names. Raises KafkaError."""
    resource = (configs.TOPIC, topic)
    config = describe_configs(admin, [resource], names=None if names is None else list(names))[resource]
    if config.error is not None:
        raise naming(config.error, Right("DESCRIBE_CONFIGS", TOPIC, topic))
    return config.entries
