"""Batches as Arrow columns: the recorded records of every format, bounds, growth, and buffers that are used again."""

from __future__ import annotations

import pathlib
import sys
from array import array
from collections.abc import Iterator
from typing import Any

import pytest
from support.requirements import require

try:
    import pyarrow as pa
except ImportError:
    require("pyarrow is not installed: pip install '.[sql]'")

sys.path.append(str(pathlib.Path(__file__).parents[2] / "core" / "records"))

from records_truth import recorded_names, segments, true_records  # noqa: E402
from support.file_batches import read_file_batches  # noqa: E402

from kafkatools.core.records import kernel  # noqa: E402
from kafkatools.core.records.builder import BatchBuilder  # noqa: E402
from kafkatools.core.records.columns import Record, TimestampType  # noqa: E402
from kafkatools.core.records.legacy import write_message_set  # noqa: E402
from kafkatools.pipeline.sources.arrow_rows import ArrowRows  # noqa: E402
from kafkatools.pipeline.sources.record_bounds import RecordBounds  # noqa: E402
from kafkatools.pipeline.sources.schema import (  # noqa: E402
    HEADER_COLUMNS,
    METADATA_COLUMNS,
    RECORD_COLUMNS,
    arrow_schema_of,
)

ALL = RECORD_COLUMNS | METADATA_COLUMNS
CONTROL = 0x20


def table_of(data: bytes) -> tuple[array[int], int]:
    table, status = array("q", bytes(8 * kernel.HEADER_WIDTH * 3000)), array("q", bytes(16))
    return table, kernel.scan_batches(data, 0, len(data), table, status)


def runs(table: array[int], rows: int) -> Iterator[tuple[int, int]]:
    """Stretches without control batches."""
    first = 0
    for row in range(rows + 1):
        width = kernel.HEADER_WIDTH
        is_control = row < rows and table[row * width + 3] == 2 and table[row * width + 6] & CONTROL
        if row == rows or is_control:
            if first < row:
                yield first, row
            first = row + 1


def fill(rows: ArrowRows, data: bytes, origin: int = 0) -> list[Any]:
    table, count = table_of(data)
    return [
        each for first, stop in runs(table, count) for each in rows.add_batches(data, table, first, stop, origin=origin)
    ]


def rows_of(*columns: str, bounds: RecordBounds | None = None) -> ArrowRows:
    return ArrowRows(arrow_schema_of({name: ALL[name] for name in columns}), "orders", 3, bounds)


def records_of(batch: Any) -> list[tuple[Any, ...]]:
    batch.validate(full=True)
    times = batch.column("timestamp").cast(pa.int64()).to_pylist()
    return [
        (
            row["offset"],
            time // 1000,
            row["key"],
            row["value"],
            tuple((h["key"], h["value"]) for h in row["headers"] or ()),
        )
        for row, time in zip(batch.to_pylist(), times, strict=True)
    ]


@pytest.mark.parametrize("name", recorded_names())
def test_recorded_logs_are_told_record_by_record(name: str) -> None:
    rows = ArrowRows(arrow_schema_of(RECORD_COLUMNS | HEADER_COLUMNS), "orders", 3)
    for data in segments(name):
        assert fill(rows, data) == []
    batch = rows.take()
    assert records_of(batch) == true_records(name)
    assert {(row["topic"], row["partition"]) for row in batch.to_pylist()} == {("orders", 3)}
    assert (rows.records, rows.first_offset, rows.last_offset) == (
        batch.num_rows,
        batch[4][0].as_py(),
        batch[4][-1].as_py(),
    )
    assert rows.take().num_rows == 0


@pytest.mark.parametrize("name", ["txn-java", "message-set-v1-gzip", "log-append-time"])
def test_metadata_is_that_of_the_batches(name: str) -> None:
    for data in segments(name):
        rows = rows_of(
            "offset", "timestampType", "leaderEpoch", "producerId", "producerEpoch", "sequence", "batchPosition"
        )
        fill(rows, data, origin=1000)
        want = [
            (
                record.offset, int(batch.timestamp_type), batch.partition_leader_epoch, batch.producer_id,
                batch.producer_epoch,
                -1 if batch.base_sequence < 0 else batch.base_sequence + record.offset - batch.base_offset,
                1000 + batch.position,
            )
            for batch in read_file_batches(data)
            if not batch.is_control
            for record in batch.columns()
        ]  # fmt: skip
        assert [tuple(row.values()) for row in rows.take().to_pylist()] == want


def test_sequences_go_round() -> None:
    builder = BatchBuilder(4096, producer_id=7, producer_epoch=1, base_sequence=2147483646)
    for _ in range(4):
        builder.append(1000, None, b"v")
    rows = rows_of("sequence")
    fill(rows, bytes(builder.close()))
    assert rows.take().column(0).to_pylist() == [2147483646, 2147483647, 0, 1]


def test_transactions_are_told_by_batch() -> None:
    data = segments("multi-segment")[0]
    table, count = table_of(data)
    rows = rows_of("transaction")
    states: list[str | None] = [("open", None, "aborted", "committed")[row % 4] for row in range(count)]
    rows.add_batches(data, table, 1, count, transactions=states)
    counts = [batch.record_count for batch in read_file_batches(data)]
    want = [states[row] for row in range(1, count) for _ in range(counts[row])]
    assert rows.take().column(0).to_pylist() == want


