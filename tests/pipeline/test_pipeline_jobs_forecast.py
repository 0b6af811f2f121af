"""The forecasts of files: retention against what Apache Kafka's tool printed, compaction against the cleaner itself."""

from __future__ import annotations

import pathlib
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support import recorded_segments
from support.dumped_records import batches_of
from support.log_batches import NOW_MS, TRANSACTIONAL, make_batch, make_marker

from kafkatools.core.log.cleaner.cleaner import Cleaner
from kafkatools.core.log.cleaner.manager import LogCleanerManager
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.partition.segment_swap import swap_in
from kafkatools.core.log.producers.append import AppendOrigin
from kafkatools.core.records.batch import read_batches
from kafkatools.pipeline.jobs.compaction_rules import Compaction
from kafkatools.pipeline.jobs.forecast import cleanable_ranges, compact_forecast, measure_segments, retention_forecast
from kafkatools.pipeline.jobs.retention_rules import Retention
from kafkatools.pipeline.run.session import register
from kafkatools.pipeline.sources.log.files import find_log_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.01,
    segment_bytes=1 << 20,
    index_interval_bytes=100,
)


def test_retention_of_recorded_segments(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    register(spark)
    (tmp_path / "ledger-0").symlink_to(recorded_segments.log_directory("multi-segment"))
    newest: dict[str, int] = {}
    for batch in batches_of("topics", "multi-segment", "log-all"):
        newest[batch.file] = max(newest.get(batch.file, -1), batch.timestamp)
    files = find_log_files(str(tmp_path))
    batches = spark.read.format("kafka-log").option("table", "batches").load(str(tmp_path))
    logs = measure_segments(files, batches)
    now_ms = sorted(newest.values())[1] + 1001
    settings = {"other": Retention(-1), "": Retention(1000)}
    rows = retention_forecast(spark, logs, settings, now_ms).orderBy("baseOffset").collect()
    assert [row.baseOffset for row in rows] == [int(name.split(".")[0]) for name in sorted(newest)]
    assert [round(row.largestTimestamp.timestamp() * 1000) for row in rows] == [newest[name] for name in sorted(newest)]
    assert [row.isDue for row in rows] == [True, True] + [False] * (len(rows) - 2)
    assert [round(row.due.timestamp() * 1000) - 1001 for row in rows[2:]] == [newest[name] for name in sorted(newest)][
        2:
    ]
    assert [row.isActive for row in rows] == [False] * (len(rows) - 1) + [True]
    assert [row.bytes for row in rows] == [file.size_bytes for file in files]


def append(log: PartitionLog, batch: bytearray) -> None:
    log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)


def put(log: PartitionLog, *pairs: tuple[bytes, bytes | None], **header: int) -> None:
    append(log, make_batch([v for _, v in pairs], keys=[k for k, _ in pairs], **header))


def write_rounds(log: PartitionLog, first: int) -> None:
    """Some segments: keys again and again, tombstones, a transaction that is aborted and one that is committed."""
    for number in range(first, first + 4):
        for key in range(12):
            put(log, (b"k%d" % ((key * 7 + number) % 20), b"value %d" % number), (b"once %d %d" % (number, key), b"x"))
        put(log, (b"k%d" % number, None))
        for producer, is_commit in ((100 + number, False), (200 + number, True)):
            header = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL}
            put(log, (b"k2", b"in a transaction"), (b"k3", b"y"), **header)
            append(log, make_marker(producer, 0, commit=is_commit))
        log.roll(NOW_MS)


def clean(log: PartitionLog) -> None:
    manager = LogCleanerManager()
    grabbed = manager.grab_filthiest_log([log], NOW_MS)
    assert grabbed is not None
    _, wanted = grabbed
    stats = Cleaner(RealFileSystem(), dedupe_buffer_bytes=1 << 16).clean(
        wanted, NOW_MS, lambda plan, cleaned: swap_in(log, plan, cleaned, NOW_MS)
    )
    assert manager.done_cleaning(log, wanted, stats, NOW_MS)


def data_offsets(log: PartitionLog) -> set[int]:
    return {
        record.offset
        for segment in log.segments
        for batch in read_batches(segment.log.read_at(0, segment.size_bytes))
        if not batch.is_control
        for record in batch.records()
    }


@pytest.fixture
def half_clean(tmp_path: pathlib.Path) -> PartitionLog:
    """A log whose first part was cleaned, its checkpoint beside it, and that grew since."""
    log = PartitionLog.open(str(tmp_path / "profiles-0"), CONFIG, RealFileSystem(), NOW_MS)
    write_rounds(log, 0)
    clean(log)
    write_rounds(log, 3)
    put(log, (b"k0", b"in the active segment"))
    log.flush()
    (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\nprofiles 0 {log.first_dirty_offset}\n")
    return log


def test_compaction_is_what_the_cleaner_does(
    spark: SparkSession, half_clean: PartitionLog, tmp_path: pathlib.Path
) -> None:
    register(spark)
    log = half_clean
    files = find_log_files(str(tmp_path))
    source = spark.read.format("kafka-log").option("includeHeaders", "true").option("includeMetadata", "true")
    logs = measure_segments(files, spark.read.format("kafka-log").option("table", "batches").load(str(tmp_path)))
    ranges = cleanable_ranges(logs, {"": Compaction(min_cleanable_dirty_ratio=0.01)}, NOW_MS)
    rows = compact_forecast(source.load(str(tmp_path)), logs, ranges).collect()
    bases = [segment.base_offset for segment in log.segments]
    before = data_offsets(log)
    clean(log)
    gone = before - data_offsets(log)

    def by_segment(offsets: set[int]) -> dict[int, int]:
        return Counter(max(base for base in bases if base <= offset) for offset in offsets)

    removed, held = by_segment(gone), by_segment({each for each in before if each < bases[-1]})
    assert {row.baseOffset: row.records for row in rows} == held
    told = {row.baseOffset: row.superseded + row.aborted + row.withoutKey for row in rows}
    assert {base: number for base, number in told.items() if number} == removed
    assert sum(row.aborted for row in rows) == 8 and sum(row.superseded for row in rows) > 20
    assert all(row.isDue and 0 < row.dirtyRatio < 1 for row in rows)
    assert {row.baseOffset for row in rows if not row.isDirty} == {base for base in held if base < 100}
    log.close()
