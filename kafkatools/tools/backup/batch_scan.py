"""Check consecutive record batches of one partition, and follow its transactions, at a cost per batch.

Rules: each batch has a valid size and checksum, and begins at or after the end of the batch before it; only the first
one of a log may begin earlier, where the log start offset lies inside of a batch. Records are not decoded, except the
control record of a transaction marker.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkatools.core.errors import KafkaError
from kafkatools.core.records import kernel
from kafkatools.core.records.batch import RecordBatch, batch_at
from kafkatools.core.records.control import ControlRecordType, EndTransactionMarker
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.header import wrong_checksum
from kafkatools.core.records.layout import ATTRIBUTES_OFFSET, CONTROL_BIT, HEADER_SIZE, TRANSACTIONAL_BIT

POSITION, BASE_OFFSET, SIZE, MAGIC, LEADER_EPOCH, CRC, ATTRIBUTES, LAST_DELTA = range(8)
BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, RECORD_COUNT = range(8, 14)
"""Columns of a row of `kernel.scan_batches`."""
_WIDTH = kernel.HEADER_WIDTH
_ROWS = 1024
_CURRENT_MAGIC = 2


class AbortedTransaction(NamedTuple):
    """An aborted transaction: its producer, the offset of its first record and that of its abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int


class BatchDamage(Exception):
    """A batch that is damaged: its position in the scanned bytes, the offset that was expected there, and a reason."""

    def __init__(self, position: int, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.position, self.offset, self.reason = position, offset, reason


@dataclass
class BatchSummary:
    """A summary of the batches of one object: offsets (base None: no batch), timestamps in ms (-1: none), the first
    offset of each leader epoch, and the transactions that were aborted."""

    base_offset: int | None = None
    next_offset: int = 0
    bytes: int = 0
    crc: int = 0
    min_timestamp: int = -1
    max_timestamp: int = -1
    leader_epochs: list[tuple[int, int]] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)

    def note_times(self, first_ms: int, max_ms: int) -> None:
        """Include the timestamps of a batch."""
        if max_ms >= 0:
            low = first_ms if 0 <= first_ms <= max_ms else max_ms
            self.min_timestamp = low if self.min_timestamp < 0 else min(self.min_timestamp, low)
            self.max_timestamp = max(self.max_timestamp, max_ms)


class BatchScan:
    """The state between two batches of a partition: the next offset, and the first offsets of open transactions by
    producer id. `summary` grows until `begin_object`."""

    def __init__(self, next_offset: int, open_transactions: Mapping[int, int] | None = None) -> None:
        self.next_offset = next_offset
        self.open: dict[int, int] = dict(open_transactions or {})
        self.summary = BatchSummary(next_offset=next_offset)
        self._is_first = True
        self._table = array("q", bytes(8 * _WIDTH * _ROWS))
        self._status = array("q", (0, 0))

    def begin_object(self) -> BatchSummary:
        """Return the summary of the batches so far, and begin another one."""
        done, self.summary = self.summary, BatchSummary(next_offset=self.next_offset)
        return done

    def scan(self, data: memoryview) -> int:
        """Check the whole batches at the start of the data and return their size in bytes. Raises BatchDamage; the
        summary then has the batches before it, also their bytes and checksum."""
        start = position = 0
        try:
            for table, row in header_rows(data, self._table, self._status):
                self._check(data, table, row)
                position = table[row] + table[row + SIZE]
        finally:
            self.summary.crc = crc32c(data[start:position], self.summary.crc)
            self.summary.bytes += position
        if self._status[kernel.STATUS_REASON] == kernel.SCAN_TOO_SMALL:
            raise BatchDamage(position, self.next_offset, "the size of a batch is smaller than that of an empty one")
        return position

    def _check(self, data: memoryview, table: array[int], row: int) -> None:
        position, size = table[row], table[row + SIZE]
        if table[row + MAGIC] != _CURRENT_MAGIC:
            self._check_legacy(data, position)
            return
        if size < HEADER_SIZE or table[row + LAST_DELTA] < 0 or table[row + RECORD_COUNT] < 0:
            raise BatchDamage(position, self.next_offset, "the header of a batch has impossible numbers")
        computed = crc32c(data[position + ATTRIBUTES_OFFSET : position + size])
        if computed != table[row + CRC]:
            raise BatchDamage(position, self.next_offset, wrong_checksum(table[row + CRC], computed))
        base, last = table[row + BASE_OFFSET], table[row + BASE_OFFSET] + table[row + LAST_DELTA]
        self._advance(position, base, last)
        if table[row + ATTRIBUTES] & TRANSACTIONAL_BIT:
            self._follow_transaction(data, table, row)
        summary = self.summary
        summary.note_times(table[row + BASE_TIMESTAMP], table[row + MAX_TIMESTAMP])
        epoch = table[row + LEADER_EPOCH]
        if not summary.leader_epochs or summary.leader_epochs[-1][0] != epoch:
            summary.leader_epochs.append((epoch, base))

    def _check_legacy(self, data: memoryview, position: int) -> None:
        """Check a message set of magic 0 or 1, which old clusters may still have."""
        try:
            batch = batch_at(data, position)
            batch.ensure_valid()
            columns = batch.columns()
        except KafkaError as error:
            raise BatchDamage(position, self.next_offset, str(error)) from None
        self._advance(position, batch.base_offset, batch.last_offset)
        if columns.count:
            self.summary.note_times(min(columns.timestamps), max(columns.timestamps))

    def _advance(self, position: int, base: int, last: int) -> None:
        if base < self.next_offset and not (self._is_first and last >= self.next_offset):
            reason = f"the batch has base offset {base}, and {self.next_offset} or more was expected"
            raise BatchDamage(position, self.next_offset, reason)
        self._is_first = False
        if self.summary.base_offset is None:
            self.summary.base_offset = base
        self.next_offset = self.summary.next_offset = last + 1

    def _follow_transaction(self, data: memoryview, table: array[int], row: int) -> None:
        producer_id, base = table[row + PRODUCER_ID], table[row + BASE_OFFSET]
        if not table[row + ATTRIBUTES] & CONTROL_BIT:
            self.open.setdefault(producer_id, base)
            return
        try:
            marker = EndTransactionMarker.of_batch(RecordBatch(data, table[row]))
        except KafkaError as error:
            raise BatchDamage(table[row], base, str(error)) from None
        first = self.open.pop(producer_id, None)
        if marker is not None and marker.type is ControlRecordType.ABORT and first is not None:
            self.summary.aborted.append(AbortedTransaction(producer_id, first, base))


def header_rows(data: memoryview, table: array[int], status: array[int]) -> Iterator[tuple[array[int], int]]:
    """Yield the table and the index of its row for each whole batch. Positions are relative to `data`. `status` says
    at the end why the scan stopped, as in `kernel.scan_batches`."""
    position = 0
    while True:
        rows = kernel.scan_batches(data, position, len(data), table, status)
        for row in range(0, rows * _WIDTH, _WIDTH):
            yield table, row
        position = status[kernel.STATUS_POSITION]
        if status[kernel.STATUS_REASON] != kernel.SCAN_FULL:
            return
