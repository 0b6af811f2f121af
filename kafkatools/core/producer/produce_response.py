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
from typing import NamedTuple

from kafkatools.core.errors import error_for_code
from kafkatools.core.net.body_reader import BodyReader, NodeEndpoint
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


class ProduceResponse(NamedTuple):
    """`outcomes` by partition; `endpoints` only with errors that name another leader."""

    outcomes: dict[TopicPartition, ProduceOutcome]
    throttle_ms: int
    endpoints: tuple[NodeEndpoint, ...]


class _Cursor(BodyReader):
    __slots__ = ("version",)
    name = "Produce response"

    def __init__(self, body: memoryview, version: int) -> None:
        super().__init__(body, 0, flexible=version >= FIRST_FLEXIBLE_VERSION)
        self.version = version

    def topic(self, names: Mapping[uuid.UUID | None, str]) -> str | None:
        """A topic's name; None for an id that nobody knows."""
        return names.get(self.uuid()) if self.version >= FIRST_TOPIC_ID_VERSION else self.string()

    def tags(self) -> dict[int, memoryview]:
        """The tagged fields of a structure."""
        if not self.flexible:
            return {}
        return {self.uvarint(): self.slice(self.uvarint()) for _ in range(self.uvarint())}


def read_produce_response(
    body: memoryview | bytes, version: int, topic_names: Mapping[uuid.UUID | None, str]
) -> ProduceResponse:
    """Reads a response body (without header); `topic_names` maps topic ids to names, for version 13. Raises
    DecodeError."""
    cursor = _Cursor(memoryview(body), version)
    outcomes: dict[TopicPartition, ProduceOutcome] = {}
    for _ in range(cursor.array_length(1)):
        name = cursor.topic(topic_names)
        for _ in range(cursor.array_length(1)):
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
        for _ in range(cursor.array_length(1)):
            record_errors.append((cursor.unpack(_INT32)[0], cursor.string()))
            cursor.tags()
        message = cursor.string()
    leader = cursor.tags().get(CURRENT_LEADER_TAG)
    leader_id, leader_epoch = (-1, -1) if leader is None else _Cursor(leader, cursor.version).unpack(_LEADER)
    error = None if code == 0 else error_for_code(code)
    outcome = ProduceOutcome(
        error, base_offset, log_append_time, log_start_offset, message, tuple(record_errors), leader_id, leader_epoch
    )
    return index, outcome


def _read_endpoints(data: memoryview, version: int) -> tuple[NodeEndpoint, ...]:
    cursor = _Cursor(data, version)
    return tuple(cursor.endpoint() for _ in range(cursor.array_length(1)))
