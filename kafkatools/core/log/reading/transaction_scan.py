"""Scan of a segment's transactional batches by their headers alone.

Where a decision depends on a batch, its checksum is verified: for markers, and for batches that callers pass to
`is_sound`. After damage the scan continues at the next valid batch.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafkatools.core.errors import CorruptRecord, KafkaError
from kafkatools.core.log.dump.resync import next_valid_batch
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.reading.header_columns import (
    ATTRIBUTES,
    BASE_OFFSET,
    CRC,
    KNOWN_ATTRIBUTES,
    LARGEST_OFFSET_GAP,
    LAST_DELTA,
    MAGIC,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    SIZE,
    WIDTH,
)
from kafkatools.core.records import kernel, layout
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.control import MARKER_BATCH_SIZE, ControlRecordType, EndTransactionMarker
from kafkatools.core.records.crc import crc32c

Header = list[int]
"""The columns of one batch header, as in kernel.scan_batches, with its position in the segment."""

_ROWS = 8192
_LARGEST_BATCH = 1 << 30
_SIZE_AT = 8
_CRC_BYTES = 4
_LEGACY_CRC_AT = 12
# In a marker's batch: the position of the key's length (4, as a varint) and of the marker type in the key
_KEY_LENGTH_AT = layout.HEADER_SIZE + 4
_KEY_LENGTH = 8
_TYPE_AT = layout.HEADER_SIZE + 7


class TransactionBatch(NamedTuple):
    """A batch of a transaction. `is_abort` is None for a batch with records, else whether the marker aborts. `damaged`
    counts the damaged places before it in its segment."""

    position: int
    base_offset: int
    producer_id: int
    producer_epoch: int
    is_abort: bool | None
    damaged: int


class TransactionEnd(NamedTuple):
    """The end of a transaction: its first offset (None if not seen), its marker's offset, and whether it aborts.
    `is_abort` None means that the marker is lost and the producer's next transaction begins after `last_offset`."""

    producer_id: int
    first_offset: int | None
    last_offset: int
    is_abort: bool | None


class OpenTransaction(NamedTuple):
    """The first offset of an open transaction, its producer epoch (-1: unknown), and the number of damaged places
    before it."""

    first_offset: int
    producer_epoch: int = -1
    damaged: int = 0


class TransactionFollower:
    """Follows the transactions of a partition batch by batch; `open` has the unfinished ones by producer ID. Since
    transaction version 2 (KIP-890) each transaction of a producer has its own epoch, and its marker has the next one. A
    higher epoch therefore reveals a lost marker."""

    def __init__(self, open_transactions: Mapping[int, OpenTransaction] | None = None) -> None:
        self.open = dict(open_transactions or {})

    def feed(self, batch: TransactionBatch, file: SegmentFile, damaged: int = 0) -> list[TransactionEnd]:
        """Process the next batch and return the transactions that end with it or before it. A batch that would begin a
        transaction is ignored if its checksum is wrong. `damaged` is the number of damaged places before its
        segment."""
        producer_id, is_data = batch.producer_id, batch.is_abort is None
        transaction = self.open.get(producer_id)
        is_next = transaction is not None and 0 <= transaction.producer_epoch < batch.producer_epoch - (not is_data)
        if is_data and (transaction is None or is_next) and not is_sound(file, batch.position):
            return []
        ends = []
        if transaction is not None and is_next:
            ends.append(TransactionEnd(producer_id, transaction.first_offset, batch.base_offset - 1, None))
            transaction = None
        if is_data:
            if transaction is None:
                self.open[producer_id] = OpenTransaction(
                    batch.base_offset, batch.producer_epoch, damaged + batch.damaged
                )
            return ends
        self.open.pop(producer_id, None)
        first = None if transaction is None else transaction.first_offset
        return [*ends, TransactionEnd(producer_id, first, batch.base_offset, batch.is_abort)]


