"""Fetch requests and responses of a consumer, versions 4 to 18.

Decoded records stay a slice of the receive buffer; their bytes are first copied when a caller asks for a key or value.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from kafkatools.core.net.metadata import NodeEndpoint
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.messages import decode, encode_fields, request_type, response_type
from kafkatools.core.protocol.uuids import UUID_ZERO

MIN_VERSION = 4
MAX_VERSION = 18
LOG_START_VERSION = 5
SESSION_VERSION = 7
FOLLOWERS_VERSION = 11
FLEXIBLE_VERSION = ApiKey.FETCH.first_flexible_version
TOPIC_ID_VERSION = 13
ENDPOINTS_VERSION = 16

ZERO_UUID = UUID_ZERO


class EpochEndOffset(NamedTuple):
    """A leader epoch and its end offset, for the diverging epoch and the snapshot id of a response; (-1, -1) when there
    is none."""

    epoch: int = -1
    end_offset: int = -1


class CurrentLeader(NamedTuple):
    """The current leader that a broker reports with NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH (KIP-951); -1 and -1
    without one."""

    leader_id: int = -1
    leader_epoch: int = -1


class AbortedTransaction(NamedTuple):
    """The producer id of an aborted transaction and the offset of its first record."""

    producer_id: int
    first_offset: int


NO_EPOCH = EpochEndOffset()
NO_LEADER = CurrentLeader()


class FetchedPartition:
    """One partition of a Fetch response; `records` is a slice of the receive buffer. Offsets are -1 and optional fields
    None where the response has none."""

    def __init__(self, topic: str, topic_id: uuid.UUID, partition: int, error_code: int = 0) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.error_code = error_code
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1
        self.aborted_transactions: tuple[AbortedTransaction, ...] | None = None
        self.preferred_read_replica = -1
        self.records: memoryview | None = None
        self.diverging_epoch: EpochEndOffset = NO_EPOCH
        self.current_leader: CurrentLeader = NO_LEADER
        self.snapshot_id: EpochEndOffset = NO_EPOCH


class FetchResponse:
    """A decoded Fetch response, with its partitions in response order."""

    def __init__(self, throttle_time_ms: int, error_code: int, session_id: int) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.partitions: list[FetchedPartition] = []
        self.node_endpoints: tuple[NodeEndpoint, ...] = ()
        self.latency_ms = 0


def decode_fetch_response(buffer: memoryview, version: int, position: int = 0) -> FetchResponse:
    """Decode the body of a Fetch response; `position` is where the response header ends. Topics have a name before
    version 13 and an id from then on. Raises DecodeError for malformed bytes."""
    entity, _ = decode(response_type(ApiKey.FETCH, version), buffer, position)
    has_session = version >= SESSION_VERSION
    response = FetchResponse(
        entity.throttle_time, entity.error_code if has_session else 0, entity.session_id if has_session else 0
    )
    for topic in entity.responses:
        by_id = version >= TOPIC_ID_VERSION
        name, topic_id = ("", topic.topic_id or ZERO_UUID) if by_id else (topic.topic, ZERO_UUID)
        response.partitions += [_fetched(data, version, name, topic_id) for data in topic.partitions]
    if version >= ENDPOINTS_VERSION:
        response.node_endpoints = entity.node_endpoints
    return response


def _fetched(entity: Entity, version: int, topic: str, topic_id: uuid.UUID) -> FetchedPartition:
    data = FetchedPartition(topic, topic_id, entity.partition_index, entity.error_code)
    data.high_watermark, data.last_stable_offset = entity.high_watermark, entity.last_stable_offset
    data.aborted_transactions = entity.aborted_transactions
    data.records = entity.records
    if version >= LOG_START_VERSION:
        data.log_start_offset = entity.log_start_offset
    if version >= FOLLOWERS_VERSION:
        data.preferred_read_replica = entity.preferred_read_replica
    if version >= FLEXIBLE_VERSION:
        data.diverging_epoch, data.current_leader = entity.diverging_epoch, entity.current_leader
        data.snapshot_id = EpochEndOffset(entity.snapshot_id.epoch, entity.snapshot_id.end_offset)
    return data


class FetchPartition(NamedTuple):
    """One partition of a Fetch request: fetch offset, size limit in bytes and leader epochs (-1 = unknown)."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1


class ForgottenPartition(NamedTuple):
    """A partition to remove from the fetch session."""

    topic: str
    topic_id: uuid.UUID
    partition: int


class FetchRequest(NamedTuple):
    """A consumer's Fetch request, independent of the version it is encoded for."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: Sequence[FetchPartition]
    forgotten: Sequence[ForgottenPartition] = ()
    rack_id: str = ""

    @property
    def can_use_topic_ids(self) -> bool:
        """Return whether every topic has an id, as Fetch version 13 and later require."""
        ids = [item.topic_id for item in self.partitions] + [item.topic_id for item in self.forgotten]
        return ZERO_UUID not in ids


def encode_fetch_request(request: FetchRequest, version: int) -> bytes:
    """Encode the body of a consumer's Fetch request (replica id -1)."""
    forgotten: dict[tuple[str, uuid.UUID], list[int]] = {}
    for item in request.forgotten:
        forgotten.setdefault((item.topic, item.topic_id), []).append(item.partition)
    fields = {
        "max_wait": request.max_wait_ms,
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation_level,
        "session_id": request.session_id,
        "session_epoch": request.session_epoch,
        # in order, in runs of one topic: the broker fills the response in the order of the request
        "topics": [
            {"topic": topic, "topic_id": topic_id, "partitions": list(map(_partition_fields, partitions))}
            for (topic, topic_id), partitions in groupby(request.partitions, attrgetter("topic", "topic_id"))
        ],
        "forgotten_topics_data": [
            {"topic": topic, "topic_id": topic_id, "partitions": indexes}
            for (topic, topic_id), indexes in forgotten.items()
        ],
        "rack_id": request.rack_id,
    }
    return encode_fields(request_type(ApiKey.FETCH, version), fields)


def _partition_fields(item: FetchPartition) -> Fields:
    return {
        "partition": item.partition,
        "current_leader_epoch": item.current_leader_epoch,
        "fetch_offset": item.fetch_offset,
        "last_fetched_epoch": item.last_fetched_epoch,
        "partition_max_bytes": item.max_bytes,
    }
