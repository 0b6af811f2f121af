"""Batches that a broker sent, sorted out by their headers: what of them is for the reader of a range.

Rules: nothing is decompressed or decoded here. A batch is let through when its checksum is right; markers never are.
What became of a transaction is said by a judge: by a broker's answer under read_committed, which names what was aborted
(KIP-98: the batches of a producer from the first offset that is named to its next marker that aborts), or, where that
ends, by the markers that follow. Damage is told in the report of the range, or is a PipelineError when that is strict.
The report counts every sound batch that begins in the range, markers and aborted ones too.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kafkatools.core.consumer.fetcher import FetchedBatches
from kafkatools.core.errors import KafkaError
from kafkatools.core.records import kernel
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.control import ControlRecordType, parse_control_type
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.kernel import HEADER_WIDTH
from kafkatools.core.records.layout import ATTRIBUTES_OFFSET, CONTROL_BIT, HEADER_SIZE, TRANSACTIONAL_BIT
from kafkatools.core.records.legacy import LegacyBatch
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.reports import CHECKSUM, MAGIC, SIZE, Damage, SplitReport

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"
_ROWS = 4096
_POSITION, _BASE_OFFSET, _SIZE, _MAGIC, _CRC, _ATTRIBUTES, _LAST_DELTA, _PRODUCER_ID = 0, 1, 2, 3, 5, 6, 7, 10

Header = Sequence[int]
"""A row of the kernel's table of headers."""


class Run(NamedTuple):
    """The sound batches first..stop of a table of headers over a buffer; the table is void at the next run.
    `transactions`: the state of each row's transaction, None when nobody asked.
    """

    walk: BatchWalk
    buffer: memoryview
    table: array[int]
    first: int
    stop: int
    transactions: Sequence[str | None] | None

    def header(self, row: int) -> Header:
        """A row of the table."""
        return self.table[row * HEADER_WIDTH : (row + 1) * HEADER_WIDTH]

    def base_offset(self, row: int) -> int:
        """Of the batch in a row of the table."""
        return self.table[row * HEADER_WIDTH + _BASE_OFFSET]

    def position(self, row: int) -> int:
        """Where it begins in the buffer."""
        return self.table[row * HEADER_WIDTH + _POSITION]


class Judge(Protocol):
    """Says what became of transactions; batches and markers are shown in the order of the log."""

    is_asked: bool
    """Whether there is anything to say; else nothing is shown."""

    drops_aborted: bool
    """Whether batches of aborted transactions are not for the reader."""

    def state(self, records: memoryview, header: Header) -> str:
        """What became of a batch's transaction. What is said of a marker has no meaning."""


class Kept:
    """Everything is for the reader, whatever becomes of it."""

    is_asked = False
    drops_aborted = False

    def state(self, records: memoryview, header: Header) -> str:
        """Never asked."""
        return OPEN


KEPT = Kept()


class Fate:
    """By the aborted transactions of an answer under read_committed (CompletedFetch.consumeAbortedTransactionsUpTo)."""

    def __init__(self, aborted: Sequence[tuple[int, int]], *, drops_aborted: bool, is_asked: bool = True) -> None:
        self.drops_aborted = drops_aborted
        self.is_asked = is_asked or bool(aborted)
        self._waiting = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapq.heapify(self._waiting)
        self._open: set[int] = set()

    def state(self, records: memoryview, header: Header) -> str:
        """Whether a batch was aborted; a marker that aborts ends the transaction."""
        while self._waiting and self._waiting[0][0] <= header[_BASE_OFFSET] + header[_LAST_DELTA]:
            self._open.add(heapq.heappop(self._waiting)[1])
        producer_id = header[_PRODUCER_ID]
        if header[_ATTRIBUTES] & CONTROL_BIT and producer_id in self._open and _is_abort(records, header):
            self._open.discard(producer_id)
        return ABORTED if producer_id in self._open else COMMITTED


class Markers:
    """By the markers that follow; a transaction without one is open."""

    is_asked = True
    drops_aborted = False

    def __init__(self) -> None:
        self._offsets: dict[int, list[int]] = {}
        self._states: dict[int, list[str]] = {}

    def add(self, records: memoryview, header: Header) -> None:
        """Takes the next marker of the log."""
        self._offsets.setdefault(header[_PRODUCER_ID], []).append(header[_BASE_OFFSET])
        state = ABORTED if _is_abort(records, header) else COMMITTED
        self._states.setdefault(header[_PRODUCER_ID], []).append(state)

    def state(self, records: memoryview, header: Header) -> str:
        """What the first marker behind a batch says."""
        offsets = self._offsets.get(header[_PRODUCER_ID], [])
        place = bisect_right(offsets, header[_BASE_OFFSET])
        return self._states[header[_PRODUCER_ID]][place] if place < len(offsets) else OPEN


