"""The batches of transactions in a segment, found by headers alone.

Nothing is believed that a checksum does not vouch for where it decides something: markers, and whatever the caller asks
`is_sound` about. Behind a place that is no batch the scan goes on at the next valid one, as every reader of damaged
logs here does.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.resync import next_valid_batch
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.records import kernel, layout
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.control import MARKER_BATCH_SIZE, ControlRecordType, EndTransactionMarker
from kafkatools.core.records.crc import crc32c

Headers = NDArray[np.int64]

_ROWS = 8192
_LARGEST_BATCH = 1 << 30
_SIZE_AT = 8
_CRC_BYTES = 4
_LEGACY_CRC_AT = 12
# of a marker's batch: the length of its key (4, as a varint) and the type in it
_KEY_LENGTH_AT = layout.HEADER_SIZE + 4
_KEY_LENGTH = 8
_TYPE_AT = layout.HEADER_SIZE + 7

_FARTHEST = 1 << 31  # offsets of a segment lie closer together
_KNOWN = 0x7F  # every attribute that has a meaning

# The columns of the table of headers.
_POSITION, _BASE_OFFSET, _BYTES, _MAGIC, _CRC, _ATTRIBUTES, _LAST_DELTA, _PRODUCER_ID, _EPOCH = (
    0,
    1,
    2,
    3,
    5,
    6,
    7,
    10,
    11,
)


class TransactionBatch(NamedTuple):
    """A batch of a transaction; `is_abort` of a marker, None of one with records; `damaged` places came before it in
    its segment."""

    position: int
    base_offset: int
    producer_id: int
    producer_epoch: int
    is_abort: bool | None
    damaged: int


class TransactionEnd(NamedTuple):
    """The end of a transaction: its first offset (None where that was not seen), that of its marker, and whether that
    aborts. None: the marker is lost, and the next transaction of the producer begins right behind `last_offset`."""

    producer_id: int
    first_offset: int | None
    last_offset: int
    is_abort: bool | None


class OpenTransaction(NamedTuple):
    """The first offset of a transaction, the epoch of its producer (-1: not known), and how many places were damaged
    before it."""

    first_offset: int
    producer_epoch: int = -1
    damaged: int = 0


class TransactionFollower:
    """Follows the transactions of a partition batch by batch. `open` are those that have not ended yet, by producer id.
    Since transactions of version 2 (KIP-890) every one of a producer has an epoch of its own, and its marker has the
    next one: an epoch beyond that tells of a marker that is lost."""

    def __init__(self, opened: Mapping[int, OpenTransaction] | None = None) -> None:
        self.open = dict(opened or {})

    def feed(self, batch: TransactionBatch, file: SegmentFile, damaged: int = 0) -> list[TransactionEnd]:
        """Takes the next batch; the transactions that end with it, or were over before it. `damaged` places came
        before its segment."""
        producer_id, is_data = batch.producer_id, batch.is_abort is None
        opened = self.open.get(producer_id)
        is_next = opened is not None and 0 <= opened.producer_epoch < batch.producer_epoch - (not is_data)
        if is_data and (opened is None or is_next) and not is_sound(file, batch.position):
            return []
        ends = []
        if opened is not None and is_next:
            ends.append(TransactionEnd(producer_id, opened.first_offset, batch.base_offset - 1, None))
            opened = None
        if is_data:
            if opened is None:
                self.open[producer_id] = OpenTransaction(
                    batch.base_offset, batch.producer_epoch, damaged + batch.damaged
                )
            return ends
        self.open.pop(producer_id, None)
        first = None if opened is None else opened.first_offset
        return [*ends, TransactionEnd(producer_id, first, batch.base_offset, batch.is_abort)]


class TransactionScan:
    """The batches of transactions of one segment from a position on. `damaged` counts the places between batches that
    were none; `has_lost_tail`: none followed on the last one."""

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
        """Lists of batches in the order of the file; whoever has what he wanted stops."""
        while (window := self._next_window()) is not None:
            rows = kernel.scan_batches(window, 0, len(window), self._table, self._status)
            headers = self._headers(rows)
            sound, resume_at = self._sound_rows(headers)
            if resume_at is None:
                resume_at = self._stuck_at(rows)
                end = self._position + self._status[kernel.STATUS_POSITION]
            else:
                window = self._next_window() or window  # looking at doubtful ones may have moved it
                end = resume_at
            yield self._transactional(window, headers[:sound])
            self._position = end
            if resume_at is not None:
                self._resume(resume_at)

    def _next_window(self) -> memoryview | None:
        """What can be scanned from here on, at least one whole batch if there is one."""
        left = self._file.size - self._position
        if left <= 0:
            return None
        window = self._file.window(self._position, min(layout.HEADER_SIZE, left))
        size = int.from_bytes(window[_SIZE_AT : layout.LOG_OVERHEAD], "big", signed=True) + layout.LOG_OVERHEAD
        if len(window) < size <= min(left, _LARGEST_BATCH):
            window = self._file.window(self._position, size)
        return window

    def _headers(self, rows: int) -> Headers:
        width = kernel.HEADER_WIDTH
        headers = np.frombuffer(self._table, np.int64, rows * width).reshape(rows, width).copy()
        headers[:, _POSITION] += self._position
        return headers

    def _sound_rows(self, headers: Headers) -> tuple[int, int | None]:
        """How many headers can be believed, and where to look for the next batch if that is not all of them. An offset
        that does not go up, or what no broker writes, says that this is no header or that the length before it was
        wrong; whose checksum is right is believed all the same."""
        for row in self._doubtful(headers):
            before = int(headers[row - 1, _POSITION]) if row else self._last_position
            if before >= 0 and not is_sound(self._file, before):
                return max(row - 1, 0), before + 1
            here = int(headers[row, _POSITION])
            if not is_sound(self._file, here):
                return row, here + 1
        if len(headers):
            self._last_position = int(headers[-1, _POSITION])
            self._last_offset = int(headers[-1, _BASE_OFFSET] + headers[-1, _LAST_DELTA])
            self._last_magic = int(headers[-1, _MAGIC])
        return len(headers), None

    def _doubtful(self, headers: Headers) -> list[int]:
        first, magic = headers[:, _BASE_OFFSET], headers[:, _MAGIC]
        last = first + headers[:, _LAST_DELTA]
        before = np.concatenate((np.array([self._last_offset], np.int64), last))[: len(headers)]
        magic_before = np.concatenate((np.array([self._last_magic], np.int64), magic))[: len(headers)]
        is_wrong = (magic != magic_before) | (headers[:, _ATTRIBUTES] & ~_KNOWN != 0) | (last < first)
        found: list[int] = np.flatnonzero(is_wrong | (first <= before) | (first - before > _FARTHEST)).tolist()
        return found

    def _stuck_at(self, rows: int) -> int | None:
        """Where to look for the next batch when what follows the table is none; None when the file ends there, or when
        the next window will show."""
        position = self._position + self._status[kernel.STATUS_POSITION]
        is_damage = self._status[kernel.STATUS_REASON] == kernel.SCAN_TOO_SMALL or rows == 0
        if not is_damage or position >= self._file.size:
            return None
        if self._last_position >= 0 and not is_sound(self._file, self._last_position):
            return self._last_position + 1
        return position + 1

    def _resume(self, start: int) -> None:
        found = next_valid_batch(self._file, start, self._file.size)
        self.has_lost_tail = found < 0
        self.damaged += found >= 0
        self._position = found if found >= 0 else self._file.size
        self._last_position = self._last_offset = self._last_magic = -1

    def _transactional(self, window: memoryview, headers: Headers) -> list[TransactionBatch]:
        mask = (headers[:, _MAGIC] == 2) & (headers[:, _ATTRIBUTES] & layout.TRANSACTIONAL_BIT != 0)
        found = []
        for row in headers[mask].tolist():
            is_abort = None
            if row[_ATTRIBUTES] & layout.CONTROL_BIT:
                start = row[_POSITION] - self._position
                is_abort = _marker(window[start : start + row[_BYTES]], row[_CRC])
                if is_abort is None:
                    self.damaged += 1
                    continue
            found.append(
                TransactionBatch(
                    row[_POSITION], row[_BASE_OFFSET], row[_PRODUCER_ID], row[_EPOCH], is_abort, self.damaged
                )
            )
        return found


def _marker(batch: memoryview, crc: int) -> bool | None:
    """Whether a control batch aborts a transaction; None when it is damaged or ends none."""
    if crc32c(batch[layout.ATTRIBUTES_OFFSET :]) != crc:
        return None
    if len(batch) == MARKER_BATCH_SIZE and batch[_KEY_LENGTH_AT] == _KEY_LENGTH:
        kind = int.from_bytes(batch[_TYPE_AT : _TYPE_AT + 2], "big")
    else:
        try:
            kind = EndTransactionMarker.of_batch(RecordBatch(batch)).type
        except KafkaError:
            return None
    return kind == ControlRecordType.ABORT if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT) else None


def is_sound(file: SegmentFile, position: int) -> bool:
    """Whether the checksum of the batch at a position is right."""
    header = file.view(position, layout.HEADER_SIZE_UP_TO_MAGIC + _CRC_BYTES)
    if len(header) < layout.HEADER_SIZE_UP_TO_MAGIC + _CRC_BYTES:
        return False
    size = int.from_bytes(header[_SIZE_AT : layout.LOG_OVERHEAD], "big", signed=True) + layout.LOG_OVERHEAD
    if header[layout.MAGIC_OFFSET] < 2:
        stored, start, function, least = (
            header[_LEGACY_CRC_AT : layout.MAGIC_OFFSET],
            layout.LEGACY_CRC_START,
            zlib.crc32,
            layout.SMALLEST_OVERHEAD,
        )
    else:
        stored, start, function, least = (
            header[layout.CRC_OFFSET :],
            layout.ATTRIBUTES_OFFSET,
            crc32c,
            layout.HEADER_SIZE,
        )
    if not least <= size <= file.size - position:
        return False
    expected = int.from_bytes(stored, "big")
    return file.checksum(position + start, size - start, function) == expected
