"""ListOffsets on one log: offsets by timestamp. Kafka's UnifiedLog.fetchOffsetByTimestamp."""

from typing import TYPE_CHECKING

from kafkatools.core.log.batch_headers import NO_TIMESTAMP, walk_headers
from kafkatools.core.log.segment import LogSegment, TimestampAndOffset

if TYPE_CHECKING:
    from kafkatools.core.log.partition_log import PartitionLog

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4


def search(log: "PartitionLog", timestamp: int) -> TimestampAndOffset | None:
    """See `PartitionLog.offset_for_timestamp`."""
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.epochs.earliest_entry
        known = epoch is not None and epoch.start_offset <= log.log_start_offset
        return TimestampAndOffset(NO_TIMESTAMP, log.log_start_offset, epoch.epoch if epoch and known else None)
    if timestamp == LATEST:
        return TimestampAndOffset(NO_TIMESTAMP, log.log_end_offset, log.latest_epoch)
    if timestamp == MAX_TIMESTAMP:
        return _newest(log)
    for segment in log.segments:
        if segment.largest_timestamp >= timestamp:
            found = segment.find_offset_by_timestamp(timestamp, log.log_start_offset)
            if found is not None:
                return found
    return None


def _newest(log: "PartitionLog") -> TimestampAndOffset | None:
    """The record with the newest timestamp: the first one of the batch whose maximum it is."""
    segments = [segment for segment in log.segments if segment.max_timestamp_so_far.timestamp >= 0]
    if not segments:
        return None
    segment: LogSegment = max(segments, key=lambda candidate: candidate.max_timestamp_so_far.timestamp)
    newest = segment.max_timestamp_so_far
    for _, header in walk_headers(segment.log):
        if header.max_timestamp == newest.timestamp:
            return segment.find_offset_by_timestamp(newest.timestamp, max(header.base_offset, log.log_start_offset))
    return None
