"""Read batches and search timestamps across the segments of one log (LocalLog, UnifiedLog.fetchOffsetByTimestamp).

Nothing is copied: a read returns a byte range of a segment file. `PartitionLog.read` checks the bounds of the whole
log.
"""

from kafkatools.core.log.format.transaction_index import AbortedTransaction
from kafkatools.core.log.partition.log_results import LogSlice
from kafkatools.core.log.partition.log_state import LogState
from kafkatools.core.log.partition.segment import LogSegment, Position, TimestampAndOffset
from kafkatools.core.records.layout import LOG_OVERHEAD


def read_segments(
    log: LogState, segment: LogSegment, offset: int, max_bytes: int, min_one_message: bool, limit: int
) -> LogSlice:
    """Return the batches from the one with `offset` on, below offset `limit`, from one segment. If compaction has
    emptied `segment` there, later segments are searched. Return an empty slice when no batch is left. Raises
    CorruptRecord, OSError."""
    current: LogSegment | None = segment
    while current is not None:
        batch = current.translate_offset(offset)
        if batch is not None and batch.header.base_offset < limit:
            return _slice(log, current, batch, max_bytes, min_one_message, limit)
        last = current
        current = log.segments.higher(current.base_offset)
    return LogSlice(last.log, last.size_bytes, 0, offset, last)


def _slice(
    log: LogState, segment: LogSegment, batch: Position, max_bytes: int, min_one_message: bool, limit: int
) -> LogSlice:
    end = segment.size_bytes
    if limit < log.log_end_offset:
        bound = segment.translate_offset(limit, batch.position)
        end = end if bound is None else bound.position
    first = batch.header.length + LOG_OVERHEAD
    limited = max(max_bytes, first) if min_one_message else max_bytes
    size = max(0, min(limited, end - batch.position))
    return LogSlice(segment.log, batch.position, size, batch.header.base_offset, segment, 0 < limited < first)


def aborted_transactions(log: LogState, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
    """Return the aborted transactions that overlap the offsets [start_offset, end_offset), by the transaction
    indexes."""
    transactions: list[AbortedTransaction] = []
    segment = log.segments.floor(start_offset)
    while segment is not None:
        segment_transactions, is_complete = segment.txn_index.collect_aborted(start_offset, end_offset)
        transactions += segment_transactions
        segment = None if is_complete else log.segments.higher(segment.base_offset)
    return transactions


def search(log: LogState, timestamp: int) -> TimestampAndOffset | None:
    """Return the first record of a log at or after a timestamp (ms), None when there is none (ListOffsets). Records
    below the log start offset do not count. Raises CorruptRecord, InvalidRecord, OSError."""
    for segment in log.segments:
        if segment.largest_timestamp >= timestamp:
            record = segment.find_offset_by_timestamp(
                timestamp, log.log_start_offset, log.config.max_decompressed_bytes
            )
            if record is not None:
                return record
    return None


def newest_record(log: LogState) -> TimestampAndOffset | None:
    """Return the first record with the log's newest timestamp, None in a log without timestamps. In the segment that
    has this timestamp, records below the log start offset are skipped. Raises CorruptRecord, InvalidRecord, OSError."""
    segments = [segment for segment in log.segments if segment.max_timestamp_so_far.timestamp >= 0]
    if not segments:
        return None
    segment: LogSegment = max(segments, key=lambda candidate: candidate.max_timestamp_so_far.timestamp)
    header = segment.first_newest_batch()
    if header is None:
        return None
    start = max(header.base_offset, log.log_start_offset)
    return segment.find_offset_by_timestamp(header.max_timestamp, start, log.config.max_decompressed_bytes)
