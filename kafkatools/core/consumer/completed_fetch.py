"""One partition's part of a Fetch response, decoded into columns (Kafka's CompletedFetch).

Rules: batches are decoded in order, each after its CRC check (unless check.crcs=false). Records below the fetch offset
are dropped, since a broker returns the whole batch that holds the offset. Control batches, and under read_committed the
batches of aborted transactions, are skipped; `next_fetch_offset` moves past them and past compaction holes. Sound
records before damage are returned first. Then every call raises the same CorruptBatch and the position stays, or with
`skip_corrupt` the damaged batch is reported and skipped.
"""

from __future__ import annotations

import heapq
import logging
from array import array
from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.client_log import ClientLog
from kafkatools.core.consumer.errors import CorruptBatch, FetchFailed
from kafkatools.core.consumer.fetch_messages import FetchedPartition
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import KafkaError
from kafkatools.core.metrics.fetching import FetchedCounts
from kafkatools.core.records import kernel
from kafkatools.core.records.batch import CURRENT_MAGIC, MINIMUM_RECORD_SIZE, RecordBatch, read_batches
from kafkatools.core.records.columns import RecordColumns
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.kernel import STATUS_ROW, STATUS_START
from kafkatools.core.records.layout import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)

if TYPE_CHECKING:
    from kafkatools.core.records.batch import AnyBatch

_log = logging.getLogger(__name__)

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

_RUN_BATCHES = 256
_NOT_PLAIN = CODEC_MASK | TIMESTAMP_TYPE_BIT | CONTROL_BIT

SkipCorrupt = Callable[[CorruptBatch], None]
PassOver = Callable[[TopicPartition, memoryview, "array[int]", int], int]


class FetchOptions(NamedTuple):
    """The options of decoding fetched batches: isolation level, CRC checks, and the decompressed size limit in bytes
    (None: the decoder's default). `skip_corrupt` is called with each CorruptBatch, which is then skipped; None raises
    the CorruptBatch instead.

    `pass_over` is called with the partition, the fetched bytes, a kernel scan table and its number of rows: sound,
    uncompressed batches from the fetch position on. It returns how many of the first ones need not be decoded, since
    the caller does not want their records."""

    isolation_level: int = READ_UNCOMMITTED
    check_crcs: bool = True
    max_decompressed_bytes: int | None = None
    skip_corrupt: SkipCorrupt | None = None
    pass_over: PassOver | None = None
    log_prefix: str = ""


