"""The forecasts of files: retention against what Apache Kafka's tool printed, compaction against the cleaner itself."""

from __future__ import annotations

import pathlib
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support import recorded_segments
from support.compacted_logs import CONFIG, clean, data_offsets, put, write_rounds
from support.dumped_records import batches_of
from support.log_batches import NOW_MS

from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.pipeline.jobs.compaction_rules import Compaction
from kafkatools.pipeline.jobs.forecast import compact_forecast, measure_segments, retention_forecast
from kafkatools.pipeline.jobs.forecast_segments import cleanable_ranges
from kafkatools.pipeline.jobs.retention_rules import Retention
from kafkatools.pipeline.run.session import register
from kafkatools.pipeline.sources.log.files import find_log_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
