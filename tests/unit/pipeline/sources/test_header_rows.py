"""Rows that the headers of batches determine are those that the records give, on logs of every kind."""

from __future__ import annotations

import pathlib
import random
import sys
from dataclasses import replace
from typing import NamedTuple

import pytest
from support.requirements import require

try:
    import numpy as np
    import pyarrow as pa
except ImportError:
    require("pyarrow is not installed: pip install '.[sql]'")

sys.path.append(str(pathlib.Path(__file__).parents[2] / "core" / "records"))

from records_truth import recorded_names, segments, true_records  # noqa: E402
from support.log_batches import emptied, make_batch, make_marker, set_crc  # noqa: E402

from kafkatools.core.records import kernel  # noqa: E402
from kafkatools.core.records.builder import BatchBuilder  # noqa: E402
from kafkatools.core.records.columns import Record, TimestampType  # noqa: E402
from kafkatools.core.records.legacy import write_message_set  # noqa: E402
from kafkatools.pipeline.run.reports import RECORDS, SplitReport  # noqa: E402
from kafkatools.pipeline.sources.arrow_rows import ArrowRows  # noqa: E402
from kafkatools.pipeline.sources.log.options import read_options  # noqa: E402
from kafkatools.pipeline.sources.log.plan import plan_tasks  # noqa: E402
from kafkatools.pipeline.sources.log.reader import read_task  # noqa: E402
from kafkatools.pipeline.sources.record_bounds import RecordBounds  # noqa: E402
from kafkatools.pipeline.sources.schema import METADATA_COLUMNS, RECORD_COLUMNS, arrow_schema_of  # noqa: E402

ALL = RECORD_COLUMNS | METADATA_COLUMNS
KNOWN = [name for name in ALL if name not in ("key", "value")]
NOW_MS = 1_700_000_000_000
HEADER_BYTES = 61


class Reading(NamedTuple):
    rows: pa.Table
    reports: list[SplitReport]


def read(path: pathlib.Path, columns: list[str], bounds: RecordBounds | None = None, **options: str) -> Reading:
    parsed = read_options({"path": str(path), **options})
    schema = arrow_schema_of({name: ALL[name] for name in columns})
    reports: list[SplitReport] = []
    tasks = plan_tasks(parsed, columns, bounds or RecordBounds())
    batches = [batch for task in tasks for batch in read_task(task, schema, parsed.reading, reports.append)]
    return Reading(pa.Table.from_batches(batches, schema), reports)


# -- logs --


