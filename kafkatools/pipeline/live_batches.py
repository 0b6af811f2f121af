"""Batches that a broker sent, sorted out by their headers: what of them is for the reader of a range.

Rules: nothing is decompressed or decoded here. A batch is let through when its checksum is right; markers never are,
nor, to readers of what is committed, batches of aborted transactions (KIP-98: those of a producer from the first offset
that the answer names to its next marker that aborts). Damage is a PipelineError with partition and offset.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkatools.core.errors import KafkaError
from kafkatools.core.records import kernel
from kafkatools.core.records.batch import ATTRIBUTES_OFFSET, HEADER_SIZE, RecordBatch
from kafkatools.core.records.control import ControlRecordType, parse_control_type
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.kernel import HEADER_WIDTH
from kafkatools.core.records.layout import CONTROL_BIT, TRANSACTIONAL_BIT
from kafkatools.core.records.legacy import LegacyBatch
from kafkatools.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from kafkatools.core.consumer.fetcher import FetchedBatches

_ROWS = 4096
_POSITION, _BASE_OFFSET, _SIZE, _MAGIC, _CRC, _ATTRIBUTES, _LAST_DELTA, _PRODUCER_ID = 0, 1, 2, 3, 5, 6, 7, 10


class Run(NamedTuple):
    """The sound batches first..stop of a table of headers over a buffer; the table is void at the next run."""

    buffer: memoryview
    table: array[int]
    first: int
    stop: int

    def base_offset(self, row: int) -> int:
        """Of the batch in a row of the table."""
        return self.table[row * HEADER_WIDTH + _BASE_OFFSET]

    def checksums(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Base offsets and CRCs of the batches."""
        headers = np.frombuffer(self.table, np.int64, self.stop * HEADER_WIDTH).reshape(-1, HEADER_WIDTH)
        return headers[self.first :, _BASE_OFFSET].copy(), headers[self.first :, _CRC].copy()


class BatchWalk:
    """The batches of one range, answer by answer."""

    def __init__(self, partition: str, end: int, is_committed_only: bool) -> None:
        self._partition = partition
        self._end = end
        self._is_committed_only = is_committed_only
        self._table = array("q", bytes(8 * HEADER_WIDTH * _ROWS))

    def runs(self, fetched: FetchedBatches) -> Iterator[Run]:
        """The runs of batches that are for the reader."""
        records, table, status = fetched.records, self._table, array("q", (0, 0))
        aborted = _Aborted(fetched.aborted) if self._is_committed_only and fetched.aborted else None
        position = 0
        while True:
            rows = kernel.scan_batches(records, position, len(records), table, status)
            position = status[kernel.STATUS_POSITION]
            if rows:
                headers = np.frombuffer(table, np.int64, rows * HEADER_WIDTH).reshape(rows, HEADER_WIDTH)
                kept = self._kept(records, headers, aborted)
                for first, stop in _stretches(kept):
                    yield Run(records, table, first, stop)
                if int(headers[-1, _BASE_OFFSET]) >= self._end:
                    return
            if status[kernel.STATUS_REASON] == kernel.SCAN_TOO_SMALL:
                raise self.damage(fetched.next_offset, "a batch has a size that no batch has")
            if status[kernel.STATUS_REASON] != kernel.SCAN_FULL:
                return

    def damage(self, offset: int, reason: str) -> PipelineError:
        """The error for a batch that cannot be read."""
        return PipelineError(f"{self._partition}: the batch at offset {offset} is damaged: {reason}")

    def _kept(
        self, records: memoryview, headers: npt.NDArray[np.int64], aborted: _Aborted | None
    ) -> npt.NDArray[np.bool_]:
        """Which batches are for the reader, their checksums right."""
        is_new = headers[:, _MAGIC] >= 2
        kept = ~(is_new & (headers[:, _BASE_OFFSET] >= self._end))
        if aborted is not None:
            for row in np.flatnonzero(kept & is_new & (headers[:, _ATTRIBUTES] & TRANSACTIONAL_BIT != 0)).tolist():
                self._ensure_sound(records, headers[row].tolist())
                kept[row] = not aborted.takes(records, headers[row])
        kept &= ~(is_new & (headers[:, _ATTRIBUTES] & CONTROL_BIT != 0))
        for header in headers[kept].tolist():
            self._ensure_sound(records, header)
        return kept

    def _ensure_sound(self, records: memoryview, header: list[int]) -> None:
        position, size, magic = header[_POSITION], header[_SIZE], header[_MAGIC]
        is_new = magic == 2 and size >= HEADER_SIZE
        if is_new and crc32c(records[position + ATTRIBUTES_OFFSET : position + size]) == header[_CRC]:
            return
        try:
            if magic > 2 or magic < 0:
                raise self.damage(header[_BASE_OFFSET], f"magic {magic} is none that there is")
            (RecordBatch if magic == 2 else LegacyBatch)(records, position).ensure_valid()
        except KafkaError as error:
            raise self.damage(header[_BASE_OFFSET], str(error)) from error


class _Aborted:
    """The aborted transactions of one answer (CompletedFetch.consumeAbortedTransactionsUpTo)."""

    def __init__(self, aborted: tuple[tuple[int, int], ...]) -> None:
        self._waiting = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapq.heapify(self._waiting)
        self._open: set[int] = set()

    def takes(self, records: memoryview, header: npt.NDArray[np.int64]) -> bool:
        """Whether a transactional batch was aborted; a marker that aborts ends the transaction."""
        last_offset = int(header[_BASE_OFFSET] + header[_LAST_DELTA])
        while self._waiting and self._waiting[0][0] <= last_offset:
            self._open.add(heapq.heappop(self._waiting)[1])
        producer_id = int(header[_PRODUCER_ID])
        if not int(header[_ATTRIBUTES]) & CONTROL_BIT:
            return producer_id in self._open
        if producer_id in self._open and _is_abort(RecordBatch(records, int(header[_POSITION]))):
            self._open.discard(producer_id)
        return False


def _is_abort(batch: RecordBatch) -> bool:
    key = batch.columns().key(0) if batch.record_count else None
    return key is not None and parse_control_type(key) == ControlRecordType.ABORT


def _stretches(kept: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where runs of kept rows begin and stop."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], kept, [False])).astype(np.int8)))
    return [(int(first), int(stop)) for first, stop in edges.reshape(-1, 2).tolist()]
