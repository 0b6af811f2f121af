"""What a Produce response says, versions 3 to 13, read by hand: one comes for every batch, and this needs no generated
classes.

    v3-4   [topic STRING [index INT32 error INT16 base_offset INT64 log_append_time INT64]] throttle_ms INT32
    v5     log_start_offset INT64 after log_append_time
    v8     then [batch_index INT32 message NULLABLE_STRING] and error_message NULLABLE_STRING (KIP-467)
    v9     compact strings and arrays, a tag section after each structure
    v10    tags: the current leader in a partition, the leaders' addresses in the response (KIP-951)
    v13    a topic's id (16 bytes) in place of its name (KIP-516)

Every length is checked against the bytes that are left; DecodeError names what does not fit. A test compares with the
generated encoding.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafkatools.core.errors import DecodeError, error_for_code
from kafkatools.core.producer.futures import TopicPartition
from kafkatools.core.producer.produce_request import FIRST_FLEXIBLE_VERSION, FIRST_TOPIC_ID_VERSION
from kafkatools.core.producer.transaction_manager import ProduceOutcome

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_PARTITION = struct.Struct(">ihqq")
_INT64 = struct.Struct(">q")
_LEADER = struct.Struct(">ii")

CURRENT_LEADER_TAG = 0
NODE_ENDPOINTS_TAG = 0


class NodeEndpoint(NamedTuple):
    """The address of a new leader (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None


class ProduceResponse(NamedTuple):
    """`outcomes` by partition; `endpoints` only with errors that name another leader."""

    outcomes: dict[TopicPartition, ProduceOutcome]
    throttle_ms: int
    endpoints: tuple[NodeEndpoint, ...]


class _Cursor:
    """Reads a body from its start to its end."""

    def __init__(self, body: memoryview, version: int) -> None:
        self.body = body
        self.position = 0
        self.version = version
        self.is_flexible = version >= FIRST_FLEXIBLE_VERSION

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        start = self.position
        self.position += layout.size
        if self.position > len(self.body):
            raise DecodeError(f"a Produce response of {len(self.body)} bytes ends inside a field")
        return layout.unpack_from(self.body, start)

    def varint(self) -> int:
        value = shift = 0
        while True:
            if self.position >= len(self.body) or shift > 28:
                raise DecodeError("a Produce response ends inside a length")
            byte = self.body[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self.body) - self.position:
            raise DecodeError(f"{size} bytes do not fit what is left of a Produce response")
        self.position += size
        return bytes(self.body[self.position - size : self.position])

    def count(self) -> int:
        """How many items an array has; each takes a byte at least."""
        size: int = self.varint() - 1 if self.is_flexible else self.unpack(_INT32)[0]
        if size > len(self.body) - self.position:
            raise DecodeError(f"an array of {size} does not fit what is left of a Produce response")
        return max(size, 0)

    def text(self) -> str | None:
        size: int = self.varint() - 1 if self.is_flexible else self.unpack(_INT16)[0]
        return None if size < 0 else self.take(size).decode("utf-8", "replace")

    def topic(self, names: Mapping[uuid.UUID, str]) -> str | None:
        """A topic's name; None for an id that nobody knows."""
        if self.version >= FIRST_TOPIC_ID_VERSION:
            return names.get(uuid.UUID(bytes=self.take(16)))
        return self.text()

    def tags(self) -> dict[int, bytes]:
        if not self.is_flexible:
            return {}
        tags = {}
        for _ in range(self.varint()):
            tag = self.varint()
            tags[tag] = self.take(self.varint())
        return tags


def read_produce_response(
    body: memoryview | bytes, version: int, topic_names: Mapping[uuid.UUID, str]
) -> ProduceResponse:
    """Reads a response body (without header); `topic_names` maps topic ids to names, for version 13. Raises
    DecodeError."""
    cursor = _Cursor(memoryview(body), version)
    outcomes: dict[TopicPartition, ProduceOutcome] = {}
    for _ in range(cursor.count()):
        name = cursor.topic(topic_names)
        for _ in range(cursor.count()):
            index, outcome = _read_partition(cursor)
            if name is not None:
                outcomes[TopicPartition(name, index)] = outcome
        cursor.tags()
    throttle_ms = cursor.unpack(_INT32)[0]
    endpoints = cursor.tags().get(NODE_ENDPOINTS_TAG)
    return ProduceResponse(outcomes, throttle_ms, () if endpoints is None else _read_endpoints(endpoints, version))


def _read_partition(cursor: _Cursor) -> tuple[int, ProduceOutcome]:
    index, code, base_offset, log_append_time = cursor.unpack(_PARTITION)
    log_start_offset = cursor.unpack(_INT64)[0] if cursor.version >= 5 else -1
    record_errors: list[tuple[int, str | None]] = []
    message = None
    if cursor.version >= 8:
        for _ in range(cursor.count()):
            record_errors.append((cursor.unpack(_INT32)[0], cursor.text()))
            cursor.tags()
        message = cursor.text()
    leader = cursor.tags().get(CURRENT_LEADER_TAG)
    leader_id, leader_epoch = (
        (-1, -1) if leader is None else _Cursor(memoryview(leader), cursor.version).unpack(_LEADER)
    )
    error = None if code == 0 else error_for_code(code)
    outcome = ProduceOutcome(
        error, base_offset, log_append_time, log_start_offset, message, tuple(record_errors), leader_id, leader_epoch
    )
    return index, outcome


def _read_endpoints(data: bytes, version: int) -> tuple[NodeEndpoint, ...]:
    cursor = _Cursor(memoryview(data), version)
    endpoints = []
    for _ in range(cursor.count()):
        node_id = cursor.unpack(_INT32)[0]
        host = cursor.text() or ""
        port = cursor.unpack(_INT32)[0]
        endpoints.append(NodeEndpoint(node_id, host, port, cursor.text()))
        cursor.tags()
    return tuple(endpoints)