class LogOfBatches:
    """A log that grows by random batches: codecs, gaps of compaction, broker's timestamps, transactions, damage."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.next_offset = 0
        self.data = bytearray()
        self.open: list[int] = []

    def batch(self) -> bytes:
        chance = self.chance
        size = chance.choice((1, 2, 7, 40))
        producer = chance.choice((-1, -1, 1, 2, 3))
        is_transactional = producer > 0 and chance.random() < 0.7
        builder = BatchBuilder(
            1 << 16, chance.choice((0, 0, 1, 2, 3, 4)), base_offset=self.next_offset, producer_id=producer,
            producer_epoch=0 if producer > 0 else -1, base_sequence=-1 if producer < 0 else 2**31 - 10,
            is_transactional=is_transactional, partition_leader_epoch=chance.randrange(4),
            timestamp_type=chance.choice((TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)),
            log_append_time=NOW_MS + chance.randrange(1000),
        )  # fmt: skip
        gap = chance.choice((1, 1, 3))
        offset = self.next_offset + (chance.randrange(3) if gap > 1 else 0)
        for number in range(size):
            time = NOW_MS + chance.randrange(1000)
            builder.append_with_offset(offset, time, b"key %d" % (number % 5), b"value" * chance.randrange(9))
            last, offset = offset, offset + chance.randint(1, gap)
        last += chance.randrange(3) if gap > 1 else 0
        builder.override_last_offset(last)
        self.next_offset = last + 1
        if is_transactional:
            self.open.append(producer)
        batch = bytes(builder.close())
        return bytes(emptied(batch)) if chance.random() < 0.1 else batch

    def marker(self) -> bytes:
        marker = make_marker(self.open.pop(), 0, commit=self.chance.random() < 0.5)
        marker[:8] = self.next_offset.to_bytes(8, "big")
        self.next_offset += 1
        return bytes(marker)

    def grow(self, batches: int) -> None:
        for _ in range(batches):
            batch = self.marker() if self.open and self.chance.random() < 0.3 else self.batch()
            if self.chance.random() < 0.05:
                spot = self.chance.randrange(21, len(batch))
                batch = batch[:spot] + bytes((batch[spot] ^ 0x55,)) + batch[spot + 1 :]
            self.data += batch


def write_log(place: pathlib.Path, seed: int) -> int:
    """Write two segments, now and then with messages of an old format first; returns the end of the log."""
    directory = place / f"orders-{seed % 3}"
    directory.mkdir()
    log = LogOfBatches(random.Random(seed))
    if seed % 4 == 0:
        old = [Record(n, NOW_MS + n, TimestampType.CREATE_TIME, b"k", b"%d" % n) for n in range(9)]
        log.data += write_message_set(old, 1, seed % 8 // 4)
        log.next_offset = 9
    for _ in range(2):
        name = directory / f"{log.next_offset if log.next_offset > 9 else 0:020d}.log"
        log.grow(30)
        name.write_bytes(log.data)
        log.data.clear()
    return log.next_offset


def some_bounds(chance: random.Random, end: int) -> RecordBounds:
    start, stop = sorted((chance.randrange(end), chance.randrange(end + 1)))
    bounds = RecordBounds(start_offset=start, end_offset=stop + 1)
    if chance.random() < 0.5:
        bounds = replace(bounds, start_timestamp_ms=NOW_MS + chance.randrange(500))
    if chance.random() < 0.3:
        bounds = replace(bounds, end_timestamp_ms=NOW_MS + 500 + chance.randrange(500))
    return bounds


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_headers_give_the_rows_and_the_report_of_the_records(tmp_path: pathlib.Path, seed: int) -> None:
    end = write_log(tmp_path, seed)
    chance = random.Random(seed)
    for _ in range(12):
        columns = chance.sample(KNOWN, chance.randint(1, len(KNOWN)))
        columns = chance.choice((columns, ["partition"], ["topic", "offset"]))
        bounds = some_bounds(chance, end) if chance.random() < 0.6 else RecordBounds()
        options = {"isolationLevel": chance.choice(("read_committed", "read_uncommitted"))}
        decoded = read(tmp_path, columns, bounds, decodeRecords="true", **options)
        assert read(tmp_path, columns, bounds, **options) == decoded


# -- what is decoded --


def unreadable(batch: bytes | bytearray) -> bytearray:
    """The batch with records that no decoder reads, and a valid checksum."""
    changed = bytearray(batch)
    changed[HEADER_BYTES:] = b"\xff" * (len(batch) - HEADER_BYTES)
    set_crc(changed)
    return changed


def log_of(place: pathlib.Path, *batches: bytes | bytearray) -> pathlib.Path:
    directory = place / "orders-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))
    return place


def batch_of(
    base_offset: int, count: int, codec: int = 0, kind: TimestampType = TimestampType.LOG_APPEND_TIME
) -> bytes:
    builder = BatchBuilder(
        1 << 16, codec, base_offset=base_offset, timestamp_type=kind, log_append_time=NOW_MS, producer_id=7,
        producer_epoch=1, base_sequence=base_offset,
    )  # fmt: skip
    for number in range(count):
        builder.append(NOW_MS + number, b"key", b"value %d" % number)
    return bytes(builder.close())


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("columns", [["partition"], ["offset"], KNOWN])
def test_no_record_is_decoded(tmp_path: pathlib.Path, codec: int, columns: list[str]) -> None:
    log = log_of(tmp_path, *(unreadable(batch_of(start, 10, codec)) for start in (0, 10, 20)))
    rows, (report,) = read(log, columns, RecordBounds(start_offset=3, end_offset=25))
    assert (rows.num_rows, report.records, report.damages) == (22, 22, [])
    assert (report.first_offset, report.last_offset) == (3, 24)
    if "offset" in columns:
        assert rows["offset"].to_pylist() == list(range(3, 25))
    if "timestamp" in columns:
        assert set(rows["timestamp"].cast(pa.int64()).to_pylist()) == {NOW_MS * 1000}
    for option in ({"decodeRecords": "true"}, {"reportPath": str(tmp_path / "reports"), "decodeRecords": "true"}):
        rows, (report,) = read(log, columns, **option)
        assert [damage.kind for damage in report.damages] == [RECORDS] * 3


def test_a_column_of_the_records_needs_them(tmp_path: pathlib.Path) -> None:
    log = log_of(tmp_path, unreadable(batch_of(0, 5, kind=TimestampType.CREATE_TIME)))
    assert read(log, ["partition", "offset", "timestampType"]).rows.num_rows == 5
    for column in ("timestamp", "key", "value"):
        rows, (report,) = read(log, ["partition", column])
        assert (rows.num_rows, len(report.damages)) == (0, 1)
    rows, (report,) = read(log, ["partition"], RecordBounds(start_timestamp_ms=5))
    assert (rows.num_rows, len(report.damages)) == (0, 1)


def test_a_batch_with_gaps_needs_its_records_for_offsets_only(tmp_path: pathlib.Path) -> None:
    gaps = make_batch([b"a", b"b"], base_offset=10, last_offset_delta=4)
    log = log_of(tmp_path, batch_of(0, 10), unreadable(gaps), batch_of(15, 5))
    assert read(log, ["partition"]).rows.num_rows == 17
    assert read(log, ["offset"]).rows["offset"].to_pylist() == [*range(10), *range(15, 20)]
    rows, (report,) = read(log, ["partition"], RecordBounds(start_offset=12))
    assert (rows.num_rows, len(report.damages)) == (5, 1)


def test_the_checksum_is_verified(tmp_path: pathlib.Path) -> None:
    damaged = bytearray(batch_of(10, 10))
    damaged[-1] ^= 1
    rows, (report,) = read(log_of(tmp_path, batch_of(0, 10), damaged, batch_of(20, 10)), ["partition"])
    assert (rows.num_rows, len(report.damages)) == (20, 1)


@pytest.mark.parametrize("count", [-1, 4, 1 << 20])
def test_a_count_that_the_batch_cannot_hold_is_not_believed(tmp_path: pathlib.Path, count: int) -> None:
    data = bytearray(batch_of(0, 3))
    data[23:27] = (2 if count == 4 else count - 1).to_bytes(4, "big", signed=True)
    data[57:61] = count.to_bytes(4, "big", signed=True)
    set_crc(data)
    log = log_of(tmp_path, data)
    assert read(log, ["partition"]) == read(log, ["partition"], decodeRecords="true")
    assert len(read(log, ["partition"]).reports[0].damages) == 1


@pytest.mark.parametrize("base_offset", [-2, -(1 << 63), (1 << 63) - 4, (1 << 63) - 3])
@pytest.mark.parametrize("bounds", [RecordBounds(), RecordBounds(end_offset=50)])
def test_a_base_offset_that_no_log_has_is_not_believed(
    tmp_path: pathlib.Path, base_offset: int, bounds: RecordBounds
) -> None:
    data = bytearray(batch_of(0, 3))
    data[:8] = base_offset.to_bytes(8, "big", signed=True)
    log = log_of(tmp_path, data)
    assert read(log, ["partition"], bounds) == read(log, ["partition"], bounds, decodeRecords="true")


@pytest.mark.parametrize("text", ["yes", "1"])
def test_the_option_is_true_or_false(text: str) -> None:
    with pytest.raises(Exception, match=f"^decodeRecords must be true or false, not '{text}'$"):
        read_options({"path": "x", "decodeRecords": text})


def test_strict_decodes_the_records() -> None:
    assert read_options({"path": "x", "strict": "true"}).reading.decodes_records
    assert not read_options({"path": "x", "strict": "true", "decodeRecords": "false"}).reading.decodes_records
    assert not read_options({"path": "x"}).reading.decodes_records


# -- sizes of the Arrow batches --


@pytest.mark.parametrize("target", [1, 7, 64, 1000])
def test_large_batches_are_divided(target: int) -> None:
    data = b"".join(batch_of(start, 100) for start in range(0, 300, 100))
    table, status = kernel_table(data)
    schema = arrow_schema_of({name: ALL[name] for name in ("offset", "sequence", "batchPosition")})
    rows = ArrowRows(schema, "orders", 0, RecordBounds(start_offset=50, end_offset=250), target_rows=target)
    assert rows.known_by_headers(table).all()
    batches = list(rows.add_headers(table, table[:, 0]))
    assert all(batch.num_rows <= target for batch in batches)
    whole = pa.Table.from_batches([*batches, rows.take()], schema)
    assert whole["offset"].to_pylist() == whole["sequence"].to_pylist() == list(range(50, 250))
    starts = [int(table[offset // 100, 0]) for offset in range(50, 250)]
    assert whole["batchPosition"].to_pylist() == starts


def kernel_table(data: bytes) -> tuple[np.ndarray, int]:
    from array import array

    table, status = array("q", bytes(8 * kernel.HEADER_WIDTH * 3000)), array("q", bytes(16))
    count = kernel.scan_batches(data, 0, len(data), table, status)
    return np.frombuffer(table, np.int64).reshape(-1, kernel.HEADER_WIDTH)[:count], count


@pytest.mark.parametrize("name", recorded_names())
@pytest.mark.parametrize(("start", "end"), [(0, 1 << 62), (0, 50), (7, 90), (3, 3)])
def test_headers_count_as_many_records_as_a_broker_stored(
    name: str, start: int, end: int, tmp_path: pathlib.Path
) -> None:
    log_of(tmp_path, *segments(name))
    rows, _ = read(tmp_path, ["partition"], RecordBounds(start_offset=start, end_offset=end))
    assert rows.num_rows == sum(start <= record[0] < end for record in true_records(name))
