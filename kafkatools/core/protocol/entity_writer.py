"""Entities to bytes: per entity type one list of small writers, made once from its plan (flexible types: KIP-482).

`writer_of` takes kio's entities, `fields_writer_of` plain mappings, without an entity in between: a broker that answers
for ten thousand partitions makes none. Neighbours of fixed size are one `pack`, as are the numbers of an array, and
elements that stand in an answer many times (`Shared`) are written once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from kafkatools.core.protocol.plans import (
    MAX_STRING_BYTES,
    MILLISECOND_LAYOUTS,
    NUMBER_LAYOUTS,
    UUID_ZERO,
    EntityPlan,
    FieldPlan,
    plan_of,
    to_ms,
)
from kafkatools.core.protocol.slices import paced
from kafkatools.core.protocol.varints import write_unsigned_varint

Writer = Callable[[bytearray, Any], None]


class Shared(list[Any]):
    """The elements of an array that stands in an answer many times: its bytes are made once for each of its writers.

    It must not change any more once it has been written.
    """

    def __init__(self, elements: Iterable[Any]) -> None:
        super().__init__(elements)
        self.encoded: dict[Writer, bytes] = {}


def _fixed(layout: str) -> Writer:
    pack = struct.Struct(layout).pack

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write


def _milliseconds(layout: str) -> Writer:
    pack = struct.Struct(layout).pack

    def write(out: bytearray, value: Any) -> None:
        out += pack(to_ms(value))

    return write


def _write_uuid(out: bytearray, value: Any) -> None:
    out += (value or UUID_ZERO).bytes


def _sized(compact: bool, layout: str, nullable: bool, is_text: bool) -> Writer:
    pack = struct.Struct(layout).pack

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            if not nullable:
                raise ValueError("null where the protocol has none")
            out += b"\0" if compact else pack(-1)
            return
        data = value.encode() if is_text else value
        if compact:
            write_unsigned_varint(out, len(data) + 1)
        else:
            out += pack(len(data))
        out += data

    return write


def _shortened(write_text: Writer) -> Writer:
    """Cut an error message to what a string field can hold: it may repeat a name of the request that is as long."""

    def write(out: bytearray, value: Any) -> None:
        if value is not None and len(value) > MAX_STRING_BYTES // 4:
            value = value.encode()[:MAX_STRING_BYTES].decode(errors="ignore")
        write_text(out, value)

    return write


def _scalar(type_name: str, compact: bool, nullable: bool) -> Writer:
    if type_name in NUMBER_LAYOUTS:
        return _fixed(NUMBER_LAYOUTS[type_name])
    if type_name in MILLISECOND_LAYOUTS:
        return _milliseconds(MILLISECOND_LAYOUTS[type_name])
    if type_name == "uuid":
        return _write_uuid
    return _sized(compact, ">h" if type_name == "string" else ">i", nullable, type_name == "string")


def _array(write_items: Callable[[bytearray, Sequence[Any]], None], compact: bool, nullable: bool) -> Writer:
    pack = struct.Struct(">i").pack

    def write(out: bytearray, values: Any) -> None:
        if values is None:
            if not nullable:
                raise ValueError("null where the protocol has none")
            out += b"\0" if compact else pack(-1)
            return
        if not hasattr(values, "__len__"):
            values = tuple(values)
        if compact:
            write_unsigned_varint(out, len(values) + 1)
        else:
            out += pack(len(values))
        write_items(out, values)

    return write


def _each(item: Writer) -> Writer:
    def write(out: bytearray, values: Sequence[Any]) -> None:
        if isinstance(values, Shared):
            if write not in values.encoded:
                data = bytearray()
                write_all(data, values)
                values.encoded[write] = bytes(data)
            out += values.encoded[write]
        else:
            write_all(out, values)

    def write_all(out: bytearray, values: Sequence[Any]) -> None:
        for value in paced(values):
            item(out, value)

    return write


def _numbers(code: str) -> Writer:
    def write(out: bytearray, values: Sequence[Any]) -> None:
        if values:
            out += struct.pack(f">{len(values)}{code}", *values)

    return write


def _nullable_entity(write_entity: Writer) -> Writer:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out += b"\xff"
        else:
            out += b"\x01"
            write_entity(out, value)

    return write


def _field_writer(field: FieldPlan, compact: bool, nested: Callable[[Any], Writer]) -> Writer:
    nullable = field.is_nullable and field.tag is None
    if field.type is None:
        item = nested(field.entity)
        if nullable and not field.is_array:
            item = _nullable_entity(item)
    else:
        item = _scalar(field.type, compact, nullable and not field.is_array)
        if field.name == "error_message":
            item = _shortened(item)
    if not field.is_array:
        return item
    layout = NUMBER_LAYOUTS.get(field.type or "")
    return _array(_each(item) if layout is None else _numbers(layout[1:]), compact, field.is_nullable)


def _is_number(field: FieldPlan) -> bool:
    return field.type in NUMBER_LAYOUTS and not field.is_array


def _runs(fields: Sequence[FieldPlan]) -> list[list[FieldPlan]]:
    """The fields in order: neighbours that are plain numbers together, any other alone."""
    runs: list[list[FieldPlan]] = []
    for is_run, found in groupby(fields, _is_number):
        group = list(found)
        runs += [group] if is_run else [[field] for field in group]
    return runs


def _packer(run: Sequence[FieldPlan]) -> Callable[..., bytes]:
    return struct.Struct(">" + "".join(NUMBER_LAYOUTS[field.type or ""][1:] for field in run)).pack


def _run_writer(run: Sequence[FieldPlan]) -> Writer:
    pick, pack = attrgetter(*(field.name for field in run)), _packer(run)

    def write(out: bytearray, entity: Any) -> None:
        out += pack(*pick(entity))

    return write


def _member_writer(field: FieldPlan, compact: bool) -> Writer:
    name, write_field = field.name, _field_writer(field, compact, writer_of)

    def write(out: bytearray, entity: Any) -> None:
        write_field(out, getattr(entity, name))

    return write


def _tag_writer(plan: EntityPlan) -> Writer:
    tagged = [
        (field.name, field.tag or 0, field.default(), _field_writer(field, True, writer_of)) for field in plan.tagged
    ]

    def write(out: bytearray, entity: Any) -> None:
        present = []
        for name, tag, default, write_field in tagged:
            value = getattr(entity, name)
            if value != default:
                payload = bytearray()
                write_field(payload, value)
                present.append((tag, payload))
        _write_tagged(out, present)

    return write


def _write_tagged(out: bytearray, present: Sequence[tuple[int, bytearray]]) -> None:
    """The section of tagged fields: how many, then tag, size and value of each."""
    write_unsigned_varint(out, len(present))
    for tag, payload in present:
        write_unsigned_varint(out, tag)
        write_unsigned_varint(out, len(payload))
        out += payload


def _no_tags(out: bytearray, entity: Any) -> None:
    out.append(0)


@cache
def writer_of(entity_type: Any) -> Writer:
    """The writer of an entity type: appends an entity's bytes."""
    plan = plan_of(entity_type)
    writers = [
        _run_writer(run) if len(run) > 1 else _member_writer(run[0], plan.is_flexible) for run in _runs(plan.fields)
    ]
    if plan.is_flexible:
        writers.append(_tag_writer(plan) if plan.tagged else _no_tags)

    def write(out: bytearray, entity: Any) -> None:
        for write_part in writers:
            write_part(out, entity)

    return write


