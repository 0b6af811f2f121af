"""Dump log files of every kind: read them in the order of Kafka's tool, and pass the parts to a `Lines` object.

`Lines` formats the output as text or JSON. Where Kafka's tool ends with an exception, a finding is reported. The dump
continues with what is still readable, unless the option `stop_at_damage` is set. `summary` collects what Kafka's tool
prints on stderr at the end.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from kafkatools.core.log.dump import file_kinds
from kafkatools.core.log.dump.batch_headers import Header
from kafkatools.core.log.dump.damage import Damage, Finding
from kafkatools.core.log.dump.gaps import GapFinder
from kafkatools.core.log.dump.index_checks import CheckedEntry, check_offset_index, check_time_index, slice_end
from kafkatools.core.log.dump.index_files import SLACK_ENTRIES, OffsetIndexFile, TimeIndexFile
from kafkatools.core.log.dump.log_walk import Forward, HeaderChecks, LogWalk
from kafkatools.core.log.dump.options import ALL_BYTES, DumpOptions, FileSlice
from kafkatools.core.log.dump.segment_file import LARGEST_FILE, SegmentFile
from kafkatools.core.log.dump.segment_limits import (
    UNLIMITED,
    SegmentLimits,
    later_epoch_problem,
    read_limits,
    wrongly_indexed_batch,
)
from kafkatools.core.log.dump.state_files import ProducerEntry, aborted_transactions_in, read_producer_snapshot_file
from kafkatools.core.log.dump.summary import Summary
from kafkatools.core.log.format.transaction_index import CURRENT_VERSION, ENTRY_SIZE, AbortedTransaction
from kafkatools.core.records.layout import HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC, MAGIC_OFFSET

if TYPE_CHECKING:
    from kafkatools.core.log.dump.decoders import Decoder

_Index = TypeVar("_Index", OffsetIndexFile, TimeIndexFile)


class StoppedAtDamage(Exception):
    """The dump ended at damage, as Kafka's tool does (option stop_at_damage)."""


class Lines(Protocol):
    """An output format of dump-log, text or JSON. Each method writes one part of a dumped file."""

    def file(self, path: str, kind: str | None) -> None:
        """Write the start of a file; `kind` is its suffix, None for an unknown one."""

    def log(self, path: str, base_offset: int) -> None:
        """Write the start of a segment."""

    def snapshot(self, path: str, snapshot_id: tuple[int, int] | None) -> None:
        """Write the start of a KRaft snapshot: end offset and epoch, None for the bootstrap snapshot."""

    def stretch(self, file: SegmentFile, end: int, gaps: GapFinder, limits: SegmentLimits) -> Forward | None:
        """Return a function that writes consecutive valid batches of `file` from a position on, up to `end`, and
        returns the position after them. None if batches must be written one by one."""

    def batch(self, header: Header, decoder: Decoder | None, gaps: GapFinder) -> None:
        """Write a batch and, with the deep option, its records, whose offsets are added to `gaps`. Raises Damage, after
        a complete line."""

    def trailing(self, path: str, count: int) -> None:
        """Write that the last `count` bytes of a log are not a batch."""

    def empty_index(self, path: str) -> None:
        """Write that an index has no entries."""

    def sane_index(self, path: str) -> None:
        """Write that an index passed the sanity check."""

    def offset_entry(self, path: str, entry: CheckedEntry) -> None:
        """Write an entry of an offset index."""

    def time_entry(self, path: str, entry: CheckedEntry) -> None:
        """Write an entry of a time index."""

    def producer(self, path: str, entry: ProducerEntry) -> None:
        """Write a producer of a producer snapshot."""

    def aborted_transaction(self, path: str, entry: AbortedTransaction) -> None:
        """Write an entry of a transaction index."""


