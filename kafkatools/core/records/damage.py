"""Records of magic 2 read step by step, and what is wrong with one, in the words of Kafka's DefaultRecord.readFrom.

The kernel reads sound records; here one record that it would not read is read again, and the dump of segments reads
records up to a damaged one. A stream (compressed) hands out one record's bytes at a time; a buffer lets a record read
on to its end, and only then is the size compared: so the same damage has different messages, in Kafka too.
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
    """The bytes of a record ended too early."""


class RawRecord(NamedTuple):
    """The fields of a record as they are stored: deltas, sizes (-1 or less for null) and bytes."""

    timestamp_delta: int
    offset_delta: int
    key_size: int
    key: memoryview | None
    value_size: int
    value: memoryview | None
    headers: tuple[tuple[bytes, bytes | None], ...]


class RecordReader:
    """Reads varints and byte strings from a record area; `position` moves on."""

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
        """A zig-zag varint; raises DamagedRecord for one that does not end, as ByteUtils.readVarint does."""
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
    """The next record. Raises DamagedRecord."""
    try:
        size = reader.varint()
    except _Truncated:
        raise DamagedRecord(PREMATURE_END) from None
    left = reader.remaining
    if size > left:
        end = "the record payload reached EOF." if is_stream else f"instead the buffer has only {left} remaining bytes."
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
    """Kafka's message for the record at `position`; when no more are expected, for there being one."""
    if not is_more_expected:
        return REMAINING
    try:
        read_record(RecordReader(memoryview(data), position), is_stream=is_stream)
    except DamagedRecord as damage:
        return str(damage)
    return STRUCTURE
