"""Message sets of magic 0 and 1, and conversion between the versions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records_truth import java_batch, java_batch_names, recorded_names, segments

from kafkatools.core.errors import CorruptRecord, UnsupportedCompressionType, UnsupportedForMessageFormat
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import Record, TimestampType
from kafkatools.core.records.compression import CompressionType, compress
from kafkatools.core.records.convert import convert
from kafkatools.core.records.layout import HEADER_SIZE
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
    with pytest.raises(UnsupportedCompressionType, match="Down-conversion of zstandard-compressed batches"):
        convert(read_batches(java_batch("v2-zstd")), 1)
    assert convert(read_batches(java_batch("v2-zstd")), 1, codec=CompressionType.GZIP).record_count == 100


def test_unknown_magic_is_refused() -> None:
    with pytest.raises(UnsupportedForMessageFormat):
        convert([], 3)


@pytest.mark.parametrize("name", recorded_names())
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_conversion_keeps_offsets_keys_and_values(name: str, magic: int) -> None:
    for segment in segments(name)[:2]:
        batches = list(read_batches(segment))
        codec = CompressionType.GZIP if "zstd" in name else None
        result = convert(batches, magic, codec=codec)
        kept = [record for batch in batches if magic == 2 or not batch.is_control for record in batch.records()]
        read = []
        for batch in read_batches(result.data):
            assert batch.magic == magic
            batch.ensure_valid()
            read += batch.records()
        assert [(r.offset, r.key, r.value) for r in read] == [(r.offset, r.key, r.value) for r in kept]
        if magic:
            assert [r.timestamp for r in read] == [r.timestamp for r in kept]
        if magic == 2:
            assert [r.headers for r in read] == [r.headers for r in kept]
            assert not result.loss
        assert result.record_count == len(kept)


def test_what_is_lost_is_counted() -> None:
    loss = convert(read_batches(segments("txn-java")[0]), 0).loss
    batches = list(read_batches(segments("txn-java")[0]))
    plain = [batch for batch in batches if not batch.is_control]
    assert loss.control_batches == len(batches) - len(plain) > 0
    assert loss.producer_batches == sum(batch.has_producer_id for batch in plain) > 0
    assert loss.transactional_batches == sum(batch.is_transactional for batch in plain) > 0
    assert loss.timestamps == sum(batch.record_count for batch in plain)
    assert "control batches" in loss.describe()
    headers = convert(read_batches(java_batch("v2-gzip")), 1).loss
    assert (headers.headers, headers.timestamps, headers.control_batches) == (60, 0, 0)
    assert headers.describe() == "60 headers"


@pytest.mark.parametrize(
    "name", [name for name in java_batch_names() if name.startswith("v1") and "append" not in name]
)
def test_up_and_down_again_is_the_same(name: str) -> None:
    data = java_batch(name)
    up = convert(read_batches(data), 2)
    down = convert(read_batches(up.data), 1)
    assert not up.loss and not down.loss
    first = [r for b in read_batches(data) for r in b.records()]
    assert [r for b in read_batches(down.data) for r in b.records()] == first
    if "none" in name:
        assert down.data == data


def test_batches_of_the_wanted_magic_are_copied() -> None:
    data = segments("compacted")[0]
    assert convert(read_batches(data), 2).data == data


def test_a_conversion_keeps_timestamps_of_a_batch_with_a_delete_horizon() -> None:
    """Its base timestamp is the delete horizon, which its records may be older or newer than (KIP-534)."""
    builder = BatchBuilder(1 << 16, delete_horizon_ms=5_000)
    for number, timestamp in enumerate((3_000, 9_000, 5_000)):
        builder.append_with_offset(2 * number, timestamp, b"key", None, [("h", b"v" * 60)])
    batch = RecordBatch(bytes(builder.close()))
    assert (batch.is_valid(), batch.delete_horizon_ms, batch.base_timestamp) == (True, 5_000, 5_000)
    records = list(batch.records())
    assert [record.timestamp for record in records] == [3_000, 9_000, 5_000]
    (converted,) = read_batches(convert([batch], 2, codec=CompressionType.GZIP).data)
    assert list(converted.records()) == records
    assert converted.delete_horizon_ms == 5_000


@pytest.mark.parametrize("offsets", [(4, 4), (4, 3)])
def test_offsets_that_do_not_rise_are_damage_in_a_conversion(offsets: tuple[int, int]) -> None:
    builder = BatchBuilder(1 << 16, codec=CompressionType.NONE, base_offset=4)
    for _ in offsets:
        builder.append(0, None, b"value")
    data = bytearray(builder.close())
    record_bytes = (len(data) - HEADER_SIZE) // 2
    data[HEADER_SIZE + record_bytes + 3] = 2 * (offsets[1] - 4) if offsets[1] >= 4 else 1  # a zigzag offset delta
    with pytest.raises(CorruptRecord, match="is not above the other offsets"):
        convert(read_batches(data), 2, codec=CompressionType.GZIP)


@pytest.mark.parametrize(("size", "timestamp"), [(21, -1), (22, 5000)])
def test_a_message_too_small_for_a_timestamp_has_none(size: int, timestamp: int) -> None:
    data = bytearray(write_message_set([Record(0, 5000, TimestampType.CREATE_TIME, None, None)], 1))
    data[8:12] = size.to_bytes(4, "big")
    assert LegacyBatch(data).max_timestamp == timestamp
