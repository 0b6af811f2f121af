"""Reading an entity by its table, as Kafka's generated classes read it: slower than kio, and more patient.

Unknown tags are skipped (KIP-482), bytes that are not UTF-8 are replaced, a tagged structure may be null; what cannot
be read is told in Kafka's words.
"""

from __future__ import annotations

import struct
import uuid
from typing import Any

from kafkatools.core.protocol.schemas.definition import Field, structure_type
from kafkatools.core.protocol.schemas.errors import RecordFormatError

_LARGEST_STRING = 0x7FFF
_ZERO = uuid.UUID(int=0)


class TableReader:
    """A cursor on the bytes of one entity."""

    def __init__(self, data: memoryview, position: int) -> None:
        self._data = data
        self.position = position

    def entity(self, entity_type: Any) -> Any:
        """The entity at the cursor, its tags included."""
        version, is_flexible = entity_type.__version__, entity_type.__flexible__
        fields = [item for item in entity_type.__fields_table__ if item.is_in(version)]
        values = {
            item.attribute: self._value(entity_type, item, is_flexible)
            for item in fields
            if not item.is_tagged(version)
        }
        if is_flexible:
            by_tag = {item.tag: item for item in fields if item.is_tagged(version)}
            self._tags(entity_type, by_tag, values)
        return entity_type(**values)

    def _tags(self, entity_type: Any, by_tag: dict[int | None, Field], values: dict[str, Any]) -> None:
        for _ in range(self._unsigned_varint()):
            item = by_tag.get(self._unsigned_varint())
            size = self._unsigned_varint()
            if item is None:
                self._take(size)
            elif item.is_nullable_tagged_structure(entity_type.__version__):
                is_null = self._unsigned_varint() == 0
                values[item.attribute] = None if is_null else self.entity(structure_type(entity_type, item))
            else:
                values[item.attribute] = self._value(entity_type, item, True)

    def _value(self, owner: Any, item: Field, is_flexible: bool) -> Any:
        if not item.is_array:
            return self._element(owner, item, is_flexible, item.is_nullable(owner.__version__))
        length = self._unsigned_varint() - 1 if is_flexible else self._number(">i")
        if length < 0:
            return self._null(item, item.is_nullable(owner.__version__))
        if length > len(self._data) - self.position:
            raise RecordFormatError(
                f"Tried to allocate a collection of size {length}, "
                f"but there are only {len(self._data) - self.position} bytes remaining."
            )
        return tuple(self._element(owner, item, is_flexible, False) for _ in range(length))

    def _element(self, owner: Any, item: Field, is_flexible: bool, is_nullable: bool) -> Any:
        kind = item.element_type
        if kind in _NUMBERS:
            return self._number(_NUMBERS[kind])
        if kind == "bool":
            return self._number(">b") != 0
        if kind == "uuid":
            found = uuid.UUID(bytes=bytes(self._take(16, is_number=True)))
            return None if found == _ZERO else found
        if kind in ("string", "bytes"):
            return self._text_or_bytes(item, is_flexible, is_nullable)
        if is_nullable and self._number(">b") < 0:
            return None
        return self.entity(structure_type(owner, item))

    def _text_or_bytes(self, item: Field, is_flexible: bool, is_nullable: bool) -> Any:
        is_text = item.element_type == "string"
        length = self._unsigned_varint() - 1 if is_flexible else self._number(">h" if is_text else ">i")
        if length < 0:
            return self._null(item, is_nullable)
        if is_text and length > _LARGEST_STRING:
            raise RecordFormatError(f"string field {item.name} had invalid length {length}")
        data = bytes(self._take(length))
        return data.decode("utf-8", "replace") if is_text else data

    def _null(self, item: Field, is_nullable: bool) -> None:
        if not is_nullable:
            raise RecordFormatError(f"non-nullable field {item.name} was serialized as null")

    def _number(self, layout: str) -> Any:
        return struct.unpack(layout, self._take(struct.calcsize(layout), is_number=True))[0]

    def _take(self, size: int, *, is_number: bool = False) -> memoryview:
        remaining = len(self._data) - self.position
        if size < 0:
            raise RecordFormatError(str(size))
        if size > remaining:
            # Java's buffers say nothing where a number is cut off
            text = f"Error reading byte array of {size} byte(s): only {remaining} byte(s) available"
            raise RecordFormatError("null" if is_number else text)
        self.position += size
        return self._data[self.position - size : self.position]

    def _unsigned_varint(self) -> int:
        number = 0
        for shift in range(0, 35, 7):
            byte = self._take(1, is_number=True)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return _as_int(number)
        raise RecordFormatError(
            "Varint is too long, the most significant bit in the 5th byte is set, "
            f"converted value: {number & 0xFFFFFFFF:x}"
        )


def _as_int(number: int) -> int:
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


_NUMBERS: dict[str, str] = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}
