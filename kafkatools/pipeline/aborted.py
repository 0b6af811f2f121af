"""Transactions of a partition's files: what was aborted, what is still open, where the last stable offset is.

Once for a partition (`find_transactions`, on the driver): what is open at its end, from the producers' snapshot beside
the last segments and the headers behind it; and the aborted transactions that .txnindex names. A segment without a
.txnindex mostly has nothing aborted, but a copy may have lost the file. So nothing is taken for granted there: whoever
reads such a segment asks at each batch of a transaction for the marker that ends it, and the headers from there on are
scanned as far as needed (`FileTransactions`, on the executors). A topic without transactions costs nothing.

A transaction that is open, with damage behind its first record, may have lost its marker there. It is left out of what
a read_committed reader sees, but does not end what he sees.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.filenames import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX
from kafkatools.core.log.producer_snapshot import parse_snapshot
from kafkatools.core.log.transaction_index import CURRENT_VERSION, ENTRY, ENTRY_SIZE, AbortedTransaction
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline import storage
from kafkatools.pipeline.log_files import LogFile
from kafkatools.pipeline.record_bounds import MAX_LONG
from kafkatools.pipeline.transaction_scan import TransactionBatch, TransactionScan, is_sound

OPEN = "open"
COMMITTED = "committed"
ABORTED = "aborted"
_THREADS = 4

Range = tuple[int, int]
"""The first offset of a transaction, and that of its marker."""


@dataclass(slots=True)
class FileTransactions:
    """What a reader of one segment asks. Plain data until the first question that needs a look at the files."""

    last_stable_offset: int
    aborted: Mapping[int, tuple[Range, ...]]
    undecided: Mapping[int, int]
    unsure: tuple[LogFile, ...] = ()
    _ahead: _LookAhead | None = field(default=None, repr=False, compare=False)

    def is_aborted(self, producer_id: int, base_offset: int, position: int = 0) -> bool:
        """Whether a batch belongs to a transaction that was aborted; `position`: that of the batch in the file."""
        ranges = self.aborted.get(producer_id)
        if ranges is not None:
            at = bisect_right(ranges, (base_offset, MAX_LONG)) - 1
            if at >= 0 and base_offset <= ranges[at][1]:
                return True
        if not self.unsure or self._is_undecided(producer_id, base_offset):
            return False
        return self._end_of(producer_id, base_offset, position) is True

    def is_left_out(self, producer_id: int, base_offset: int, position: int = 0) -> bool:
        """Whether a read_committed reader does not see a batch of a transaction."""
        return self.state(producer_id, base_offset, position) != COMMITTED

    def state(self, producer_id: int, base_offset: int, position: int = 0) -> str:
        """What became of the transaction of a batch: OPEN, COMMITTED or ABORTED."""
        if self._is_undecided(producer_id, base_offset):
            return OPEN
        return ABORTED if self.is_aborted(producer_id, base_offset, position) else COMMITTED

    def _is_undecided(self, producer_id: int, base_offset: int) -> bool:
        first = self.undecided.get(producer_id)
        return first is not None and base_offset >= first

    def _end_of(self, producer_id: int, base_offset: int, position: int) -> bool | None:
        if self._ahead is None or base_offset < self._ahead.start:
            self.close()
            self._ahead = _LookAhead(self.unsure, base_offset, position)
        return self._ahead.is_abort(producer_id, base_offset)

    def close(self) -> None:
        """Let go of the files that were looked at."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None