class TransactionScan:
    """Scans one segment for transactional batches from a position on. `damaged` counts damaged places between batches
    and unreadable control batches. `has_lost_tail`: the segment ends with bytes that are no valid batch."""

    def __init__(self, file: SegmentFile, position: int = 0) -> None:
        self._file = file
        self._position = position
        self._table = array("q", bytes(8 * kernel.HEADER_WIDTH * _ROWS))
        self._status = array("q", bytes(8 * kernel.STATUS_SIZE))
        self._last_position = -1
        self._last_offset = -1
        self._last_magic = -1
        self.damaged = 0
        self.has_lost_tail = False

    def windows(self) -> Iterator[list[TransactionBatch]]:
        """Yield lists of transactional batches in file order, which may be empty; callers may stop early. Markers have
        a valid checksum; other batches are not verified unless their headers look wrong."""
        while (window := self._next_window()) is not None:
            rows = kernel.scan_batches(window, 0, len(window), self._table, self._status)
            sound, resume_at = self._sound_rows(rows)
            if resume_at is None:
                resume_at = self._stuck_at(rows)
                end = self._position + self._status[kernel.STATUS_POSITION]
            else:
                end = resume_at
            # verifying headers may have overwritten the window
            window = self._file.view(self._position, max(0, end - self._position))
            yield self._transactional(window, sound)
            self._position = end
            if resume_at is not None:
                self._resume(resume_at)

    def _next_window(self) -> memoryview | None:
        """Return the bytes to scan next, at least one whole batch if there is one; None at the end of the file."""
        if self._position >= self._file.size:
            return None
        return batch_window(self._file, self._position, self._file.size)

    def _cell(self, row: int, column: int) -> int:
        value: int = self._table[row * WIDTH + column]
        return value

    def _sound_rows(self, rows: int) -> tuple[int, int | None]:
        """Return how many headers can be trusted, and where to search for the next batch if not all can (else None). A
        header whose offset does not increase, or with values no broker writes, means that it or the length before it is
        wrong; a valid checksum overrides that."""
        for row in self._doubtful(rows):
            before = self._position + self._cell(row - 1, POSITION) if row else self._last_position
            if before >= 0 and not is_sound(self._file, before):
                return max(row - 1, 0), before + 1
            position = self._position + self._cell(row, POSITION)
            if not is_sound(self._file, position):
                return row, position + 1
        if rows:
            self._last_position = self._position + self._cell(rows - 1, POSITION)
            self._last_offset = self._cell(rows - 1, BASE_OFFSET) + self._cell(rows - 1, LAST_DELTA)
            self._last_magic = self._cell(rows - 1, MAGIC)
        return rows, None

    def _doubtful(self, rows: int) -> list[int]:
        """Return the rows whose header does not look like the successor of the batch before it."""
        cells = self._table[: rows * WIDTH]
        columns = (cells[column::WIDTH] for column in (BASE_OFFSET, LAST_DELTA, MAGIC, ATTRIBUTES))
        doubtful, before, magic_before = [], self._last_offset, self._last_magic
        for row, (first, delta, magic, attributes) in enumerate(zip(*columns, strict=True)):
            is_next = delta >= 0 and before < first <= before + LARGEST_OFFSET_GAP
            if not is_next or magic != magic_before or attributes & ~KNOWN_ATTRIBUTES:
                doubtful.append(row)
            before, magic_before = first + delta, magic
        return doubtful

    def _stuck_at(self, rows: int) -> int | None:
        """Return where to search for the next batch if the bytes after the table are not a batch; None at the end of
        the file or if the next window decides."""
        position = self._position + self._status[kernel.STATUS_POSITION]
        is_damage = self._status[kernel.STATUS_REASON] == kernel.SCAN_TOO_SMALL or rows == 0
        if not is_damage or position >= self._file.size:
            return None
        if self._last_position >= 0 and not is_sound(self._file, self._last_position):
            return self._last_position + 1
        return position + 1

    def _resume(self, start: int) -> None:
        resume_at = next_valid_batch(self._file, start, self._file.size)
        self.has_lost_tail = resume_at < 0
        self.damaged += resume_at >= 0
        self._position = resume_at if resume_at >= 0 else self._file.size
        self._last_position = self._last_offset = self._last_magic = -1

    def _transactional_headers(self, rows: int) -> list[Header]:
        """Return the headers of the transactional batches of the first rows, with positions relative to the window."""
        attributes = self._table[ATTRIBUTES : rows * WIDTH : WIDTH]
        chosen = [row * WIDTH for row, bits in enumerate(attributes) if bits & layout.TRANSACTIONAL_BIT]
        return [self._table[at : at + WIDTH].tolist() for at in chosen if self._table[at + MAGIC] == 2]

    def _transactional(self, window: memoryview, rows: int) -> list[TransactionBatch]:
        batches = []
        for row in self._transactional_headers(rows):
            is_abort = None
            if row[ATTRIBUTES] & layout.CONTROL_BIT:
                start = row[POSITION]
                try:
                    is_abort = _is_abort(window[start : start + row[SIZE]], row[CRC])
                except KafkaError:
                    self.damaged += 1
                    continue
                if is_abort is None:
                    continue
            identity = row[BASE_OFFSET], row[PRODUCER_ID], row[PRODUCER_EPOCH]
            batches.append(TransactionBatch(self._position + row[POSITION], *identity, is_abort, self.damaged))
        return batches


