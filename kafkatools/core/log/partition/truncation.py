"""Truncate a log at an offset, or completely (LocalLog.truncateTo, UnifiedLog.truncateFullyAndStartAt).

After an error halfway the log goes offline: it would end before its log end offset, or have the state of producers
whose batches are gone. The leader epochs come last, because a full disk refuses them and a second try can write them.
"""

from kafkatools.core.errors import CorruptRecord
from kafkatools.core.log.partition.log_state import LogState
from kafkatools.core.log.partition.segment import LogSegment
from kafkatools.core.log.recovery import loading as recovery


def truncate(log: LogState, offset: int, now_ms: int) -> None:
    """Remove all batches with a record at or above an offset, which becomes the log end offset. Rebuilds the producer
    state. An offset below the first segment removes all records. Raises KafkaStorageError with the log offline, OSError
    when only the leader epochs could not be written."""
    log.abort_cleaning()
    if log.segments.first.base_offset > offset:
        truncate_fully(log, offset, now_ms)
        return
    try:
        later_segments = [segment for segment in log.segments if segment.base_offset > offset]
        log.delete_segments(later_segments, now_ms)
        log.segments.active.truncate_to(offset, now_ms)
        log.log_end_offset = offset
        log.recovery_point = min(log.recovery_point, offset)
        log.high_watermark = min(log.high_watermark, offset)
        log.log_start_offset = min(offset, log.log_start_offset)
        if log.first_dirty_offset is not None:
            log.first_dirty_offset = min(log.first_dirty_offset, offset)
        recovery.rebuild_producer_state(
            log.producer_state, log.segments, log.log_start_offset, offset, now_ms, had_clean_shutdown=False
        )
    except (OSError, CorruptRecord) as error:
        raise log.go_offline(error) from error
    log.epochs.truncate_from_end(offset)


def truncate_fully(log: LogState, offset: int, now_ms: int) -> None:
    """Remove all records, leader epochs and producer state, and continue the log at an offset. Raises KafkaStorageError
    with the log offline, OSError when only the leader epochs could not be written."""
    log.abort_cleaning()
    try:
        log.delete_segments(log.segments, now_ms)
        log.segments.add(LogSegment.create(log.files, log.directory, offset, log.config, now_ms))
        log.producer_state.truncate_fully_and_start_at(offset)
    except OSError as error:
        raise log.go_offline(error) from error
    log.log_end_offset = log.log_start_offset = log.recovery_point = log.high_watermark = offset
    log.first_dirty_offset = None if log.first_dirty_offset is None else offset
    log.epochs.clear()
