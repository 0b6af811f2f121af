"""Where reading of a partition's files starts and ends: options about offsets and timestamps -> bounds of offsets.

As in Spark's Kafka source a timestamp stands for the first offset whose record is not older; what follows it is read,
whatever its timestamp.
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
    """The bounds of each partition among segments in order; raises PipelineError for offsets that are not there.
    `pushed` is what filters say: partitions that it leaves out are not looked at, the options may name them though."""
    pushed = pushed or RecordBounds()
    found = {}
    partitions = {each: list(group) for each, group in groupby(files, key=lambda file: file.topic_partition)}
    for limit in (options.starting, options.ending):
        _ensure_known(limit, partitions)
    for partition, segments in partitions.items():
        if not pushed.takes(*partition):
            continue
        earliest = max(segments[0].base_offset, segments[0].log_start_offset)
        start = _start(partition, segments, earliest, options)
        end = _end(partition, segments, options)
        is_everything = start <= segments[0].base_offset
        found[partition] = RecordBounds(start_offset=0 if is_everything else start, end_offset=end).within(pushed)
    return found


def _ensure_known(limit: Limit, partitions: Mapping[TopicPartition, object]) -> None:
    """As in Spark: offsets by partition are given for all partitions that are read, and for no others."""
    given = limit.offsets if limit.offsets is not None else limit.timestamps_ms
    if given is None:
        return
    missing = sorted(partitions.keys() - given.keys())
    unknown = sorted(given.keys() - partitions.keys())
    for names, what in ((missing, "says nothing of"), (unknown, "names what is not read:")):
        if names:
            raise PipelineError(
                f"{limit.option} {what} {', '.join(f'{each.topic}-{each.partition}' for each in names)}"
            )


def _start(partition: TopicPartition, segments: Sequence[LogFile], earliest: int, options: LogOptions) -> int:
    limit = options.starting
    timestamp = limit.timestamps_ms[partition] if limit.timestamps_ms is not None else limit.timestamp_ms
    if timestamp is not None:
        offset = offset_for_time(segments, timestamp)
        if offset is None and not options.latest_without_match:
            raise PipelineError(f"{limit.option}: {_name(partition)} has no record at {timestamp} or later")
        return MAX_LONG if offset is None else max(offset, earliest)
    start = earliest if limit.offsets is None or limit.offsets[partition] < 0 else limit.offsets[partition]
    if start < earliest and options.fail_on_data_loss:
        raise PipelineError(
            f"{limit.option}: {_name(partition)} begins with offset {earliest}, {start} is gone "
            "(failOnDataLoss=false reads what there is)"
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
            f"{limit.option}: {_name(partition)} ends with offset {last}, {end} is not there "
            "(failOnDataLoss=false reads what there is)"
        )
    return end


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def end_offset(segments: Sequence[LogFile]) -> int:
    """The offset behind the last record of a partition's segments."""
    file = segments[-1]
    index = read_index(file)
    start = int(index[-1, 1]) if len(index) else 0
    last = file.base_offset
    for section in _sections(file, start):
        headers = section.headers
        last = int(headers[-1, table.BASE_OFFSET] + headers[-1, table.LAST_DELTA]) + 1
    return last


def offset_for_time(segments: Sequence[LogFile], timestamp: int) -> int | None:
    """The first offset of a record that is not older than a timestamp; None when all are. Markers of transactions
    count, as for a broker (FileRecords.searchForTimestamp): they have the time at which the transaction ended."""
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
    for offset, its in zip(columns.offsets, columns.timestamps, strict=True):
        if its >= timestamp:
            return offset
    return None
