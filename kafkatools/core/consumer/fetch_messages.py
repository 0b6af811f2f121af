"""Fetch requests and responses, framed by hand for versions 4 to 18.

Rules: a response is read straight from the receive buffer and the records of a partition stay a slice of it, so a
record is copied for the first time when somebody asks for its bytes. Every length is checked against the bytes that are
left before it is used. The layout is Kafka's FetchRequest.json and FetchResponse.json; a test holds both against a
generated codec, version by version.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from kafkatools.core.net.body_reader import BodyReader, NodeEndpoint
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.varints import unsigned_varint

MIN_VERSION = 4
MAX_VERSION = 18
SESSION_VERSION = 7
LEADER_EPOCH_VERSION = 9
FLEXIBLE_VERSION = ApiKey.FETCH.first_flexible_version
TOPIC_ID_VERSION = 13

ZERO_UUID = uuid.UUID(int=0)

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_TWO_INT64 = struct.Struct(">qq")
_PARTITION_V4 = struct.Struct(">ihqq")
_PARTITION_V5 = struct.Struct(">ihqqq")


class EpochEndOffset(NamedTuple):
    """Where a leader epoch ends; (-1, -1) when not given."""

    epoch: int = -1
    end_offset: int = -1


class CurrentLeader(NamedTuple):
    """The leader a broker knows of, sent along with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH (KIP-951)."""

    leader_id: int = -1
    leader_epoch: int = -1


class AbortedTransaction(NamedTuple):
    """A producer's aborted transaction and the offset of its first record."""

    producer_id: int
    first_offset: int


NO_EPOCH = EpochEndOffset()
NO_LEADER = CurrentLeader()


class FetchedPartition:
    """What a Fetch response says about one partition; `records` is a slice of the receive buffer."""

    __slots__ = (
        "aborted_transactions",
        "current_leader",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "preferred_read_replica",
        "records",
        "snapshot_id",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: uuid.UUID, partition: int, error_code: int = 0) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.error_code = error_code
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.aborted_transactions: tuple[AbortedTransaction, ...] | None = None
        self.preferred_read_replica = -1
        self.records: memoryview | None = None
        self.diverging_epoch = NO_EPOCH
        self.current_leader = NO_LEADER
        self.snapshot_id = NO_EPOCH


class FetchResponse:
    """A decoded Fetch response; partitions in the order they came."""

    __slots__ = ("error_code", "node_endpoints", "partitions", "session_id", "throttle_time_ms")

    def __init__(self, throttle_time_ms: int, error_code: int, session_id: int) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.partitions: list[FetchedPartition] = []
        self.node_endpoints: tuple[NodeEndpoint, ...] = ()


class _Reader(BodyReader):
    __slots__ = ()
    name = "Fetch response"

    def records(self) -> memoryview | None:
        """Reads nullable records as a slice."""
        size = self.length(_INT32)
        return None if size < 0 else self.slice(size)


def decode_fetch_response(buffer: memoryview, version: int, position: int = 0) -> FetchResponse:
    """Decodes the body of a Fetch response (the response header already passed).

    Topics have a name before version 13 and an id from then on. Raises DecodeError for bytes that cannot be a
    response.
    """
    reader = _Reader(buffer, position, flexible=version >= FLEXIBLE_VERSION)
    throttle_time_ms = reader.unpack(_INT32)[0]
    error_code = session_id = 0
    if version >= SESSION_VERSION:
        error_code = reader.unpack(_INT16)[0]
        session_id = reader.unpack(_INT32)[0]
    response = FetchResponse(throttle_time_ms, error_code, session_id)
    for _ in range(reader.array_length(3)):
        topic, topic_id = "", ZERO_UUID
        if version >= TOPIC_ID_VERSION:
            topic_id = reader.uuid()
        else:
            topic = reader.string() or ""
        for _ in range(reader.array_length(22)):
            response.partitions.append(_read_partition(reader, version, topic, topic_id))
        reader.skip_tags()
    if reader.flexible:
        response.node_endpoints = _read_response_tags(reader)
    return response


def _read_partition(reader: _Reader, version: int, topic: str, topic_id: uuid.UUID) -> FetchedPartition:
    if version >= 5:
        index, error, high_watermark, last_stable, log_start = reader.unpack(_PARTITION_V5)
    else:
        index, error, high_watermark, last_stable = reader.unpack(_PARTITION_V4)
        log_start = -1
    data = FetchedPartition(topic, topic_id, index, error)
    data.high_watermark, data.last_stable_offset, data.log_start_offset = high_watermark, last_stable, log_start
    count = reader.array_length(16)
    if count >= 0:
        aborted = []
        for _ in range(count):
            aborted.append(AbortedTransaction(*reader.unpack(_TWO_INT64)))
            reader.skip_tags()
        data.aborted_transactions = tuple(aborted)
    if version >= 11:
        data.preferred_read_replica = reader.unpack(_INT32)[0]
    data.records = reader.records()
    if reader.flexible:
        _read_partition_tags(reader, data)
    return data


