"""Transactions in a partition's files: aborted and open ones, and the last stable offset.

The driver calls `find_transactions` once for each partition. Open transactions come from the producer snapshot beside
the last segments and the headers after it, aborted ones from .txnindex files. A segment without a .txnindex mostly has
no aborted transactions, but the file may be missing from a copy. The reader of such a segment therefore looks for the
marker that ends each transaction, by scanning later headers as far as needed (`FileTransactions`, on executors). Topics
without transactions cost only the driver's scan of the headers after the last snapshot.

An open transaction with damage after its first record may have lost its marker there. A read_committed reader does not
see its records, but reads past it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.format.filenames import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX
from kafkatools.core.log.format.transaction_index import CURRENT_VERSION, ENTRY, ENTRY_SIZE, AbortedTransaction
from kafkatools.core.log.producers.snapshot import parse_snapshot
from kafkatools.core.log.reading.transaction_scan import OpenTransaction, TransactionEnd, TransactionFollower
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline import storage
from kafkatools.pipeline.sources.log.files import LogFile
from kafkatools.pipeline.sources.log.transaction_scan import TransactionScan
from kafkatools.pipeline.sources.record_bounds import MAX_LONG
from kafkatools.tools.arrow.columns import ABORTED, COMMITTED, OPEN

_THREADS = 4

Range = tuple[int, int]
"""The first offset of a transaction, and the offset of its marker."""


@dataclass(slots=True)
class FileTransactions:
    """The transactions that a reader of one segment needs: ranges of aborted and undecided ones by producer ID.
    `unsure` are the segments to scan for markers, from this one on; empty if the ranges are complete."""

    last_stable_offset: int
    aborted: Mapping[int, tuple[Range, ...]]
    undecided: Mapping[int, tuple[Range, ...]]
    unsure: tuple[LogFile, ...] = ()
    _ahead: _LookAhead | None = field(default=None, repr=False, compare=False)

    def state(self, producer_id: int, base_offset: int, position: int = 0) -> str:
        """Return OPEN, COMMITTED or ABORTED for the transaction of a batch at a file position; OPEN also if the marker
        is lost. May scan this and later segments from that position on; raises PipelineError if one cannot be
        opened."""
        if _covers(self.aborted.get(producer_id), base_offset):
            return ABORTED
        if _covers(self.undecided.get(producer_id), base_offset):
            return OPEN
        if not self.unsure:
            return COMMITTED
        if self._ahead is None or base_offset < self._ahead.start:
            self.close()
            self._ahead = _LookAhead(self.unsure, base_offset, position)
        return self._ahead.state(producer_id, base_offset)

    def close(self) -> None:
        """Close the file that is being scanned for markers."""
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None


@dataclass(frozen=True, slots=True)
class PartitionTransactions:
    """The transactions of one partition. From `last_stable_offset` on (MAX_LONG: none) they are undecided. `aborted`
    and `undecided` are (producer ID, first offset, last offset); undecided ones are open or lost their marker. `unsure`
    are URLs of segments that may hold more aborted transactions."""

    files: tuple[LogFile, ...] = ()
    last_stable_offset: int = MAX_LONG
    aborted: tuple[tuple[int, int, int], ...] = ()
    undecided: tuple[tuple[int, int, int], ...] = ()
    unsure: frozenset[str] = frozenset()

    def within(self, file: LogFile) -> FileTransactions:
        """Return the transactions that touch one segment."""
        following: tuple[LogFile, ...] = ()
        if file.url in self.unsure:
            following = self.files[next(i for i, segment in enumerate(self.files) if segment.url == file.url) :]
        return FileTransactions(
            self.last_stable_offset, _ranges_in(file, self.aborted), _ranges_in(file, self.undecided), following
        )


def _ranges_in(file: LogFile, transactions: Iterable[tuple[int, int, int]]) -> dict[int, tuple[Range, ...]]:
    """Return the offset ranges that touch a segment, sorted, by producer ID."""
    end = MAX_LONG if file.next_base_offset is None else file.next_base_offset
    ranges: dict[int, list[Range]] = {}
    for producer_id, first, last in transactions:
        if first < end and last >= file.base_offset:
            ranges.setdefault(producer_id, []).append((first, last))
    return {producer_id: tuple(sorted(producer_ranges)) for producer_id, producer_ranges in ranges.items()}


def _covers(ranges: Sequence[Range] | None, offset: int) -> bool:
    if not ranges:
        return False
    at = bisect_right(ranges, (offset, MAX_LONG)) - 1
    return at >= 0 and offset <= ranges[at][1]


def find_transactions(files: Sequence[LogFile]) -> PartitionTransactions:
    """Return the transactions of a partition from its sorted segments. Raises PipelineError for a segment that cannot
    be opened."""
    start, open_transactions = _last_snapshot(files)
    scan = _scan(files[start:], open_transactions)
    aborted = set(scan.aborted).union(*(_aborted_in(file) or () for file in files[start:]))
    unsure: list[LogFile] = []
    is_next_sure = True
    for index in range(start - 1, -1, -1):
        entries = _aborted_in(files[index])
        # A transaction open at the end of a segment may be aborted in the next one, according to its .txnindex.
        open_before = {} if is_next_sure else _open_before(files[index + 1])
        is_next_sure = entries is not None and open_before is not None
        if entries is None or open_before is None:
            unsure.append(files[index])
        else:
            aborted.update(entries)
            aborted.update(_ends(files[index + 1 :], open_before))
    # A transaction whose marker is lost may still be listed in an index as aborted.
    index_keys = {(producer_id, first) for producer_id, first, _ in aborted}
    waiting = {
        pid: transaction for pid, transaction in scan.open.items() if (pid, transaction.first_offset) not in index_keys
    }
    undecided = [transaction for transaction in scan.undecided if transaction[:2] not in index_keys]
    return PartitionTransactions(
        tuple(files) if unsure else (),
        min((entry.first_offset for entry in waiting.values() if entry.damaged >= scan.damaged), default=MAX_LONG),
        tuple(sorted(aborted)),
        tuple(sorted([*undecided, *((pid, entry.first_offset, MAX_LONG) for pid, entry in waiting.items())])),
        frozenset(file.url for file in unsure),
    )


def find_all_transactions(files: Iterable[LogFile]) -> dict[TopicPartition, PartitionTransactions]:
    """Return the transactions of each partition among the segments, four partitions at a time. Raises PipelineError."""
    partitions: dict[TopicPartition, list[LogFile]] = {}
    for file in sorted(files, key=lambda segment: segment.base_offset):
        partitions.setdefault(file.topic_partition, []).append(file)
    from concurrent.futures import ThreadPoolExecutor  # only here: its import takes longer than a small query's scan

    with ThreadPoolExecutor(min(_THREADS, len(partitions) or 1), "transactions") as pool:
        return dict(zip(partitions, pool.map(find_transactions, partitions.values()), strict=True))


def _last_snapshot(files: Sequence[LogFile]) -> tuple[int, Mapping[int, OpenTransaction]]:
    """Return the index of the last segment with a readable producer snapshot, and the transactions open at its base
    offset. Without any such segment the index is 0 and no transaction is open."""
    for index in range(len(files) - 1, 0, -1):
        open_transactions = _open_before(files[index])
        if open_transactions is not None:
            return index, open_transactions
    return 0, (_open_before(files[0]) or {}) if files else {}


def _open_before(file: LogFile) -> Mapping[int, OpenTransaction] | None:
    """Return the transactions that are open at a segment's base offset, by producer ID; None without a readable
    snapshot."""
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
    """Return the entries of a segment's .txnindex. None if there is no such file, it is empty, or its entries do not
    fit the segment."""
    data = file.read_beside(TXN_INDEX_SUFFIX)
    if not data or len(data) % ENTRY_SIZE:
        return None
    end = MAX_LONG if file.next_base_offset is None else file.next_base_offset
    last = file.base_offset - 1
    entries = []
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
        entries.append((entry.producer_id, entry.first_offset, entry.last_offset))
    return entries


@dataclass(slots=True)
class _Scanned:
    """Result of a scan to the end of the log: aborted ranges, ranges whose markers are lost, open transactions, and the
    number of damaged places."""

    aborted: list[tuple[int, int, int]]
    undecided: list[tuple[int, int, int]]
    open: Mapping[int, OpenTransaction]
    damaged: int


def _scan(files: Sequence[LogFile], open_transactions: Mapping[int, OpenTransaction]) -> _Scanned:
    """Follow transactions to the end of the files, starting with those in `opened`. Raises PipelineError if a file
    cannot be opened."""
    follower = TransactionFollower(open_transactions)
    aborted: list[tuple[int, int, int]] = []
    undecided: list[tuple[int, int, int]] = []
    damaged = lost_tail = 0
    for file in files:
        damaged += lost_tail  # in the last segment, bytes after the last batch are the end of the log, not damage
        with storage.open_segment(file.url) as segment:
            scan = TransactionScan(segment)
            for window in scan.windows():
                for end in (end for batch in window for end in follower.feed(batch, segment, damaged)):
                    if end.first_offset is not None and end.is_abort is not False:
                        ranges = aborted if end.is_abort else undecided
                        ranges.append((end.producer_id, end.first_offset, end.last_offset))
            damaged, lost_tail = damaged + scan.damaged, int(scan.has_lost_tail)
    return _Scanned(aborted, undecided, follower.open, damaged)


def _ends(files: Sequence[LogFile], open_transactions: Mapping[int, OpenTransaction]) -> Iterator[tuple[int, int, int]]:
    """Yield those of the open transactions that are aborted in the given segments."""
    follower = TransactionFollower(open_transactions)
    waiting = set(open_transactions)
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
    """Reads the ends of transactions from a batch on, only as far as `state` needs."""

    def __init__(self, files: Sequence[LogFile], start: int, position: int) -> None:
        self.start = start
        self._segment: SegmentFile | None = None
        self._windows = self._read(files, position)
        self._ends: dict[int, tuple[list[int], list[str]]] = {}

    def state(self, producer_id: int, offset: int) -> str:
        """Return the state from the first end of the producer's transaction at or after an offset; OPEN if there is no
        end or its marker is lost. Reads on in the files until the end is found."""
        while True:
            offsets, states = self._ends.get(producer_id, ((), ()))
            at = bisect_left(offsets, offset)
            if at < len(offsets):
                return states[at]
            ends = next(self._windows, None)
            if ends is None:
                return OPEN
            for end in ends:
                own_offsets, own_states = self._ends.setdefault(end.producer_id, ([], []))
                own_offsets.append(end.last_offset)
                own_states.append(OPEN if end.is_abort is None else ABORTED if end.is_abort else COMMITTED)

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
