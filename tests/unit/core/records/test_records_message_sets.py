"""Message sets of magic 0 and 1."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records_truth import java_batch

from kafkatools.core.errors import CorruptRecord, UnsupportedCompressionType
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import Record, TimestampType
from kafkatools.core.records.compression import CompressionType, compress
from kafkatools.core.records.legacy import LegacyBatch, write_message_set

CELLS = st.none() | st.binary(max_size=100)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(-1, 2**60), CELLS, CELLS), min_size=1, max_size=20),
    st.integers(0, 2**50),
    st.sampled_from([0, 1]),
    st.sampled_from(list(CompressionType)[:4]),
)
def test_message_sets_round_trip(rows: list, base: int, magic: int, codec: CompressionType) -> None:
    kind = TimestampType.CREATE_TIME if magic else TimestampType.NO_TIMESTAMP_TYPE
    records = []
    for step, timestamp, key, value in rows:
        base += step
        records.append(Record(base, timestamp if magic else -1, kind, key, value))
    data = write_message_set(records, magic, codec)
    batches = list(read_batches(data))
    assert all(batch.is_valid() for batch in batches)
    assert [record for batch in batches for record in batch.records()] == records
    assert len(batches) == (1 if codec else len(records))
    assert batches[-1].last_offset == records[-1].offset
    assert batches[0].base_offset == records[0].offset


def test_wrapper_with_offset_0_is_taken_as_relative_to_0() -> None:
    data = bytearray(java_batch("v1-gzip"))
    data[0:8] = bytes(8)
    assert [record.offset for record in LegacyBatch(data).records()] == list(range(100))


def test_wrapper_offset_below_the_inner_ones_is_damage() -> None:
    data = bytearray(java_batch("v1-gzip"))
    data[0:8] = (50).to_bytes(8, "big")
    with pytest.raises(CorruptRecord, match="wrapper offset '50' is less than the last inner message offset '99'"):
        LegacyBatch(data).columns()


def test_offsets_of_damaged_inner_messages_wrap_as_in_java() -> None:
    kind = TimestampType.CREATE_TIME
    inner = b"".join(write_message_set([Record(offset, 0, kind, None, b"v")], 1) for offset in (2**63 - 1, 1))
    wrapper = bytearray(write_message_set([Record(5, 0, kind, None, compress(CompressionType.GZIP, inner))], 1))
    wrapper[17] |= CompressionType.GZIP
    assert [record.offset for record in LegacyBatch(wrapper).records()] == [3 - 2**63, 5]


def test_wrapper_with_null_value_is_damage() -> None:
    data = write_message_set([Record(0, 0, TimestampType.CREATE_TIME, None, None)], 1)
    damaged = bytearray(data)
    damaged[17] |= 1
    with pytest.raises(CorruptRecord, match="compressed record set with null value .magic = 1."):
        LegacyBatch(damaged).columns()


def test_zstd_needs_magic_2() -> None:
    record = Record(0, 0, TimestampType.CREATE_TIME, None, b"v")
    with pytest.raises(UnsupportedCompressionType):
        write_message_set([record], 1, CompressionType.ZSTD)


def test_a_batch_with_a_delete_horizon_keeps_timestamps() -> None:
    """Its base timestamp is the delete horizon, which its records may be older or newer than (KIP-534)."""
    builder = BatchBuilder(1 << 16, delete_horizon_ms=5_000)
    for number, timestamp in enumerate((3_000, 9_000, 5_000)):
        builder.append_with_offset(2 * number, timestamp, b"key", None, [("h", b"v" * 60)])
    batch = RecordBatch(bytes(builder.close()))
    assert (batch.is_valid(), batch.delete_horizon_ms, batch.base_timestamp) == (True, 5_000, 5_000)
    assert [record.timestamp for record in batch.records()] == [3_000, 9_000, 5_000]


@pytest.mark.parametrize(("size", "timestamp"), [(21, -1), (22, 5000)])
def test_a_message_too_small_for_a_timestamp_has_none(size: int, timestamp: int) -> None:
    data = bytearray(write_message_set([Record(0, 5000, TimestampType.CREATE_TIME, None, None)], 1))
    data[8:12] = size.to_bytes(4, "big")
    assert LegacyBatch(data).max_timestamp == timestamp
