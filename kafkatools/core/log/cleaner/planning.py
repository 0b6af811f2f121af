"""Measure how dirty a log is, and make the plan for cleaning it. Runs on the thread that owns the log."""

from collections.abc import Sequence

from kafkatools.core.log.cleaner.log_to_clean import NO_OFFSET, LastRecord, LogToClean, Measure, SegmentToClean
from kafkatools.core.log.partition.log_state import LogState
from kafkatools.core.log.partition.segment import LogSegment
from kafkatools.core.log.partition.segment_reads import aborted_transactions


def measure(log: LogState, now_ms: int) -> Measure:
    """Determine the clean, the cleanable and the uncleanable part of a log, in whole segments
    (LogCleanerManager.cleanableOffsets). Uncleanable are the active segment, everything from the last stable offset on,
    and everything from the first segment younger than min.compaction.lag.ms on. Raises CorruptRecord, OSError."""
    first_dirty = log.log_start_offset if log.first_dirty_offset is None else log.first_dirty_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    active = log.active_segment
    uncleanable = min(log.last_stable_offset, active.base_offset)
    closed = [segment for segment in log.segments.range(first_dirty, active.base_offset) if segment is not active]
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        recent_offsets = (segment.base_offset for segment in closed if segment.largest_timestamp > now_ms - lag_ms)
        uncleanable = min(uncleanable, next(recent_offsets, uncleanable))
    uncleanable = max(first_dirty, uncleanable)
    if uncleanable < active.base_offset:
        floor = log.segments.floor(uncleanable)
        uncleanable = active.base_offset if floor is None else floor.base_offset
    else:
        uncleanable = active.base_offset
    dirty = _between(log, min(first_dirty, uncleanable), uncleanable)
    return Measure(
        first_dirty,
        uncleanable,
        sum(segment.size_bytes for segment in _between(log, NO_OFFSET, first_dirty)),
        sum(segment.size_bytes for segment in dirty),
        _is_overdue(log, closed, now_ms),
    )


def _between(log: LogState, start: int, end: int) -> list[LogSegment]:
    """Return the segments from the one that holds `start` to the one that holds `end - 1`, none if `start` is not below
    `end`."""
    return log.segments.range(start, end) if start < end else []


def _is_overdue(log: LogState, closed: Sequence[LogSegment], now_ms: int) -> bool:
    """Return whether the first batch of a dirty segment is older than max.compaction.lag.ms
    (LogCleanerManager.maxCompactionDelay)."""
    clean_until_ms = now_ms - log.config.max_compaction_lag_ms
    if clean_until_ms <= 0:
        return False
    return any(0 < segment.first_batch_timestamp < clean_until_ms for segment in closed)


def plan(log: LogState, measured: Measure) -> LogToClean:
    """Make the plan for cleaning a log up to `measured.first_uncleanable_offset`, from its first segment on. Raises
    CorruptRecord, KafkaError for a damaged transaction index, OSError."""
    cleanable = _between(log, 0, measured.first_uncleanable_offset)
    closed = [segment for segment in cleanable if segment is not log.active_segment]
    ends = [segment.base_offset for segment in closed[1:]] + [measured.first_uncleanable_offset]
    segments = [
        SegmentToClean(
            segment.base_offset,
            end,
            segment.log.path,
            segment.size_bytes,
            log.files.modified_ms(segment.log.path),
            segment.offset_index.size_bytes,
            segment.time_index.size_bytes,
        )
        for segment, end in zip(closed, ends, strict=True)
    ]
    start = segments[0].base_offset if segments else 0
    producers = log.producer_state.producers.items()
    return LogToClean(
        log.directory,
        log.config,
        measured,
        segments,
        aborted_transactions(log, start, measured.first_uncleanable_offset) if segments else (),
        {producer_id: LastRecord(entry.last_data_offset, entry.producer_epoch) for producer_id, entry in producers},
        _dirty_position(log, measured.first_dirty_offset),
    )


def _dirty_position(log: LogState, first_dirty_offset: int) -> int:
    """Return the file position of the first dirty batch in its segment, 0 when no segment holds that offset."""
    segment = log.segments.floor(first_dirty_offset)
    batch = None if segment is None else segment.translate_offset(first_dirty_offset)
    return 0 if batch is None else batch.position
