"""Offsets of partitions by time: earliest, latest, by timestamp, of the greatest timestamp, and those of tiered storage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.leaders import TopicPartition, call_leaders
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.api_versions import ApiKey

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


class OffsetSpec(IntEnum):
    """Timestamps with a meaning of their own (ListOffsetsRequest); any other value is ms since 1970."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


# The first version of ListOffsets that knows the spec; an older broker is not asked with it.
_MINIMUM_VERSION = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}


@dataclass(frozen=True, slots=True)
class OffsetResult:
    """What a partition answered: offset and timestamp are -1 when nothing matches."""

    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1
    error: KafkaError | None = None


def list_offsets(
    admin: AdminClient,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[TopicPartition, OffsetResult]:
    """The offset of each partition for its OffsetSpec or timestamp in ms; an error is the partition's own."""

    def fields(partitions: Sequence[TopicPartition], version: int) -> dict[str, Any]:
        by_topic: dict[str, list[dict[str, int]]] = {}
        for topic, partition in partitions:
            one = {"partition_index": partition, "timestamp": wanted[topic, partition], "current_leader_epoch": -1}
            by_topic.setdefault(topic, []).append(one)
        topics = [{"name": name, "partitions": ones} for name, ones in by_topic.items()]
        timeout = {"timeout": admin.request_timeout_ms} if version >= 10 else {}
        return {"replica_id": -1, "isolation_level": isolation_level, "topics": topics, **timeout}

    minimum = max((_minimum_version(spec) for spec in wanted.values()), default=1)
    answers = call_leaders(admin, ApiKey.LIST_OFFSETS, list(wanted), fields, minimum_version=minimum)
    return {key: _result(answer) for key, answer in answers.items()}


def _minimum_version(spec: int) -> int:
    return next((version for known, version in _MINIMUM_VERSION.items() if known == spec), 1)


def _result(answer: Any) -> OffsetResult:
    if isinstance(answer, KafkaError):
        return OffsetResult(error=answer)
    return OffsetResult(answer.offset, answer.timestamp, getattr(answer, "leader_epoch", -1))
