"""The fast path of an append: one ordinary batch, as in almost every Produce request of a busy client.

A batch is ordinary if all of these conditions hold. They are checked before anything changes.

- It is a client's only batch for the partition, with a valid header and checksum; uncompressed records are valid too.
- The topic has no settings that rewrite or restrict records.
- It has no producer id, or continues the sequence of its producer without opening or leaving a transaction.
- It begins no new leader epoch and no new segment.

Any other batch goes to `PartitionLog.append_as_leader`, which validates in full and raises the exact error.
"""

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.partition.log_results import LogAppendInfo
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.producers.append import MAX_SEQUENCE, BatchMetadata, ProducerEntry
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.header import NO_PRODUCER_ID
from kafkatools.core.records.kernel import check_records
from kafkatools.core.records.layout import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    LEADER_EPOCH_STAMP,
    LOG_OVERHEAD,
    TRANSACTIONAL_BIT,
    V2_HEADER,
)

_CODEC_COUNT = 5


def append_plain(log: PartitionLog, records: memoryview, leader_epoch: int, now_ms: int) -> LogAppendInfo | None:
    """Append an ordinary client batch on the fast path. Return None, without any change, if it needs
    `append_as_leader`. After a disk error the batch is added to `failed_appends`, and KafkaStorageError is raised."""
    size = len(records)
    if size < HEADER_SIZE or log.failure is not None:
        return None
    header = V2_HEADER.unpack_from(records)
    _, length, _, magic, _, _, delta, _, newest, producer_id, producer_epoch, first_sequence, _ = header
    if magic != 2 or length + LOG_OVERHEAD != size or not log.rules.is_ordinary(size, newest, now_ms):
        return None
    entry: ProducerEntry | None = None
    if producer_id != NO_PRODUCER_ID:
        entry = log.producer_state.producers.get(producer_id)
        if entry is None or not entry.continues(producer_epoch, first_sequence):
            return None
    if not _is_sound(records, header, entry):
        return None
    base_offset = log.log_end_offset
    last_offset = base_offset + delta
    try:
        is_written = _write(log, records, (base_offset, length, leader_epoch), last_offset, newest, now_ms)
    except KafkaStorageError:
        log.failed_appends.note(producer_id, producer_epoch, first_sequence)
        raise
    if not is_written:
        return None
    log.log_end_offset = last_offset + 1
    if entry is not None:
        last_sequence = first_sequence + delta
        if last_sequence > MAX_SEQUENCE:
            last_sequence -= MAX_SEQUENCE + 1
        entry.batches.append(BatchMetadata(last_sequence, last_offset, delta, newest))
        entry.last_timestamp = newest
    log.settle_end(now_ms)
    return LogAppendInfo(base_offset, last_offset, -1, log.log_start_offset, newest, False)


def _is_sound(records: memoryview, header: tuple[int, ...], entry: ProducerEntry | None) -> bool:
    """Return whether a batch's checksum is right, its header is one that a client may send, and its records, unless
    compressed, match the header."""
    base_offset, _, _, _, crc, attributes, delta, base_timestamp, newest, _, _, _, count = header
    codec = attributes
    if entry is not None and entry.current_txn_first_offset >= 0:
        codec ^= TRANSACTIONAL_BIT
    if not 0 <= codec < _CODEC_COUNT or base_offset or delta + 1 != count or delta < 0:
        return False
    if crc32c(records[ATTRIBUTES_OFFSET:]) != crc:
        return False
    if codec:
        return True
    return check_records(records, HEADER_SIZE, count, base_timestamp) == (count, len(records), newest)


def _write(
    log: PartitionLog, records: memoryview, stamp: tuple[int, int, int], last_offset: int, newest: int, now_ms: int
) -> bool:
    """Stamp the offset and leader epoch on a batch and write it. Return False, without a change, if the batch begins an
    epoch or a segment. Raises KafkaStorageError."""
    epochs = log.epochs.entries
    segment = log.segments.active
    if not epochs or epochs[-1].epoch != stamp[2] or epochs[-1].start_offset > stamp[0]:
        return False
    if segment.should_roll(log.config, len(records), last_offset, newest, now_ms):
        return False
    LEADER_EPOCH_STAMP.pack_into(records, 0, *stamp)
    try:
        segment.append(records, last_offset, newest, stamp[0])
    except OSError as error:
        context = f"while appending records to {log.topic_partition} in dir {log.directory}"
        raise log.storage_error(context, error) from error
    return True