def batch_window(file: SegmentFile, position: int, end: int) -> memoryview:
    """Return the bytes from `position` up to `end` at most, at least one whole batch if one of up to 1 GiB fits."""
    window = file.window(position, min(layout.HEADER_SIZE, end - position))
    size = int.from_bytes(window[8 : layout.LOG_OVERHEAD], "big", signed=True) + layout.LOG_OVERHEAD
    if len(window) < size <= min(end - position, _LARGEST_BATCH):
        window = file.window(position, size)
    return window[: end - position]


def _is_abort(batch: memoryview, crc: int) -> bool | None:
    """Return whether a control batch aborts its transaction; None if the cleaner has emptied it, which it does when the
    transaction has no records left. Raises CorruptRecord if the batch is damaged or is not a transaction marker."""
    if crc32c(batch[layout.ATTRIBUTES_OFFSET :]) != crc:
        raise CorruptRecord("The checksum of a control batch is wrong")
    if len(batch) == MARKER_BATCH_SIZE and batch[_KEY_LENGTH_AT] == _KEY_LENGTH:
        kind = int.from_bytes(batch[_TYPE_AT : _TYPE_AT + 2], "big")
        if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            return kind == ControlRecordType.ABORT
    marker = EndTransactionMarker.of_batch(RecordBatch(batch))
    return None if marker is None else marker.type is ControlRecordType.ABORT


def is_sound(file: SegmentFile, position: int) -> bool:
    """Return whether the batch at a position has a valid checksum."""
    # a copy, because reading the batch for its checksum may overwrite the view
    header = bytes(file.view(position, layout.HEADER_SIZE_UP_TO_MAGIC + _CRC_BYTES))
    if len(header) < layout.HEADER_SIZE_UP_TO_MAGIC + _CRC_BYTES:
        return False
    size = int.from_bytes(header[_SIZE_AT : layout.LOG_OVERHEAD], "big", signed=True) + layout.LOG_OVERHEAD
    if header[layout.MAGIC_OFFSET] < 2:
        stored, start = header[_LEGACY_CRC_AT : layout.MAGIC_OFFSET], layout.LEGACY_CRC_START
        function, least = zlib.crc32, layout.SMALLEST_OVERHEAD
    else:
        stored, start = header[layout.CRC_OFFSET :], layout.ATTRIBUTES_OFFSET
        function, least = crc32c, layout.HEADER_SIZE
    if not least <= size <= file.size - position:
        return False
    return file.checksum(position + start, size - start, function) == int.from_bytes(stored, "big")
