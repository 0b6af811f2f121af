"""`retention-forecast` and `compact-forecast`: what a broker will delete from a log, by segment.

The rules are in retention_rules.py and compaction_rules.py; this module computes their input. Retention needs batch
headers. Compaction also needs record keys, to find the latest record of each key. Removable bytes are those of keys,
values and headers before compression; a batch that becomes empty also frees its header.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.jobs.compaction_rules import CleanableRange
from kafkatools.pipeline.jobs.forecast_segments import LogSegments, retention_rows, segments_of
from kafkatools.pipeline.jobs.retention_rules import Retention
from kafkatools.pipeline.sources.log.files import LogFile

RETENTION_SCHEMA = (
    "topic string, partition int, baseOffset bigint, isActive boolean, bytes bigint, largestTimestamp timestamp, "
    "reason string, due timestamp, isDue boolean, waitsFor bigint, bytesUntilSize bigint"
)


def measure_segments(files: Iterable[LogFile], batches: DataFrame) -> list[LogSegments]:
    """Return the segments of each partition with sizes from the files and timestamps from the headers in `batches` (-1
    without batches). `files` must be sorted by partition. Runs a Spark query."""
    times = (
        batches.groupBy("file")
        .agg(
            f.max(f.unix_millis("maxTimestamp")).alias("newest"),
            f.min_by(f.unix_millis("maxTimestamp"), "position").alias("first"),
        )
        .collect()
    )
    return segments_of(files, {row.file: (row.newest, row.first) for row in times})


def retention_forecast(
    spark: SparkSession, logs: Iterable[LogSegments], settings: Mapping[str, Retention], now_ms: int
) -> DataFrame:
    """Return the rows of `retention_rows` as a DataFrame with RETENTION_SCHEMA."""
    return spark.createDataFrame(retention_rows(logs, settings, now_ms), RETENTION_SCHEMA)


# -- Compaction --


def compact_forecast(
    records: DataFrame, logs: Sequence[LogSegments], ranges: Mapping[TopicPartition, CleanableRange]
) -> DataFrame:
    """Return a row for each segment below the first uncleanable offset that has records, with the number of those that
    the cleaner would remove now. `records` need headers and metadata columns.

    `superseded` records have a later record with the same key in the dirty part, `aborted` ones belong to aborted
    transactions, and `withoutKey` ones are always dropped. `tombstones` are counted but not removed: they stay until
    delete.retention.ms after the first cleaning that sees them.
    """
    rows = _with_segments(records, logs, ranges)
    is_aborted = f.coalesce(f.col("transaction") == "aborted", f.lit(False))
    is_mapped = ~is_aborted & (f.col("offset") >= f.col("firstDirty"))
    by_key = Window.partitionBy("topic", "partition", "key")
    latest = f.max(f.when(is_mapped, f.col("offset"))).over(by_key)
    marked_rows = rows.withColumn("isAborted", is_aborted).withColumn("latest", latest)
    is_superseded = (
        ~f.col("isAborted") & f.col("key").isNotNull() & f.coalesce(f.col("latest") > f.col("offset"), f.lit(False))
    )
    is_keyless = ~f.col("isAborted") & f.col("key").isNull()
    goes = f.col("isAborted") | is_superseded | is_keyless
    is_tombstone = ~goes & f.col("value").isNull()

    def counted(which: Column) -> Column:
        return f.count(f.when(which, 1))

    return (
        marked_rows.groupBy("topic", "partition", "baseOffset", "segmentBytes", "firstDirty", "isDue", "dirtyRatio")
        .agg(
            f.count("*").alias("records"),
            counted(is_superseded).alias("superseded"),
            counted(f.col("isAborted")).alias("aborted"),
            counted(is_keyless).alias("withoutKey"),
            counted(is_tombstone).alias("tombstones"),
            f.coalesce(f.sum("recordBytes"), f.lit(0)).alias("recordBytes"),
            f.coalesce(f.sum(f.when(goes, f.col("recordBytes"))), f.lit(0)).alias("removableBytes"),
        )
        .withColumn("isDirty", f.col("baseOffset") >= f.col("firstDirty"))
        .select(
            "topic", "partition", "baseOffset", "segmentBytes", "isDirty", "records", "superseded", "aborted",
            "withoutKey", "tombstones", "recordBytes", "removableBytes", "isDue", "dirtyRatio",
        )
        .orderBy("topic", "partition", "baseOffset")
    )  # fmt: skip


_SEGMENT_RECORDS = (
    "topic string, partition int, offset bigint, key binary, value binary, transaction string, recordBytes bigint, "
    "baseOffset bigint, segmentBytes bigint, firstDirty bigint, isDue boolean, dirtyRatio double"
)


def _with_segments(
    records: DataFrame, logs: Sequence[LogSegments], ranges: Mapping[TopicPartition, CleanableRange]
) -> DataFrame:
    """Return the cleanable records with the columns of their segments; values are reduced to null or empty."""
    headers = f.aggregate(
        f.coalesce(f.col("headers"), f.array()),
        f.lit(0),
        lambda total, header: (
            total + f.octet_length(header["key"]) + f.coalesce(f.octet_length(header["value"]), f.lit(0))
        ),
    )
    size = f.coalesce(f.octet_length("key"), f.lit(0)) + f.coalesce(f.octet_length("value"), f.lit(0)) + headers
    value = f.when(f.col("value").isNotNull(), f.lit(b""))
    record_bytes = size.cast("bigint").alias("recordBytes")
    rows = records.select("topic", "partition", "offset", "key", value.alias("value"), "transaction", record_bytes)
    return rows.mapInArrow(_SegmentFinder(logs, ranges), _SEGMENT_RECORDS)


class _SegmentFinder:
    """A `mapInArrow` function that adds each record's segment and drops records that cannot be cleaned yet or whose
    partition has no cleanable range."""

    def __init__(self, logs: Sequence[LogSegments], ranges: Mapping[TopicPartition, CleanableRange]) -> None:
        self._segments = {tuple(log.partition): list(log.segments) for log in logs}
        self._ranges = {tuple(partition): cleanable for partition, cleanable in ranges.items()}

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for topic, partition in set(zip(batch["topic"].to_pylist(), batch["partition"].to_pylist(), strict=True)):
                cleanable = self._ranges.get((topic, partition))
                if cleanable is None:
                    continue
                is_partition = pc.and_(pc.equal(batch["topic"], topic), pc.equal(batch["partition"], partition))
                below = pc.less(batch["offset"], cleanable.first_uncleanable_offset)
                rows = batch.filter(pc.and_(is_partition, below))
                segments = self._segments[(topic, partition)]
                bases = np.array([segment.base_offset for segment in segments], np.int64)
                sizes = np.array([segment.size_bytes for segment in segments], np.int64)
                places = np.maximum(np.searchsorted(bases, rows["offset"].to_numpy(), side="right") - 1, 0)
                added = [
                    pa.array(bases[places]),
                    pa.array(sizes[places]),
                    pa.repeat(pa.scalar(cleanable.first_dirty_offset, pa.int64()), rows.num_rows),
                    pa.repeat(pa.scalar(cleanable.is_due, pa.bool_()), rows.num_rows),
                    pa.repeat(pa.scalar(cleanable.dirty_ratio, pa.float64()), rows.num_rows),
                ]
                yield pa.RecordBatch.from_arrays([*rows.columns, *added], names=[*rows.schema.names, *_PLACES])


_PLACES = ("baseOffset", "segmentBytes", "firstDirty", "isDue", "dirtyRatio")
