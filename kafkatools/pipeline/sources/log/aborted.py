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

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.format.filenames import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX
from kafkatools.core.log.format.transaction_index import CURRENT_VERSION, ENTRY, ENTRY_SIZE, AbortedTransaction
from kafkatools.core.log.producers.snapshot import parse_snapshot
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline import storage
from kafkatools.pipeline.sources.log.files import LogFile
from kafkatools.pipeline.sources.log.transaction_scan import (
    OpenTransaction,
    TransactionEnd,
    TransactionFollower,
    TransactionScan,
)
from kafkatools.pipeline.sources.record_bounds import MAX_LONG

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
    undecided: Mapping[int, tuple[Range, ...]]
    unsure: tuple[LogFile, ...] = ()
    _ahead: _LookAhead | None = field(default=None, repr=False, compare=False)

    def is_aborted(self, producer_id: int, base_offset: int, position: int = 0) -> bool:
        """Whether a batch belongs to a transaction that was aborted; `position`: that of the batch in the file."""
        if _covers(self.aborted.get(producer_id), base_offset):
            return True
        if not self.unsure or _covers(self.undecided.get(producer_id), base_offset):
            return False
        return self._end_of(producer_id, base_offset, position) == ABORTED

    def is_left_out(self, producer_id: int, base_offset: int, position: int = 0) -> bool:
        """Whether a read_committed reader does not see a batch of a transaction."""
        return self.state(producer_id, base_offset, position) != COMMITTED

    def state(self, producer_id: int, base_offset: int, position: int = 0) -> str:
        """What became of the transaction of a batch: OPEN, COMMITTED or ABORTED."""
        if _covers(self.aborted.get(producer_id), base_offset):
            return ABORTED
        if _covers(self.undecided.get(producer_id), base_offset):
            return OPEN
        return self._end_of(producer_id, base_offset, position) if self.unsure else COMMITTED

    def _end_of(self, producer_id: int, base_offset: int, position: int) -> str:
        if self._ahead is None or base_offset < self._ahead.start:
            self.close()
            self._ahead = _LookAhead(self.unsure, base_offset, position)
        return self._ahead.state(producer_id, base_offset)

    def close(self) -> None:
        """Let go of the files that were looked at."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None


@dataclass(frozen=True, slots=True)
class PartitionTransactions:
    """The transactions of one partition. `last_stable_offset`: what lies from there on is not decided (MAX_LONG: all
    is); `undecided`: what is open, or lost its marker; `unsure`: segments that may hold more that was aborted."""

    files: tuple[LogFile, ...] = ()
    last_stable_offset: int = MAX_LONG
    aborted: tuple[tuple[int, int, int], ...] = ()
    undecided: tuple[tuple[int, int, int], ...] = ()
    unsure: frozenset[str] = frozenset()

    def within(self, file: LogFile) -> FileTransactions:
        behind: tuple[LogFile, ...] = ()
        if file.url in self.unsure:
            behind = self.files[next(i for i, each in enumerate(self.files) if each.url == file.url) :]
        return FileTransactions(
            self.last_stable_offset, _ranges_in(file, self.aborted), _ranges_in(file, self.undecided), behind
        )


def _ranges_in(file: LogFile, found: Iterable[tuple[int, int, int]]) -> dict[int, tuple[Range, ...]]:
    """The ranges that touch a segment, by producer id and in order."""
    end = MAX_LONG if file.next_base_offset is None else file.next_base_offset
    ranges: dict[int, list[Range]] = {}
    for producer_id, first, last in found:
        if first < end and last >= file.base_offset:
            ranges.setdefault(producer_id, []).append((first, last))
    return {producer_id: tuple(sorted(each)) for producer_id, each in ranges.items()}


def _covers(ranges: Sequence[Range] | None, offset: int) -> bool:
    if not ranges:
        return False
    at = bisect_right(ranges, (offset, MAX_LONG)) - 1
    return at >= 0 and offset <= ranges[at][1]


def find_transactions(files: Sequence[LogFile]) -> PartitionTransactions:
    """The transactions of a partition, whose segments are given in order. Raises PipelineError for a segment that
    cannot be opened."""
    start, opened = _last_snapshot(files)
    scanned = _scan(files[start:], opened)
    aborted = set(scanned.aborted).union(*(_aborted_in(file) or () for file in files[start:]))
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
    # what an index says of a transaction whose marker is lost
    known = {(producer_id, first) for producer_id, first, _ in aborted}
    waiting = {each: opened for each, opened in scanned.open.items() if (each, opened.first_offset) not in known}
    lost = [each for each in scanned.lost if each[:2] not in known]
    return PartitionTransactions(
        tuple(files) if unsure else (),
        min((each.first_offset for each in waiting.values() if each.damaged >= scanned.damaged), default=MAX_LONG),
        tuple(sorted(aborted)),
        tuple(sorted([*lost, *((each, opened.first_offset, MAX_LONG) for each, opened in waiting.items())])),
        frozenset(file.url for file in unsure),
    )


def find_all_transactions(files: Iterable[LogFile]) -> dict[TopicPartition, PartitionTransactions]:
    """The transactions of every partition among segments, a few partitions at a time."""
    partitions: dict[TopicPartition, list[LogFile]] = {}
    for file in sorted(files, key=lambda each: each.base_offset):
        partitions.setdefault(file.topic_partition, []).append(file)
    with ThreadPoolExecutor(min(_THREADS, len(partitions) or 1), "transactions") as pool:
        return dict(zip(partitions, pool.map(find_transactions, partitions.values()), strict=True))


def _last_snapshot(files: Sequence[LogFile]) -> tuple[int, Mapping[int, OpenTransaction]]:
    """The last segment whose first offset has a snapshot that can be read, and what was open there."""
    for index in range(len(files) - 1, 0, -1):
        opened = _open_before(files[index])
        if opened is not None:
            return index, opened
    return 0, (_open_before(files[0]) or {}) if files else {}


def _open_before(file: LogFile) -> Mapping[int, OpenTransaction] | None:
    """The transactions that are open where a segment begins, by producer id; None when that is not
    known."""
    data = file.read_beside(SNAPSHOT_SUFFIX)
    if data is None:
        return None
    try:
        entries = parse_snapshot(data)
    except KafkaError:
        return None
    return {
        entry.producer_id: OpenTransaction(entry.current_txn_first_offset, entry.producer_epoch)
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
    """What a scan to the end found: aborted ranges, those whose markers are lost, what is open, and how many places
    were damaged."""

    aborted: list[tuple[int, int, int]]
    lost: list[tuple[int, int, int]]
    open: Mapping[int, OpenTransaction]
    damaged: int


def _scan(files: Sequence[LogFile], opened: Mapping[int, OpenTransaction]) -> _Scanned:
    """Follow transactions from where those in `opened` are open to the end of the files."""
    follower = TransactionFollower(opened)
    aborted: list[tuple[int, int, int]] = []
    lost: list[tuple[int, int, int]] = []
    damaged = lost_tail = 0
    for file in files:
        damaged += lost_tail  # behind the last batch of the last one is the end of the log
        with storage.open_segment(file.url) as segment:
            scan = TransactionScan(segment)
            for window in scan.windows():
                for end in (end for batch in window for end in follower.feed(batch, segment, damaged)):
                    if end.first_offset is not None and end.is_abort is not False:
                        found = aborted if end.is_abort else lost
                        found.append((end.producer_id, end.first_offset, end.last_offset))
            damaged, lost_tail = damaged + scan.damaged, int(scan.has_lost_tail)
    return _Scanned(aborted, lost, follower.open, damaged)


def _ends(files: Sequence[LogFile], opened: Mapping[int, OpenTransaction]) -> Iterator[tuple[int, int, int]]:
    """Those of the open transactions that are aborted in the segments to come."""
    follower = TransactionFollower(opened)
    waiting = set(opened)
    for file in files if waiting else ():
        with storage.open_segment(file.url) as segment:
            for window in TransactionScan(segment).windows():
                for end in (end for batch in window for end in follower.feed(batch, segment)):
                    if end.producer_id in waiting and end.is_abort and end.first_offset is not None:
                        yield end.producer_id, end.first_offset, end.last_offset
                    waiting.discard(end.producer_id)
                if not waiting:
                    return


class _LookAhead:
    """The ends of transactions from a batch on, read as far as someone asked."""

    def __init__(self, files: Sequence[LogFile], start: int, position: int) -> None:
        self.start = start
        self._segment: SegmentFile | None = None
        self._windows = self._read(files, position)
        self._ends: dict[int, tuple[list[int], list[str]]] = {}

    def state(self, producer_id: int, offset: int) -> str:
        """What the first end of a transaction of a producer behind an offset says; OPEN where there is none."""
        while True:
            offsets, states = self._ends.get(producer_id, ((), ()))
            at = bisect_left(offsets, offset)
            if at < len(offsets):
                return states[at]
            ends = next(self._windows, None)
            if ends is None:
                return OPEN
            for end in ends:
                known = self._ends.setdefault(end.producer_id, ([], []))
                known[0].append(end.last_offset)
                known[1].append(OPEN if end.is_abort is None else ABORTED if end.is_abort else COMMITTED)

    def close(self) -> None:
        if self._segment is not None:
            self._segment.close()
        self._segment = None

    def _read(self, files: Sequence[LogFile], position: int) -> Iterator[list[TransactionEnd]]:
        follower = TransactionFollower()
        for index, file in enumerate(files):
            self.close()
            segment = self._segment = storage.open_segment(file.url)
            for window in TransactionScan(segment, position if index == 0 else 0).windows():
                yield [end for batch in window for end in follower.feed(batch, segment)]
        self.close()
