"""Describe brokers' log directories and their replicas (KafkaAdminClient.describeLogDirs)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity


class ReplicaInfo(NamedTuple):
    """A replica in a log directory. `is_future`: it is being moved there from another directory of the broker."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A broker's log directory, with `error` set when it is offline. Volume sizes in bytes are -1 from brokers too old
    to report them."""

    path: str
    replicas: tuple[ReplicaInfo, ...]
    total_bytes: int = -1
    usable_bytes: int = -1
    error: KafkaError | None = None


def describe_log_dirs(admin: AdminClient, brokers: Sequence[int]) -> dict[int, tuple[LogDir, ...] | KafkaError]:
    """Return the log directories of each broker, or the broker's error. Raises KafkaError when the broker list cannot
    be fetched."""
    admin.refresh_cluster()
    fields = {"topics": None}
    return admin.send_to_brokers(
        brokers, ApiKey.DESCRIBE_LOG_DIRS, fields, lambda response: read_log_dirs(response.entity)
    )


def read_log_dirs(entity: Entity) -> tuple[LogDir, ...] | KafkaError:
    """Return the log directories of a DescribeLogDirs response, or its error."""
    return error_in(entity) or tuple(map(_log_dir, entity.results))


def _log_dir(result: Entity) -> LogDir:
    replicas = tuple(
        ReplicaInfo(topic.name, part.partition_index, part.partition_size, part.offset_lag, part.is_future_key)
        for topic in result.topics
        for part in topic.partitions
    )
    total, usable = getattr(result, "total_bytes", -1), getattr(result, "usable_bytes", -1)
    return LogDir(result.log_dir, replicas, total, usable, error_in(result))
