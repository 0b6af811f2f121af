"""Append a leader's batches on a follower, with their offsets and leader epochs (UnifiedLog.appendAsFollower)."""

from kafkatools.core.errors import UnexpectedAppendOffset
from kafkatools.core.log.partition.append_validation import check_batch, split_batches
from kafkatools.core.log.partition.log_results import LogAppendInfo
from kafkatools.core.log.partition.log_state import LogState
from kafkatools.core.log.partition.segment import LogSegment
from kafkatools.core.log.producers.append import AppendOrigin, CompletedTransaction, ProducerAppendInfo
from kafkatools.core.log.producers.updates import append_batch
from kafkatools.core.records.header import NO_PRODUCER_ID, NO_TIMESTAMP, BatchHeader

_ANY_SIZE = 2**31


def append_replicated(log: LogState, records: memoryview, now_ms: int) -> LogAppendInfo:
    """Check batches from the leader, append them with their own offsets and leader epochs, and update the producers'
    state. Raises what `PartitionLog.append_as_follower` raises."""
    if log.failure is not None:
        raise log.failure
    headers = split_batches(records, log.topic_partition)
    updates: dict[int, ProducerAppendInfo] = {}
    completed = _check(log, records, headers, updates)
    segment = log.storage("appending records", lambda: _write(log, records, headers, now_ms))
    log.log_end_offset = headers[-1].last_offset + 1
    log.settle_producers(segment, updates.values(), completed)
    if log.attempts:  # from an earlier leadership; these producers have continued with another leader
        for producer_id in updates:
            log.attempts.forget(producer_id)
    log.settle_end(now_ms)
    newest = max(header.max_timestamp for header in headers)
    return LogAppendInfo(
        headers[0].base_offset, log.log_end_offset - 1, NO_TIMESTAMP, log.log_start_offset, newest, False
    )


def _check(
    log: LogState, records: memoryview, headers: list[BatchHeader], updates: dict[int, ProducerAppendInfo]
) -> list[CompletedTransaction]:
    """Check every batch before the first write. Fill `updates` by producer id, and return the transactions that end.
    Raises UnexpectedAppendOffset for an offset below the log end, CorruptRecord, UnsupportedCompressionType."""
    next_offset = log.log_end_offset
    completed = []
    position = 0
    for header in headers:
        batch = records[position : position + header.size_bytes]
        check_batch(header, batch, _ANY_SIZE, log.topic_partition, is_client=False)
        if header.base_offset < next_offset:
            raise UnexpectedAppendOffset(
                f"Unexpected offset in append to {log.topic_partition}. First offset {header.base_offset} is less than "
                f"the next offset {next_offset}. Log start offset = {log.log_start_offset}"
            )
        next_offset = header.last_offset + 1
        if header.producer_id != NO_PRODUCER_ID:
            info = updates.get(header.producer_id)
            if info is None:
                info = log.producer_state.prepare_update(header.producer_id, AppendOrigin.REPLICATION)
                updates[header.producer_id] = info
            ended = append_batch(info, header, batch, header.base_offset, header.max_timestamp)
            completed += [] if ended is None else [ended]
        position += header.size_bytes
    return completed


def _write(log: LogState, records: memoryview, headers: list[BatchHeader], now_ms: int) -> LogSegment:
    size = len(records)
    log.ensure_fits_segment(size)
    for header in headers:
        if header.partition_leader_epoch >= 0:
            log.epochs.assign(header.partition_leader_epoch, header.base_offset)
    newest = max(header.max_timestamp for header in headers)
    segment = log.segments.active
    if segment.should_roll(log.config, size, headers[-1].last_offset, newest, now_ms):
        # At the first batch: a replica of a compacted log may find it more than 2^31 above its end.
        segment = log.roll(now_ms, headers[0].base_offset)
    segment.append_batches(records, headers)
    return segment
