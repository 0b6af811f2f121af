"""Read records of magic 2 field by field, and explain damage with the messages of Kafka's DefaultRecord.readFrom.

The kernel reads valid records. A record that it rejects is read again here, and the dump reads records up to a damaged
one. Kafka reads compressed records from a stream, one record's bytes at a time. It reads uncompressed ones from a
buffer, past a record's end, and compares the size afterwards. So the same damage has different messages.
"""

from __future__ import annotations

from typing import NamedTuple

Buffer = bytes | bytearray | memoryview

REMAINING = "Incorrect declared batch size, records still remaining in file"
PREMATURE_END = "Incorrect declared batch size, premature EOF reached"
STRUCTURE = "Found invalid record structure"


class DamagedRecord(Exception):
    """A record that cannot be read, with Kafka's message."""


class _Truncated(Exception):
    """The data ended inside a record."""


class RawRecord(NamedTuple):
    """The fields of a v2 record as stored: deltas, sizes (negative for null) and bytes."""

    timestamp_delta: int
    offset_delta: int
    key_size: int
    key: memoryview | None
    value_size: int
    value: memoryview | None
    headers: tuple[tuple[bytes, bytes | None], ...]


class RecordReader:
    """A cursor over v2 records that reads varints and byte strings and advances `position`."""

    def __init__(self, data: memoryview, position: int = 0) -> None:
        self.data = data
        self.position = position

    @property
    def remaining(self) -> int:
        return len(self.data) - self.position

    def byte(self) -> int:
        if self.position >= len(self.data):
            raise _Truncated
        self.position += 1
        return self.data[self.position - 1]

    def varint(self, bits: int = 32) -> int:
        """Read a zig-zag varint of at most 32 or 64 bits. Raises DamagedRecord for one that is too long
        (ByteUtils.readVarint), _Truncated at the end of the data."""
        raw = shift = 0
        limit = 28 if bits == 32 else 63
        while (byte := self.byte()) & 0x80:
            raw |= (byte & 0x7F) << shift
            shift += 7
            if shift > limit:
                raise DamagedRecord(STRUCTURE)
        raw = (raw | byte << shift) & ((1 << bits) - 1)
        return (raw >> 1) ^ -(raw & 1)

    def sized(self, size: int) -> memoryview | None:
        if size < 0:
            return None
        if size > self.remaining:
            raise _Truncated
        self.position += size
        return self.data[self.position - size : self.position]


def read_record(reader: RecordReader, *, is_stream: bool = False) -> RawRecord:
    """Read the next record. Raises DamagedRecord; Kafka's message differs for compressed records (`is_stream`)."""
    try:
        size = reader.varint()
    except _Truncated:
        raise DamagedRecord(PREMATURE_END) from None
    rest = reader.remaining
    if size > rest:
        end = "the record payload reached EOF." if is_stream else f"instead the buffer has only {rest} remaining bytes."
        raise DamagedRecord(f"Invalid record size: expected {size} bytes in record payload, but {end}")
    start = reader.position
    body = RecordReader(reader.data[: max(start + size, 0)], start) if is_stream else reader
    try:
        record = _read_body(body)
    except _Truncated:
        raise DamagedRecord(STRUCTURE) from None
    if body.position - start != size:
        read = body.position - start
        message = f"Invalid record size: expected to read {size} bytes in record payload, but instead read {read}"
        raise DamagedRecord(message)
    reader.position = body.position
    return record


def _read_body(reader: RecordReader) -> RawRecord:
    reader.byte()  # attributes, unused
    timestamp_delta, offset_delta = reader.varint(64), reader.varint()
    key = reader.sized(key_size := reader.varint())
    value = reader.sized(value_size := reader.varint())
    return RawRecord(timestamp_delta, offset_delta, key_size, key, value_size, value, _read_headers(reader))


def _read_headers(reader: RecordReader) -> tuple[tuple[bytes, bytes | None], ...]:
    count = reader.varint()
    if count < 0:
        raise DamagedRecord(f"Found invalid number of record headers {count}")
    if count > reader.remaining:
        message = f"Found invalid number of record headers. {count} is larger than the remaining size of the buffer"
        raise DamagedRecord(message)
    headers = []
    for _ in range(count):
        name_size = reader.varint()
        if name_size < 0:
            raise DamagedRecord(f"Invalid negative header key size {name_size}")
        name = bytes(reader.sized(name_size) or b"")
        value = reader.sized(reader.varint())
        headers.append((name, None if value is None else bytes(value)))
    return tuple(headers)


def explain(data: Buffer, position: int, is_more_expected: bool, is_stream: bool) -> str:
    """Return Kafka's message for the damaged record at a position, or for bytes that follow the last record."""
    if not is_more_expected:
        return REMAINING
    try:
        read_record(RecordReader(memoryview(data), position), is_stream=is_stream)
    except DamagedRecord as damage:
        return str(damage)
    return STRUCTURE
