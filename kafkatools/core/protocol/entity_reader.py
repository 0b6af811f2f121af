"""Bytes to entities without kio's native reader: slower per entity, ready at once, and forgiving of what is new.

kio's reader is the fast one, but it takes 40 ms to load and refuses an error code or a time that it does not know. This
one follows the same plan as the writer, leaves such a value as an int, and checks every length against the bytes that
are left before it makes anything of that size. Both are held against each other by a test.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.plans import (
    MAX_STRING_BYTES,
    MILLISECOND_LAYOUTS,
    NUMBER_LAYOUTS,
    FieldPlan,
    plan_of,
    to_kio,
)
from kafkatools.core.protocol.slices import paced
from kafkatools.core.protocol.varints import read_unsigned_varint

Reader = Callable[[memoryview, int], tuple[Any, int]]  # (buffer, position) -> (value, position after it)

_ZERO_UUID_BYTES = bytes(16)
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


def _fixed(layout: str) -> Reader:
    codec = struct.Struct(layout)
    unpack, size = codec.unpack_from, codec.size

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        return unpack(buffer, position)[0], position + size

    return read


def _error_code(buffer: memoryview, position: int) -> tuple[Any, int]:
    return to_kio("error_code", _INT16.unpack_from(buffer, position)[0]), position + 2


def _milliseconds(type_name: str, nullable: bool) -> Reader:
    read_number = _fixed(MILLISECOND_LAYOUTS[type_name])

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        number, position = read_number(buffer, position)
        return (None if nullable and number == -1 else to_kio(type_name, number)), position

    return read


def _uuid(buffer: memoryview, position: int) -> tuple[Any, int]:
    data = bytes(buffer[position : position + 16])
    if len(data) < 16:
        raise DecodeError(f"a uuid is cut off at byte {position}")
    return (None if data == _ZERO_UUID_BYTES else uuid.UUID(bytes=data)), position + 16


def _length_reader(compact: bool, layout: struct.Struct, nullable: bool) -> Reader:
    """Reads a length; null is None where allowed. The length is no more than the bytes that are left."""

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        if compact:
            length, position = read_unsigned_varint(buffer, position)
            length -= 1
        else:
            length = layout.unpack_from(buffer, position)[0]
            position += layout.size
        if length == -1 and nullable:
            return None, position
        if not 0 <= length <= len(buffer) - position:
            raise DecodeError(f"a length of {length} at byte {position} with {len(buffer) - position} bytes left")
        return length, position

    return read


def _sized(compact: bool, type_name: str, nullable: bool) -> Reader:
    is_text = type_name == "string"
    read_length = _length_reader(compact, _INT16 if is_text else _INT32, nullable)

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        length, position = read_length(buffer, position)
        if length is None:
            return None, position
        if is_text and length > MAX_STRING_BYTES:
            raise DecodeError(f"a string of {length} bytes at byte {position}")
        end = position + length
        data = bytes(buffer[position:end])
        return (data.decode() if is_text else data), end

    return read


def _scalar(type_name: str, compact: bool, nullable: bool) -> Reader:
    if type_name == "error_code":
        return _error_code
    if type_name in NUMBER_LAYOUTS:
        return _fixed(NUMBER_LAYOUTS[type_name])
    if type_name in MILLISECOND_LAYOUTS:
        return _milliseconds(type_name, nullable)
    return _uuid if type_name == "uuid" else _sized(compact, type_name, nullable)


def _array(item: Reader, compact: bool, nullable: bool) -> Reader:
    read_length = _length_reader(compact, _INT32, nullable)

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        count, position = read_length(buffer, position)
        if count is None:
            return None, position
        values = []
        for _ in paced(range(count)):
            value, position = item(buffer, position)
            values.append(value)
        return tuple(values), position

    return read


def _number_array(layout: str, compact: bool, nullable: bool) -> Reader:
    """An array of numbers is one `unpack`."""
    read_length = _length_reader(compact, _INT32, nullable)
    size, code = struct.calcsize(layout), layout[1:]

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        count, position = read_length(buffer, position)
        if count is None:
            return None, position
        if count * size > len(buffer) - position:
            raise DecodeError(f"{count} elements at byte {position} are cut off")
        return struct.unpack_from(f">{count}{code}", buffer, position), position + count * size

    return read


def _nullable_entity(read_entity: Reader) -> Reader:
    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        marker = struct.unpack_from(">b", buffer, position)[0]
        return (None, position + 1) if marker < 0 else read_entity(buffer, position + 1)

    return read


def _field_reader(field: FieldPlan, compact: bool) -> Reader:
    nullable = field.is_nullable and field.tag is None
    if field.is_array and field.type in NUMBER_LAYOUTS and field.type != "error_code":
        return _number_array(NUMBER_LAYOUTS[field.type], compact, field.is_nullable)
    if field.type is None:
        item = _reader_of(field.entity)
        if nullable and not field.is_array:
            item = _nullable_entity(item)
    else:
        # A tagged string may still be null on the wire; a time uses -1 for null wherever it is.
        item = _scalar(field.type, compact, field.is_nullable and not field.is_array)
    return _array(item, compact, field.is_nullable) if field.is_array else item


@cache
def _reader_of(entity_type: Any) -> Reader:
    plan = plan_of(entity_type)
    readers = [(field.name, _field_reader(field, plan.is_flexible)) for field in plan.fields]
    tagged = {field.tag: (field.name, _field_reader(field, True)) for field in plan.tagged}
    defaults = [(field.name, field.default()) for field in plan.tagged]

    def read_tags(buffer: memoryview, position: int, values: dict[str, Any]) -> int:
        count, position = read_unsigned_varint(buffer, position)
        for _ in paced(range(count)):
            tag, position = read_unsigned_varint(buffer, position)
            size, position = read_unsigned_varint(buffer, position)
            if size > len(buffer) - position:
                raise DecodeError(f"a tagged field of {size} bytes at byte {position} is cut off")
            if tag in tagged:
                name, read_field = tagged[tag]
                values[name] = read_field(buffer[: position + size], position)[0]
            position += size
        return position

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        values = dict(defaults)
        for name, read_field in readers:
            values[name], position = read_field(buffer, position)
        if plan.is_flexible:
            position = read_tags(buffer, position, values)
        return entity_type(**values), position

    return read


def read_entity(entity_type: Any, buffer: memoryview, offset: int) -> tuple[Any, int]:
    """The entity at `offset` and its size. Raises DecodeError."""
    try:
        entity, end = _reader_of(entity_type)(buffer, offset)
    except (struct.error, UnicodeDecodeError, IndexError) as problem:
        raise DecodeError(f"{entity_type.__name__} v{entity_type.__version__} cannot be read: {problem}") from problem
    return entity, end - offset
