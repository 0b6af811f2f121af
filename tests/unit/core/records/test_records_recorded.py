"""Every recorded log is read as the consumer read it, and written again as the client wrote it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from records_truth import java_batch, java_batch_names, java_rows, recorded_names, segments, true_records
from support.file_batches import read_file_batches

from kafkatools.core.log.dump.batch_headers import LegacyHeader
from kafkatools.core.log.dump.records import DumpedRecord, records_of
from kafkatools.core.records.batch import RecordBatch, read_batches, stamp_batch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import Record, TimestampType
from kafkatools.core.records.compression import CompressionType
from kafkatools.core.records.legacy import LegacyBatch, write_message_set

# compressors whose output depends on the library's version; their batches are compared once decompressed
OTHER_LIBRARY = (CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD)

# the fast lz4 compressor is the one that differs between versions
SAME_BYTES = [name for name in java_batch_names() if "lz4" not in name or name.endswith(("-12", "-17"))]


@pytest.mark.parametrize("name", recorded_names())
def test_recorded_log_gives_the_records_the_consumer_saw(name: str) -> None:
    seen = []
    for segment in segments(name):
        for batch in read_batches(segment):
            batch.ensure_valid()
            if not batch.is_control:
                seen += [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch.records()]
    assert seen == true_records(name)


@pytest.mark.parametrize("name", [name for name in recorded_names() if not name.startswith("message-set")])
def test_recorded_batches_are_written_again_byte_for_byte(name: str) -> None:
    compared = 0
    for segment in segments(name):
        for batch in read_batches(segment):
            assert isinstance(batch, RecordBatch)
            if batch.record_count == 0 or batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
                continue
            written = bytearray(rewrite(batch))
            stamp_batch(written, 0, base_offset=batch.base_offset, leader_epoch=batch.partition_leader_epoch)
            if batch.compression_type in OTHER_LIBRARY:
                again, first = RecordBatch(written).columns(), batch.columns()
                assert again.buffer == first.buffer
            elif batch.delete_horizon_ms is None:
                assert bytes(written) == batch.to_bytes()
            compared += 1
    assert compared or name in ("log-append-time", "compacted-purged")


def rewrite(batch: RecordBatch) -> memoryview | bytes:
    builder = BatchBuilder(
        batch.size_bytes,
        batch.compression_type,
        base_offset=0,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        delete_horizon_ms=batch.delete_horizon_ms,
    )
    for record in batch.records():
        builder.append_with_offset(
            record.offset - batch.base_offset, record.timestamp, record.key, record.value, record.headers
        )
    builder.override_last_offset(batch.last_offset_delta)
    return builder.close()


def messages_of(batch: LegacyBatch) -> Iterator[DumpedRecord]:
    """The messages of a batch as the dump reads them, with their checksums compared."""
    return records_of(LegacyHeader(memoryview(batch.to_bytes()), batch.position, batch.size_bytes))


@pytest.mark.parametrize("name", [name for name in recorded_names() if name.startswith("message-set")])
def test_recorded_message_sets_are_written_again(name: str) -> None:
    for segment in segments(name):
        for batch in read_file_batches(segment):
            assert isinstance(batch, LegacyBatch)
            assert all(message.is_valid for message in messages_of(batch))
            records = list(batch.records())
            assert batch.last_offset == records[-1].offset
            written = write_message_set(
                records, batch.magic, batch.compression_type, timestamp_type=batch.timestamp_type
            )
            if batch.compression_type in OTHER_LIBRARY or name == "message-set-v1-append-time":
                assert list(LegacyBatch(written).records()) == records
            else:
                assert written == batch.to_bytes()


@pytest.mark.parametrize("name", java_batch_names())
def test_java_client_batch_is_read(name: str) -> None:
    magic = int(name[1])
    rows = []
    for batch in read_batches(java_batch(name)):
        batch.ensure_valid()
        rows += [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch.records()]
    expected = java_rows(magic)
    if magic == 0:
        expected = [(row[0], -1, *row[2:]) for row in expected]
    if name.endswith("append"):
        expected = [(row[0], 1700000009999, *row[2:]) for row in expected]
    assert rows == expected


@pytest.mark.parametrize("name", SAME_BYTES)
def test_java_client_batch_is_written_byte_for_byte(name: str) -> None:
    magic, codec, level, append_time = taken_apart(name)
    rows = java_rows(magic)
    if magic == 2:
        builder = BatchBuilder(
            1 << 20,
            codec,
            level=level,
            base_offset=1000,
            timestamp_type=TimestampType.CREATE_TIME if append_time is None else TimestampType.LOG_APPEND_TIME,
            log_append_time=-1 if append_time is None else append_time,
        )
        for _, timestamp, key, value, headers in rows:
            builder.append(timestamp, key, value, headers)
        assert bytes(builder.close()) == java_batch(name)
        return
    kind = TimestampType.CREATE_TIME if append_time is None else TimestampType.LOG_APPEND_TIME
    records = [
        Record(offset, timestamp if append_time is None else append_time, kind, key, value)
        for offset, timestamp, key, value, _ in rows
    ]
    assert write_message_set(records, magic, codec, level=level, timestamp_type=kind) == java_batch(name)


def taken_apart(name: str) -> tuple[int, CompressionType, int | None, int | None]:
    magic, label, *rest = name.split("-", 2)
    append_time = 1700000009999 if rest == ["append"] else None
    level = int(rest[0]) if rest and append_time is None else None
    return int(magic[1]), CompressionType.for_label(label), level, append_time
