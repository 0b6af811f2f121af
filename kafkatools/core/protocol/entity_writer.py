"""Entities to bytes: per entity type one list of small writers, made once from its plan (flexible types: KIP-482).

`writer_of` takes kio's entities, `fields_writer_of` plain mappings, without an entity in between: a broker that answers
for ten thousand partitions makes none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from kafkatools.core.protocol.plans import (
    MILLISECOND_LAYOUTS,
    NUMBER_LAYOUTS,
    UUID_ZERO,
    EntityPlan,
    FieldPlan,
    plan_of,
    to_ms,
)
from kafkatools.core.protocol.varints import write_unsigned_varint

Writer = Callable[[bytearray, Any], None]


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


def _scalar(type_name: str, compact: bool, nullable: bool) -> Writer:
    if type_name in NUMBER_LAYOUTS:
        return _fixed(NUMBER_LAYOUTS[type_name])
    if type_name in MILLISECOND_LAYOUTS:
        return _milliseconds(MILLISECOND_LAYOUTS[type_name])
    if type_name == "uuid":
        return _write_uuid
    return _sized(compact, ">h" if type_name == "string" else ">i", nullable, type_name == "string")


def _array(item: Writer, compact: bool, nullable: bool) -> Writer:
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
        for value in values:
            item(out, value)

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
    return _array(item, compact, field.is_nullable) if field.is_array else item


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
    writers = [(field.name, _field_writer(field, plan.is_flexible, writer_of)) for field in plan.fields]
    write_tags: Writer | None = None
    if plan.is_flexible:
        write_tags = _tag_writer(plan) if plan.tagged else _no_tags

    def write(out: bytearray, entity: Any) -> None:
        for name, write_field in writers:
            write_field(out, getattr(entity, name))
        if write_tags is not None:
            write_tags(out, entity)

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


@cache
def fields_writer_of(entity_type: Any) -> Writer:
    """The writer of a mapping by the names of an entity's fields: numbers of ms for times, missing ones are defaults,
    others are passed over.
    """
    plan = plan_of(entity_type)
    compact = plan.is_flexible
    writers = [
        (field.name, _default_bytes(field, compact), _field_writer(field, compact, fields_writer_of))
        for field in plan.fields
    ]
    write_tags: Writer | None = None
    if plan.is_flexible:
        write_tags = _fields_tag_writer(plan) if plan.tagged else _no_tags

    def write(out: bytearray, fields: Mapping[str, Any]) -> None:
        for name, default, write_field in writers:
            if name in fields:
                write_field(out, fields[name])
            else:
                out += default
        if write_tags is not None:
            write_tags(out, fields)

    return write
