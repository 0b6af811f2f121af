"""Reads records for a member of a share group and acquires them in the share partition (Kafka's ShareFetchUtils).

A read takes whole record batches, about READ_BYTES at most, since the limit on acquisition counts records, not bytes.
Batches before the first and after the last acquired record are not sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkatools.core.broker.replicas.partition import READ_COMMITTED, Partition
from kafkatools.core.broker.replicas.share.partition import Acquired, SharePartition, Wish
from kafkatools.core.records.batch import read_batches

READ_BYTES = 1 << 20
MOST_READS = 10


@dataclass(slots=True)
class ShareFetched:
    """The records and acquired offsets of one partition in a ShareFetch response."""

    error_code: int = 0
    error_message: str | None = None
    records: memoryview | None = None
    acquired: Sequence[Acquired] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The number of acquired offsets."""
        return sum(acquired_range.last_offset - acquired_range.first_offset + 1 for acquired_range in self.acquired)


def available_bytes(partition: Partition, shared: SharePartition, isolation_level: int, min_bytes: int) -> int:
    """Estimate the bytes that can be acquired now: 0 without readable records or room for locks, and just 1 for a
    `min_bytes` of at most 1. Also advances the share partition's start offset to the log start offset. Raises
    KafkaError."""
    shared.note_log_start(partition.log.log_start_offset)
    offset = shared.next_fetch_offset()
    if offset >= partition.fetch_end_offset(isolation_level) or not shared.has_room():
        return 0
    if min_bytes <= 1:
        return 1
    return partition.read(offset, min_bytes, isolation_level, min_one_message=True).size_bytes


def read(
    partition: Partition, shared: SharePartition, isolation_level: int, limits: tuple[int, Wish], now_ms: int
) -> ShareFetched:
    """Read and acquire records, skipping reads whose records are all of aborted transactions. After MOST_READS such
    reads the result is empty. Raises KafkaError, OSError."""
    for _ in range(MOST_READS):
        previous_offset = shared.next_fetch_offset()
        fetched = _read_once(partition, shared, isolation_level, limits, now_ms)
        if fetched.acquired or shared.next_fetch_offset() == previous_offset:
            return fetched
    return ShareFetched()


def _read_once(
    partition: Partition, shared: SharePartition, isolation_level: int, limits: tuple[int, Wish], now_ms: int
) -> ShareFetched:
    max_bytes, wish = limits
    if available_bytes(partition, shared, isolation_level, 1) == 0:
        return ShareFetched()
    offset = shared.next_fetch_offset()
    log_slice = partition.read(offset, min(max_bytes, READ_BYTES), isolation_level, min_one_message=True)
    if not log_slice.size_bytes:
        return ShareFetched()
    data = memoryview(log_slice.read())
    batches = [batch for batch in read_batches(data) if batch.last_offset >= offset]
    if not batches:
        return ShareFetched()
    spans = [(batch.base_offset, batch.last_offset) for batch in batches]
    acquired = shared.acquire(wish, spans, offset, now_ms)
    if acquired and isolation_level == READ_COMMITTED:
        acquired = _without_aborted(partition, shared, batches, acquired)
    return ShareFetched(records=_acquired_records(batches, data, acquired), acquired=acquired)


def _acquired_records(batches: Sequence[Any], data: memoryview, acquired: Sequence[Acquired]) -> memoryview | None:
    """Return the bytes from the first to the last batch with an acquired offset, None without one."""
    if not acquired:
        return None
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    acquired_batches = [batch for batch in batches if batch.last_offset >= first and batch.base_offset <= last]
    return data[acquired_batches[0].position : acquired_batches[-1].position + acquired_batches[-1].size_bytes]


def _without_aborted(
    partition: Partition, shared: SharePartition, batches: Sequence[Any], acquired: Sequence[Acquired]
) -> list[Acquired]:
    """Archive the records of aborted transactions in the share partition and return the acquired offsets without
    them."""
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    aborted = list(partition.log.aborted_transactions(first, last + 1))
    remaining = list(acquired)
    for batch in batches:
        base, end = batch.base_offset, batch.last_offset
        if not batch.is_transactional or batch.is_control:
            continue
        if any(t.first_offset <= base <= t.last_offset and t.producer_id == batch.producer_id for t in aborted):
            shared.archive(base, end)
            remaining = [part for acquired_range in remaining for part in _cut(acquired_range, base, end)]
    return remaining


def _cut(acquired: Acquired, first: int, last: int) -> list[Acquired]:
    """Return the parts of acquired offsets outside of `first` to `last`."""
    if acquired.last_offset < first or acquired.first_offset > last:
        return [acquired]
    parts = [acquired._replace(last_offset=first - 1), acquired._replace(first_offset=last + 1)]
    return [part for part in parts if part.first_offset <= part.last_offset]
