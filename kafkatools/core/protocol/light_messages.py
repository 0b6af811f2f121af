"""The small messages of everyday commands, by a table: coordinators, groups of the classic protocol and what their
members tell each other, committed offsets, ListOffsets, InitProducerId, SASL, the nodes of a cluster, its moves.

A generated message class costs a few ms to import, and a consumer of a group needs fourteen of them before it sees its
first record. The table says what they are made of, in Kafka's order; a test holds it against the generated codec,
version by version. Field names are those of the generated classes; codes and times stay integers (`throttle_time_ms`).
`encode_request` and `decode_response` give None for what is not in the table, so that the generated codec does it:
other versions, and fields that a version does not have. Every length is checked against the bytes that are left.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.varints import read_unsigned_varint, skip_tagged_fields, unsigned_varint

NEWEST = 99
_NUMBERS = {kind: struct.Struct(f">{kind}") for kind in "?bhiq"}
_EMPTY: dict[str, Any] = {"s": "", "d": b"", "[": (), "I": (), "S": ()}


class F:
    """A field of the versions `first` to `last`. Kinds: a number as in `struct`, s string, n string or null, d bytes,
    D bytes or null, I array of int32, S array of strings, [ array of structures (`parts`), N the same or null."""

    __slots__ = ("default", "first", "kind", "last", "name", "parts")

    def __init__(
        self, name: str, kind: str, first: int = 0, last: int = NEWEST, default: Any = None, parts: tuple[F, ...] = ()
    ) -> None:
        self.name = name
        self.kind = kind
        self.first = first
        self.last = last
        self.default = default
        self.parts = parts

    def of_version(self, version: int) -> F:
        """The same with the parts that a version has."""
        return F(self.name, self.kind, default=self.default, parts=_of_version(self.parts, version))

    def value_of(self, values: Mapping[str, Any]) -> Any:
        """The value given, else the declared default, else nothing of its kind."""
        if self.name in values:
            return values[self.name]
        if self.default is not None or self.kind in "nDN":
            return self.default
        return _EMPTY.get(self.kind, 0)


class Message:
    """One API: the versions that the table covers, the first flexible one, request and response."""

    __slots__ = ("first", "flexible", "last", "request", "response")

    def __init__(self, first: int, last: int, flexible: int, request: tuple[F, ...], response: tuple[F, ...]) -> None:
        self.first = first
        self.last = last
        self.flexible = flexible
        self.request = request
        self.response = response


def _throttle(first: int = 0) -> F:
    return F("throttle_time_ms", "i", first)


_CODE = F("error_code", "h")
_GROUP_ID = F("group_id", "s")
_MEMBER_ID = F("member_id", "s")
_GENERATION = F("generation_id", "i")
_NAME = F("name", "s")
_PARTITION = F("partition_index", "i")
_ENDPOINT = (F("node_id", "i"), F("host", "s"), F("port", "i"))
_MESSAGE = F("error_message", "n")
_COORDINATOR = (F("key", "s"), *_ENDPOINT, _CODE, _MESSAGE)
_NODE = (F("broker_id", "i"), *_ENDPOINT[1:], F("rack", "n"), F("is_fenced", "?", 2))
_MOVED = (_PARTITION, F("replicas", "I"), F("adding_replicas", "I"), F("removing_replicas", "I"))
_FETCHED = (
    _PARTITION, F("committed_offset", "q"), F("committed_leader_epoch", "i", 5), F("metadata", "n"), _CODE,
)  # fmt: skip
_FETCHED_TOPIC = (_NAME, F("partitions", "[", parts=_FETCHED))
_WANTED_TOPIC = (_NAME, F("partition_indexes", "I"))
_COMMITTED = (
    _PARTITION, F("committed_offset", "q"), F("committed_leader_epoch", "i", 6, default=-1),
    F("committed_metadata", "n"),
)  # fmt: skip
_LISTED = (_PARTITION, _CODE, F("timestamp", "q"), F("offset", "q"), F("leader_epoch", "i", 4))
_LISTING = (_PARTITION, F("current_leader_epoch", "i", 4, default=-1), F("timestamp", "q"))

_LIST_OFFSETS, _OFFSET_COMMIT, _OFFSET_FETCH, _FIND_COORDINATOR = 2, 8, 9, 10
_JOIN_GROUP, _HEARTBEAT, _LEAVE_GROUP, _SYNC_GROUP, _INIT_PRODUCER_ID = 11, 12, 13, 14, 22
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_LIST_PARTITION_REASSIGNMENTS, _DESCRIBE_CLUSTER = 46, 60

MESSAGES: dict[int, Message] = {
    _LIST_OFFSETS: Message(
        1, 11, 6,
        (
            F("replica_id", "i"), F("isolation_level", "b", 2),
            F("topics", "[", parts=(_NAME, F("partitions", "[", parts=_LISTING))), F("timeout", "i", 10),
        ),
        (_throttle(2), F("topics", "[", parts=(_NAME, F("partitions", "[", parts=_LISTED)))),
    ),
    _OFFSET_COMMIT: Message(
        2, 9, 8,
        (
            _GROUP_ID, F("generation_id_or_member_epoch", "i", default=-1), _MEMBER_ID,
            F("group_instance_id", "n", 7), F("retention_time", "q", 2, 4, -1),
            F("topics", "[", parts=(_NAME, F("partitions", "[", parts=_COMMITTED))),
        ),
        (_throttle(3), F("topics", "[", parts=(_NAME, F("partitions", "[", parts=(_PARTITION, _CODE))))),
    ),
    _OFFSET_FETCH: Message(
        1, 9, 6,
        (
            F("group_id", "s", 0, 7), F("topics", "[", 0, 1, parts=_WANTED_TOPIC),
            F("topics", "N", 2, 7, parts=_WANTED_TOPIC),
            F("groups", "[", 8, parts=(
                _GROUP_ID, F("member_id", "n", 9), F("member_epoch", "i", 9, default=-1),
                F("topics", "N", parts=_WANTED_TOPIC),
            )),
            F("require_stable", "?", 7),
        ),
        (
            _throttle(3), F("topics", "[", 0, 7, parts=_FETCHED_TOPIC), F("error_code", "h", 2, 7),
            F("groups", "[", 8, parts=(_GROUP_ID, F("topics", "[", parts=_FETCHED_TOPIC), _CODE)),
        ),
    ),
    _FIND_COORDINATOR: Message(
        0, 6, 3,
        (F("key", "s", 0, 3), F("key_type", "b", 1), F("coordinator_keys", "S", 4)),
        (
            _throttle(1), F("error_code", "h", 0, 3), F("error_message", "n", 1, 3),
            *(F(each.name, each.kind, 0, 3) for each in _ENDPOINT), F("coordinators", "[", 4, parts=_COORDINATOR),
        ),
    ),
    _JOIN_GROUP: Message(
        2, 9, 6,
        (
            _GROUP_ID, F("session_timeout", "i"), F("rebalance_timeout", "i", default=-1), _MEMBER_ID,
            F("group_instance_id", "n", 5), F("protocol_type", "s"),
            F("protocols", "[", parts=(_NAME, F("metadata", "d"))), F("reason", "n", 8),
        ),
        (
            _throttle(), _CODE, _GENERATION, F("protocol_type", "n", 7), F("protocol_name", "s", 0, 6),
            F("protocol_name", "n", 7), F("leader", "s"), F("skip_assignment", "?", 9), _MEMBER_ID,
            F("members", "[", parts=(_MEMBER_ID, F("group_instance_id", "n", 5), F("metadata", "d"))),
        ),
    ),
    _HEARTBEAT: Message(
        0, 4, 4,
        (_GROUP_ID, _GENERATION, _MEMBER_ID, F("group_instance_id", "n", 3)),
        (_throttle(1), _CODE),
    ),
    _LEAVE_GROUP: Message(
        0, 5, 4,
        (
            _GROUP_ID, F("member_id", "s", 0, 2),
            F("members", "[", 3, parts=(_MEMBER_ID, F("group_instance_id", "n"), F("reason", "n", 5))),
        ),
        (_throttle(1), _CODE, F("members", "[", 3, parts=(_MEMBER_ID, F("group_instance_id", "n"), _CODE))),
    ),
    _SYNC_GROUP: Message(
        0, 5, 4,
        (
            _GROUP_ID, _GENERATION, _MEMBER_ID, F("group_instance_id", "n", 3), F("protocol_type", "n", 5),
            F("protocol_name", "n", 5), F("assignments", "[", parts=(_MEMBER_ID, F("assignment", "d"))),
        ),
        (_throttle(1), _CODE, F("protocol_type", "n", 5), F("protocol_name", "n", 5), F("assignment", "d")),
    ),
    _INIT_PRODUCER_ID: Message(
        0, 5, 2,
        (
            F("transactional_id", "n"), F("transaction_timeout", "i"), F("producer_id", "q", 3, default=-1),
            F("producer_epoch", "h", 3, default=-1),
        ),
        (_throttle(), _CODE, F("producer_id", "q"), F("producer_epoch", "h")),
    ),
    _SASL_HANDSHAKE: Message(0, 1, NEWEST, (F("mechanism", "s"),), (_CODE, F("mechanisms", "S"))),
    _SASL_AUTHENTICATE: Message(
        0, 2, 2,
        (F("auth_bytes", "d"),),
        (_CODE, _MESSAGE, F("auth_bytes", "d"), F("session_lifetime", "q", 1)),
    ),
    _LIST_PARTITION_REASSIGNMENTS: Message(
        0, 0, 0,
        (F("timeout", "i", default=60_000), F("topics", "N", parts=_WANTED_TOPIC)),
        (_throttle(), _CODE, _MESSAGE, F("topics", "[", parts=(_NAME, F("partitions", "[", parts=_MOVED)))),
    ),
    _DESCRIBE_CLUSTER: Message(
        0, 2, 0,
        (
            F("include_cluster_authorized_operations", "?"), F("endpoint_type", "b", 1, default=1),
            F("include_fenced_brokers", "?", 2),
        ),
        (
            _throttle(), _CODE, _MESSAGE, F("endpoint_type", "b", 1), F("cluster_id", "s"), F("controller_id", "i"),
            F("brokers", "[", parts=_NODE), F("cluster_authorized_operations", "i"),
        ),
    ),
}  # fmt: skip


@cache
def _of_version(fields: tuple[F, ...], version: int) -> tuple[F, ...]:
    """The fields that a version has."""
    return tuple(each.of_version(version) for each in fields if each.first <= version <= each.last)


def _message(api_key: int, version: int) -> Message | None:
    message = MESSAGES.get(api_key)
    return message if message is not None and message.first <= version <= message.last else None


class _NotInTable(Exception):
    """A field that this version does not have."""


def encode_request(api_key: int, version: int, fields: Mapping[str, Any]) -> bytes | None:
    """The body of a request; None when the generated codec has to make it, or to say what is wrong with it."""
    message = _message(api_key, version)
    if message is None:
        return None
    out = bytearray()
    try:
        _write(out, _of_version(message.request, version), fields, version >= message.flexible)
    except (_NotInTable, struct.error, AttributeError, TypeError):
        return None
    return bytes(out)


def _write(out: bytearray, fields: tuple[F, ...], values: Mapping[str, Any], flexible: bool) -> None:
    known = 0
    for field in fields:
        known += field.name in values
        _write_value(out, field, field.value_of(values), flexible)
    if known != len(values):
        raise _NotInTable
    if flexible:
        out.append(0)


def _write_value(out: bytearray, field: F, value: Any, flexible: bool) -> None:
    kind = field.kind
    number = _NUMBERS.get(kind)
    if number is not None:
        out += number.pack(value)
    elif kind in "sndD":
        data = value if value is None or kind in "dD" else value.encode()
        if data is None and kind in "sd":
            raise _NotInTable
        _write_size(out, -1 if data is None else len(data), flexible, "h" if kind in "sn" else "i")
        out += data or b""
    elif value is None and kind == "N":
        _write_size(out, -1, flexible, "i")
    else:
        _write_size(out, len(value), flexible, "i")
        for each in value:
            if field.parts:
                _write(out, field.parts, each, flexible)
            else:
                _write_value(out, F("", "i" if kind == "I" else "s"), each, flexible)


def _write_size(out: bytearray, size: int, flexible: bool, kind: str) -> None:
    out += unsigned_varint(size + 1) if flexible else _NUMBERS[kind].pack(size)


def decode_response(api_key: int, version: int, body: bytes | bytearray | memoryview) -> Any:
    """The answer; None when the generated codec has to read it. Raises DecodeError."""
    message = _message(api_key, version)
    if message is None:
        return None
    reader = _Reader(memoryview(body), version >= message.flexible)
    try:
        return reader.structure(_of_version(message.response, version))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(f"a response (api key {api_key}, version {version}) that is cut off: {error}") from error


_OWNED = (F("topic", "s"), F("partitions", "I"))
SUBSCRIPTION = (
    F("topics", "S"), F("user_data", "D"), F("owned_partitions", "[", 1, parts=_OWNED),
    F("generation_id", "i", 2, default=-1), F("rack_id", "n", 3),
)  # fmt: skip
ASSIGNMENT = (F("assigned_partitions", "[", parts=_OWNED), F("user_data", "D"))
"""ConsumerProtocolSubscription and ConsumerProtocolAssignment, versions 0 to 3, none of them flexible."""


def encode_fields(fields: tuple[F, ...], version: int, values: Mapping[str, Any]) -> bytes:
    """A structure that is no request, in a version that is not flexible."""
    out = bytearray()
    _write(out, _of_version(fields, version), values, False)
    return bytes(out)


def decode_fields(fields: tuple[F, ...], version: int, data: bytes | memoryview, position: int) -> Any:
    """The same read back; what follows it is left alone. Raises DecodeError."""
    try:
        return _Reader(memoryview(data), False, position).structure(_of_version(fields, version))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise DecodeError(str(error)) from error


class _Reader:
    def __init__(self, view: memoryview, flexible: bool, position: int = 0) -> None:
        self._view = view
        self._flexible = flexible
        self._position = position

    def structure(self, fields: tuple[F, ...]) -> SimpleNamespace:
        found = SimpleNamespace()
        values = found.__dict__
        for field in fields:
            values[field.name] = self._value(field)
        if self._flexible:
            self._position = skip_tagged_fields(self._view, self._position)
        return found

    def _value(self, field: F) -> Any:
        kind = field.kind
        number = _NUMBERS.get(kind)
        if number is not None:
            (value,) = number.unpack_from(self._view, self._position)
            self._position += number.size
            return value
        size = self._size("h" if kind in "sn" else "i")
        if size < 0:
            if kind not in "nDN":
                raise DecodeError(f"{field.name} is null")
            return None
        if size > len(self._view) - self._position:
            raise DecodeError(f"{field.name} of {size} in {len(self._view) - self._position} bytes")
        if kind in "[N":
            return tuple(self.structure(field.parts) for _ in range(size))
        if kind in "IS":
            each = F(field.name, "i" if kind == "I" else "s")
            return tuple(self._value(each) for _ in range(size))
        data = bytes(self._view[self._position : self._position + size])
        self._position += size
        return data if kind in "dD" else data.decode()

    def _size(self, kind: str) -> int:
        if self._flexible:
            size, self._position = read_unsigned_varint(self._view, self._position)
            return size - 1
        number = _NUMBERS[kind]
        (size,) = number.unpack_from(self._view, self._position)
        self._position += number.size
        return int(size)
