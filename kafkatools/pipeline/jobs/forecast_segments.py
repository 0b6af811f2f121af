"""The parts of the forecasts that both engines share: segments with their timestamps, and rows of the results.

The rules are in retention_rules.py and compaction_rules.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.format.checkpoints import read_offset_checkpoint
from kafkatools.core.log.format.filenames import CLEANER_OFFSET_CHECKPOINT
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.jobs.compaction_rules import CleanableRange, Compaction, cleanable_range
from kafkatools.pipeline.jobs.retention_rules import Retention, SegmentSize, forecast_retention
from kafkatools.pipeline.sources.log.aborted import find_all_transactions
from kafkatools.pipeline.sources.log.files import LogFile
from kafkatools.pipeline.sources.record_bounds import MAX_LONG

RETENTION_COLUMNS = (
    "topic", "partition", "baseOffset", "isActive", "bytes", "largestTimestamp", "reason", "due", "isDue", "waitsFor",
    "bytesUntilSize",
)  # fmt: skip
COMPACTION_COLUMNS = (
    "topic", "partition", "baseOffset", "segmentBytes", "isDirty", "records", "superseded", "aborted", "withoutKey",
    "tombstones", "recordBytes", "removableBytes", "isDue", "dirtyRatio",
)  # fmt: skip
_LATEST_TIME = 253_402_300_799_000


class LogSegments(NamedTuple):
    """The segments of one partition, oldest first, with its log start offset and directory."""

    partition: TopicPartition
    segments: Sequence[SegmentSize]
    log_start_offset: int
    directory: str


Times = Mapping[str, tuple[int | None, int | None]]
"""The largest timestamp of a segment, and that of its first batch, in epoch ms by URL; no entry without batches."""


def segments_of(files: Iterable[LogFile], times: Times) -> list[LogSegments]:
    """Return the segments of each partition with sizes from the files. `files` must be sorted by partition."""
    logs = []
    for partition, group in groupby(files, key=lambda file: file.topic_partition):
        members = list(group)
        segments = [_segment(file, *times.get(file.url, (None, None))) for file in members]
        logs.append(LogSegments(partition, segments, members[0].log_start_offset, members[0].directory))
    return logs


def _segment(file: LogFile, newest: int | None, first: int | None) -> SegmentSize:
    return SegmentSize(
        file.base_offset,
        file.size_bytes,
        -1 if newest is None else newest,
        int(os.path.getmtime(file.url) * 1000) if os.path.exists(file.url) else -1,
        -1 if first is None else first,
    )


def retention_rows(
    logs: Iterable[LogSegments], settings: Mapping[str, Retention], now_ms: int
) -> list[tuple[object, ...]]:
    """Return a row of RETENTION_COLUMNS for each segment: the rule that deletes it ("kept" if none does), and when.
    `settings` maps topics to settings; "" is for all others, which without it have Kafka's defaults."""
    rows: list[tuple[object, ...]] = []
    for log in logs:
        retention = settings.get(log.partition.topic, settings.get("", Retention()))
        forecast = forecast_retention(log.segments, retention, now_ms, log_start_offset=log.log_start_offset)
        for segment_forecast in forecast:
            segment, due_ms = segment_forecast.segment, segment_forecast.due_ms
            is_due = due_ms is not None and due_ms <= now_ms
            rows.append(
                (
                    *log.partition, segment.base_offset, segment_forecast.is_active, segment.size_bytes,
                    _moment(segment.retention_timestamp), segment_forecast.reason, _moment(due_ms), is_due,
                    segment_forecast.waits_for, segment_forecast.bytes_until_size,
                )
            )  # fmt: skip
    return rows


def _moment(time_ms: int | None) -> datetime | None:
    """Convert epoch ms to a datetime; None if absent, negative or after the year 9999."""
    if time_ms is None or not 0 <= time_ms <= _LATEST_TIME:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC)


# -- Compaction --


def last_stable_offsets(files: Iterable[LogFile]) -> dict[TopicPartition, int]:
    """Return the last stable offset of each partition with an open transaction. Raises PipelineError."""
    return {
        partition: transactions.last_stable_offset
        for partition, transactions in find_all_transactions(files).items()
        if transactions.last_stable_offset < MAX_LONG
    }


def cleanable_ranges(
    logs: Iterable[LogSegments],
    settings: Mapping[str, Compaction],
    now_ms: int,
    stable: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, CleanableRange]:
    """Return the cleanable range of each partition. `stable` has the last stable offsets of partitions with open
    transactions. The first dirty offset is from the log directory's checkpoint; a log is dirty from its start if the
    checkpoint lacks it or cannot be read. `settings` maps topics to settings; "" is for all others, which without it
    have Kafka's defaults."""
    return {
        log.partition: cleanable_range(
            log.segments,
            settings.get(log.partition.topic, settings.get("", Compaction())),
            now_ms,
            first_dirty_offset=_checkpoint(log),
            last_stable_offset=(stable or {}).get(log.partition),
            log_start_offset=log.log_start_offset,
        )
        for log in logs
    }


def _checkpoint(log: LogSegments) -> int | None:
    path = os.path.join(os.path.dirname(log.directory), CLEANER_OFFSET_CHECKPOINT)
    try:
        return read_offset_checkpoint(RealFileSystem(), path).get(log.partition)
    except (KafkaError, OSError):
        return None
