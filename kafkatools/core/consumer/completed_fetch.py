"""One partition's share of a Fetch response on its way to columns: Kafka's CompletedFetch.

Rules: batches are taken in order and each is checked (CRC unless check.crcs=false) before a record of it is handed out.
Records below the fetch offset are dropped (a broker answers with the whole batch that holds the offset). Control
batches and, under read_committed, batches of aborted transactions are passed over, but `next_fetch_offset` moves past
them, as it moves over the holes that compaction left. Damage ends the fetch where it is: what was sound before it is
handed out first, then every try raises the same error, and the position stays.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kafkatools.core.consumer.errors import CorruptBatch, FetchFailed
from kafkatools.core.consumer.fetch_messages import FetchedPartition
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import KafkaError
from kafkatools.core.records.batch import read_batches
from kafkatools.core.records.columns import RecordColumns
from kafkatools.core.records.control import ControlRecordType, parse_control_type

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

SkipCorrupt = Callable[[CorruptBatch], None]


class FetchOptions(NamedTuple):
    """How batches are read. `skip_corrupt`: called with the damage, which is then passed over; None = damage is an
    error.
    """

    isolation_level: int = READ_UNCOMMITTED
    check_crcs: bool = True
    max_decompressed_bytes: int | None = None
    skip_corrupt: SkipCorrupt | None = None


class FetchedColumns(NamedTuple):
    """Records of one partition, in columns over the receive buffer."""

    topic: str
    partition: int
    columns: RecordColumns


class CompletedFetch:
    """Batches of one partition that wait to be handed out."""

    def __init__(self, partition: TopicPartition, data: FetchedPartition, fetch_offset: int, options: FetchOptions):
        self.partition = partition
        self.data = data
        self.fetch_offset = fetch_offset
        self.next_fetch_offset = fetch_offset
        self.last_epoch = -1
        self.is_initialized = False
        self.is_consumed = False
        self.size_bytes = 0 if data.records is None else len(data.records)
        self._options = options
        self._batches: Iterator[Any] = iter(read_batches(data.records)) if data.records is not None else iter(())
        self._columns: RecordColumns | None = None
        self._column_start = 0
        self._columns_next_offset = fetch_offset
        self._error: KafkaError | None = None
        self._aborted = [(item.first_offset, item.producer_id) for item in data.aborted_transactions or ()]
        heapq.heapify(self._aborted)
        self._aborted_producers: set[int] = set()

    def drain(self) -> None:
        """Gives up what is left."""
        self.is_consumed = True
        self._columns = None
        self._batches = iter(())

    def fetch_columns(self, max_records: int) -> list[RecordColumns]:
        """Up to `max_records` further records, one item for each batch; empty at the end of the fetch.

        Raises CorruptBatch for damage, at once or, if there were sound records before it, at the next call.
        """
        taken: list[RecordColumns] = []
        left = max_records
        while left > 0:
            try:
                columns = self._next_columns()
            except KafkaError as error:
                if taken:
                    break
                raise error from error.__cause__
            if columns is None:
                break
            stop = min(columns.count, self._column_start + left)
            taken.append(
                columns if stop - self._column_start == columns.count else columns.slice(self._column_start, stop)
            )
            left -= stop - self._column_start
            self._move_to(columns, stop)
        return taken

    def _move_to(self, columns: RecordColumns, stop: int) -> None:
        if stop == columns.count:
            self._columns = None
            self.next_fetch_offset = self._columns_next_offset
        else:
            self._column_start = stop
            self.next_fetch_offset = columns.offsets[stop - 1] + 1

    def _next_columns(self) -> RecordColumns | None:
        """The columns that are being handed out, or those of the next batch that has records; None at the end."""
        if self._error is not None:
            raise self._error
        while self._columns is None:
            batch = self._next_batch()
            if batch is None:
                self.is_consumed = True
                return None
            self._load(batch)
        return self._columns

    def _next_batch(self) -> Any:
        try:
            return next(self._batches, None)
        except KafkaError as error:
            return self._damaged(None, error)

    def _load(self, batch: Any) -> None:
        """Puts a batch's records from the position on into `_columns`; leaves it None when the batch has none to show."""
        self.last_epoch = batch.partition_leader_epoch
        try:
            if self._options.check_crcs:
                batch.ensure_valid()
            columns = None if self._is_passed_over(batch) else self._decode(batch)
        except KafkaError as error:
            self._damaged(batch, error)
            return
        start = 0 if columns is None else _first_at(columns, self.next_fetch_offset)
        if columns is None or start == columns.count:
            self.next_fetch_offset = max(self.next_fetch_offset, batch.next_offset)
            return
        self._columns, self._column_start, self._columns_next_offset = columns, start, batch.next_offset

    def _decode(self, batch: Any) -> RecordColumns:
        limit = self._options.max_decompressed_bytes
        columns: RecordColumns = batch.columns() if limit is None else batch.columns(max_output_bytes=limit)
        return columns

    def _is_passed_over(self, batch: Any) -> bool:
        """Whether no record of the batch is for the user: control batches, and aborted ones under read_committed."""
        if self._options.isolation_level == READ_COMMITTED and batch.has_producer_id:
            self._open_aborted_up_to(batch.last_offset)
            producer_id: int = batch.producer_id
            if batch.is_control:
                if _is_abort_marker(batch):
                    self._aborted_producers.discard(producer_id)
            elif batch.is_transactional and producer_id in self._aborted_producers:
                return True
        return bool(batch.is_control)

    def _open_aborted_up_to(self, offset: int) -> None:
        while self._aborted and self._aborted[0][0] <= offset:
            self._aborted_producers.add(heapq.heappop(self._aborted)[1])

    def _damaged(self, batch: Any, error: KafkaError) -> None:
        """Keeps the damage as this fetch's error, or reports it and moves past when that is the policy."""
        if batch is None:
            offsets = (self.next_fetch_offset, self.next_fetch_offset)
        else:
            offsets = (batch.base_offset, self._plausible_last_offset(batch))
        corrupt = CorruptBatch(*self.partition, offsets, self.next_fetch_offset, str(error))
        corrupt.__cause__ = error
        if self._options.skip_corrupt is None:
            self._error = corrupt
            raise corrupt
        self._options.skip_corrupt(corrupt)
        self.next_fetch_offset = corrupt.next_offset
        if batch is None:
            self.drain()

    def _plausible_last_offset(self, batch: Any) -> int:
        """The last offset a damaged batch states, unless it cannot be: those bytes may be what is damaged."""
        last: int = batch.last_offset
        end = self.data.high_watermark
        if last < batch.base_offset or (0 <= end <= last):
            return int(batch.base_offset)
        return last

    def check_progress(self) -> None:
        """Raises FetchFailed for bytes without a whole batch: the next fetch would bring the same (KIP-74 rules it out)."""
        if self.size_bytes and next(iter(read_batches(self.data.records)), None) is None:
            raise FetchFailed(
                f"Failed to make progress reading messages at {self.partition}={self.fetch_offset}. "
                f"Received a non-empty fetch response from the server, but no complete records were found."
            )


def _first_at(columns: RecordColumns, offset: int) -> int:
    """The index of the first record at or after an offset."""
    if not columns.count or columns.offsets[0] >= offset:
        return 0
    low, high = 0, columns.count
    while low < high:
        middle = (low + high) // 2
        if columns.offsets[middle] < offset:
            low = middle + 1
        else:
            high = middle
    return low


def _is_abort_marker(batch: Any) -> bool:
    key = batch.columns().key(0) if batch.record_count else None
    return key is not None and parse_control_type(key) == ControlRecordType.ABORT