# -- mappings --


def _default_bytes(field: FieldPlan, compact: bool) -> bytes:
    out = bytearray()
    _field_writer(field, compact, writer_of)(out, field.default())
    return bytes(out)


def _fields_tag_writer(plan: EntityPlan) -> Writer:
    tagged = []
    for field in plan.tagged:
        default = field.default()
        encoded = None if default is None else _default_bytes(field, True)
        tagged.append((field.name, field.tag or 0, encoded, _field_writer(field, True, fields_writer_of)))

    def write(out: bytearray, fields: Mapping[str, Any]) -> None:
        present = []
        for name, tag, default, write_field in tagged:
            value = fields.get(name)
            if value is None:
                continue
            payload = bytearray()
            write_field(payload, value)
            if bytes(payload) != default:
                present.append((tag, payload))
        _write_tagged(out, present)

    return write


def _fields_run_writer(run: Sequence[FieldPlan]) -> Writer:
    pick, pack = itemgetter(*(field.name for field in run)), _packer(run)
    defaults = {field.name: field.default() for field in run}

    def write(out: bytearray, fields: Mapping[str, Any]) -> None:
        try:
            out += pack(*pick(fields))
        except KeyError:
            out += pack(*pick({**defaults, **fields}))

    return write


def _entry_writer(field: FieldPlan, compact: bool) -> Writer:
    name, default, write_field = (
        field.name,
        _default_bytes(field, compact),
        _field_writer(field, compact, fields_writer_of),
    )

    def write(out: bytearray, fields: Mapping[str, Any]) -> None:
        if name in fields:
            write_field(out, fields[name])
        else:
            out += default

    return write


@cache
def fields_writer_of(entity_type: Any) -> Writer:
    """The writer of a mapping by the names of an entity's fields: numbers of ms for times, missing ones are defaults,
    others are passed over.
    """
    plan = plan_of(entity_type)
    compact = plan.is_flexible
    writers = [
        _fields_run_writer(run) if len(run) > 1 else _entry_writer(run[0], compact) for run in _runs(plan.fields)
    ]
    if plan.is_flexible:
        writers.append(_fields_tag_writer(plan) if plan.tagged else _no_tags)

    def write(out: bytearray, fields: Mapping[str, Any]) -> None:
        for write_part in writers:
            write_part(out, fields)

    return write
