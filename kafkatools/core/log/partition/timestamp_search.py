"""Find offsets by timestamp, for ListOffsets (UnifiedLog.fetchOffsetByTimestamp)."""

from kafkatools.core.log.format.batch_headers import walk_headers
from kafkatools.core.log.partition.log_state import LogState
from kafkatools.core.log.partition.segment import LogSegment, TimestampAndOffset


def search(log: LogState, timestamp: int) -> TimestampAndOffset | None:
    """Return the first record at or after a timestamp (ms), None when there is none."""
    for segment in log.segments:
        if segment.largest_timestamp >= timestamp:
            found = segment.find_offset_by_timestamp(timestamp, log.log_start_offset, log.config.max_decompressed_bytes)
            if found is not None:
                return found
    return None


def newest_record(log: LogState) -> TimestampAndOffset | None:
    """Return the first record with the log's newest timestamp, None in a log without timestamps."""
    segments = [segment for segment in log.segments if segment.max_timestamp_so_far.timestamp >= 0]
    if not segments:
        return None
    segment: LogSegment = max(segments, key=lambda candidate: candidate.max_timestamp_so_far.timestamp)
    newest = segment.max_timestamp_so_far
    for _, header in walk_headers(segment.log):
        if header.max_timestamp == newest.timestamp:
            start = max(header.base_offset, log.log_start_offset)
            return segment.find_offset_by_timestamp(newest.timestamp, start, log.config.max_decompressed_bytes)
    return None