class FetchedColumns(NamedTuple):
    """Fetched records of one partition, as columns over the receive buffer."""

    topic: str
    partition: int
    columns: RecordColumns

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic and partition number of the records."""
        return TopicPartition(self.topic, self.partition)

    @property
    def delivery_count(self) -> int | None:
        """The number of deliveries of the records, with this one; None unless a share consumer read them."""
        return None

    def cut(self, start: int, stop: int) -> FetchedColumns:
        """Return rows `start` to `stop`, exclusive."""
        return self._replace(columns=self.columns.slice(start, stop))


class AcquiredColumns(FetchedColumns):
    """Records that a share consumer acquired, with the same delivery count."""

    _delivery_count: int = 0

    @classmethod
    def of(cls, fetched: FetchedColumns, delivery_count: int) -> AcquiredColumns:
        """Return the records with their delivery count."""
        acquired = cls(*fetched)
        acquired._delivery_count = delivery_count
        return acquired

    @property
    def delivery_count(self) -> int | None:
        """The number of deliveries of the records, with this one."""
        return self._delivery_count

    def cut(self, start: int, stop: int) -> FetchedColumns:
        """Return rows `start` to `stop`, exclusive."""
        return AcquiredColumns.of(super().cut(start, stop), self._delivery_count)


class CompletedFetch:
    """The buffered batches that one Fetch response holds for one partition, handed out as record columns."""

    def __init__(self, partition: TopicPartition, data: FetchedPartition, fetch_offset: int, options: FetchOptions):
        self.partition = partition
        self.data = data
        self.fetch_offset = fetch_offset
        self.next_fetch_offset = fetch_offset
        self.last_epoch = -1
        self.is_initialized = False
        self.is_consumed = False
        self.size_bytes = 0 if data.records is None else len(data.records)
        self.record_count = 0
        self.counted = FetchedCounts(1)
        self._options = options
        self._records = data.records if data.records is not None else memoryview(b"")
        self._end = 0
        self._can_join = True
        self._not_plain = _NOT_PLAIN | (TRANSACTIONAL_BIT if options.isolation_level == READ_COMMITTED else 0)
        self._columns: RecordColumns | None = None
        self._column_start = 0
        self._columns_next_offset = fetch_offset
        self._error: KafkaError | None = None
        self._damage: tuple[AnyBatch, KafkaError] | None = None  # in a batch, after the records in `_columns`
        self._aborted = [(item.first_offset, item.producer_id) for item in data.aborted_transactions or ()]
        heapq.heapify(self._aborted)
        self._aborted_producers: set[int] = set()

    @cached_property
    def _table(self) -> array[int]:
        """The reused array into which the kernel writes the parsed headers of up to 256 batches."""
        return array("q", bytes(8 * kernel.HEADER_WIDTH * _RUN_BATCHES))

    def drain(self) -> None:
        """Drop the remaining batches and mark the fetch as consumed."""
        self.is_consumed = True
        self._columns = self._damage = None
        self._end = len(self._records)

    def fetch_columns(self, max_records: int) -> list[RecordColumns]:
        """Return up to `max_records` further records, one item for each batch or joined run of batches; empty at the
        end. `record_count` counts them. Damaged batches are skipped with `skip_corrupt`. Otherwise raises CorruptBatch:
        at once, or on the next call when sound records precede the damage."""
        runs: list[RecordColumns] = []
        remaining = max_records
        while remaining > 0:
            try:
                columns = self._next_columns()
            except KafkaError as error:
                if runs:
                    break
                raise error from error.__cause__
            if columns is None:
                break
            stop = min(columns.count, self._column_start + remaining)
            runs.append(
                columns if stop - self._column_start == columns.count else columns.slice(self._column_start, stop)
            )
            remaining -= stop - self._column_start
            self._move_to(columns, stop)
        self.record_count += max_records - remaining
        return runs

    def _move_to(self, columns: RecordColumns, stop: int) -> None:
        """Advance `next_fetch_offset` past the first `stop` records of the current columns."""
        if stop == columns.count:
            self._columns = None
            self.next_fetch_offset = self._columns_next_offset
        else:
            self._column_start = stop
            self.next_fetch_offset = columns.offsets[stop - 1] + 1

    def _next_columns(self) -> RecordColumns | None:
        """Return the current columns or those of the next batch with records. None at the end, marking the fetch as
        consumed. Raises CorruptBatch without `skip_corrupt`."""
        if self._error is not None:
            raise self._error
        while self._columns is None:
            if self._damage is not None:
                damaged, error = self._damage
                self._damage = None
                if self.next_fetch_offset < damaged.next_offset:
                    self._damaged(damaged, error, is_inside=True)
                else:
                    ClientLog(_log, self._options.log_prefix).warning(
                        "A batch of %s has extra bytes after the last record: %s", self.partition, error
                    )
            if self._can_join and self._load_run():
                continue
            batch = self._next_batch()
            if batch is None:
                self.is_consumed = True
                return None
            self._load(batch)
        return self._columns

    def _load_run(self) -> bool:
        """Decode a run of plain batches into one set of columns, so that each batch costs little more than its CRC.
        Returns False, without consuming anything, when the next batch must be decoded on its own."""
        if not self._is_plain_at(self._end):
            return False
        table, status = self._table, array("q", (0, 0))
        rows = kernel.scan_batches(self._records, self._end, len(self._records), table, status)
        rows = self._plain_rows(rows)
        passed = self._pass_over(table, rows)
        if passed:
            table, rows = table[passed * kernel.HEADER_WIDTH :], rows - passed
            if not rows:
                return True
        columns = join_batches(self._records, table, rows) if rows else None
        if columns is None:
            self._can_join = not rows
            return False
        last = (rows - 1) * kernel.HEADER_WIDTH
        self._end = table[last] + table[last + 2]
        self.last_epoch = table[4]
        self._show(columns, table[last + 1] + table[last + 7] + 1)
        return True

    def _pass_over(self, table: array[int], rows: int) -> int:
        """Move past the first batches in the header table that the caller does not want. Returns how many."""
        if self._options.pass_over is None or not rows or table[1] < self.next_fetch_offset:
            return 0
        passed = min(self._options.pass_over(self.partition, self._records, table, rows), rows)
        if passed > 0:
            last = (passed - 1) * kernel.HEADER_WIDTH
            self._end = table[last] + table[last + 2]
            self.last_epoch = table[4]
            self.next_fetch_offset = table[last + 1] + table[last + 7] + 1
        return passed

    def _is_plain_at(self, position: int) -> bool:
        """Return whether the batch at `position` can join a run: whole header, magic 2, uncompressed, CreateTime, not a
        control batch, and under read_committed not transactional."""
        records = self._records
        if len(records) - position < HEADER_SIZE or records[position + MAGIC_OFFSET] != CURRENT_MAGIC:
            return False
        return not records[position + ATTRIBUTES_OFFSET + 1] & self._not_plain

    def _plain_rows(self, rows: int) -> int:
        """Return how many of the first `rows` batches in the header table can be decoded as one run. Each must be plain
        and non-empty, have the first batch's leader epoch and, with check.crcs, the right CRC."""
        records, table, not_plain, check_crcs = self._records, self._table, self._not_plain, self._options.check_crcs
        epoch = table[4]
        for row in range(rows):
            slot = row * kernel.HEADER_WIDTH
            position, size = table[slot], table[slot + 2]
            if table[slot + 3] != CURRENT_MAGIC or size < HEADER_SIZE or table[slot + 6] & not_plain:
                return row
            if table[slot + 4] != epoch or table[slot + 13] <= 0:
                return row
            if check_crcs and crc32c(records[position + ATTRIBUTES_OFFSET : position + size]) != table[slot + 5]:
                return row
        return rows

    def _next_batch(self) -> AnyBatch | None:
        """Return the next whole batch, None at the end. For bytes that cannot be a batch, raises CorruptBatch, or with
        `skip_corrupt` reports and skips them."""
        while True:
            try:
                batch = next(read_batches(self._records, self._end), None)
            except KafkaError as error:
                self._pass_unreadable(error)
                continue
            if batch is not None:
                self._end = batch.position + batch.size_bytes
            return batch

    def _pass_unreadable(self, error: KafkaError) -> None:
        """Report bytes with an impossible batch size or magic byte as damage and, with `skip_corrupt`, skip that batch.
        A batch size that does not fit skips the rest of the response. Raises CorruptBatch without `skip_corrupt`."""
        batch = RecordBatch(self._records, self._end)
        is_plausible = batch.length >= HEADER_SIZE - LOG_OVERHEAD and self._end + batch.size_bytes <= len(self._records)
        self._damaged(batch if is_plausible else None, error)
        self._end = self._end + batch.size_bytes if is_plausible else len(self._records)

    def _load(self, batch: AnyBatch) -> None:
        """Decode a batch's records from the position on into `_columns`, which stays None when there are none. A batch
        damaged before its first record raises CorruptBatch or, with `skip_corrupt`, is skipped."""
        try:
            if self._options.check_crcs:
                batch.ensure_valid()
            self.last_epoch = batch.partition_leader_epoch
            columns, damage = (None, None) if self._is_passed_over(batch) else self._decode(batch)
            if damage is not None and (columns is None or not columns.count):
                raise damage
        except KafkaError as error:
            self._damaged(batch, error)
            return
        if columns is None:
            self.next_fetch_offset = max(self.next_fetch_offset, batch.next_offset)
        elif damage is None:
            self._show(columns, batch.next_offset)
        else:
            # The CRC holds, so the damage was written that way: the records before it are sound and returned.
            self._damage = batch, damage
            self._show(columns, columns.offsets[-1] + 1)

    def _show(self, columns: RecordColumns, next_offset: int) -> None:
        """Make columns that end before `next_offset` the current ones, starting at the position."""
        start = bisect_left(columns.offsets, self.next_fetch_offset)
        if start == columns.count:
            self.next_fetch_offset = max(self.next_fetch_offset, next_offset)
        else:
            self._columns, self._column_start, self._columns_next_offset = columns, start, next_offset

    def _decode(self, batch: AnyBatch) -> tuple[RecordColumns, KafkaError | None]:
        """Return a batch's columns up to its first unreadable record, and that record's error or None. Raises the error
        of a message set (magic 0 or 1) instead."""
        limit = self._options.max_decompressed_bytes
        if isinstance(batch, RecordBatch):
            return batch.try_columns() if limit is None else batch.try_columns(max_output_bytes=limit)
        return (batch.columns() if limit is None else batch.columns(max_output_bytes=limit)), None

    def _is_passed_over(self, batch: AnyBatch) -> bool:
        """Return whether to skip a batch: a control batch, or an aborted one under read_committed. Also updates the set
        of producers whose transaction at this offset was aborted."""
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

    def _damaged(self, batch: AnyBatch | None, error: KafkaError, is_inside: bool = False) -> None:
        """Store and raise a CorruptBatch, or with `skip_corrupt` report it there and move the position past it.
        `is_inside`: the batch's records before the position are sound and were already returned."""
        offsets = (self.next_fetch_offset, self.next_fetch_offset) if batch is None else self._stated_offsets(batch)
        if is_inside:
            offsets = self.next_fetch_offset, offsets[1]
        corrupt = CorruptBatch(*self.partition, offsets, self.next_fetch_offset, str(error))
        corrupt.__cause__ = error
        if self._options.skip_corrupt is None:
            self._error = corrupt
            raise corrupt
        self._options.skip_corrupt(corrupt)
        self.next_fetch_offset = corrupt.next_offset

    def _stated_offsets(self, batch: AnyBatch) -> tuple[int, int]:
        """Return the first and last offset in a damaged batch's header; the position twice if implausible."""
        position, end = self.next_fetch_offset, self.data.high_watermark
        try:
            first, last = batch.base_offset, batch.last_offset
        except KafkaError:
            return position, position
        if not 0 <= first <= last or last < position or 0 <= end <= last:
            return position, position
        return first, last

    def check_progress(self) -> None:
        """Raise FetchFailed when the response has bytes but no whole batch: another fetch would return the same.
        Damaged bytes do not raise here; `fetch_columns` reports them."""
        if self.size_bytes and not self._is_readable():
            raise FetchFailed(
                f"Failed to make progress reading messages at {self.partition}={self.fetch_offset}. "
                f"Received a non-empty fetch response from the server, but no complete records were found."
            )

    def _is_readable(self) -> bool:
        try:
            return next(read_batches(self._records), None) is not None
        except KafkaError:
            return True  # damage: fetch_columns raises it with its offset


