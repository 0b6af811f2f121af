"""Where a resumed run starts in each partition: at the end in the manifest, else where the options of the source say.

Rules: a manifest has no entry for a partition of which a run has read nothing, such as one whose records are all before
startingTimestamp. A resumed run does not read what the options left out, so such a partition starts by the options
again. A partition that startingOffsets does not name was added since, and starts at its first offset.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import groupby

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.run.manifest import next_offsets, present_partitions
from kafkatools.pipeline.run.spec import Source
from kafkatools.pipeline.sources.live.options import Limit
from kafkatools.pipeline.types import SourceContent
from kafkatools.pipeline.uris import LOG


def resume_offsets(source: Source, recorded: SourceContent) -> str:
    """Return the option startingOffsets for a run that resumes. `recorded` is the source in the manifest. Raises
    PipelineError, and KafkaError if the cluster cannot be read."""
    present = [TopicPartition(*partition) for partition in present_partitions(source)]
    read = {(row["topic"], row["partition"]) for row in recorded["partitions"]}
    return next_offsets(recorded, present, _starts(source, [part for part in present if part not in read]))


def _starts(source: Source, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the start offsets of partitions by the options of the source; those that start at their first offset may
    be missing."""
    if not partitions:
        return {}
    return _starts_of_log(source, partitions) if source.uri.kind == LOG else _starts_of_topics(source, partitions)


def _starts_of_topics(source: Source, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    from kafkatools.pipeline.sources.live.cluster import LiveCluster
    from kafkatools.pipeline.sources.live.options import read_options

    assert source.cluster is not None
    settings = source.cluster.options() | {"subscribe": source.uri.target} | dict(source.options)
    options = replace(read_options(settings, is_streaming=False), latest_without_match=True)
    if options.starting.offsets is not None:
        return dict(options.starting.offsets)
    times = _times(options.starting, partitions)
    if not times:
        return {}
    cluster = LiveCluster(options)
    try:
        return cluster.resolve(Limit(options.starting.option, timestamps_ms=times), times, is_start=True)
    finally:
        cluster.close()


def _starts_of_log(source: Source, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    from kafkatools.pipeline.sources.log.offsets import end_offset, offset_for_time
    from kafkatools.pipeline.sources.log.options import read_options
    from kafkatools.pipeline.sources.log.plan import selected_files

    options = read_options({**source.options, "path": source.uri.target})
    if options.starting.offsets is not None:
        return dict(options.starting.offsets)
    times = _times(options.starting, partitions)
    starts = {}
    files = selected_files(options) if times else []
    for partition, group in groupby(files, key=lambda file: file.topic_partition):
        if partition in times:
            segments = list(group)
            start = offset_for_time(segments, times[partition])
            starts[partition] = end_offset(segments) if start is None else start
    return starts


def _times(starting: Limit, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the start timestamps of the partitions that have one."""
    if starting.timestamps_ms is not None:
        return {part: starting.timestamps_ms[part] for part in partitions if part in starting.timestamps_ms}
    return {} if starting.timestamp_ms is None else dict.fromkeys(partitions, starting.timestamp_ms)
