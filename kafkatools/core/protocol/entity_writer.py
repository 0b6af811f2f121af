"""Entities to bytes: per entity type one list of small writers, made once from its plan (flexible types: KIP-482)."""

from __future__ import annotations

import struct
from collections.abc import Callable
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


def _field_writer(field: FieldPlan, compact: bool) -> Writer:
    nullable = field.is_nullable and field.tag is None
    if field.type is None:
        item = writer_of(field.entity)
        if nullable and not field.is_array:
            item = _nullable_entity(item)
    else:
        item = _scalar(field.type, compact, nullable and not field.is_array)
    return _array(item, compact, field.is_nullable) if field.is_array else item


def _tag_writer(plan: EntityPlan) -> Writer:
    tagged = [(field.name, field.tag or 0, field.default(), _field_writer(field, True)) for field in plan.tagged]

    def write(out: bytearray, entity: Any) -> None:
        count = 0
        body = bytearray()
        for name, tag, default, write_field in tagged:
            value = getattr(entity, name)
            if value == default:
                continue
            payload = bytearray()
            write_field(payload, value)
            write_unsigned_varint(body, tag)
            write_unsigned_varint(body, len(payload))
            body += payload
            count += 1
        write_unsigned_varint(out, count)
        out += body

    return write


def _no_tags(out: bytearray, entity: Any) -> None:
    out.append(0)


@cache
def writer_of(entity_type: Any) -> Writer:
    """The writer of an entity type: appends an entity's bytes."""
    plan = plan_of(entity_type)
    writers = [(field.name, _field_writer(field, plan.is_flexible)) for field in plan.fields]
    write_tags: Writer | None = None
    if plan.is_flexible:
        write_tags = _tag_writer(plan) if plan.tagged else _no_tags

    def write(out: bytearray, entity: Any) -> None:
        for name, write_field in writers:
            write_field(out, getattr(entity, name))
        if write_tags is not None:
            write_tags(out, entity)

    return write