def _read_partition_tags(reader: _Reader, data: FetchedPartition) -> None:
    for _ in range(reader.uvarint()):
        tag = reader.uvarint()
        field = _Reader(reader.slice(reader.uvarint()), 0, flexible=True)
        if tag == 0:
            data.diverging_epoch = EpochEndOffset(field.unpack(_INT32)[0], field.unpack(_INT64)[0])
        elif tag == 1:
            data.current_leader = CurrentLeader(field.unpack(_INT32)[0], field.unpack(_INT32)[0])
        elif tag == 2:
            end_offset = field.unpack(_INT64)[0]
            data.snapshot_id = EpochEndOffset(field.unpack(_INT32)[0], end_offset)


def _read_response_tags(reader: _Reader) -> tuple[NodeEndpoint, ...]:
    endpoints: list[NodeEndpoint] = []
    for _ in range(reader.uvarint()):
        tag = reader.uvarint()
        field = _Reader(reader.slice(reader.uvarint()), 0, flexible=True)
        if tag == 0:
            for _ in range(field.array_length(11)):
                endpoints.append(field.endpoint())
    return tuple(endpoints)


class FetchPartition(NamedTuple):
    """What a request asks of one partition."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1


class ForgottenPartition(NamedTuple):
    """A partition that leaves the session."""

    topic: str
    topic_id: uuid.UUID
    partition: int


class FetchRequest(NamedTuple):
    """A consumer's Fetch request, before a version is chosen."""

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
        """Whether every topic has an id, so that version 13 and later may be used."""
        ids = [item.topic_id for item in self.partitions] + [item.topic_id for item in self.forgotten]
        return ZERO_UUID not in ids


class _Writer:
    """Appends fields to a buffer; the counterpart of `_Reader`."""

    __slots__ = ("flexible", "out", "topic_ids")

    def __init__(self, version: int) -> None:
        self.flexible = version >= FLEXIBLE_VERSION
        self.topic_ids = version >= TOPIC_ID_VERSION
        self.out = bytearray()

    def array_length(self, count: int) -> None:
        self.out += unsigned_varint(count + 1) if self.flexible else _INT32.pack(count)

    def string(self, text: str) -> None:
        data = text.encode()
        self.out += (unsigned_varint(len(data) + 1) if self.flexible else _INT16.pack(len(data))) + data

    def topic(self, topic: str, topic_id: uuid.UUID) -> None:
        if self.topic_ids:
            self.out += topic_id.bytes
        else:
            self.string(topic)

    def end(self) -> None:
        """Closes a structure: no tagged fields."""
        if self.flexible:
            self.out.append(0)


def encode_fetch_request(request: FetchRequest, version: int) -> bytes:
    """Encodes the body of a Fetch request from a consumer (replica id -1, which newer versions leave out)."""
    writer = _Writer(version)
    out = writer.out
    if version <= 14:
        out += _INT32.pack(-1)
    out += struct.pack(">iiib", request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    if version >= SESSION_VERSION:
        out += struct.pack(">ii", request.session_id, request.session_epoch)
    groups = _by_topic(request.partitions)
    writer.array_length(len(groups))
    for group in groups:
        writer.topic(group[0].topic, group[0].topic_id)
        writer.array_length(len(group))
        for item in group:
            _write_partition(writer, item, version)
        writer.end()
    if version >= SESSION_VERSION:
        _write_forgotten(writer, request.forgotten)
    if version >= 11:
        writer.string(request.rack_id)
    writer.end()
    return bytes(out)


def _by_topic(partitions: Sequence[FetchPartition]) -> list[list[FetchPartition]]:
    """Runs of partitions of one topic, in order: the broker fills the response in the order of the request."""
    groups: list[list[FetchPartition]] = []
    for item in partitions:
        if groups and groups[-1][0].topic == item.topic:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _write_partition(writer: _Writer, item: FetchPartition, version: int) -> None:
    out = writer.out
    out += _INT32.pack(item.partition)
    if version >= LEADER_EPOCH_VERSION:
        out += _INT32.pack(item.current_leader_epoch)
    out += _INT64.pack(item.fetch_offset)
    if version >= 12:
        out += _INT32.pack(item.last_fetched_epoch)
    if version >= 5:
        out += _INT64.pack(-1)
    out += _INT32.pack(item.max_bytes)
    writer.end()


def _write_forgotten(writer: _Writer, forgotten: Sequence[ForgottenPartition]) -> None:
    by_topic: dict[tuple[str, uuid.UUID], list[int]] = {}
    for item in forgotten:
        by_topic.setdefault((item.topic, item.topic_id), []).append(item.partition)
    writer.array_length(len(by_topic))
    for (topic, topic_id), indexes in by_topic.items():
        writer.topic(topic, topic_id)
        writer.array_length(len(indexes))
        for index in indexes:
            writer.out += _INT32.pack(index)
        writer.end()
