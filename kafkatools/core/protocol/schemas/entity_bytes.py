"""Entities of a Schema to bytes and back, by kio where it can.

kio has no form for a tagged structure that may be null (Kafka writes a marker byte before it). An entity with one has a
wire type without that field: its other fields are written by kio, its tags, which end the body, here.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafkatools.core.protocol.entity_bounds import is_sound
from kafkatools.core.protocol.schemas.definition import Field
from kafkatools.core.protocol.varints import unsigned_varint

# kio's native reader is worth its load time after so many entities of one type.
NATIVE_AFTER = 200

_read: Counter[Any] = Counter()


def read(entity_type: Any, view: memoryview, offset: int) -> tuple[Any, int]:
    """The entity at `offset` and its size; raises RecordFormatError.

    kio reads almost everything; what it refuses is read again by the table, which knows more and says why. The first
    entities of a type are read by the table at once: loading kio's reader takes longer than a broker with a few topics
    needs for all its records.
    """
    _read[entity_type] += 1
    is_usual = entity_type.__wire_type__ is None and _read[entity_type] > NATIVE_AFTER
    if is_usual and is_sound(entity_type, view, offset):
        from kafkatools.core.protocol import kio_import

        entity_reader = kio_import.load("kio.serial").entity_reader
        try:
            entity, size = entity_reader(entity_type)(view, offset)
            return entity, size
        except Exception:  # noqa: BLE001, S110 - kio's errors are of many kinds, and the table has the last word
            pass
    from kafkatools.core.protocol.schemas.table_reader import TableReader

    reader = TableReader(view, offset)
    return reader.entity(entity_type), reader.position - offset


def write(entity: Any) -> bytes:
    """The body of an entity."""
    wire_type = type(entity).__wire_type__
    if wire_type is None:
        return _plain_bytes(entity)
    plain = wire_type(**{name: getattr(entity, name) for name in wire_type.__dataclass_fields__})
    tags = []
    for item in _nullable_structures(entity):
        value = getattr(entity, item.attribute)
        if value != entity.__dataclass_fields__[item.attribute].default:
            payload = b"\0" if value is None else b"\1" + _plain_bytes(value)
            tags.append(unsigned_varint(item.tag or 0) + unsigned_varint(len(payload)) + payload)
    return _plain_bytes(plain)[:-1] + unsigned_varint(len(tags)) + b"".join(tags)


def _plain_bytes(entity: Any) -> bytes:
    from kafkatools.core.protocol.messages import encode

    return encode(entity)


def _nullable_structures(entity: Any) -> list[Field]:
    version = entity.__version__
    return [item for item in entity.__fields_table__ if item.is_nullable_tagged_structure(version)]
