"""Bodies of Kafka's requests and responses with chosen defects, written from the message schemas.

Rules: everything follows from the `random.Random` that is passed in. `oddity` is the probability that a field, a
length or a tag section is not what a correct client would write. What a broker answered is remembered by field name
(`Memory`), so that later requests carry its topic ids, member ids, producer ids and epochs and pass the first checks.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

from support.message_plans import NUMBER_LAYOUTS, FieldPlan, plan_of

from kafkatools.core.protocol.messages import request_type, response_type
from kafkatools.core.protocol.varints import unsigned_varint, write_unsigned_varint

TOPICS = ("plain", "compacted", "created", "gone")
WORDS = {
    "name": (*TOPICS, "__consumer_offsets", "__transaction_state", "__cluster_metadata"),
    "topic": TOPICS,
    "topic_name": TOPICS,
    "topic_names": TOPICS,
    "subscribed_topic_names": TOPICS,
    "subscribed_topic_regex": ("pl.*", "(", "[a-", ""),
    "group_id": ("classic", "modern", "share", "streams"),
    "group_ids": ("classic", "modern", "share"),
    "groups": ("classic", "modern", "share"),
    "groups_names": ("classic", "modern", "share"),
    "coordinator_keys": ("classic", "modern", "share", "tx", "share:AAAAAAAAAAAAAAAAAAAAAQ:0"),
    "key": ("classic", "tx", "share", "share:AAAAAAAAAAAAAAAAAAAAAQ:0"),
    "transactional_id": ("tx", "tx-2"),
    "transactional_ids": ("tx", "tx-2"),
    "v3_and_below_transactional_id": ("tx", "tx-2"),
    "transactional_id_pattern": ("tx.*", "("),
    "protocol_type": ("consumer", "connect"),
    "protocol_name": ("range", "uniform"),
    "server_assignor": ("uniform", "range", "simple"),
    "states_filter": ("Stable", "empty", "Dead"),
    "state_filters": ("Ongoing", "CompleteCommit"),
    "types_filter": ("classic", "consumer", "share"),
    "resource_name": (*TOPICS, "1", "", "classic"),
    "configuration_keys": ("retention.ms", "cleanup.policy", "no.such.setting"),
    "entity_type": ("user", "client-id", "ip"),
    "feature": ("metadata.version", "transaction.version", "kraft.version"),
    "principal": ("User:a", "User:*", "a"),
    "host": ("*", "127.0.0.1"),
    "path": ("/tmp",),
}
CONFIG_VALUES = ("1", "-1", "1000", "compact", "delete", "compact,delete", "zstd", "true", "LogAppendTime", "none", "")
CONFIG_NAMES = (
    "retention.ms",
    "cleanup.policy",
    "compression.type",
    "max.message.bytes",
    "message.timestamp.type",
    "min.insync.replicas",
    "segment.bytes",
    "segment.ms",
    "unclean.leader.election.enable",
    "log.retention.ms",
    "consumer.session.timeout.ms",
)
ODD_TEXTS = ("", "a" * 249, "a" * 250, "..", "/", "a\0b", "\x1b[2J", "é" * 100, "\U0001f600", " ", "*")
TOO_LONG = "a" * 33000
TOO_LONG_SHARE = 0.02
"""Of the odd texts; one makes a frame that goes to the slow lane, and costs as much as many frames."""
SMALL = {
    "partition": 3,
    "partitions": 3,
    "index": 3,
    "partition_index": 3,
    "partition_indexes": 3,
    "replicas": 2,
    "broker_ids": 2,
    "new_isr": 2,
    "acks": 2,
    "replication_factor": 2,
    "num_partitions": 4,
    "count": 6,
    "resource_type": 33,
    "operation": 15,
    "config_operation": 4,
    "permission_type": 4,
    "key_type": 3,
    "isolation_level": 2,
    "offset": 20,
    "fetch_offset": 20,
    "committed_offset": 20,
    "start_offset": 20,
    "first_offset": 20,
    "last_offset": 30,
    "max_wait": 50,
    "timeout": 100,
}
USUAL = {
    "session_timeout": (10_000, 30_000),
    "rebalance_timeout": (1_000, 60_000),
    "transaction_timeout": (1_000, 60_000),
    "acks": (-1, -1, 1, 0),
    "replication_factor": (1, -1),
    "partition_max_bytes": (1 << 20, 1),
    "max_bytes": (1 << 20, 1),
    "key_type": (0, 1, 2),
}
"""Correct values for fields whose other values are refused at once."""
LIMITS = {
    "int8": (-128, -1, 0, 1, 127),
    "int16": (-32768, -1, 0, 1, 32767),
    "int32": (-(2**31), -2, -1, 0, 1, 2**31 - 1, 2**31 - 2, 65536),
    "int64": (-(2**63), -2, -1, 0, 1, 2**63 - 1, 2**62, 2**32, 253402300800000),
    "uint16": (0, 65535),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "uint8": (0, 255),
    "error_code": (-32768, -1, 0, 3, 6, 15, 16, 25, 27, 74, 100, 999, 32767),
    "float64": (0.0, -1.0, 1e308, float("inf"), float("-inf"), float("nan"), 5e-324),
    "bool": (0, 1),
}
_ODD_LENGTHS = (-(2**31), -2, -1, 0, 1, 127, 128, 32767, 2**31 - 1)
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
MOST_REMEMBERED = 24

Writer = Callable[["Maker", bytearray], None]


class Memory:
    """Values by field name from responses of a broker, except those in `hidden`, which belong to another client."""

    def __init__(self) -> None:
        self.values: dict[str, list[Any]] = {}
        self.hidden: set[Any] = set()

    def note(self, name: str, value: Any, rng: Random) -> None:
        """Keep a value; of many some."""
        kept = self.values.setdefault(name, [])
        if value in self.hidden:
            return
        if value in kept:
            kept.remove(value)
        elif len(kept) == MOST_REMEMBERED:
            del kept[rng.randrange(MOST_REMEMBERED)]
        kept.append(value)

    def note_entity(self, entity: Any, rng: Random) -> None:
        """Keep the texts, ids and numbers of an entity and of those in it."""
        for field in plan_of(type(entity)).all_fields():
            value = getattr(entity, field.name)
            items = value if field.is_array and value is not None else (value,)
            for item in items[:4]:
                if field.type is None:
                    if item is not None:
                        self.note_entity(item, rng)
                elif isinstance(item, (str, uuid.UUID, int)) and type(item) is not bool:
                    self.note(field.name, item, rng)


class Maker:
    """Writes one message after the other. `records` gives the bytes of a field of record batches."""

    def __init__(self, rng: Random, memory: Memory, records: Callable[[], bytes | None]) -> None:
        self.rng = rng
        self.memory = memory
        self.records = records
        self.oddity = 0.0
        self.depth = 0

    def request_body(self, api_key: int, version: int) -> bytes:
        """The body of a request."""
        return self._body(request_type(api_key, version))

    def response_body(self, api_key: int, version: int) -> bytes:
        """The body of a response."""
        return self._body(response_type(api_key, version))

    def _body(self, entity_type: Any) -> bytes:
        out = bytearray()
        writer_of(entity_type)(self, out)
        return bytes(out)

    @property
    def is_odd(self) -> bool:
        """Whether this place is to be wrong."""
        return self.rng.random() < self.oddity

    def text(self, name: str) -> str:
        """A string for a field."""
        rng = self.rng
        if self.is_odd:
            return TOO_LONG if rng.random() < TOO_LONG_SHARE else rng.choice(ODD_TEXTS)
        remembered = self.memory.values.get(name)
        if remembered and rng.random() < 0.6:
            found = self._remembered(remembered)
            if isinstance(found, str):
                return found
        if name in WORDS:
            return rng.choice(WORDS[name])
        if name in ("value", "config_value"):
            return rng.choice(CONFIG_VALUES)
        if name == "config_name":
            return rng.choice(CONFIG_NAMES)
        return rng.choice(("", "a", "consumer", "member-1", "127.0.0.1"))

    def _remembered(self, values: list[Any]) -> Any:
        """Mostly a recent value: ids and epochs that belong together come in the same response."""
        recent = values[-2:] if self.rng.random() < 0.6 else values
        return self.rng.choice(recent)

    def number(self, name: str, kind: str) -> int:
        """A number for a field, within the bounds of its type."""
        rng = self.rng
        limits = LIMITS[kind]
        if self.is_odd:
            return rng.choice(limits)
        remembered = self.memory.values.get(name)
        if remembered and rng.random() < 0.5:
            found = self._remembered(remembered)
            if isinstance(found, int) and limits[0] <= found <= max(limits):
                return found
        if name in USUAL and rng.random() < 0.8:
            return rng.choice(USUAL[name])
        if name in SMALL:
            return rng.randint(-1 if limits[0] and rng.random() < 0.1 else 0, min(SMALL[name], max(limits)))
        return max(limits[0], rng.choice((-1, 0, 0, 1, 2)))

    def count(self, is_nullable: bool) -> int:
        """Choose the number of elements of an array, -1 for null."""
        if is_nullable and self.rng.random() < 0.1:
            return -1
        if self.is_odd and self.depth < 2 and self.rng.random() < 0.1:
            return self.rng.choice((20, 200))
        return self.rng.choice((0, 1, 1, 1, 2, 3))

    def length(self, out: bytearray, size: int, compact: bool, layout: struct.Struct) -> None:
        """A length or count; -1 is null."""
        if self.oddity and self.rng.random() < self.oddity / 4:
            size = self.rng.choice((*_ODD_LENGTHS, size + 1, size - 1))
            if layout is _INT16:
                size = max(-32768, min(32767, size))
        if compact:
            write_unsigned_varint(out, (size + 1) & 0xFFFFFFFF)
        else:
            out += layout.pack(size)

    def blob(self, name: str) -> bytes:
        """The content of a bytes field."""
        rng = self.rng
        if name in ("metadata", "assignment") and not self.is_odd:
            return b"\0\1\0\0\0\1\0\5plain" + b"\0\0\0\0" + b"\0\0\0\0"
        return rng.randbytes(rng.choice((0, 1, 8, 40, 300)))


def _number_writer(name: str, kind: str, layout: str) -> Writer:
    codec = struct.Struct(layout)
    is_float = kind == "float64"

    def write(maker: Maker, out: bytearray) -> None:
        value: Any = maker.rng.choice(LIMITS[kind]) if is_float else maker.number(name, kind)
        out += codec.pack(value)

    return write


def _uuid_writer(name: str) -> Writer:
    def write(maker: Maker, out: bytearray) -> None:
        known = maker.memory.values.get(name)
        if known and maker.rng.random() < 0.8 and not maker.is_odd:
            value = maker.rng.choice(known)
            out += value.bytes if isinstance(value, uuid.UUID) else bytes(16)
        else:
            out += maker.rng.choice((bytes(16), b"\xff" * 16, bytes(15) + b"\1", maker.rng.randbytes(16)))

    return write


def _sized_writer(field: FieldPlan, compact: bool) -> Writer:
    is_text = field.type == "string"
    is_nullable = field.is_nullable and not field.is_array
    layout = _INT16 if is_text else _INT32

    def content(maker: Maker) -> bytes | None:
        if field.type == "records":
            return maker.records()
        if (is_nullable and maker.rng.random() < 0.15) or (maker.oddity and maker.rng.random() < maker.oddity / 8):
            return None
        return maker.text(field.name).encode()[:32767] if is_text else maker.blob(field.name)

    def write(maker: Maker, out: bytearray) -> None:
        data = content(maker)
        maker.length(out, -1 if data is None else len(data), compact, layout)
        if data is not None:
            if is_text and maker.is_odd:
                data = data.replace(b"a", b"\xff")
            out += data

    return write


def _array_writer(item: Writer, compact: bool, is_nullable: bool) -> Writer:
    def write(maker: Maker, out: bytearray) -> None:
        count = maker.count(is_nullable)
        maker.length(out, count, compact, _INT32)
        maker.depth += 1
        start = len(out)
        for _ in range(count):
            item(maker, out)
            if len(out) - start > 50_000:
                break
        maker.depth -= 1

    return write


def _field_writer(field: FieldPlan, compact: bool) -> Writer:
    if field.type is None:
        item = writer_of(field.entity)
        if field.is_nullable and field.tag is None and not field.is_array:
            item = _nullable_writer(item)
    elif field.type == "uuid":
        item = _uuid_writer(field.name)
    elif field.type in NUMBER_LAYOUTS:
        item = _number_writer(field.name, field.type, NUMBER_LAYOUTS[field.type])
    else:
        item = _sized_writer(field, compact)
    return _array_writer(item, compact, field.is_nullable) if field.is_array else item


def _nullable_writer(item: Writer) -> Writer:
    def write(maker: Maker, out: bytearray) -> None:
        if maker.rng.random() < 0.3:
            out.append(0xFF)
        else:
            out.append(maker.rng.choice((1, 1, 1, 0, 127)) if maker.oddity else 1)
            item(maker, out)

    return write


def _write_tag(maker: Maker, out: bytearray, tag: int, content: bytes) -> None:
    size = len(content)
    if maker.is_odd:
        size = maker.rng.choice((0, size + 1, max(0, size - 1), 2**31 - 1, 2**32 - 1))
    out += unsigned_varint(tag) + unsigned_varint(size) + content


def _write_tags(maker: Maker, out: bytearray, known: dict[int, Writer]) -> None:
    rng = maker.rng
    tags = [tag for tag in known if rng.random() < 0.5]
    if maker.is_odd:
        tags += rng.choice(([0, 0], [1], [5, 4], [2**31 - 1], [0] * 20, [100]))
    count = len(tags)
    if tags and maker.is_odd:
        count = rng.choice((0, count + 1, 2**31 - 1))
    out += unsigned_varint(count)
    for tag in tags:
        content = bytearray()
        if tag in known:
            known[tag](maker, content)
        else:
            content += rng.randbytes(rng.choice((0, 1, 5)))
        _write_tag(maker, out, tag, bytes(content))


@cache
def writer_of(entity_type: Any) -> Writer:
    """The writer of an entity type."""
    plan = plan_of(entity_type)
    in_config = entity_type.__name__ in ("AlterableConfig", "CreatableTopicConfig", "CreateableTopicConfig")
    fields = [
        field._replace(name=f"config_{field.name}") if in_config and field.name in ("name", "value") else field
        for field in plan.fields
    ]
    writers = [_field_writer(field, plan.is_flexible) for field in fields]
    tagged = {field.tag: _field_writer(field, True) for field in plan.tagged if field.tag is not None}
    is_flexible = plan.is_flexible

    def write(maker: Maker, out: bytearray) -> None:
        for each in writers:
            each(maker, out)
        if is_flexible:
            if tagged or maker.is_odd:
                _write_tags(maker, out, tagged)
            else:
                out.append(0)

    return write
