"""Delete old segments by retention.ms, retention.bytes and log start offset (UnifiedLog.deleteOldSegments).

Whole segments are deleted, oldest first, and none with records at or above the high watermark. The active segment is
deleted only if it is not empty and exceeds retention by time or size. Before that a new segment is rolled, which fails
on a full disk, so the closed segments are deleted first.
"""

from collections.abc import Callable, Sequence

from kafkatools.core.log.partition.log_state import LogState
from kafkatools.core.log.partition.segment import LogSegment


def delete_old_segments(log: LogState, now_ms: int) -> int:
    """Delete the segments that retention allows, and raise the log start offset to the first one left. Return their
    number. A topic with only the compact policy loses just the segments below its log start offset. Raises OSError,
    KafkaStorageError."""
    deleted = _delete_while(log, now_ms, _is_below_log_start(log))
    if log.config.is_deleted:
        deleted += _delete_while(log, now_ms, _is_beyond_size(log))
        deleted += _delete_while(log, now_ms, _is_beyond_time(log, now_ms))
    return deleted


_Due = Callable[[LogSegment, LogSegment | None], bool]


def _delete_while(log: LogState, now_ms: int, is_due: _Due) -> int:
    deletable = []
    for segment in log.segments:
        following = log.segments.higher(segment.base_offset)
        end = log.log_end_offset if following is None else following.base_offset
        is_empty_active = following is None and segment.size_bytes == 0
        if is_empty_active or end > log.high_watermark or not is_due(segment, following):
            break
        deletable.append(segment)
    active = log.segments.active
    closed = [segment for segment in deletable if segment is not active]
    _delete(log, closed, now_ms)
    if len(closed) < len(deletable):
        log.roll(now_ms)
        _delete(log, [active], now_ms)
    return len(deletable)


def _delete(log: LogState, segments: Sequence[LogSegment], now_ms: int) -> None:
    """Delete the oldest segments and raise the log start offset to the first one left, also after an error halfway.

    On a full disk the leader epochs are not truncated durably. Then the directory is synced: else a power loss may undo
    the deletion of an earlier segment only, and recovery would take the gap behind it for lost records."""
    try:
        log.delete_segments(segments, now_ms)
    finally:
        first = log.segments.first.base_offset
        if segments and first > log.log_start_offset:
            log.increment_log_start_offset(first)
        if segments and log.epochs.needs_sync:
            log.files.fsync_directory(log.directory)


def _is_below_log_start(log: LogState) -> _Due:
    return lambda segment, following: following is not None and following.base_offset <= log.log_start_offset


def _is_beyond_size(log: LogState) -> _Due:
    excess = log.size_bytes - log.config.retention_bytes

    def is_due(segment: LogSegment, following: LogSegment | None) -> bool:
        nonlocal excess
        if log.config.retention_bytes < 0 or excess - segment.size_bytes < 0:
            return False
        excess -= segment.size_bytes
        return True

    return is_due


def _is_beyond_time(log: LogState, now_ms: int) -> _Due:
    limit_ms = log.config.retention_ms
    return lambda segment, following: 0 <= limit_ms < now_ms - segment.largest_timestamp