@pytest.mark.parametrize("name", ["plain-java", "codec-zstd-java", "message-set-v1-snappy"])
def test_bounds_are_exact(name: str) -> None:
    want = true_records(name)
    times = sorted(record[1] for record in want)
    low, high = times[len(times) // 4], times[-len(times) // 4]
    for bounds in (
        RecordBounds(start_offset=13, end_offset=57),
        RecordBounds(start_timestamp_ms=low, end_timestamp_ms=high),
        RecordBounds(start_offset=13, start_timestamp_ms=low),
        RecordBounds(end_offset=0),
    ):
        rows = ArrowRows(everything(), "orders", 3, bounds)
        for data in segments(name):
            fill(rows, data)
        kept = [
            record
            for record in want
            if bounds.start_offset <= record[0] < bounds.end_offset
            and bounds.start_timestamp_ms <= record[1] < bounds.end_timestamp_ms
        ]
        assert records_of(rows.take()) == kept
        assert rows.records == len(kept)


def everything() -> Any:
    return arrow_schema_of(RECORD_COLUMNS | HEADER_COLUMNS | METADATA_COLUMNS)


def test_only_wanted_columns_are_made_in_the_order_and_spelling_of_the_schema() -> None:
    schema = arrow_schema_of({"VALUE": "binary", "offset": "bigint"})
    rows = ArrowRows(schema, "orders", 3)
    fill(rows, segments("plain-java")[0])
    batch = rows.take()
    assert batch.schema.names == ["VALUE", "offset"]
    assert batch.column(0).to_pylist() == [record[3] for record in true_records("plain-java")]


def one_batch(records: list[tuple[bytes | None, bytes | None, list[tuple[bytes | str, bytes | None]]]]) -> bytes:
    builder = BatchBuilder(64 << 20)
    for number, (key, value, headers) in enumerate(records):
        builder.append(1000 + number, key, value, headers)
    return bytes(builder.close())


@pytest.mark.slow
def test_columns_grow_with_what_comes() -> None:
    records: list[Any] = [
        (b"k%d" % n, None if n % 3 else b"v" * (n % 50), [("n", b"x")] * (n % 4)) for n in range(40_000)
    ]
    records.append((b"big", b"B" * (9 << 20), [("many", b"y")] * 9000))
    rows = ArrowRows(arrow_schema_of(RECORD_COLUMNS | HEADER_COLUMNS), "orders", 3)
    assert fill(rows, one_batch(records)) == []
    assert rows.is_full
    batch = rows.take()
    batch.validate(full=True)
    assert batch.column("key").to_pylist() == [record[0] for record in records]
    assert batch.column("value").to_pylist() == [record[1] for record in records]
    assert [len(each or ()) for each in batch.column("headers").to_pylist()] == [len(record[2]) for record in records]


@pytest.mark.slow
def test_a_batch_that_was_taken_is_never_written_again() -> None:
    rows = rows_of("key", "value", "offset", "timestamp")
    want, held = [], []
    for number in range(12):
        data = one_batch([(b"%d" % (number * 100 + n), b"%d" % n, []) for n in range(100)])
        fill(rows, data)
        held.append(rows.take())
        want.append([b"%d" % (number * 100 + n) for n in range(100)])
        if number % 3 == 2:  # some are let go, so that there is something to use again
            held[number - 1], want[number - 1] = None, None  # type: ignore[call-overload]
    for batch, keys in zip(held, want, strict=True):
        if batch is not None:
            assert batch.column("key").to_pylist() == keys
            assert batch.column("offset").to_pylist() == list(range(100))


def test_names_of_headers_that_are_no_utf8_get_replacement_characters() -> None:
    rows = ArrowRows(arrow_schema_of(RECORD_COLUMNS | HEADER_COLUMNS), "orders", 3)
    fill(rows, one_batch([(None, b"v", [(b"caf\xc3\xa9", b"1"), (b"\xff\x80x", None)]), (None, b"w", [(b"ok", b"")])]))
    headers = rows.take().column("headers").to_pylist()
    assert [[tuple(each.values()) for each in row] for row in headers] == [
        [("caf\xe9", b"1"), ("\ufffd\ufffdx", None)], [("ok", b"")],
    ]  # fmt: skip


def test_timestamps_beyond_sparks_range_are_its_ends() -> None:
    builder = BatchBuilder(4096)
    for timestamp in (-(1 << 62), 0, 1 << 62):
        builder.append(timestamp, None, b"v")
    rows = rows_of("timestamp")
    fill(rows, bytes(builder.close()))
    furthest = ((1 << 63) - 1) // 1000 * 1000
    assert rows.take().column(0).cast(pa.int64()).to_pylist() == [-furthest, 0, furthest]


def test_records_before_the_damage_come_and_the_rest_is_told() -> None:
    first, second = one_batch([(None, b"a%d" % n, []) for n in range(5)]), one_batch([(None, b"b", [])])
    damaged = bytearray(first)
    damaged[57:61] = (7).to_bytes(4, "big")
    data = bytes(damaged) + second
    rows = rows_of("value")
    unread = fill(rows, data)
    assert rows.take().column(0).to_pylist() == [b"a0", b"a1", b"a2", b"a3", b"a4", b"b"]
    assert [(each.row, each.position) for each in unread] == [(0, 0)]
    packed = bytearray(segments("codec-gzip-java")[0])
    size = int.from_bytes(packed[8:12], "big") + 12
    packed[22] = 7  # a codec that there is not
    unread = fill(rows, bytes(packed))
    assert [(each.row, each.position, each.reason) for each in unread] == [(0, 0, "Unknown compression type id: 7")]
    assert size > 0 and rows.first_offset == 0


def test_a_wrapper_with_many_messages_comes_whole() -> None:
    many = [Record(n, 1000 + n, TimestampType.CREATE_TIME, b"k", b"%d" % n) for n in range(9000)]
    rows = rows_of("offset", "value", "timestampType")
    assert fill(rows, write_message_set(many, 1, 1)) == []
    batch = rows.take()
    assert batch.column(0).to_pylist() == list(range(9000))
    assert batch.column(1).to_pylist() == [record.value for record in many]