class BatchWalk:
    """The batches of one range (start, end), answer by answer."""

    def __init__(self, limits: tuple[int, int], report: SplitReport, *, is_strict: bool) -> None:
        self._start, self._end = limits
        self._report = report
        self._is_strict = is_strict
        self._table = array("q", bytes(8 * HEADER_WIDTH * _ROWS))

    def runs(self, fetched: FetchedBatches, judge: Judge, end: int | None = None) -> Iterator[Run]:
        """The runs of batches that are for the reader and begin below the end."""
        end = self._end if end is None else end
        for headers in self._tables(fetched, end):
            sound = self._sound(fetched.records, headers, end)
            is_new = headers[:, _MAGIC] >= 2
            kept = sound & ~(is_new & (headers[:, _ATTRIBUTES] & CONTROL_BIT != 0))
            states = self._judged(fetched.records, headers, (sound, kept), judge) if judge.is_asked else None
            for first, stop in _stretches(kept):
                yield Run(self, fetched.records, self._table, first, stop, states)

    def collect(self, fetched: FetchedBatches, markers: Markers) -> None:
        """Takes only the markers of an answer."""
        for headers in self._tables(fetched, None):
            is_marker = (headers[:, _MAGIC] >= 2) & (headers[:, _ATTRIBUTES] & CONTROL_BIT != 0)
            for header in headers[is_marker].tolist():
                if _damage(fetched.records, header) is None:
                    markers.add(fetched.records, header)

    def note_damage(self, header: Header, kind: str, reason: str) -> None:
        """Tells of a batch that cannot be read; raises PipelineError when that is not to be gone over."""
        name = f"{self._report.topic}-{self._report.partition}"
        text = f"the batch at offset {header[_BASE_OFFSET]} is damaged: {reason}"
        if self._is_strict:
            raise PipelineError(f"{name}: {text}")
        self._report.damages.append(Damage(name, header[_BASE_OFFSET], header[_SIZE], kind, text))

    def _tables(self, fetched: FetchedBatches, end: int | None) -> Iterator[npt.NDArray[np.int64]]:
        """The headers of an answer, so many at a time, until one begins at the end."""
        records, table, status = fetched.records, self._table, array("q", (0, 0))
        position = 0
        while True:
            rows = kernel.scan_batches(records, position, len(records), table, status)
            position = status[kernel.STATUS_POSITION]
            if rows:
                headers = np.frombuffer(table, np.int64, rows * HEADER_WIDTH).reshape(rows, HEADER_WIDTH)
                last = int(headers[-1, _BASE_OFFSET])
                yield headers
                if end is not None and last >= end:
                    return
            if status[kernel.STATUS_REASON] == kernel.SCAN_TOO_SMALL:
                self.note_damage((position, fetched.next_offset, len(records) - position), SIZE, "it has no true size")
            if status[kernel.STATUS_REASON] != kernel.SCAN_FULL:
                return

    def _sound(self, records: memoryview, headers: npt.NDArray[np.int64], end: int) -> npt.NDArray[np.bool_]:
        """Which batches begin below the end and can be trusted; the report counts those that begin in the range."""
        # What is older has the offset of its last message.
        sound = (headers[:, _MAGIC] < 2) | (headers[:, _BASE_OFFSET] < end)
        for row, header in zip(np.flatnonzero(sound).tolist(), headers[sound].tolist(), strict=True):
            damage = _damage(records, header)
            if damage is not None:
                sound[row] = False
                self.note_damage(header, *damage)
        counted = sound & (headers[:, _BASE_OFFSET] >= self._start)
        self._report.add_batches(headers[counted, _BASE_OFFSET], headers[counted, _CRC])
        return sound

    def _judged(
        self,
        records: memoryview,
        headers: npt.NDArray[np.int64],
        masks: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]],
        judge: Judge,
    ) -> list[str | None]:
        """The states of transactions; of the masks `sound` and `kept` the second loses what is not for the reader."""
        sound, kept = masks
        states: list[str | None] = [None] * len(headers)
        is_transactional = (headers[:, _MAGIC] >= 2) & (headers[:, _ATTRIBUTES] & TRANSACTIONAL_BIT != 0)
        rows = np.flatnonzero(sound & is_transactional)
        for row, header in zip(rows.tolist(), headers[rows].tolist(), strict=True):
            states[row] = judge.state(records, header)
            kept[row] &= not (judge.drops_aborted and states[row] == ABORTED)
        return states


def _damage(records: memoryview, header: Header) -> tuple[str, str] | None:
    """Kind and reason of a batch that cannot be trusted."""
    position, size, magic = header[_POSITION], header[_SIZE], header[_MAGIC]
    is_new = magic == 2 and size >= HEADER_SIZE
    if is_new and crc32c(records[position + ATTRIBUTES_OFFSET : position + size]) == header[_CRC]:
        return None
    if magic > 2 or magic < 0:
        return MAGIC, f"there is no magic {magic}"
    try:
        (RecordBatch if magic == 2 else LegacyBatch)(records, position).ensure_valid()
    except KafkaError as error:
        return CHECKSUM, str(error)
    return None


def _is_abort(records: memoryview, header: Header) -> bool:
    batch = RecordBatch(records, header[_POSITION])
    key = batch.columns().key(0) if batch.record_count else None
    return key is not None and parse_control_type(key) == ControlRecordType.ABORT


def _stretches(kept: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where runs of kept rows begin and stop."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], kept, [False])).astype(np.int8)))
    return [(int(first), int(stop)) for first, stop in edges.reshape(-1, 2).tolist()]
