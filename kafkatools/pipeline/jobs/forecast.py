"""`retention-forecast` and `compact-forecast`: what a broker will take away of a log, segment by segment.

The rules are in retention_rules.py and compaction_rules.py; here are the figures that they ask for. Retention needs the
headers of the batches; compaction needs the keys of the records besides: which record of a key is the latest. What the
cleaner would give back is told in bytes of records (keys, values and headers as they are, before compression); a batch
whose records all go also gives back its header.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.format.checkpoints import read_offset_checkpoint
from kafkatools.core.log.format.filenames import CLEANER_OFFSET_CHECKPOINT
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.jobs.compaction_rules import CleanableRange, Compaction, cleanable_range
from kafkatools.pipeline.jobs.retention_rules import Retention, SegmentSize, forecast_retention
from kafkatools.pipeline.sources.log.files import LogFile

RETENTION_SCHEMA = (
    "topic string, partition int, baseOffset bigint, isActive boolean, bytes bigint, largestTimestamp timestamp, "
    "reason string, due timestamp, isDue boolean, waitsFor bigint, bytesUntilSize bigint"
)
_LATEST_TIME = 253_402_300_799_000


class LogSegments(NamedTuple):
    """The segments of one partition, oldest first."""

    partition: TopicPartition
    segments: Sequence[SegmentSize]
    log_start_offset: int
    directory: str


def measure_segments(files: Iterable[LogFile], batches: DataFrame) -> list[LogSegments]:
    """The figures of every segment: sizes from the files, timestamps from the headers of `batches`."""
    times = (
        batches.groupBy("file")
        .agg(
            f.max(f.unix_millis("maxTimestamp")).alias("newest"),
            f.min_by(f.unix_millis("maxTimestamp"), "position").alias("first"),
        )
        .collect()
    )
    by_file = {row.file: (row.newest, row.first) for row in times}
    found = []
    for partition, group in groupby(files, key=lambda each: each.topic_partition):
        members = list(group)
        segments = [_segment(each, *by_file.get(each.url, (None, None))) for each in members]
        found.append(LogSegments(partition, segments, members[0].log_start_offset, members[0].directory))
    return found


def _segment(file: LogFile, newest: int | None, first: int | None) -> SegmentSize:
    return SegmentSize(
        file.base_offset,
        file.size_bytes,
        -1 if newest is None else newest,
        int(os.path.getmtime(file.url) * 1000) if os.path.exists(file.url) else -1,
        -1 if first is None else first,
    )


def retention_forecast(
    spark: SparkSession, logs: Iterable[LogSegments], settings: Mapping[str, Retention], now_ms: int
) -> DataFrame:
    """A row a segment (RETENTION_SCHEMA): which rule takes it, and when; `settings` by topic, "" for all others."""
    rows = []
    for log in logs:
        retention = settings.get(log.partition.topic, settings.get("", Retention()))
        forecast = forecast_retention(log.segments, retention, now_ms, log_start_offset=log.log_start_offset)
        for each in forecast:
            is_due = each.due_ms is not None and each.due_ms <= now_ms
            rows.append(
                (
                    *log.partition, each.segment.base_offset, each.is_active, each.segment.size_bytes,
                    _moment(each.segment.retention_timestamp), each.reason, _moment(each.due_ms), is_due,
                    each.waits_for, each.bytes_until_size,
                )
            )  # fmt: skip
    return spark.createDataFrame(rows, RETENTION_SCHEMA)


def _moment(time_ms: int | None) -> datetime | None:
    """A time for a column; None where there is none, or it is beyond what a timestamp can say."""
    if time_ms is None or not 0 <= time_ms <= _LATEST_TIME:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC)


# -- Compaction --


def cleanable_ranges(
    logs: Iterable[LogSegments], settings: Mapping[str, Compaction], now_ms: int
) -> dict[TopicPartition, CleanableRange]:
    """The range of each partition; how far it is clean stands in the checkpoint of its log directory."""
    return {
        log.partition: cleanable_range(
            log.segments,
            settings.get(log.partition.topic, settings.get("", Compaction())),
            now_ms,
            first_dirty_offset=_checkpoint(log),
        )
        for log in logs
    }


def _checkpoint(log: LogSegments) -> int | None:
    path = os.path.join(os.path.dirname(log.directory), CLEANER_OFFSET_CHECKPOINT)
    try:
        return read_offset_checkpoint(RealFileSystem(), path).get(log.partition)
    except (KafkaError, OSError):
        return None


def compact_forecast(
    records: DataFrame, logs: Sequence[LogSegments], ranges: Mapping[TopicPartition, CleanableRange]
) -> DataFrame:
    """A row a segment that the cleaner may take: what of it would go if it ran now. `records` with `includeHeaders` and
    `includeMetadata`.

    `superseded`: the key has a later record in the dirty part. `aborted`: of an aborted transaction. `withoutKey`: the
    cleaner drops those. `tombstones`: all that stay; they go delete.retention.ms after the round that saw them first.
    """
    located = _with_segments(records, logs, ranges)
    is_aborted = f.coalesce(f.col("transaction") == "aborted", f.lit(False))
    is_mapped = ~is_aborted & (f.col("offset") >= f.col("firstDirty"))
    by_key = Window.partitionBy("topic", "partition", "key")
    latest = f.max(f.when(is_mapped, f.col("offset"))).over(by_key)
    marked = located.withColumn("isAborted", is_aborted).withColumn("latest", latest)
    is_superseded = (
        ~f.col("isAborted") & f.col("key").isNotNull() & f.coalesce(f.col("latest") > f.col("offset"), f.lit(False))
    )
    is_keyless = ~f.col("isAborted") & f.col("key").isNull()
    goes = f.col("isAborted") | is_superseded | is_keyless
    is_tombstone = ~goes & f.col("value").isNull()

    def counted(which: Column) -> Column:
        return f.count(f.when(which, 1))

    return (
        marked.groupBy("topic", "partition", "baseOffset", "segmentBytes", "firstDirty", "isDue", "dirtyRatio")
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


_LOCATED = (
    "topic string, partition int, offset bigint, key binary, value binary, transaction string, recordBytes bigint, "
    "baseOffset bigint, segmentBytes bigint, firstDirty bigint, isDue boolean, dirtyRatio double"
)


def _with_segments(
    records: DataFrame, logs: Sequence[LogSegments], ranges: Mapping[TopicPartition, CleanableRange]
) -> DataFrame:
    """The cleanable records, each with its segment; values are only null or not from here on."""
    headers = f.aggregate(
        f.coalesce(f.col("headers"), f.array()),
        f.lit(0),
        lambda total, each: total + f.octet_length(each["key"]) + f.coalesce(f.octet_length(each["value"]), f.lit(0)),
    )
    size = f.coalesce(f.octet_length("key"), f.lit(0)) + f.coalesce(f.octet_length("value"), f.lit(0)) + headers
    value = f.when(f.col("value").isNotNull(), f.lit(b""))
    chosen = records.select(
        "topic",
        "partition",
        "offset",
        "key",
        value.alias("value"),
        "transaction",
        size.cast("bigint").alias("recordBytes"),
    )
    return chosen.mapInArrow(_SegmentFinder(logs, ranges), _LOCATED)


class _SegmentFinder:
    """Runs on an executor: finds the segment of each record, leaves out those that cannot be cleaned yet."""

    def __init__(self, logs: Sequence[LogSegments], ranges: Mapping[TopicPartition, CleanableRange]) -> None:
        self._segments = {tuple(log.partition): list(log.segments) for log in logs}
        self._ranges = {tuple(partition): found for partition, found in ranges.items()}

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for topic, partition in set(zip(batch["topic"].to_pylist(), batch["partition"].to_pylist(), strict=True)):
                cleanable = self._ranges.get((topic, partition))
                if cleanable is None:
                    continue
                same = pc.and_(pc.equal(batch["topic"], topic), pc.equal(batch["partition"], partition))
                below = pc.less(batch["offset"], cleanable.first_uncleanable_offset)
                rows = batch.filter(pc.and_(same, below))
                segments = self._segments[(topic, partition)]
                bases = np.array([each.base_offset for each in segments], np.int64)
                sizes = np.array([each.size_bytes for each in segments], np.int64)
                places = np.searchsorted(bases, rows["offset"].to_numpy(), side="right") - 1
                places = np.maximum(places, 0)
                more = [pa.array(bases[places]), pa.array(sizes[places])]
                more += [
                    pa.repeat(pa.scalar(value, kind), rows.num_rows)
                    for value, kind in (
                        (cleanable.first_dirty_offset, pa.int64()),
                        (cleanable.is_due, pa.bool_()),
                        (cleanable.dirty_ratio, pa.float64()),
                    )
                ]
                yield pa.RecordBatch.from_arrays([*rows.columns, *more], names=[*rows.schema.names, *_PLACES])


_PLACES = ("baseOffset", "segmentBytes", "firstDirty", "isDue", "dirtyRatio")
