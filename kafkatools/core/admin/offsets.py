"""List partition offsets by timestamp, from the partitions' leaders (KafkaAdminClient.listOffsets)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.leaders import LeaderRequest, TopicPartition, send_to_leaders
from kafkatools.core.admin.results import by_partition, filled
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.topic_partition import topic_fields

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

# The first version of ListOffsets that knows a special timestamp (KIP-734, KIP-405, KIP-1005, KIP-1023).
_MIN_VERSIONS = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}


class PartitionOffset(NamedTuple):
    """An offset (-1 when no record is that new), its timestamp in ms and leader epoch (-1 = unknown), or an error."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1
    error: KafkaError | None = None


def list_offsets(
    admin: AdminClient,
    timestamps: Mapping[TopicPartition, int],
    *,
    isolation_level: int = READ_UNCOMMITTED,
    timeout_ms: int | None = None,
    leaderless_ms: int | None = None,
) -> dict[TopicPartition, PartitionOffset]:
    """Return each partition's offset for a special timestamp (-1 to -6) or at or after a time in ms, or its error. The
    offset is -1 without such a record. `leaderless_ms`: how long to wait for a leader's election, if shorter than
    request.timeout.ms. A special timestamp that the broker does not know gives the error UnsupportedVersion. Raises
    KafkaError when metadata cannot be fetched."""
    min_version = max((_MIN_VERSIONS.get(timestamp, 0) for timestamp in timestamps.values()), default=0)
    if isolation_level == READ_COMMITTED:
        min_version = max(min_version, 2)

    def build(partitions: list[TopicPartition], remaining_ms: int) -> Fields:
        entries = ((key, {"partition_index": key[1], "timestamp": timestamps[key]}) for key in partitions)
        return {"replica_id": -1, "isolation_level": isolation_level, "topics": topic_fields(entries)}

    def read(entity: Entity) -> dict[TopicPartition, PartitionOffset | KafkaError]:
        return by_partition(entity.topics, lambda part: error_in(part) or _offset(part))

    request = LeaderRequest(ApiKey.LIST_OFFSETS, build, read, min_version)
    results = send_to_leaders(admin, timestamps, request, timeout_ms, leaderless_ms)
    return filled(results, lambda error: PartitionOffset(-1, error=error))


def _offset(part: Entity) -> PartitionOffset:
    return PartitionOffset(part.offset, part.timestamp, getattr(part, "leader_epoch", -1))
