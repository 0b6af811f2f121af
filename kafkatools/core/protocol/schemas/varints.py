"""Unsigned varints, as in tagged fields and the frames of metadata records."""

from __future__ import annotations

from kafkatools.core.protocol.schemas.errors import RecordFormatError

_VARINT_BITS = 35


def unsigned_varint(number: int) -> bytes:
    """A non-negative integer as Kafka's unsigned varint."""
    taken = bytearray()
    while number > 0x7F:
        taken.append(number & 0x7F | 0x80)
        number >>= 7
    taken.append(number)
    return bytes(taken)


def read_unsigned_varint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """The unsigned varint at `position` and the position after it; raises RecordFormatError when it does not end."""
    number = shift = 0
    while position < len(buffer) and shift < _VARINT_BITS:
        byte = buffer[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
    raise RecordFormatError(f"a varint that does not end at byte {position}")
