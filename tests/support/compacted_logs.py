"""Logs of the topic `profiles` with overwritten keys, tombstones and transactions, and the cleaner over them."""

from __future__ import annotations

from support.log_batches import NOW_MS, TRANSACTIONAL, make_batch, make_marker

from kafkatools.core.log.cleaner.cleaner import Cleaner
from kafkatools.core.log.cleaner.manager import LogCleanerManager
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.partition.segment_swap import swap_in
from kafkatools.core.log.producers.append import AppendOrigin
from kafkatools.core.records.batch import read_batches

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.01,
    segment_bytes=1 << 20,
    index_interval_bytes=100,
)


def append(log: PartitionLog, batch: bytearray) -> None:
    """Appends a batch, of a transaction or not, and commits it."""
    log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)


def put(log: PartitionLog, *pairs: tuple[bytes | None, bytes | None], **header: int) -> None:
    """Appends a batch of these keys and values."""
    append(log, make_batch([v for _, v in pairs], keys=[k for k, _ in pairs], **header))


def put_in_transaction(log: PartitionLog, producer: int, *pairs: tuple[bytes, bytes | None]) -> None:
    """Appends a batch of a transaction, which is open until its marker."""
    put(log, *pairs, producer_id=producer, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)


def write_rounds(log: PartitionLog, first: int) -> None:
    """Some segments: keys again and again, tombstones, a transaction that is aborted and one that is committed."""
    for number in range(first, first + 4):
        for key in range(12):
            put(log, (b"k%d" % ((key * 7 + number) % 20), b"value %d" % number), (b"once %d %d" % (number, key), b"x"))
        put(log, (b"k%d" % number, None))
        for producer, is_commit in ((100 + number, False), (200 + number, True)):
            put_in_transaction(log, producer, (b"k2", b"in a transaction"), (b"k3", b"y"))
            append(log, make_marker(producer, 0, commit=is_commit))
        log.roll(NOW_MS)


def clean(log: PartitionLog) -> None:
    """One round of the log cleaner."""
    manager = LogCleanerManager()
    grabbed = manager.grab_filthiest_log([log], NOW_MS)
    assert grabbed is not None
    _, plan = grabbed
    stats = Cleaner(RealFileSystem(), dedupe_buffer_bytes=1 << 16).clean(
        plan, NOW_MS, lambda plan, cleaned: swap_in(log, plan, cleaned, NOW_MS)
    )
    assert manager.done_cleaning(log, plan, stats, NOW_MS)


def data_offsets(log: PartitionLog) -> set[int]:
    """The offsets of all records but markers."""
    return {
        record.offset
        for segment in log.segments
        for batch in read_batches(segment.log.read_at(0, segment.size_bytes))
        if not batch.is_control
        for record in batch.records()
    }
