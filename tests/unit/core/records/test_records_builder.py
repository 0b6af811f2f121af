"""Building batches: room, growth, offsets, producer state, columns."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.records.batch import RecordBatch, stamp_batch
from kafkatools.core.records.builder import BatchBuilder, RowColumns
from kafkatools.core.records.columns import TimestampType, decode_headers, encode_headers
from kafkatools.core.records.compression import CompressionType
from kafkatools.core.records.layout import HEADER_SIZE

CELLS = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=10), CELLS), max_size=3)
ROWS = st.lists(st.tuples(st.integers(-1, 2**62), CELLS, CELLS, HEADERS), max_size=30)


@pytest.mark.slow
@settings(deadline=None)
@given(ROWS, st.sampled_from(list(CompressionType)), st.integers(0, 2**40))
def test_what_was_appended_is_read(rows: list, codec: CompressionType, base_offset: int) -> None:
    builder = BatchBuilder(100, codec, base_offset=base_offset)
    for row in rows:
        builder.append(*row)
    closed = builder.close()
    assert len(closed) == builder.estimated_size_bytes
    if not rows:
        assert closed == b""
        return
    batch = RecordBatch(closed)
    batch.ensure_valid()
    assert (batch.record_count, batch.next_offset) == (len(rows), base_offset + len(rows))
    assert batch.max_timestamp == max(row[0] for row in rows)
    read = [(r.offset - base_offset, r.timestamp, r.key, r.value, r.headers) for r in batch.records()]
    assert read == [(i, row[0], row[1], row[2], tuple(row[3])) for i, row in enumerate(rows)]


@pytest.mark.slow
@settings(deadline=None)
@given(ROWS, st.sampled_from([0, 1]), st.integers(61, 2000), st.sampled_from([1.0, 0.3]), st.booleans())
def test_columns_are_taken_as_records_would_be(
    rows: list, codec: int, capacity: int, ratio: float, has_headers: bool
) -> None:
    rows = rows if has_headers else [(*row[:3], []) for row in rows]
    columns = RowColumns.of_values([row[2] for row in rows], [row[1] for row in rows])
    columns.timestamps = array("q", [row[0] for row in rows])
    columns.headers = [encode_headers(row[3]) for row in rows] if has_headers else None
    one = BatchBuilder(capacity, codec, estimated_ratio=ratio)
    taken = one.append_columns(columns, 0, len(rows), 5)
    other = BatchBuilder(capacity, codec, estimated_ratio=ratio)
    for count, row in enumerate(rows):
        if not other.has_room_for(other.record_size(*row)):
            assert taken == count
            break
        other.append(*row)
    assert one.record_count == taken == other.record_count
    assert bytes(one.close()) == bytes(other.close())


def test_rows_without_keys_and_timestamps_get_null_and_now() -> None:
    builder = BatchBuilder(1000)
    assert builder.append_columns(RowColumns.of_values([b"a", None, b""]), 1, 3, 17) == 2
    records = list(RecordBatch(builder.close()).records())
    assert [(r.timestamp, r.key, r.value) for r in records] == [(17, None, None), (17, None, b"")]


def test_a_row_outside_its_buffer_is_refused() -> None:
    for position, length in ((3, 2), (-1, 1), (2**31 - 1, 1), (0, 5)):
        columns = RowColumns(b"abcd", array("i", [0, position]), array("i", [1, length]))
        with pytest.raises(ValueError, match="row 1 lies outside"):
            BatchBuilder(1000).append_columns(columns, 0, 2, 0)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="must have the same length"):
        RowColumns(b"", array("i", [0]), array("i"))
    with pytest.raises(ValueError, match="key_positions and key_lengths must be given together"):
        RowColumns(b"", array("i"), array("i"), key_positions=array("i"))


def test_room_is_judged_as_kafka_does() -> None:
    builder = BatchBuilder(100)
    assert builder.has_room_for(5000)
    assert not builder.is_full
    builder.append(0, None, b"x" * 20)
    assert builder.estimated_size_bytes == HEADER_SIZE + 27
    assert builder.has_room_for(12)
    assert not builder.has_room_for(13)
    assert not builder.is_full
    builder.append(0, None, b"x" * 5)
    assert builder.is_full
    assert len(builder.close()) == 100


def test_the_estimated_ratio_makes_room() -> None:
    plain = BatchBuilder(1000, CompressionType.GZIP, estimated_ratio=1.0)
    tight = BatchBuilder(1000, CompressionType.GZIP, estimated_ratio=0.1)
    rows = RowColumns.of_values([b"v" * 93] * 1000)
    # 102 bytes a record, from the 64th offset delta on 103: 61 + int(7 * 102 * 1.05) + 102 <= 1000, with 8 it is not
    assert plain.append_columns(rows, 0, 1000, 0) == 8
    assert tight.append_columns(rows, 0, 1000, 0) == 79
    tight.close()
    assert tight.compression_ratio < 0.1


def test_a_given_buffer_is_used_until_it_is_too_small() -> None:
    buffer = bytearray(200)
    builder = BatchBuilder(200, buffer=buffer)
    builder.append(0, None, b"fits")
    closed = builder.close()
    assert isinstance(closed, memoryview)
    assert closed.obj is buffer
    closed.release()
    large = BatchBuilder(200, buffer=buffer)
    large.append(0, None, bytes(1000))
    assert len(buffer) == 200
    assert next(RecordBatch(large.close()).records()).value == bytes(1000)


def test_producer_state_and_flags() -> None:
    builder = BatchBuilder(500, base_offset=7, partition_leader_epoch=3)
    builder.append(1, b"k", b"v")
    builder.set_producer_state(4000, 2, 2147483647, is_transactional=True)
    batch = RecordBatch(builder.close())
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4000, 2, 2147483647)
    assert (batch.is_transactional, batch.is_control, batch.partition_leader_epoch) == (True, False, 3)
    with pytest.raises(ValueError, match="closed batch"):
        builder.set_producer_state(1, 1, 1)
    builder.reopen_and_rewrite_producer_state(4000, 3, 0, is_transactional=True)
    again = RecordBatch(builder.close())
    again.ensure_valid()
    assert (again.producer_epoch, again.base_sequence, next(again.records()).value) == (3, 0, b"v")


def test_sequences_go_round() -> None:
    builder = BatchBuilder(500, producer_id=1, producer_epoch=0, base_sequence=2147483647)
    builder.append(0, None, b"")
    builder.append(0, None, b"")
    assert RecordBatch(builder.close()).last_sequence == 0


def test_closed_batches_take_nothing() -> None:
    builder = BatchBuilder(500)
    builder.append(0, None, b"")
    builder.close()
    assert not builder.has_room_for(1)
    assert builder.is_full
    assert builder.append_columns(RowColumns.of_values([b"a"]), 0, 1, 0) == 0
    with pytest.raises(ValueError, match="closed"):
        builder.append(0, None, b"")


def test_offsets_with_holes() -> None:
    builder = BatchBuilder(500, base_offset=100)
    assert builder.append_with_offset(103, 5, b"a", None) == 3
    assert builder.append_with_offset(110, 6, b"b", None) == 10
    with pytest.raises(ValueError, match="is not above the other offsets"):
        builder.append_with_offset(110, 6, b"c", None)
    builder.override_last_offset(120)
    batch = RecordBatch(builder.close())
    assert [r.offset for r in batch.records()] == [103, 110]
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (100, 120, 2)


def test_a_stamped_batch_is_valid_and_keeps_its_records() -> None:
    builder = BatchBuilder(500)
    builder.append(1000, b"k", b"v")
    builder.append(999, None, b"w")
    batch = bytearray(b"before") + bytearray(builder.close())
    stamp_batch(batch, 6, base_offset=77, leader_epoch=5)
    view = RecordBatch(batch, 6)
    view.ensure_valid()
    assert [(r.offset, r.timestamp) for r in view.records()] == [(77, 1000), (78, 999)]
    stamp_batch(batch, 6, base_offset=78, leader_epoch=6, append_time=5000)
    view = RecordBatch(batch, 6)
    view.ensure_valid()
    assert (view.timestamp_type, view.max_timestamp, view.base_timestamp) == (TimestampType.LOG_APPEND_TIME, 5000, 1000)
    assert [(r.offset, r.timestamp) for r in view.records()] == [(78, 5000), (79, 5000)]
    assert view.partition_leader_epoch == 6


def test_columns_of_a_batch() -> None:
    builder = BatchBuilder(500, base_offset=10)
    builder.append(1, b"k", b"v", (("a", b"1"), ("a", None)))
    builder.append(2, None, None)
    builder.append(3, b"", b"")
    columns = RecordBatch(builder.close()).columns()
    assert len(columns) == 3
    assert [columns.key(i) for i in range(3)] == [b"k", None, b""]
    assert [columns.value(i) for i in range(3)] == [b"v", None, b""]
    assert columns.headers(0) == (("a", b"1"), ("a", None))
    part = columns.slice(1, 3)
    assert [(r.offset, r.timestamp) for r in part] == [(11, 2), (12, 3)]
    assert part.buffer is columns.buffer


@pytest.mark.slow
@given(HEADERS)
def test_headers_are_decoded_as_they_were_encoded(headers: list) -> None:
    assert decode_headers(encode_headers(headers)) == tuple(headers)


def test_headers_are_read_as_they_are_encoded_whatever_their_names() -> None:
    builder = BatchBuilder(1000)
    headers = [(b"\xff\xfe", b"1"), (b"", None), (b"name", b"")]
    builder.append(1, None, b"value", headers)
    builder.append(2, None, b"value")
    columns = RecordBatch(builder.close()).columns()
    assert [columns.encoded_headers(row) for row in (0, 1)] == [encode_headers(headers), b"\x00"]
