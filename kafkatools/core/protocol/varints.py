"""Kafka's UNSIGNED_VARINT, strings, and sections of tagged fields (KIP-482), for messages framed by hand.

A varint has at most five bytes. Nothing is read past the end of the buffer, and a varint without an end is a
DecodeError. The zig-zag varints inside records are in `core/records/kernel.py`.
"""

from __future__ import annotations

from struct import Struct

from kafkatools.core.errors import DecodeError

_LENGTH = Struct(">h")
_MAX_SHIFT = 28
# No message has more than a dozen; a frame of hostile bytes could hold fifty million.
_MOST_TAGGED_FIELDS = 1000


def unsigned_varint(number: int) -> bytes:
    """Encode a non-negative integer as an unsigned varint."""
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    write_unsigned_varint(out, number)
    return bytes(out)


def compact_string(text: str | None) -> bytes:
    """Encode a string or None as a flexible version does: with an unsigned varint as its length."""
    if text is None:
        return b"\0"
    encoded = text.encode()
    return unsigned_varint(len(encoded) + 1) + encoded


def plain_string(text: str | None) -> bytes:
    """Encode a string or None as a version before the flexible ones does: with two bytes as its length."""
    if text is None:
        return b"\xff\xff"
    encoded = text.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def write_unsigned_varint(out: bytearray, number: int) -> None:
    """Append a non-negative integer to `out` as an unsigned varint."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def read_unsigned_varint(buffer: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read the unsigned varint at a position. Return it and the position after it. Raises DecodeError."""
    end = len(buffer)
    if position < end and buffer[position] < 0x80:
        return buffer[position], position + 1
    number = shift = 0
    while position < end and shift <= _MAX_SHIFT:
        byte = buffer[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7
    raise DecodeError(f"a varint that does not end at byte {position}")


def skip_tagged_fields(buffer: bytes | bytearray | memoryview, position: int) -> int:
    """Return the position after a section of tagged fields. Raises DecodeError, also for more than 1000 fields."""
    count, position = read_unsigned_varint(buffer, position)
    if count > _MOST_TAGGED_FIELDS:
        raise DecodeError(f"{count} tagged fields at byte {position}")
    for _ in range(count):
        _, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        if size > len(buffer) - position:
            raise DecodeError(f"a tagged field of {size} bytes at byte {position} is cut off")
        position += size
    return position
