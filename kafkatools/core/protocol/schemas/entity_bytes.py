"""Entities of a Schema to bytes and back, by kio where it can.

kio has no form for a tagged structure that may be null (Kafka writes a marker byte before it). An entity with one has a
wire type without that field: its other fields are read and written by kio, its tags, which end the body, here.
"""

from __future__ import annotations

import io
from typing import Any

from kafkatools.core.protocol.schemas.definition import Field, structure_type
from kafkatools.core.protocol.schemas.varints import read_unsigned_varint, unsigned_varint


def read(entity_type: Any, view: memoryview, offset: int) -> tuple[Any, int]:
    """The entity at `offset` and its size; raises whatever kio raises for bytes that are none."""
    from kio.serial import entity_reader

    if entity_type.__wire_type__ is not None:
        return _read_with_nullable_structures(entity_type, view, offset)
    entity, size = entity_reader(entity_type)(view, offset)
    return entity, size


def write(entity: Any) -> bytes:
    """The body of an entity."""
    wire_type = type(entity).__wire_type__
    if wire_type is None:
        return _kio_bytes(entity)
    plain = wire_type(**{name: getattr(entity, name) for name in wire_type.__dataclass_fields__})
    tags = []
    for item in _nullable_structures(entity):
        value = getattr(entity, item.attribute)
        if value != entity.__dataclass_fields__[item.attribute].default:
            payload = b"\0" if value is None else b"\1" + _kio_bytes(value)
            tags.append(unsigned_varint(item.tag or 0) + unsigned_varint(len(payload)) + payload)
    return _kio_bytes(plain)[:-1] + unsigned_varint(len(tags)) + b"".join(tags)


def _kio_bytes(entity: Any) -> bytes:
    from kio.serial import entity_writer

    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def _nullable_structures(entity: Any) -> list[Field]:
    version = entity.__version__
    return [item for item in entity.__fields_table__ if item.is_nullable_tagged_structure(version)]


def _read_with_nullable_structures(entity_type: Any, view: memoryview, offset: int) -> tuple[Any, int]:
    from dataclasses import fields

    from kio._kio_native import get_field_reader
    from kio.serial import entity_reader

    wire_type = entity_type.__wire_type__
    values = {}
    position = offset
    for each in fields(wire_type):
        values[each.name], size = get_field_reader(wire_type, each, False, False)(view, position)
        position += size
    count, position = read_unsigned_varint(view, position)
    by_tag = {item.tag: item for item in _nullable_structures(entity_type)}
    for _ in range(count):
        tag, position = read_unsigned_varint(view, position)
        size, position = read_unsigned_varint(view, position)
        if tag in by_tag:
            item = by_tag[tag]
            reader = entity_reader(structure_type(entity_type, item))
            values[item.attribute] = reader(view, position + 1)[0] if view[position] else None
        position += size
    return entity_type(**values), position - offset
