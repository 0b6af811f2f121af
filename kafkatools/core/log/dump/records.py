"""The records of one batch, one after the other, failing where Kafka's reader fails.

Source: DefaultRecordBatch.iterator and DefaultRecord.readFrom. Records of a plain batch come one by one, so those
before a damaged one are seen; a compressed batch is read whole before its first record is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.batch_headers import Header, V2Header
from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.dumped_record import DumpedRecord, decompressed
from kafkatools.core.records import damage
from kafkatools.core.records.header import increment_sequence
from kafkatools.core.records.layout import HEADER_SIZE

if TYPE_CHECKING:
    from kafkatools.core.records.columns import RecordColumns


class _Truncated(Exception):
    """The bytes of a record ended too early."""


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
        """A zig-zag varint; raises Damage for one that does not end, as ByteUtils.readVarint does."""
        raw = shift = 0
        limit = 28 if bits == 32 else 63
        while (byte := self.byte()) & 0x80:
            raw |= (byte & 0x7F) << shift
            shift += 7
            if shift > limit:
                raise Damage(damage.STRUCTURE)
        raw = (raw | byte << shift) & ((1 << bits) - 1)
        return (raw >> 1) ^ -(raw & 1)

    def sized(self, size: int) -> memoryview | None:
        if size < 0:
            return None
        if size > self.remaining:
            raise _Truncated
        self.position += size
        return self.data[self.position - size : self.position]


def records_of(header: Header) -> Iterator[DumpedRecord]:
    """The records of a batch, lazily; raises Damage."""
    if not isinstance(header, V2Header):
        from kafkatools.core.log.dump.legacy_records import legacy_records_of

        return legacy_records_of(header)
    if header.record_count == 0:
        return iter(())
    sound = _sound_records(header) if header.is_valid else None
    if sound is not None:
        return sound
    if header.codec == 0:
        return _records(header, header.view[HEADER_SIZE:])
    return iter(list(_records(header, decompressed(header.codec, header.view[HEADER_SIZE:], 2))))


def _sound_records(header: V2Header) -> Iterator[DumpedRecord] | None:
    """The same by the record kernel, for a batch without damage and without headers; None for any other."""
    from kafkatools.core.records.batch import RecordBatch

    try:
        columns = RecordBatch(header.view).columns()
    except (KafkaError, ValueError):
        return None
    return None if any(columns.header_counts) else _records_of_columns(header, columns)


def _records_of_columns(header: V2Header, columns: RecordColumns) -> Iterator[DumpedRecord]:
    base_offset, base_sequence = header.base_offset, header.base_sequence
    is_append_time = header.attributes & 8
    for row, offset in enumerate(columns.offsets):
        yield DumpedRecord(
            offset,
            header.max_timestamp if is_append_time else columns.timestamps[row],
            increment_sequence(base_sequence, offset - base_offset) if base_sequence >= 0 else -1,
            columns.key(row),
            columns.value(row),
            key_size=columns.key_lengths[row],
            value_size=columns.value_lengths[row],
        )


def _records(header: V2Header, data: memoryview) -> Iterator[DumpedRecord]:
    if header.record_count < 0:
        raise Damage(f"Found invalid record count {header.record_count} in magic v{header.magic} batch")
    reader = RecordReader(data)
    for number in range(1, header.record_count + 1):
        record = _record(header, reader)
        if number == header.record_count and reader.remaining:
            raise Damage(damage.REMAINING)
        yield record


def _record(header: V2Header, reader: RecordReader) -> DumpedRecord:
    try:
        size = reader.varint()
    except _Truncated:
        raise Damage(damage.PREMATURE_END) from None
    if size > reader.remaining:
        raise Damage(damage.too_large(size, reader.remaining))
    start = reader.position
    try:
        record = _body(header, reader)
    except _Truncated:
        raise Damage(damage.STRUCTURE) from None
    if reader.position - start != size:
        raise Damage(damage.wrong_size(size, reader.position - start))
    return record


def _body(header: V2Header, reader: RecordReader) -> DumpedRecord:
    reader.byte()  # attributes, unused
    timestamp = header.base_timestamp + reader.varint(64)
    delta = reader.varint()
    key = reader.sized(key_size := reader.varint())
    value = reader.sized(value_size := reader.varint())
    return DumpedRecord(
        offset=header.base_offset + delta,
        timestamp=header.max_timestamp if header.attributes & 8 else timestamp,
        sequence=increment_sequence(header.base_sequence, delta) if header.base_sequence >= 0 else -1,
        key=key,
        value=value,
        headers=_headers(reader),
        key_size=max(key_size, -1),
        value_size=max(value_size, -1),
    )


def _headers(reader: RecordReader) -> tuple[tuple[bytes, bytes | None], ...]:
    count = reader.varint()
    if count < 0:
        raise Damage(damage.wrong_header_count(count))
    if count > reader.remaining:
        raise Damage(damage.header_count_too_large(count))
    headers = []
    for _ in range(count):
        name_size = reader.varint()
        if name_size < 0:
            raise Damage(damage.wrong_header_key_size(name_size))
        name = bytes(reader.sized(name_size) or b"")
        value = reader.sized(reader.varint())
        headers.append((name, None if value is None else bytes(value)))
    return tuple(headers)
