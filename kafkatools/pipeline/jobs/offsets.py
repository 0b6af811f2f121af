"""Offset ranges of a source, and reading a source restricted to such ranges, for jobs that resume."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from kafkatools.core.topic_partition import TopicPartition, numbers_by_topic
from kafkatools.pipeline.uris import LOG, TOPIC, Cluster, Uri, read_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkatools.pipeline.sources.live.cluster import LiveCluster

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""The first offset of each partition and the offset after its last, by partition."""


class LogRange(NamedTuple):
    """The log start offset and high watermark of a partition, and the id of its topic, None from old brokers."""

    start: int
    end: int
    topic_id: UUID | None


OFFSET_COLUMNS = ("topic", "partition", "basis", "records", "firstOffset", "lastOffset")

_SELECTIONS = ("subscribe", "subscribepattern", "assign")
_LIMITS = ("starting", "ending")


def offsets_of(spark: SparkSession, uri: Uri, options: Mapping[str, str], cluster: Cluster | None) -> Ranges:
    """Return the offset range of each partition, within the source's starting and ending options; the end is the last
    stable offset with read_committed. Partitions of log files without batches are left out. For log files, a Spark
    query reads the batch headers. Raises PipelineError."""
    if uri.kind == LOG:
        return _offsets_of_log(spark, uri, options)
    assert uri.kind == TOPIC and cluster is not None
    return offsets_of_topics(uri, options, cluster)


def offsets_of_topics(uri: Uri, options: Mapping[str, str], cluster: Cluster) -> Ranges:
    """Return the offset range of each partition of a live topic, within the starting and ending options, without Spark;
    the end is the last stable offset with read_committed. Raises PipelineError."""
    from kafkatools.pipeline.sources.record_bounds import RecordBounds

    with _live_cluster(uri, options, cluster) as live:
        return {
            offset_range.partition: (offset_range.start, offset_range.end)
            for offset_range in live.batch_ranges(RecordBounds())
        }


def log_ranges(partitions: Iterable[TopicPartition], cluster: Cluster) -> dict[TopicPartition, LogRange]:
    """Return the offset ranges of the logs of live partitions, without Spark; partitions that do not exist are left
    out. Raises PipelineError."""
    assign = {"assign": json.dumps(numbers_by_topic(sorted(partitions)))}
    with _live_cluster(Uri(TOPIC, ""), assign, cluster) as live:
        ids = live.partitions(must_exist=False)
        starts, ends = live.earliest(ids), live.latest(ids)
        return {
            partition: LogRange(starts[partition], ends[partition], topic_id)
            for partition, topic_id in ids.items()
            if partition in starts and partition in ends
        }


def topic_ids(
    uri: Uri, options: Mapping[str, str], cluster: Cluster, *, is_streaming: bool = True
) -> dict[str, UUID | None]:
    """Return the ids of the topics that a live source reads, without Spark; topics that do not exist are left out.
    `is_streaming`: `options` are those of a stream. Raises PipelineError."""
    with _live_cluster(uri, options, cluster, is_streaming=is_streaming) as live:
        return {partition.topic: topic_id for partition, topic_id in live.partitions(must_exist=False).items()}


@contextmanager
def _live_cluster(
    uri: Uri, options: Mapping[str, str], cluster: Cluster, *, is_streaming: bool = False
) -> Iterator[LiveCluster]:
    """Yield the cluster of a live source with its options, and close it. Raises PipelineError."""
    from kafkatools.pipeline.sources.live.cluster import LiveCluster
    from kafkatools.pipeline.sources.live.options import read_options

    subscription = {"subscribe": uri.target} if uri.target else {}
    live = LiveCluster(read_options(cluster.options() | subscription | dict(options), is_streaming=is_streaming))
    try:
        yield live
    finally:
        live.close()


def count_offsets(ranges: Ranges) -> list[tuple[str, int, str, int, int | None, int | None]]:
    """Return rows of OFFSET_COLUMNS from offset ranges, without Spark. `records` is an upper limit: control records and
    compacted records have offsets too. The first and last offset are None for an empty range."""
    return [
        (topic, partition, "offsets", end - start, start if end > start else None, end - 1 if end > start else None)
        for (topic, partition), (start, end) in sorted(ranges.items())
    ]


def _offsets_of_log(spark: SparkSession, uri: Uri, options: Mapping[str, str]) -> Ranges:
    from pyspark.sql import functions as f

    other_options = {name: value for name, value in options.items() if name.lower() != "reportpath"}
    batches = read_source(spark, uri, {**other_options, "table": "batches"}, None)
    rows = batches.groupBy("topic", "partition").agg((f.max("lastOffset") + 1).alias("end")).collect()
    return ranges_of_log(uri, options, {TopicPartition(row.topic, row.partition): row.end for row in rows})


def ranges_of_log(uri: Uri, options: Mapping[str, str], ends: Mapping[TopicPartition, int]) -> Ranges:
    """Return the offset range of each partition of log files, within the starting and ending options. `ends` is the
    offset after the last batch of each partition that has one. Raises PipelineError."""
    from kafkatools.pipeline.sources.log.aborted import find_all_transactions
    from kafkatools.pipeline.sources.log.offsets import partition_bounds
    from kafkatools.pipeline.sources.log.options import read_options
    from kafkatools.pipeline.sources.log.plan import selected_files

    log_options = read_options({**options, "path": uri.target})
    files = selected_files(log_options)
    bounds = partition_bounds(files, log_options)
    stable = find_all_transactions(files) if log_options.reading.is_committed_only else {}
    starts: dict[TopicPartition, int] = {}
    for file in files:
        starts.setdefault(file.topic_partition, max(file.base_offset, file.log_start_offset))
    ranges = {}
    for partition, last in ends.items():
        start, end = max(starts[partition], bounds[partition].start_offset), min(last, bounds[partition].end_offset)
        if partition in stable:
            end = min(end, stable[partition].last_stable_offset)
        ranges[partition] = (start, max(end, start))
    return ranges


def read_ranges(
    spark: SparkSession, uri: Uri, options: Mapping[str, str], cluster: Cluster | None, ranges: Ranges
) -> DataFrame:
    """Open the source as a DataFrame of only the records in these offset ranges, in place of the topics and limits in
    `options`. Log files get failOnDataLoss=false unless it is set. Raises PipelineError for a topic without a
    cluster."""
    other_options = {
        name: value
        for name, value in options.items()
        if name.lower() not in _SELECTIONS and not name.lower().startswith(_LIMITS)
    }
    read_options = other_options | range_options(ranges)
    if uri.kind == LOG and not any(name.lower() == "failondataloss" for name in other_options):
        read_options["failOnDataLoss"] = "false"  # the last batch may have a valid header and damaged records
    return read_source(spark, uri if uri.kind == LOG else Uri(uri.kind, ""), read_options, cluster)


def range_options(ranges: Ranges) -> dict[str, str]:
    """Return the options that restrict a source to these offset ranges."""
    assigned: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), (start, end) in sorted(ranges.items()):
        assigned.setdefault(topic, []).append(partition)
        starts.setdefault(topic, {})[str(partition)] = start
        ends.setdefault(topic, {})[str(partition)] = end
    limits = {"assign": assigned, "startingOffsets": starts, "endingOffsets": ends}
    return {name: json.dumps(value) for name, value in limits.items()}
