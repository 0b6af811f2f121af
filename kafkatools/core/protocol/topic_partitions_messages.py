"""DescribeTopicPartitions requests and responses framed by hand, version 0, the only one.

It is what tools ask of ten thousand partitions, so it has neither the import nor the cost per partition of a generated
codec. The layout is Kafka's DescribeTopicPartitionsRequest.json and ...Response.json; a test holds both against the
generated codec. Every length is checked against the bytes that are left before it is used.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.partition_rows import Row, read_rows
from kafkatools.core.protocol.varints import read_unsigned_varint, skip_tagged_fields, unsigned_varint

VERSION = 0
DEFAULT_LIMIT = 2000
_FIELDS = {"topics", "response_partition_limit", "cursor"}
# Of a partition: replicas, in sync, eligible leader replicas, last known ones, offline; which may be null.
_LISTS = (False, False, True, True, False)

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_OPERATIONS = struct.Struct(">iB")  # and no tagged fields
_ID_AND_INTERNAL = struct.Struct(">16s?")
_NO_ID = bytes(16)


class Partition(NamedTuple):
    """A partition."""

    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None
    last_known_elr: tuple[int, ...] | None
    offline_replicas: tuple[int, ...]


class Topic(NamedTuple):
    """A topic. `rows` are its partitions as plain tuples with Partition's fields."""

    error_code: int
    name: str | None
    topic_id: uuid.UUID | None
    is_internal: bool
    rows: list[Row]
    topic_authorized_operations: int

    @property
    def partitions(self) -> list[Partition]:
        """The rows with names."""
        return [Partition._make(row) for row in self.rows]


class Cursor(NamedTuple):
    """Where the next page begins."""

    topic_name: str
    partition_index: int


class TopicPartitionsResponse(NamedTuple):
    """One page; `next_cursor` is None on the last one."""

    throttle_time_ms: int
    topics: list[Topic]
    next_cursor: Cursor | None


def encode_request(fields: Mapping[str, Any]) -> bytes | None:
    """The body of a request; no topics: all. None for fields that it does not have."""
    if not fields.keys() <= _FIELDS:
        return None
    topics = fields.get("topics", ())
    out = bytearray(unsigned_varint(len(topics) + 1))
    for topic in topics:
        out += _compact(topic["name"])
        out.append(0)
    out += _INT32.pack(fields.get("response_partition_limit", DEFAULT_LIMIT))
    cursor = fields.get("cursor")
    if cursor is None:
        out += b"\xff"
    else:
        out += b"\x01" + _compact(cursor["topic_name"]) + _INT32.pack(cursor["partition_index"]) + b"\0"
    out.append(0)
    return bytes(out)


def _compact(text: str) -> bytes:
    data = text.encode()
    return unsigned_varint(len(data) + 1) + data


def decode_response(body: bytes | bytearray | memoryview) -> TopicPartitionsResponse:
    """The page in a response's body. Raises DecodeError."""
    view = memoryview(body)
    try:
        throttle_time_ms: int = _INT32.unpack_from(view)[0]
        count, position = _length(view, _INT32.size)
        topics = []
        for _ in range(count):
            topic, position = _read_topic(view, position)
            topics.append(topic)
        cursor, position = _read_cursor(view, position)
        skip_tagged_fields(view, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"a DescribeTopicPartitions response that ends early or is no text: {error}") from error
    return TopicPartitionsResponse(throttle_time_ms, topics, cursor)


def _length(view: memoryview, position: int) -> tuple[int, int]:
    """A number of elements, or of bytes; -1 is null."""
    number, position = read_unsigned_varint(view, position)
    if number - 1 > len(view) - position:
        raise DecodeError(f"a length of {number - 1} at byte {position} with {len(view) - position} bytes left")
    return number - 1, position


def _text(view: memoryview, position: int) -> tuple[str | None, int]:
    size, position = _length(view, position)
    return (None, position) if size < 0 else (str(view[position : position + size], "utf-8"), position + size)


def _read_topic(view: memoryview, position: int) -> tuple[Topic, int]:
    error_code: int = _INT16.unpack_from(view, position)[0]
    name, position = _text(view, position + _INT16.size)
    topic_id, is_internal = _ID_AND_INTERNAL.unpack_from(view, position)
    count, position = _length(view, position + _ID_AND_INTERNAL.size)
    rows, position = read_rows(view, position, count, _LISTS)
    operations, tags = _OPERATIONS.unpack_from(view, position)
    position += _OPERATIONS.size
    if tags:
        position = skip_tagged_fields(view, position - 1)
    found_id = None if topic_id == _NO_ID else uuid.UUID(bytes=topic_id)
    return Topic(error_code, name, found_id, is_internal, rows, operations), position


def _read_cursor(view: memoryview, position: int) -> tuple[Cursor | None, int]:
    if view[position] >= 0x80:  # a negative byte
        return None, position + 1
    name, position = _text(view, position + 1)
    partition_index: int = _INT32.unpack_from(view, position)[0]
    return Cursor(name or "", partition_index), skip_tagged_fields(view, position + _INT32.size)
