"""Start and end offsets of each partition's files, from the options for offsets and timestamps.

As in Spark's Kafka source, a timestamp stands for the first offset whose record is not older; all later records are
read, whatever their timestamps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from kafkatools.core.errors import KafkaError
from kafkatools.core.records.batch import batch_at
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline import storage
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.live.options import Limit
from kafkatools.pipeline.sources.log import sections as table
from kafkatools.pipeline.sources.log.files import LogFile
from kafkatools.pipeline.sources.log.options import LogOptions
from kafkatools.pipeline.sources.log.sections import Section, SectionWalk
from kafkatools.pipeline.sources.log.splits import narrow, read_index
from kafkatools.pipeline.sources.record_bounds import MAX_LONG, RecordBounds


def partition_bounds(
    files: Sequence[LogFile], options: LogOptions, pushed: RecordBounds | None = None
) -> dict[TopicPartition, RecordBounds]:
    """Return the bounds of each partition among the segments, which must be sorted. `pushed` are the bounds from
    filters: partitions outside of them are skipped, though options may name them.

    Raises PipelineError if offsets by partition do not name exactly the partitions read, or no record is at or after a
    start timestamp. With failOnDataLoss also for a start offset that is deleted or an end offset after the log's.
    """
    pushed = pushed or RecordBounds()
    result = {}
    partitions = {key: list(group) for key, group in groupby(files, key=lambda file: file.topic_partition)}
    for limit in (options.starting, options.ending):
        _ensure_partitions_match(limit, partitions)
    for partition, segments in partitions.items():
        if not pushed.takes(*partition):
            continue
        earliest = max(segments[0].base_offset, segments[0].log_start_offset)
        start = _start(partition, segments, earliest, options)
        end = _end(partition, segments, options)
        is_everything = start <= segments[0].base_offset
        result[partition] = RecordBounds(start_offset=0 if is_everything else start, end_offset=end).within(pushed)
    return result


def _ensure_partitions_match(limit: Limit, partitions: Mapping[TopicPartition, object]) -> None:
    """Raise PipelineError unless offsets by partition name exactly the partitions that are read, as Spark requires."""
    offsets = limit.offsets if limit.offsets is not None else limit.timestamps_ms
    if offsets is None:
        return
    missing, unknown = partitions.keys() - offsets.keys(), offsets.keys() - partitions.keys()
    for names, problem in (
        (missing, "must name every partition that is read; missing:"),
        (unknown, "names partitions that are not read:"),
    ):
        if names:
            raise PipelineError(f"{limit.option} {problem} {', '.join(map(str, sorted(names)))}")


def _start(partition: TopicPartition, segments: Sequence[LogFile], earliest: int, options: LogOptions) -> int:
    limit = options.starting
    timestamp = limit.timestamps_ms[partition] if limit.timestamps_ms is not None else limit.timestamp_ms
    if timestamp is not None:
        offset = offset_for_time(segments, timestamp)
        if offset is None and not options.latest_without_match:
            raise PipelineError(
                f"{limit.option}: {partition} has no record at or after {timestamp} "
                "(startingOffsetsByTimestampStrategy=latest starts at the end instead)"
            )
        return MAX_LONG if offset is None else max(offset, earliest)
    start = earliest if limit.offsets is None or limit.offsets[partition] < 0 else limit.offsets[partition]
    if start < earliest and options.fail_on_data_loss:
        raise PipelineError(
            f"{limit.option}: {partition} begins with offset {earliest}, so offset {start} is deleted "
            "(failOnDataLoss=false reads what is left)"
        )
    return max(start, earliest)


def _end(partition: TopicPartition, segments: Sequence[LogFile], options: LogOptions) -> int:
    limit = options.ending
    timestamp = limit.timestamps_ms[partition] if limit.timestamps_ms is not None else limit.timestamp_ms
    if timestamp is not None:
        offset = offset_for_time(segments, timestamp)
        return MAX_LONG if offset is None else offset
    if limit.offsets is None or limit.offsets[partition] < 0:
        return MAX_LONG
    end = limit.offsets[partition]
    if options.fail_on_data_loss and end > (last := end_offset(segments)):
        raise PipelineError(
            f"{limit.option}: {partition} ends at offset {last}, before offset {end} "
            "(failOnDataLoss=false reads what is left)"
        )
    return end


def end_offset(segments: Sequence[LogFile]) -> int:
    """Return the offset after the last batch of a partition's segments; the last segment's base offset if it has no
    batch. Raises PipelineError if it cannot be opened."""
    file = segments[-1]
    index = read_index(file)
    start = int(index[-1, 1]) if len(index) else 0
    last = file.base_offset
    for section in _sections(file, start):
        headers = section.headers
        last = int(headers[-1, table.BASE_OFFSET] + headers[-1, table.LAST_DELTA]) + 1
    return last


def offset_for_time(segments: Sequence[LogFile], timestamp: int) -> int | None:
    """Return the first offset whose record is not older than a timestamp in epoch ms; None if all are older.
    Transaction markers count, with the time the transaction ended, as for a broker (FileRecords.searchForTimestamp)."""
    for file in segments:
        bounds = RecordBounds(start_timestamp_ms=timestamp)
        split = narrow(file, bounds, read_index(file))
        if split is None:
            continue
        for section in _sections(file, split.start_position):
            headers = section.headers
            newest = (headers[:, table.MAX_TIMESTAMP] >= timestamp) | (headers[:, table.MAGIC] < 2)
            for row in np.flatnonzero(newest).tolist():
                offset = _first_in(section, row, timestamp)
                if offset is not None:
                    return offset
    return None


def _sections(file: LogFile, start: int) -> Iterator[Section]:
    with storage.open_segment(file.url) as segment:
        yield from SectionWalk(segment, start, file.size_bytes, lambda damage: None).sections()


def _first_in(section: Section, row: int, timestamp: int) -> int | None:
    try:
        columns = batch_at(section.batch(row), 0).columns()
    except KafkaError:
        return None
    pairs = zip(columns.offsets, columns.timestamps, strict=True)
    return next((offset for offset, record_timestamp in pairs if record_timestamp >= timestamp), None)
