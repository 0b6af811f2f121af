"""Selection of fetched batches by their headers: which of them the reader of an offset range gets.

Rules: nothing is decompressed or decoded here. Batches with a valid checksum are selected, except transaction markers
and, with read_committed, batches of aborted transactions. Under read_committed the fetch response names the aborted
transactions (KIP-98: the batches of a producer from the named first offset to its next abort marker). Above the last
stable offset the later markers decide. Damage goes to the range's report, or is a PipelineError if strict. The report
counts each valid batch that begins in the range, including markers and aborted batches.
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
from kafkatools.pipeline.run.reports import CHECKSUM, MAGIC, OFFSET, SIZE, Damage, SplitReport
from kafkatools.tools.arrow.columns import ABORTED, COMMITTED, OPEN

_ROWS = 4096
_POSITION, _BASE_OFFSET, _SIZE, _MAGIC, _CRC, _ATTRIBUTES, _LAST_DELTA, _PRODUCER_ID = 0, 1, 2, 3, 5, 6, 7, 10

Header = Sequence[int]
"""A row of the kernel's table of headers."""


class Run(NamedTuple):
    """Valid batches first..stop of a header table over a buffer; the table is reused for the next run. `transactions`
    has the state of each row's transaction, None if not determined."""

    walk: BatchWalk
    buffer: memoryview
    table: array[int]
    first: int
    stop: int
    transactions: Sequence[str | None] | None

    @property
    def headers(self) -> npt.NDArray[np.int64]:
        """The header table's rows of the run, as a matrix."""
        return np.frombuffer(self.table, np.int64).reshape(-1, HEADER_WIDTH)[self.first : self.stop]

    def header(self, row: int) -> Header:
        """Return a row of the header table."""
        return self.table[row * HEADER_WIDTH : (row + 1) * HEADER_WIDTH]

    def base_offset(self, row: int) -> int:
        """Return the base offset of the batch in a row of the header table."""
        return self.table[row * HEADER_WIDTH + _BASE_OFFSET]

    def position(self, row: int) -> int:
        """Return the position in the buffer of the batch in a row of the header table."""
        return self.table[row * HEADER_WIDTH + _POSITION]


class Judge(Protocol):
    """Decides the state of transactions; `state` is called for transactional batches and markers in log order."""

    drops_aborted: bool
    """Whether the reader does not get batches of aborted transactions."""

    def state(self, records: memoryview, header: Header) -> str:
        """Return OPEN, COMMITTED or ABORTED for a batch's transaction; the result for a marker has no meaning."""


class AbortedTransactions:
    """Judges by the aborted transactions of a read_committed fetch response
    (CompletedFetch.consumeAbortedTransactionsUpTo)."""

    def __init__(self, aborted: Sequence[tuple[int, int]], *, drops_aborted: bool) -> None:
        self.drops_aborted = drops_aborted
        self._waiting = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapq.heapify(self._waiting)
        self._open: set[int] = set()

    def state(self, records: memoryview, header: Header) -> str:
        """Return ABORTED if the batch belongs to a transaction that the fetch response names, else COMMITTED. An abort
        marker ends its producer's aborted transaction, so batches must come in log order."""
        while self._waiting and self._waiting[0][0] <= header[_BASE_OFFSET] + header[_LAST_DELTA]:
            self._open.add(heapq.heappop(self._waiting)[1])
        producer_id = header[_PRODUCER_ID]
        if header[_ATTRIBUTES] & CONTROL_BIT and producer_id in self._open and _is_abort(records, header):
            self._open.discard(producer_id)
        return ABORTED if producer_id in self._open else COMMITTED


class Markers:
    """Judges by the markers that follow in the log; a transaction without a marker is open."""

    drops_aborted = False

    def __init__(self) -> None:
        self._offsets: dict[int, list[int]] = {}
        self._states: dict[int, list[str]] = {}

    def add(self, records: memoryview, header: Header) -> None:
        """Add the next marker of the log."""
        self._offsets.setdefault(header[_PRODUCER_ID], []).append(header[_BASE_OFFSET])
        state = ABORTED if _is_abort(records, header) else COMMITTED
        self._states.setdefault(header[_PRODUCER_ID], []).append(state)

    def state(self, records: memoryview, header: Header) -> str:
        """Return the state that the producer's next marker after a batch gives; OPEN if there is none."""
        offsets = self._offsets.get(header[_PRODUCER_ID], [])
        place = bisect_right(offsets, header[_BASE_OFFSET])
        return self._states[header[_PRODUCER_ID]][place] if place < len(offsets) else OPEN


