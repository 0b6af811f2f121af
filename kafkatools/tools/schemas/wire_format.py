"""Confluent's wire format: byte 0, the schema ID in four big-endian bytes, then the encoded value.

For Protobuf the message index path precedes the value: a count and that many indexes as zigzag varints; a single 0
means the first message.
"""

from __future__ import annotations

HEADER_SIZE = 5
_MAX_DEPTH = 100


def schema_id(data: bytes) -> int | None:
    """Return the schema ID in bytes 1 to 4 of a value; None if the value has fewer than five bytes or does not begin
    with byte 0."""
    if len(data) < HEADER_SIZE or data[0]:
        return None
    return int.from_bytes(data[1:HEADER_SIZE], "big")


def header(number: int) -> bytes:
    """Return the five bytes before a value of this schema ID."""
    return b"\0" + number.to_bytes(4, "big")


def message_path(data: bytes, at: int) -> tuple[list[int], int]:
    """Read the message index path from `data[at:]`; return the indexes and the position after them. Raises ValueError
    if the path is truncated or invalid."""
    count, at = _zigzag(data, at)
    if count == 0:
        return [0], at
    if not 0 < count <= _MAX_DEPTH:
        raise ValueError(f"the message index path has {count} indexes")
    path = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        path.append(index)
    return path, at


def message_path_bytes(path: list[int]) -> bytes:
    """Encode a message index path."""
    if path == [0]:
        return b"\0"
    out = bytearray()
    for number in (len(path), *path):
        number <<= 1  # zigzag of a number that is not negative
        while number > 0x7F:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
    return bytes(out)


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    raise ValueError("the message index path is truncated")