@dataclass(frozen=True, slots=True)
class PartitionTransactions:
    """The transactions of one partition. `last_stable_offset`: what lies from there on is not decided (MAX_LONG: all
    is); `undecided`: first offsets by producer id; `unsure`: segments whose aborted transactions are not all known."""

    files: tuple[LogFile, ...] = ()
    last_stable_offset: int = MAX_LONG
    aborted: tuple[tuple[int, int, int], ...] = ()
    undecided: tuple[tuple[int, int], ...] = ()
    unsure: frozenset[str] = frozenset()

    def within(self, file: LogFile) -> FileTransactions:
        """What concerns one segment."""
        end = MAX_LONG if file.next_base_offset is None else file.next_base_offset
        ranges: dict[int, list[Range]] = {}
        for producer_id, first, last in self.aborted:
            if first < end and last >= file.base_offset:
                ranges.setdefault(producer_id, []).append((first, last))
        behind: tuple[LogFile, ...] = ()
        if file.url in self.unsure:
            behind = self.files[next(i for i, each in enumerate(self.files) if each.url == file.url) :]
        return FileTransactions(
            self.last_stable_offset,
            {producer_id: tuple(sorted(each)) for producer_id, each in ranges.items()},
            {producer_id: first for producer_id, first in self.undecided if first < end},
            behind,
        )


def find_transactions(files: Sequence[LogFile]) -> PartitionTransactions:
    """The transactions of a partition, whose segments are given in order. Raises PipelineError for a segment that
    cannot be opened."""
    start, opened = _last_snapshot(files)
    scanned = _scan(files[start:], opened)
    aborted = set(scanned.aborted)
    unsure: list[LogFile] = []
    is_next_sure = True
    for index in range(start - 1, -1, -1):
        entries = _aborted_in(files[index])
        # What is open at the end of a segment may be aborted in the next one, whose .txnindex would tell.
        spanning = {} if is_next_sure else _open_before(files[index + 1])
        is_next_sure = entries is not None and spanning is not None
        if entries is None or spanning is None:
            unsure.append(files[index])
        else:
            aborted.update(entries)
            aborted.update(_ends(files[index + 1 :], spanning))
    return PartitionTransactions(
        tuple(files) if unsure else (),
        min((first for first, is_lost in scanned.undecided.values() if not is_lost), default=MAX_LONG),
        tuple(sorted(aborted)),
        tuple(sorted((producer_id, first) for producer_id, (first, _) in scanned.undecided.items())),
        frozenset(file.url for file in unsure),
    )


def find_all_transactions(files: Iterable[LogFile]) -> dict[TopicPartition, PartitionTransactions]:
    """The transactions of every partition among segments, a few partitions at a time."""
    partitions: dict[TopicPartition, list[LogFile]] = {}
    for file in sorted(files, key=lambda each: each.base_offset):
        partitions.setdefault(file.topic_partition, []).append(file)
    with ThreadPoolExecutor(min(_THREADS, len(partitions) or 1), "transactions") as pool:
        return dict(zip(partitions, pool.map(find_transactions, partitions.values()), strict=True))


def _last_snapshot(files: Sequence[LogFile]) -> tuple[int, Mapping[int, int]]:
    """The last segment whose first offset has a snapshot that can be read, and what was open there."""
    for index in range(len(files) - 1, 0, -1):
        opened = _open_before(files[index])
        if opened is not None:
            return index, opened
    return 0, (_open_before(files[0]) or {}) if files else {}


def _open_before(file: LogFile) -> Mapping[int, int] | None:
    """First offsets of the transactions that are open where a segment begins, by producer id; None when that is not
    known."""
    data = file.read_beside(SNAPSHOT_SUFFIX)
    if data is None:
        return None
    try:
        entries = parse_snapshot(data)
    except KafkaError:
        return None
    return {
        entry.producer_id: entry.current_txn_first_offset
        for entry in entries
        if 0 <= entry.current_txn_first_offset < file.base_offset
    }