def join_batches(buffer: memoryview, table: array[int], rows: int) -> RecordColumns | None:
    """Decode the plain batches in the first `rows` rows of a kernel scan table into one set of columns; None when one
    is damaged."""
    total = sum(table[13 : rows * kernel.HEADER_WIDTH : kernel.HEADER_WIDTH])
    if total * MINIMUM_RECORD_SIZE > len(buffer):
        return None
    longs = kernel.new_longs(total), kernel.new_longs(total)
    key_places, value_places = (
        (kernel.new_ints(total), kernel.new_ints(total)),
        (kernel.new_ints(total), kernel.new_ints(total)),
    )
    ints = (*key_places, *value_places, array("i", bytes(4 * total)), array("i", bytes(4 * total)))
    status, next_row = array("q", (0, 0, 0, 0)), 0
    for slot in range(0, rows * kernel.HEADER_WIDTH, kernel.HEADER_WIDTH):
        position, base_offset, size = table[slot : slot + 3]
        end, expected = position + size, next_row + table[slot + 13]
        status[STATUS_START], status[STATUS_ROW] = position + HEADER_SIZE, next_row
        next_row = kernel.decode_records(buffer[:end], expected, base_offset, table[slot + 8], longs, ints, status)
        if next_row != expected or status[0] != end:
            return None
    return RecordColumns(buffer, longs, ints)


def _is_abort_marker(batch: AnyBatch) -> bool:
    from kafkatools.core.records.control import ControlRecordType, parse_control_type

    key = batch.columns().key(0) if batch.record_count else None
    return key is not None and parse_control_type(key) == ControlRecordType.ABORT
