"""Which offsets a source has now, and the same source cut to ranges of them: for jobs that go on where they were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.uris import LOG, TOPIC, Cluster, Uri, read_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""First offset and the one behind the last."""

_SELECTIONS = ("subscribe", "subscribepattern", "assign")
_LIMITS = ("startingoffsets", "endingoffsets")


def offsets_of(spark: SparkSession, uri: Uri, options: Mapping[str, str], cluster: Cluster | None) -> Ranges:
    """What there is to read of each partition; its end is the last stable offset with read_committed."""
    if uri.kind == LOG:
        return _offsets_of_log(spark, uri, options)
    assert uri.kind == TOPIC and cluster is not None
    from kafkatools.pipeline.live_cluster import LiveCluster
    from kafkatools.pipeline.live_options import read_options
    from kafkatools.pipeline.record_bounds import RecordBounds

    named = {"subscribe": uri.target} if uri.target else {}
    live = LiveCluster(read_options(cluster.options() | named | dict(options), is_streaming=False))
    try:
        return {each.partition: (each.start, each.end) for each in live.batch_ranges(RecordBounds())}
    finally:
        live.close()


def _offsets_of_log(spark: SparkSession, uri: Uri, options: Mapping[str, str]) -> Ranges:
    from pyspark.sql import functions as f

    from kafkatools.pipeline.aborted import find_all_transactions
    from kafkatools.pipeline.log_files import find_log_files
    from kafkatools.pipeline.log_options import read_options

    read = read_options({**options, "path": uri.target})
    files = find_log_files(read.paths, read.selection)
    batches = read_source(spark, uri, {**options, "table": "batches"}, None)
    ends = batches.groupBy("topic", "partition").agg((f.max("lastOffset") + 1).alias("end")).collect()
    stable = find_all_transactions(files) if read.reading.is_committed_only else {}
    starts: dict[TopicPartition, int] = {}
    for file in files:
        starts.setdefault(file.topic_partition, max(file.base_offset, file.log_start_offset))
    found = {}
    for row in ends:
        partition = TopicPartition(row.topic, row.partition)
        end = min(row.end, stable[partition].last_stable_offset) if partition in stable else row.end
        found[partition] = (starts[partition], max(end, starts[partition]))
    return found


def read_ranges(
    spark: SparkSession, uri: Uri, options: Mapping[str, str], cluster: Cluster | None, ranges: Ranges
) -> DataFrame:
    """The records of these ranges alone."""
    kept = {name: value for name, value in options.items() if name.lower() not in (*_SELECTIONS, *_LIMITS)}
    assigned: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), (start, end) in sorted(ranges.items()):
        assigned.setdefault(topic, []).append(partition)
        starts.setdefault(topic, {})[str(partition)] = start
        ends.setdefault(topic, {})[str(partition)] = end
    more = {"assign": assigned, "startingOffsets": starts, "endingOffsets": ends}
    given = kept | {name: json.dumps(value) for name, value in more.items()}
    return read_source(spark, uri if uri.kind == LOG else Uri(uri.kind, ""), given, cluster)
