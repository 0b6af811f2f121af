"""Read the records of one batch for the dump, and fail where Kafka's reader fails.

Source: DefaultRecordBatch.iterator and DefaultRecord.readFrom. The records of an uncompressed batch are read one by
one, so those before a damaged one are shown. A compressed batch is read completely before its first record is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.batch_headers import Header, V2Header
from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.dumped_record import DumpedRecord, decompressed
from kafkatools.core.records.damage import REMAINING, DamagedRecord, RawRecord, RecordReader, read_record
from kafkatools.core.records.header import increment_sequence
from kafkatools.core.records.layout import HEADER_SIZE

if TYPE_CHECKING:
    from kafkatools.core.records.columns import RecordColumns


def records_of(header: Header) -> Iterator[DumpedRecord]:
    """Return an iterator over the records of a batch of any format. Raises Damage, at once or during the iteration."""
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
    """Read a valid batch by the record kernel. Return None for a damaged batch or one with headers."""
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
        try:
            raw = read_record(reader)
        except DamagedRecord as problem:
            raise Damage(str(problem)) from None
        if number == header.record_count and reader.remaining:
            raise Damage(REMAINING)
        yield _dumped(header, raw)


def _dumped(header: V2Header, raw: RawRecord) -> DumpedRecord:
    is_append_time = header.attributes & 8
    return DumpedRecord(
        offset=header.base_offset + raw.offset_delta,
        timestamp=header.max_timestamp if is_append_time else header.base_timestamp + raw.timestamp_delta,
        sequence=increment_sequence(header.base_sequence, raw.offset_delta) if header.base_sequence >= 0 else -1,
        key=raw.key,
        value=raw.value,
        headers=raw.headers,
        key_size=max(raw.key_size, -1),
        value_size=max(raw.value_size, -1),
    )
