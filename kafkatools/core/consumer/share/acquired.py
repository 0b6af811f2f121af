"""Records that a ShareFetch acquired for this member, decoded into columns (ShareCompletedFetch).

Rules: a response has whole batches, but only the acquired offsets belong to the member; other records are dropped.
An acquired offset without a record is acknowledged as a gap. The acquired records of a damaged batch are rejected, and
its error is raised by the poll that would have returned them; the sound records of the response come first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkatools.core.consumer.completed_fetch import AcquiredColumns, CompletedFetch, FetchedColumns, FetchOptions
from kafkatools.core.consumer.errors import CorruptBatch
from kafkatools.core.consumer.fetch_messages import ZERO_UUID, FetchedPartition
from kafkatools.core.consumer.share.acknowledgements import GAP, AcknowledgedRange, AcknowledgeType, contiguous
from kafkatools.core.consumer.share.session import PartitionId
from kafkatools.core.records.columns import RecordColumns
from kafkatools.core.topic_partition import TopicPartition

_ALL = 1 << 62


class AcquiredRange(NamedTuple):
    """Offsets that the broker acquired for this member, and how often they were delivered, this time included."""

    first: int
    last: int
    delivery_count: int


class AcquiredRecords(NamedTuple):
    """What one ShareFetch acquired in one partition: records, acknowledgements that need no application (gaps and
    rejected records of damaged batches), and the error of the first damaged batch."""

    node: int
    id: PartitionId
    partition: TopicPartition
    columns: list[FetchedColumns]
    settled: list[AcknowledgedRange]
    error: CorruptBatch | None

    @property
    def record_count(self) -> int:
        """The number of records for the application."""
        return sum(item.columns.count for item in self.columns)


def decode_acquired(
    node: int,
    place: tuple[PartitionId, TopicPartition],
    records: memoryview,
    acquired: Iterable[AcquiredRange],
    options: FetchOptions,
) -> AcquiredRecords:
    """Decode the records of a partition of a ShareFetch response and keep the acquired ones, at least one range.
    `options.skip_corrupt` is not used: damaged batches are rejected."""
    partition_id, partition = place
    ranges = sorted(acquired)
    damaged: list[CorruptBatch] = []
    data = FetchedPartition(partition.topic, ZERO_UUID, partition.partition)
    data.records = records
    fetch = CompletedFetch(partition, data, ranges[0].first, options._replace(skip_corrupt=damaged.append))
    runs = fetch.fetch_columns(_ALL)
    columns: list[FetchedColumns] = []
    settled: list[AcknowledgedRange] = []
    for part in ranges:
        present = list(_of_range(partition, runs, part))
        columns += present
        settled += _settled(part, (item.columns.offsets for item in present), damaged)
    return AcquiredRecords(node, partition_id, partition, columns, settled, damaged[0] if damaged else None)


def _of_range(
    partition: TopicPartition, runs: Sequence[RecordColumns], acquired: AcquiredRange
) -> Iterator[FetchedColumns]:
    for run in runs:
        start, stop = bisect_left(run.offsets, acquired.first), bisect_right(run.offsets, acquired.last)
        if start < stop:
            yield _cut(AcquiredColumns.of(FetchedColumns(*partition, run), acquired.delivery_count), start, stop)


def _cut(item: FetchedColumns, start: int, stop: int) -> FetchedColumns:
    if start == 0 and stop == item.columns.count:
        return item
    return item.cut(start, stop)


def only(item: FetchedColumns, offsets: set[int]) -> Iterator[FetchedColumns]:
    """Yield the records of these offsets, cut into runs."""
    indexes = [index for index, offset in enumerate(item.columns.offsets) if offset in offsets]
    for first, last in contiguous(indexes):
        yield _cut(item, first, last + 1)


def _settled(
    acquired: AcquiredRange, present: Iterable[Sequence[int]], damaged: Sequence[CorruptBatch]
) -> Iterator[AcknowledgedRange]:
    """Yield the acquired offsets that have no record, as rejected ones inside damaged batches, else as gaps."""
    for first, last in _holes(acquired, present):
        position = first
        for batch in damaged:
            start, stop = max(position, batch.first_offset), min(last, batch.next_offset - 1)
            if start > stop:
                continue
            if position < start:
                yield AcknowledgedRange(position, start - 1, GAP)
            yield AcknowledgedRange(start, stop, AcknowledgeType.REJECT)
            position = stop + 1
        if position <= last:
            yield AcknowledgedRange(position, last, GAP)


def _holes(acquired: AcquiredRange, present: Iterable[Sequence[int]]) -> Iterator[tuple[int, int]]:
    position = acquired.first
    for offsets in present:
        for first, last in runs_of(offsets):
            if position < first:
                yield position, first - 1
            position = last + 1
    if position <= acquired.last:
        yield position, acquired.last


def runs_of(offsets: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Return (first, last) of each run of ascending offsets; at once when there is no hole."""
    if not len(offsets):
        return ()
    first, last = offsets[0], offsets[-1]
    return [(first, last)] if last - first + 1 == len(offsets) else contiguous(offsets)