class BatchWalk:
    """Walks through the fetch responses of one offset range, selects batches and counts them in the report."""

    def __init__(self, limits: tuple[int, int], report: SplitReport, *, is_strict: bool) -> None:
        self._start, self._end = limits
        self._report = report
        self._is_strict = is_strict
        self._table = array("q", bytes(8 * HEADER_WIDTH * _ROWS))

    def runs(self, fetched: FetchedBatches, judge: Judge | None, end: int | None = None) -> Iterator[Run]:
        """Yield runs of consecutive valid data batches of a fetch response that begin below `end` (None: the end of the
        range), and count them in the report. The `judge` determines transaction states and may drop aborted batches;
        without one no state is known and aborted batches are yielded. Raises PipelineError for damage if strict."""
        end = self._end if end is None else end
        for headers in self._tables(fetched, end):
            sound = self._sound(fetched.records, headers, end)
            is_new = headers[:, _MAGIC] >= 2
            data_mask = sound & ~(is_new & (headers[:, _ATTRIBUTES] & CONTROL_BIT != 0))
            states = None if judge is None else self._judge_batches(fetched.records, headers, (sound, data_mask), judge)
            for first, stop in _stretches(data_mask):
                yield Run(self, fetched.records, self._table, first, stop, states)

    def collect(self, fetched: FetchedBatches, markers: Markers) -> None:
        """Add the transaction markers of a fetch response to `markers`; damaged ones are skipped, and nothing is
        counted in the report."""
        for headers in self._tables(fetched, None):
            is_marker = (headers[:, _MAGIC] >= 2) & (headers[:, _ATTRIBUTES] & CONTROL_BIT != 0)
            for header in headers[is_marker].tolist():
                if _damage(fetched.records, header) is None:
                    markers.add(fetched.records, header)

    def note_damage(self, header: Header, kind: str, reason: str) -> None:
        """Report a batch that cannot be read, or raise PipelineError if strict."""
        name = f"{self._report.topic}-{self._report.partition}"
        if self._is_strict:
            raise PipelineError(f"{name}: the batch at offset {header[_BASE_OFFSET]} is damaged: {reason}")
        damage = Damage(name, header[_BASE_OFFSET], header[_SIZE], kind, f"the batch is damaged: {reason}", OFFSET)
        self._report.damages.append(damage)

    def _tables(self, fetched: FetchedBatches, end: int | None) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the headers of a fetch response, up to 4096 at a time, until a batch begins at or after `end` (None:
        all). A size field below the minimum is reported as damage and ends the response."""
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
                header = (position, fetched.next_offset, len(records) - position)
                self.note_damage(header, SIZE, "its size field is below the minimum")
            if status[kernel.STATUS_REASON] != kernel.SCAN_FULL:
                return

    def _sound(self, records: memoryview, headers: npt.NDArray[np.int64], end: int) -> npt.NDArray[np.bool_]:
        """Return a mask of the valid batches that begin below `end`, and report damaged ones. The report counts those
        that begin in the range."""
        # The header of compressed messages of magic 0 or 1 has the offset of the last message.
        sound = (headers[:, _MAGIC] < 2) | (headers[:, _BASE_OFFSET] < end)
        for row, header in zip(np.flatnonzero(sound).tolist(), headers[sound].tolist(), strict=True):
            damage = _damage(records, header)
            if damage is not None:
                sound[row] = False
                self.note_damage(header, *damage)
        report_mask = sound & (headers[:, _BASE_OFFSET] >= self._start)
        self._report.add_batches(headers[report_mask, _BASE_OFFSET], headers[report_mask, _CRC])
        self._report.size_bytes += int(headers[report_mask, _SIZE].sum())
        return sound

    def _judge_batches(
        self,
        records: memoryview,
        headers: npt.NDArray[np.int64],
        masks: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]],
        judge: Judge,
    ) -> list[str | None]:
        """Return the transaction state of each batch; clears the second of `masks`, that of data batches, for batches
        to drop."""
        sound, data_mask = masks
        states: list[str | None] = [None] * len(headers)
        is_transactional = (headers[:, _MAGIC] >= 2) & (headers[:, _ATTRIBUTES] & TRANSACTIONAL_BIT != 0)
        rows = np.flatnonzero(sound & is_transactional)
        for row, header in zip(rows.tolist(), headers[rows].tolist(), strict=True):
            states[row] = judge.state(records, header)
            data_mask[row] &= not (judge.drops_aborted and states[row] == ABORTED)
        return states


def _damage(records: memoryview, header: Header) -> tuple[str, str] | None:
    """Return the kind and reason of a damaged batch; None for a valid one."""
    position, size, magic = header[_POSITION], header[_SIZE], header[_MAGIC]
    is_new = magic == 2 and size >= HEADER_SIZE
    if is_new and crc32c(records[position + ATTRIBUTES_OFFSET : position + size]) == header[_CRC]:
        return None
    if magic > 2 or magic < 0:
        return MAGIC, f"unknown magic {magic}"
    try:
        (RecordBatch if magic == 2 else LegacyBatch)(records, position).ensure_valid()
    except KafkaError as error:
        return CHECKSUM, str(error)
    return None


def _is_abort(records: memoryview, header: Header) -> bool:
    batch = RecordBatch(records, header[_POSITION])
    key = batch.columns().key(0) if batch.record_count else None
    return key is not None and parse_control_type(key) == ControlRecordType.ABORT


def _stretches(mask: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(int(first), int(stop)) for first, stop in edges.reshape(-1, 2).tolist()]
