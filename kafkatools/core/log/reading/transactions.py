"""Find the last stable offset of a partition, and the aborted transactions among its batches, from the segment files.

The outcome of a transaction is that of the next marker of its producer, which a scan of the headers finds. So neither
`.txnindex` nor `.snapshot` files have to be there: a missing `.txnindex` does not tell whether a transaction was
aborted. The scan runs ahead of the reader, as far as the batches that were read need. The last stable offset
needs a scan of the segments after the last usable `.snapshot`, which lists the transactions that were open there.

A transaction whose marker is lost by damage has no outcome: its records are not returned.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.format.filenames import SNAPSHOT_SUFFIX, offset_name
from kafkatools.core.log.producers.snapshot import parse_snapshot
from kafkatools.core.log.reading.header_columns import (
    ATTRIBUTES,
    BASE_OFFSET,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    WIDTH,
)
from kafkatools.core.log.reading.partition_files import PartitionFiles, Place
from kafkatools.core.log.reading.segment_reader import Run
from kafkatools.core.log.reading.transaction_scan import OpenTransaction, TransactionFollower, TransactionScan
from kafkatools.core.records.layout import CONTROL_BIT, TRANSACTIONAL_BIT

_IS_ABORTED, _IS_COMMITTED, _HAS_NO_OUTCOME = "aborted", "committed", "none"


class StableEnd(NamedTuple):
    """The last stable offset, and the id of the producer whose open transaction begins there; None without one."""

    offset: int
    producer_id: int | None


class AbortedBatches(NamedTuple):
    """Producer id and first offset of the transactions to skip in the first `rows` batches of a run."""

    transactions: list[tuple[int, int]]
    rows: int


class PartitionTransactions:
    """The transactions of one partition. The methods raise OSError."""

    def __init__(self, files: PartitionFiles) -> None:
        self._files = files
        self._ahead: _LookAhead | None = None

    def stable_end(self) -> StableEnd:
        """Return the last stable offset: the first offset of the first open transaction, else the log end offset."""
        start, opened = self._last_snapshot()
        follower, damaged, lost_tail = TransactionFollower(opened), 0, 0
        for segment in self._files.segments[start:]:
            damaged += lost_tail  # in the last segment, bytes after the last batch are the end of the log
            with SegmentFile(segment.path) as file:
                scan = TransactionScan(file)
                for batch in (batch for window in scan.windows() for batch in window):
                    follower.feed(batch, file, damaged)
                damaged, lost_tail = damaged + scan.damaged, int(scan.has_lost_tail)
        end = self._files.log_end_offset
        undecided = [
            (entry.first_offset, producer_id)
            for producer_id, entry in follower.open.items()
            if entry.damaged >= damaged and entry.first_offset < end
        ]
        return StableEnd(*min(undecided)) if undecided else StableEnd(end, None)

    def _last_snapshot(self) -> tuple[int, Mapping[int, OpenTransaction]]:
        """Return the number of the last segment with a usable snapshot, and the transactions open at its base offset;
        0 and no transaction without one."""
        segments = self._files.segments
        for number in range(len(segments) - 1, 0, -1):
            base_offset = segments[number].base_offset
            try:
                with open(f"{self._files.path}/{offset_name(base_offset)}{SNAPSHOT_SUFFIX}", "rb") as file:
                    entries = parse_snapshot(file.read())
            except (OSError, KafkaError):
                continue
            opened = {
                entry.producer_id: OpenTransaction(entry.current_txn_first_offset, entry.producer_epoch)
                for entry in entries
                if 0 <= entry.current_txn_first_offset < base_offset
            }
            return number, opened
        return 0, {}

    def aborted_in(self, run: Run, place: Place) -> AbortedBatches:
        """Return which transactions to skip in a run that was read at `place`. The run must be cut to the returned rows
        where a marker is lost, since the next transaction of that producer has its own outcome."""
        attributes = run.table[ATTRIBUTES::WIDTH]
        rows = [row for row, bits in enumerate(attributes) if bits & TRANSACTIONAL_BIT]
        aborted: list[tuple[int, int]] = []
        current: dict[int, tuple[int, str]] = {}
        for row in rows:
            header = run.table[row * WIDTH : (row + 1) * WIDTH]
            producer_id, epoch = header[PRODUCER_ID], header[PRODUCER_EPOCH]
            if attributes[row] & CONTROL_BIT:
                current.pop(producer_id, None)
                continue
            known_epoch, outcome = current.get(producer_id, (epoch, ""))
            if outcome and known_epoch == epoch:
                continue
            if outcome and outcome != _IS_COMMITTED:
                return AbortedBatches(aborted, row)
            current[producer_id] = epoch, self._outcome(header, place)
            if current[producer_id][1] != _IS_COMMITTED:
                aborted.append((producer_id, header[BASE_OFFSET]))
        return AbortedBatches(aborted, run.rows)

    def _outcome(self, header: array[int], place: Place) -> str:
        offset = header[BASE_OFFSET]
        if self._ahead is None or offset < self._ahead.start:
            self.close()
            self._ahead = _LookAhead(self._files, place, offset)
        return self._ahead.outcome(header[PRODUCER_ID], offset)

    def close(self) -> None:
        """Close the file that is being scanned for markers."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None


class _LookAhead:
    """Finds the ends of transactions from a place on, for batches by ascending offset."""

    def __init__(self, files: PartitionFiles, place: Place, start: int) -> None:
        self.start = start
        self._file: SegmentFile | None = None
        self._ends: dict[int, deque[tuple[int, str]]] = {}
        self._windows = self._scan([(segment.path, segment.base_offset) for segment in files.segments], place)

    def outcome(self, producer_id: int, offset: int) -> str:
        """Return the outcome of a producer's transaction that has a batch at an offset."""
        self.start = offset
        while True:
            ends = self._ends.setdefault(producer_id, deque())
            while ends and ends[0][0] < offset:
                ends.popleft()
            if ends:
                return ends[0][1]
            if next(self._windows, None) is None:
                return _HAS_NO_OUTCOME

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _scan(self, segments: list[tuple[str, int]], place: Place) -> Iterator[int]:
        """Add the ends of transactions, a window at a time. Yields the number of windows so far."""
        follower, count = TransactionFollower(), 0
        for number in range(place.segment, len(segments)):
            self._file = SegmentFile(segments[number][0])
            for window in TransactionScan(self._file, place.position if number == place.segment else 0).windows():
                for end in (end for batch in window for end in follower.feed(batch, self._file)):
                    outcome = _HAS_NO_OUTCOME
                    if end.is_abort is not None:
                        outcome = _IS_ABORTED if end.is_abort else _IS_COMMITTED
                    self._ends.setdefault(end.producer_id, deque()).append((end.last_offset, outcome))
                count += 1
                yield count
            self.close()