def _aborted_in(file: LogFile) -> list[tuple[int, int, int]] | None:
    """The entries of a segment's .txnindex; None when there are none or when they do not fit the segment."""
    data = file.read_beside(TXN_INDEX_SUFFIX)
    if not data or len(data) % ENTRY_SIZE:
        return None
    end = MAX_LONG if file.next_base_offset is None else file.next_base_offset
    last = file.base_offset - 1
    found = []
    for position in range(0, len(data), ENTRY_SIZE):
        entry = AbortedTransaction._make(ENTRY.unpack_from(data, position))
        if (
            entry.version != CURRENT_VERSION
            or not 0 <= entry.first_offset <= entry.last_offset
            or entry.producer_id < 0
        ):
            return None
        if not last < entry.last_offset < end or entry.last_stable_offset > entry.last_offset + 1:
            return None
        last = entry.last_offset
        found.append((entry.producer_id, entry.first_offset, entry.last_offset))
    return found


@dataclass(slots=True)
class _Scanned:
    """What a scan to the end found: aborted ranges, and by producer id the first offset of what is not decided, with
    whether its marker may be among what is damaged."""

    aborted: list[tuple[int, int, int]]
    undecided: dict[int, tuple[int, bool]]


def _scan(files: Sequence[LogFile], opened: Mapping[int, int]) -> _Scanned:
    """Follow transactions from where those in `opened` are open to the end of the files."""
    first_offsets = {producer_id: (first, 0) for producer_id, first in opened.items()}
    aborted = []
    damaged = lost_tail = 0
    for file in files:
        damaged += lost_tail  # behind the last batch of the last one is the end of the log
        with storage.open_segment(file.url) as segment:
            scan = TransactionScan(segment)
            for window in scan.windows():
                for batch in window:
                    if batch.is_abort is not None:
                        first = first_offsets.pop(batch.producer_id, None)
                        if batch.is_abort and first is not None:
                            aborted.append((batch.producer_id, first[0], batch.base_offset))
                    elif batch.producer_id not in first_offsets and is_sound(segment, batch.position):
                        first_offsets[batch.producer_id] = batch.base_offset, damaged + batch.damaged
            damaged, lost_tail = damaged + scan.damaged, int(scan.has_lost_tail)
    return _Scanned(aborted, {each: (first, damaged > seen) for each, (first, seen) in first_offsets.items()})


def _ends(files: Sequence[LogFile], opened: Mapping[int, int]) -> Iterator[tuple[int, int, int]]:
    """Those of the open transactions that are aborted in the segments to come."""
    waiting = dict(opened)
    for file in files if waiting else ():
        with storage.open_segment(file.url) as segment:
            for window in TransactionScan(segment).windows():
                for batch in window:
                    if batch.is_abort is not None and batch.producer_id in waiting:
                        first = waiting.pop(batch.producer_id)
                        if batch.is_abort:
                            yield batch.producer_id, first, batch.base_offset
                if not waiting:
                    return


class _LookAhead:
    """The markers from a batch on, read as far as someone asked."""

    def __init__(self, files: Sequence[LogFile], start: int, position: int) -> None:
        self.start = start
        self._segment: SegmentFile | None = None
        self._windows = self._read(files, position)
        self._markers: dict[int, tuple[list[int], list[bool]]] = {}

    def is_abort(self, producer_id: int, offset: int) -> bool | None:
        """Whether the first marker of a producer behind an offset aborts; None when there is none."""
        while True:
            offsets, aborts = self._markers.get(producer_id, ((), ()))
            at = bisect_right(offsets, offset)
            if at < len(offsets):
                return aborts[at]
            window = next(self._windows, None)
            if window is None:
                return None
            for batch in window:
                if batch.is_abort is not None:
                    offsets, aborts = self._markers.setdefault(batch.producer_id, ([], []))
                    offsets.append(batch.base_offset)
                    aborts.append(batch.is_abort)

    def close(self) -> None:
        if self._segment is not None:
            self._segment.close()
        self._segment = None

    def _read(self, files: Sequence[LogFile], position: int) -> Iterator[list[TransactionBatch]]:
        for index, file in enumerate(files):
            self.close()
            self._segment = storage.open_segment(file.url)
            yield from TransactionScan(self._segment, position if index == 0 else 0).windows()
        self.close()