class FileDump:
    """Dumps log files one after the other, by the options of DumpLogSegments."""

    def __init__(self, options: DumpOptions, lines: Lines, report: Callable[[Finding], None]) -> None:
        self._options = options
        self._lines = lines
        self._report = report
        self._decoder: Decoder | None = None
        self._file: SegmentFile | None = None
        self.summary = Summary()

    @property
    def position(self) -> int:
        """The bytes of the current log dumped so far, approximately. Any thread may read it to show progress."""
        file = self._file
        return 0 if file is None else file.window_start

    def dump(self, path: str) -> bool:
        """Dump one file. Return False for a file of unknown kind. Raises OSError for an unreadable file, Damage for a
        name without an offset, StoppedAtDamage."""
        kind = file_kinds.kind_of(path)
        self._file = None
        self._lines.file(path, kind)
        readers = {
            file_kinds.LOG: self._dump_log,
            file_kinds.SNAPSHOT: self._dump_log,
            file_kinds.OFFSET_INDEX: self._dump_offset_index,
            file_kinds.TIME_INDEX: self._dump_time_index,
            file_kinds.PRODUCER_SNAPSHOT: self._dump_producer_snapshot,
            file_kinds.TRANSACTION_INDEX: self._dump_transaction_index,
        }
        if kind is None:
            return False
        readers[kind](path)
        return True

    def dump_slice(self, path: str, part: FileSlice) -> None:
        """Dump the batches of a part of a segment; `Lines` selects their records. Raises OSError, Damage and
        StoppedAtDamage as `dump`."""
        self._file = None
        self._lines.file(path, file_kinds.LOG)
        self._dump_log(path, part)

    def _report_damage(self, path: str, damage: Damage, loss: str = "", *, stops: bool = True) -> None:
        self._report(Finding(path, damage.position, damage.reason, loss))
        if stops and self._options.stop_at_damage:
            raise StoppedAtDamage

    # -- logs and KRaft snapshots --

    def _dump_log(self, path: str, part: FileSlice | None = None) -> None:
        if self._decoder is None and self._options.decoder is not None:
            self._decoder = self._options.decoder()
        base_offset = -1
        if file_kinds.kind_of(path) == file_kinds.LOG:
            base_offset = file_kinds.base_offset_of(path)
            self._lines.log(path, base_offset)
        else:
            self._lines.snapshot(path, file_kinds.snapshot_id_of(path))
        with SegmentFile(path) as file:
            self._file = file
            start, end = (0, self._end(file, path)) if part is None else (part.start, part.end)
            limits = UNLIMITED
            if base_offset >= 0 and self._options.judges_by_neighbours:
                limits = read_limits(path, base_offset, self._report)
            walk = LogWalk(file, end, HeaderChecks(path, self._report, base_offset, limits), self._options, start)
            gaps = GapFinder(self.summary.gaps.setdefault(os.path.abspath(path), {}))
            whole_from, whole_to = start, end
            if part is not None:
                gaps.begin_anywhere()
                if self._options.deep:
                    whole_from, whole_to = part.whole_from, part.whole_to
            stretch = self._lines.stretch(file, whole_to, gaps, limits)
            if stretch is not None and part is not None:
                stretch = _from_position(stretch, whole_from, file, gaps)
            self._dump_batches(walk, stretch, gaps, path)
            if limits is not UNLIMITED and end == file.size:
                self._compare_end(path, file, walk, limits)

    def _end(self, file: SegmentFile, path: str) -> int:
        """Return the byte position where the dump of a segment ends: `max_bytes` or the end of the file. A segment
        above LARGEST_FILE, which Kafka does not open, is reported, or raises StoppedAtDamage with `stop_at_damage`. A
        negative `max_bytes` raises Damage for any other segment."""
        if file.size <= LARGEST_FILE:
            return slice_end(file, 0, self._options.max_bytes, path)
        problem = f"The size of segment {path} ({file.size}) is larger than the maximum allowed segment size of"
        self._report_damage(path, Damage(f"{problem} {LARGEST_FILE}"), "a broker does not open it")
        return file.size if self._options.max_bytes == ALL_BYTES else self._options.max_bytes

    def _compare_end(self, path: str, file: SegmentFile, walk: LogWalk, limits: SegmentLimits) -> None:
        """Report contradictions of a segment's last batches with the next segment and with the offset index."""
        for damage in (
            later_epoch_problem(limits.next_path, walk.leader_epoch),
            wrongly_indexed_batch(file, path, file_kinds.base_offset_of(path)),
        ):
            if damage is not None:
                self._report_damage(path, damage, stops=False)

    def _dump_batches(self, walk: LogWalk, forward: Forward | None, gaps: GapFinder, path: str) -> None:
        for header in walk.batches(forward):
            self._dump_batch(walk, header, gaps)
        if walk.has_stopped and self._options.stop_at_damage:
            raise StoppedAtDamage
        if walk.trailing_bytes > 0 and self._options.max_bytes == ALL_BYTES:
            self._lines.trailing(path, walk.trailing_bytes)
        if self._options.salvage:
            for header in walk.salvage():
                self._dump_batch(walk, header, gaps)

    def _dump_batch(self, walk: LogWalk, header: Header, gaps: GapFinder) -> None:
        try:
            self._lines.batch(header, self._decoder, gaps)
        except Damage as damage:
            walk.give_up(header, damage, shows_records=self._options.deep and header.codec == 0)

    # -- indexes --

    def _dump_offset_index(self, path: str) -> None:
        base_offset = file_kinds.base_offset_of(path)
        log_path = beside(path, file_kinds.LOG)
        with SegmentFile(log_path) as log:
            index = self._index(OffsetIndexFile, path, base_offset, log)
            if index is None:
                return
            if not index.entries:
                self._lines.empty_index(path)
            if index.entries and self._options.sanity_check_only:
                self._sanity_check(path, index)
                return
            self._check_size(path, index)
            for entry in check_offset_index(index, log, log_path, self._options.max_message_size):
                if entry.problem is not None:
                    self._report_damage(path, entry.problem, f"entry of offset {entry.first} cannot be checked")
                elif entry.log_offset != entry.first:
                    self.summary.mismatches.setdefault(os.path.abspath(path), []).append(entry)
                if not self._options.verify_index_only:
                    self._lines.offset_entry(path, entry)

    def _index(self, kind: type[_Index], path: str, base_offset: int, log: SegmentFile) -> _Index | None:
        """Read an index file. If it cannot belong to its log, report it and return None, or raise StoppedAtDamage.
        Raises OSError."""
        try:
            return kind.read(path, base_offset, log.size)
        except Damage as damage:
            self._report_damage(path, damage, "its entries are not shown")
            return None

    def _check_size(self, path: str, index: OffsetIndexFile | TimeIndexFile) -> None:
        if index.odd_bytes:
            damage = Damage("the file size is not a multiple of the entry size", index.size - index.odd_bytes)
            self._report_damage(path, damage, f"{index.odd_bytes} bytes", stops=False)
        if index.unseen_from >= 0:
            damage = Damage("a zero entry before the last entry: readers stop there", index.unseen_from)
            self._report_damage(path, damage, "the entries after it are not used", stops=False)

    def _sanity_check(self, path: str, index: OffsetIndexFile | TimeIndexFile) -> None:
        try:
            index.sanity_check(os.path.abspath(path))
        except Damage as damage:
            self._report_damage(path, damage, "a broker would rebuild it")
            return
        self._lines.sane_index(path)

    def _dump_time_index(self, path: str) -> None:
        base_offset = file_kinds.base_offset_of(path)
        log_path = beside(path, file_kinds.LOG)
        with SegmentFile(log_path) as log:
            offsets = self._index(OffsetIndexFile, beside(path, file_kinds.OFFSET_INDEX), base_offset, log)
            times = self._index(TimeIndexFile, path, base_offset, log)
            if offsets is None or times is None:
                return
            if self._options.sanity_check_only:
                self._sanity_check(path, times)
                return
            self._check_size(path, times)
            previous = -1
            for entry in check_time_index(times, offsets, log, log_path):
                self._judge_time(path, entry, previous)
                if not self._options.verify_index_only:
                    self._lines.time_entry(path, entry)
                previous = entry.first

    def _judge_time(self, path: str, entry: CheckedEntry, previous: int) -> None:
        absolute_path = os.path.abspath(path)
        if entry.problem is not None:
            self._report_damage(path, entry.problem, f"entry of offset {entry.second} cannot be checked")
        elif entry.log_offset != entry.second:
            self.summary.offsets_not_found.setdefault(absolute_path, []).append(entry)
        else:
            if entry.largest_timestamp != entry.first:
                self.summary.wrong_times.setdefault(absolute_path, []).append(entry)
            if previous >= entry.first:
                self.summary.times_out_of_order.setdefault(absolute_path, []).append((entry.first, previous))

    # -- producer snapshots and transaction indexes --

    def _dump_producer_snapshot(self, path: str) -> None:
        try:
            entries = read_producer_snapshot_file(path)
        except Damage as damage:
            self._report_damage(path, damage, "its producers are not shown", stops=False)
            return
        for entry in entries:
            self._lines.producer(path, entry)

    def _dump_transaction_index(self, path: str) -> None:
        with SegmentFile(path) as file:
            damage = self._misfit(file, beside(path, file_kinds.LOG))
            if damage is not None:
                self._report_damage(path, damage, "its entries are not shown", stops=False)
                return
            self._dump_aborted_transactions(path, file)

    def _misfit(self, file: SegmentFile, log_path: str) -> Damage | None:
        """Return the damage of a transaction index with more entries than its log can have markers, else None."""
        log_bytes = os.path.getsize(log_path) if os.path.isfile(log_path) else LARGEST_FILE
        limit = min(log_bytes, LARGEST_FILE) // HEADER_SIZE + SLACK_ENTRIES
        count = file.size // ENTRY_SIZE
        if count <= limit:
            return None
        return Damage(f"{count} aborted transactions where a log of {log_bytes} bytes can have {limit} at most", 0)

    def _dump_aborted_transactions(self, path: str, file: SegmentFile) -> None:
        last_offset = -1
        is_in_order = True
        for position, entry in aborted_transactions_in(file):
            self._lines.aborted_transaction(path, entry)
            if entry.version != CURRENT_VERSION:
                problem = f"version {entry.version} of an aborted transaction, not {CURRENT_VERSION}"
                self._report_damage(path, Damage(problem, position), stops=False)
            if entry.last_offset <= last_offset and is_in_order:
                problem = f"last offset {entry.last_offset} is not above the {last_offset} before it"
                self._report_damage(path, Damage(problem, position), stops=False)
            is_in_order = entry.last_offset > last_offset
            last_offset = entry.last_offset
        odd_bytes = file.size % ENTRY_SIZE
        if odd_bytes:
            self._report_damage(
                path, Damage("a partial entry at the end", file.size - odd_bytes), f"{odd_bytes} bytes", stops=False
            )


def _from_position(stretch: Forward, start: int, file: SegmentFile, gaps: GapFinder) -> Forward:
    """Return a stretch that writes nothing before a byte position, and begins without a gap."""

    def forward(position: int, state: array[int]) -> int:
        if position < start:
            return position
        header = file.view(position, HEADER_SIZE_UP_TO_MAGIC)
        if len(header) == HEADER_SIZE_UP_TO_MAGIC and header[MAGIC_OFFSET] == 2:
            gaps.begin_after(int.from_bytes(header[:8], "big", signed=True) - 1)
        return stretch(position, state)

    return forward


def beside(path: str, suffix: str) -> str:
    """Return the absolute path of the file with another suffix in the same segment."""
    absolute = os.path.abspath(path)
    return os.path.join(os.path.dirname(absolute), os.path.basename(path).split(".")[0] + suffix)
