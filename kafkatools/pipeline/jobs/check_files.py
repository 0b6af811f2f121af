"""Check of one file of a log directory: a segment with its two indexes, or a small file alone.

A segment is read once. `SoundStretch` checks windows of valid batches at once; batches where it stops are checked one
by one, as `kt dump-log` does. For batches that an index names, position, last offset and largest timestamp are stored
as columns and compared with the indexes. An index that does not match entry by entry is compared again as Kafka's tool
does, which knows harmless deviations. `SegmentFacts` is the input for the check of the whole partition
(check_partition.py).
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump import file_kinds
from kafkatools.core.log.dump.batch_headers import Header, LegacyHeader, V2Header, codec_name
from kafkatools.core.log.dump.batch_watch import SilentLines, WatchedStretch
from kafkatools.core.log.dump.damage import Damage, Finding
from kafkatools.core.log.dump.file_dump import FileDump
from kafkatools.core.log.dump.gaps import GapFinder
from kafkatools.core.log.dump.index_files import read_index
from kafkatools.core.log.dump.options import DumpOptions
from kafkatools.core.log.dump.records import records_of
from kafkatools.core.log.dump.segment_file import SegmentFile, open_regular_file
from kafkatools.core.log.format.transaction_index import ENTRY_SIZE, parse_entries
from kafkatools.core.records import kernel
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.control import ControlRecordType, parse_control_type

Longs = npt.NDArray[np.int64]

DAMAGE = "damage"
WARNING = "warning"

_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_UNKNOWN_TIME = -(1 << 63)
_LARGE_SEGMENT = 1 << 20
_OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_ENTRIES = {file_kinds.OFFSET_INDEX: _OFFSET_ENTRY, file_kinds.TIME_INDEX: _TIME_ENTRY}
DATA, COMMIT, ABORT = "data", "commit", "abort"


@dataclass(frozen=True)
class Problem:
    """A problem in a file: `position` in bytes, -1 for the whole file; `lost` describes the effect; `severity` is
    `damage` or `warning`."""

    file: str
    kind: str
    position: int
    problem: str
    lost: str = ""
    severity: str = DAMAGE


@dataclass
class SegmentFacts:
    """The contribution of a segment to the check of its partition. Offsets are -1 without batches.

    `epochs` lists leader epochs with the first offset of each, in log order. `transactions` lists (kind, producer ID,
    offset) of markers, and of each producer's first transactional batch in the segment and after each of its markers.
    `holes` lists (last offset before, first after) for gaps between batches. `misses_records`: batches lack offsets
    inside, as compaction leaves them, or messages have magic 0 or 1, where that is unknown.
    """

    base_offset: int
    size_bytes: int
    first_offset: int = -1
    last_offset: int = -1
    batches: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    transactions: list[tuple[str, int, int]] = field(default_factory=list)
    holes: list[tuple[int, int]] = field(default_factory=list)
    misses_records: bool = False


def check_segment(path: str, *, deep: bool = False) -> tuple[list[Problem], SegmentFacts]:
    """Check each batch of a segment (with `deep` each record too) and its two indexes. Returns the problems and the
    facts for the partition's check. Raises OSError if the segment cannot be read."""
    findings: list[Finding] = []
    facts = SegmentFacts(_base_offset(path), os.path.getsize(path))
    indexes = {suffix: _read_index(path, suffix, entry, facts.size_bytes) for suffix, entry in _ENTRIES.items()}
    watch = _Watch(facts, deep=deep, index_entries=_index_entries(indexes, facts.base_offset))
    dump = FileDump(DumpOptions(deep=deep), watch, findings.append)
    dump.dump(path)
    problems = [_problem(finding, "log") for finding in findings]
    problems += [Problem(path, "log", position, text) for position, text in watch.miscounts]
    for suffix, index in indexes.items():
        problems += _check_index(path, suffix, index, watch)
    return problems, watch.facts


def check_small_file(path: str) -> list[Problem]:
    """Check a producer snapshot, a transaction index, or a KRaft snapshot with all its batches. Raises OSError or
    Damage."""
    kind = str(file_kinds.kind_of(path)).removeprefix(".")
    findings: list[Finding] = []
    dump = FileDump(DumpOptions(), _Watch(SegmentFacts(-1, 0), deep=False), findings.append)
    dump.dump(path)
    return [_problem(finding, kind) for finding in findings]


def read_aborted_entries(path: str) -> list[tuple[int, int, int]]:
    """Return (producer ID, first offset, last offset) for each whole entry of a transaction index. Raises OSError."""
    with open(open_regular_file(path), "rb") as file:
        data = file.read()
    whole = data[: len(data) - len(data) % ENTRY_SIZE]
    return [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in parse_entries(whole)]


def _base_offset(path: str) -> int:
    try:
        return file_kinds.base_offset_of(path)
    except Damage:
        return -1


def _problem(finding: Finding, kind: str) -> Problem:
    return Problem(finding.file, kind, finding.position, finding.problem, finding.loss)


class _Watch(SilentLines):
    """An implementation of file_dump.Lines that prints nothing. It records the facts of a segment, the batches that its
    indexes name, and batches whose record count does not fit their offsets."""

    def __init__(
        self, facts: SegmentFacts, *, deep: bool, index_entries: tuple[Longs | None, Longs | None] = (None, None)
    ) -> None:
        self.facts = facts
        self._index_positions, self._index_offsets = index_entries
        self.miscounts: list[tuple[int, str]] = []
        self._deep = deep
        self._positions: list[Longs] = []
        self._last_offsets: list[Longs] = []
        self._timestamps: list[Longs] = []
        self._open: set[int] = set()
        self._is_lost = False

    def columns(self) -> tuple[Longs, Longs, Longs]:
        """Return position, last offset and largest timestamp of the batches that an index names, in file order."""
        empty = [np.empty(0, np.int64)]
        parts = (self._positions, self._last_offsets, self._timestamps)
        return tuple(np.concatenate(part or empty) for part in parts)  # type: ignore[return-value]

    # -- what the walk sees --

    def stretch(self, file: SegmentFile, end: int, gaps: GapFinder, limits: object) -> Callable[[int, array[int]], int]:
        return WatchedStretch(file, end, self._deep, gaps, self.sound).forward

    def sound(self, table: array[int], rows: int, window_position: int, window: memoryview) -> None:
        """Record valid batches of magic 2 from rows of the kernel's header table."""
        if rows <= 0:
            return
        cells = np.frombuffer(table, np.int64, rows * kernel.HEADER_WIDTH).reshape(rows, kernel.HEADER_WIDTH)
        base, last = cells[:, 1], cells[:, 1] + cells[:, 7]
        self._store(cells[:, 0] + window_position, last, cells[:, 9])
        if not self.facts.batches and self._is_lost:
            self.facts.first_offset = self.facts.base_offset
        before = np.concatenate(([self._expected_offset(int(base[0]))], last[:-1] + 1))
        for row in np.flatnonzero(base != before):
            self.facts.holes.append((int(before[row]) - 1, int(base[row])))
        self._note_counts(cells, window_position)
        epochs = cells[:, 4]
        for row in np.flatnonzero(np.concatenate(([True], epochs[1:] != epochs[:-1]))):
            self._note_epoch(int(epochs[row]), int(base[row]))
        for row in np.flatnonzero(cells[:, 6] & _TRANSACTIONAL):
            start = int(cells[row, 0])
            self._note_transaction(
                int(cells[row, 6]), int(cells[row, 10]), int(base[row]), window[start : start + int(cells[row, 2])]
            )
        self._note_end(int(base[0]), int(last[-1]), rows)

    def _store(self, positions: Longs, last_offsets: Longs, timestamps: Longs) -> None:
        """Store position, last offset and largest timestamp of the batches that an index names; do nothing if no index
        is compared. Memory thus depends on the index entries, not on the number of batches."""
        if self._index_positions is None:
            return
        rows = np.flatnonzero(_among(self._index_positions, positions) | _among(self._index_offsets, last_offsets))
        self._positions.append(positions[rows])
        self._last_offsets.append(last_offsets[rows])
        self._timestamps.append(timestamps[rows])

    def _note_counts(self, cells: Longs, window_position: int) -> None:
        counts, deltas = cells[:, 13], cells[:, 7]
        self.facts.misses_records |= bool((counts <= deltas).any())
        for row in np.flatnonzero((counts > deltas + 1) | (counts < 0)):
            text = f"the batch header has {counts[row]} records for {deltas[row] + 1} offsets"
            self.miscounts.append((int(cells[row, 0]) + window_position, text))

    def batch(self, header: Header, decoder: object, gaps: GapFinder) -> None:
        """Record one batch outside of the fast path; with `deep`, decode its records too. Raises Damage where Kafka's
        tool would stop: unknown magic, unknown codec, or records that cannot be read."""
        exact = header.max_timestamp if isinstance(header, V2Header) else _UNKNOWN_TIME
        self._store(*(np.array([number], np.int64) for number in (header.position, header.last_offset, exact)))
        if isinstance(header, V2Header) and header.is_valid:
            self._note_header(header)
        elif isinstance(header, LegacyHeader) and header.is_valid:
            self.facts.misses_records = True  # the first offset of compressed messages is inside of them
            self._note_end(header.last_offset, header.last_offset, 1)
        else:
            self._is_lost = True  # its offsets cannot be trusted, so the next offset is not a gap
        if isinstance(header, LegacyHeader):
            header.ensure_supported_magic()
        if self._deep:
            for record in records_of(header):
                gaps.see(record.offset)
        else:
            codec_name(header.codec)

    def _note_header(self, header: V2Header) -> None:
        expected_offset = self._expected_offset(header.base_offset)
        if header.base_offset > expected_offset:
            self.facts.holes.append((expected_offset - 1, header.base_offset))
        self.facts.misses_records |= header.record_count <= header.last_offset_delta
        self._note_epoch(header.partition_leader_epoch, header.base_offset)
        if header.is_transactional:
            self._note_transaction(header.attributes, header.producer_id, header.base_offset, header.view)
        self._note_end(header.base_offset, header.last_offset, 1)

    def _expected_offset(self, base_offset: int) -> int:
        was_lost, self._is_lost = self._is_lost, False
        return base_offset if was_lost or not self.facts.batches else self.facts.last_offset + 1

    def _note_end(self, first: int, last: int, batches: int) -> None:
        facts = self.facts
        if not facts.batches and facts.first_offset < 0:
            facts.first_offset = first
        facts.last_offset = max(facts.last_offset, last)
        facts.batches += batches

    def _note_epoch(self, epoch: int, offset: int) -> None:
        epochs = self.facts.epochs
        if not epochs or epochs[-1][0] != epoch:
            epochs.append((epoch, offset))

    def _note_transaction(self, attributes: int, producer_id: int, offset: int, view: memoryview) -> None:
        if attributes & _CONTROL:
            kind = _marker_kind(view)
            if kind is None:
                return
            self._open.discard(producer_id)
            self.facts.transactions.append((kind, producer_id, offset))
        elif producer_id not in self._open:
            self._open.add(producer_id)
            self.facts.transactions.append((DATA, producer_id, offset))


def _marker_kind(batch: memoryview) -> str | None:
    """Return COMMIT or ABORT for a control batch; None for other batches or damage."""
    try:
        kind = parse_control_type(next(RecordBatch(batch).records()).key)
    except (KafkaError, StopIteration):
        return None
    return {ControlRecordType.COMMIT: COMMIT, ControlRecordType.ABORT: ABORT}.get(kind)


# -- indexes --


class _Index(NamedTuple):
    """The bytes of an index without trailing zero entries (None if the file is damaged as a whole), and its file
    size."""

    data: bytes | None
    size_bytes: int

    def entries(self, entry: np.dtype[np.void]) -> npt.NDArray[np.void]:
        """Return the whole entries; offsets are relative to the segment's base offset."""
        data = self.data or b""
        return np.frombuffer(data, entry, len(data) // entry.itemsize)


def _read_index(log_path: str, suffix: str, entry: np.dtype[np.void], log_bytes: int) -> _Index | None:
    """Read an index; None if there is no such file. A damaged index has no data and the size -1. Indexes are read
    before the log is walked: a running broker writes the log first, so the log then has all that the index names."""
    try:
        return _Index(*read_index(log_path.removesuffix(file_kinds.LOG) + suffix, entry.itemsize, log_bytes))
    except FileNotFoundError:
        return None
    except Damage:
        return _Index(None, -1)


def _check_index(log_path: str, suffix: str, index: _Index | None, watch: _Watch) -> list[Problem]:
    path = log_path.removesuffix(file_kinds.LOG) + suffix
    kind = suffix.removeprefix(".")
    if index is None:
        return [Problem(path, kind, -1, "there is no such file", "a broker would rebuild it")]
    is_offset_index = suffix == file_kinds.OFFSET_INDEX
    if not (_offsets_fit(index, watch) if is_offset_index else _times_fit(index, watch)):
        return _compare_slowly(path, kind)
    facts = watch.facts
    if is_offset_index and not index.size_bytes and facts.size_bytes > _LARGE_SEGMENT and facts.batches > 1:
        return [Problem(path, kind, -1, "the index of a large segment is empty", "reads scan all of it", WARNING)]
    return []


def _entries(index: _Index, entry: np.dtype[np.void]) -> npt.NDArray[np.void] | None:
    """Return the entries before the first zero entry. None if the file is damaged, its size is not a multiple of the
    entry size, or entries follow a zero entry."""
    if index.data is None or index.size_bytes % entry.itemsize:
        return None
    rows = index.entries(entry)
    zeros = np.flatnonzero(rows["offset"][1:] == 0)
    if len(zeros):
        end = int(zeros[0]) + 1
        if rows["offset"][end:].any():
            return None
        rows = rows[:end]
    return rows


def _index_entries(indexes: Mapping[str, _Index | None], base_offset: int) -> tuple[Longs | None, Longs | None]:
    """Return the sorted positions and offsets in the entries of the indexes."""
    positions, offsets = (
        np.unique((indexes[suffix] or _Index(None, 0)).entries(entry)[column].astype(np.int64))
        for (suffix, entry), column in zip(_ENTRIES.items(), ("position", "offset"), strict=True)
    )
    return positions, offsets + base_offset


def _among(entries: Longs | None, values: Longs) -> npt.NDArray[np.bool_]:
    """Return a mask of the `values` that are in the sorted array `entries`; all false if it is None or empty."""
    if entries is None or not len(entries):
        return np.zeros(len(values), np.bool_)
    is_entry: npt.NDArray[np.bool_] = entries[np.minimum(np.searchsorted(entries, values), len(entries) - 1)] == values
    return is_entry


def _offsets_fit(index: _Index, watch: _Watch) -> bool:
    rows = _entries(index, _OFFSET_ENTRY)
    if rows is None:
        return False
    positions, last_offsets, _ = watch.columns()
    entry_positions = rows["position"].astype(np.int64)
    offsets = rows["offset"].astype(np.int64) + watch.facts.base_offset
    indexes = np.searchsorted(positions, entry_positions)
    if (indexes >= len(positions)).any():
        return False
    return bool((positions[indexes] == entry_positions).all() and (last_offsets[indexes] == offsets).all())


def _times_fit(index: _Index, watch: _Watch) -> bool:
    rows = _entries(index, _TIME_ENTRY)
    if rows is None:
        return False
    _, last_offsets, timestamps = watch.columns()
    entry_offsets = rows["offset"].astype(np.int64) + watch.facts.base_offset
    times = rows["timestamp"].astype(np.int64)
    if (last_offsets[1:] <= last_offsets[:-1]).any() or (times[1:] <= times[:-1]).any():
        return False
    indexes = np.searchsorted(last_offsets, entry_offsets)
    if (indexes >= len(last_offsets)).any():
        return False
    return bool((last_offsets[indexes] == entry_offsets).all() and (timestamps[indexes] == times).all())


def _compare_slowly(path: str, kind: str) -> list[Problem]:
    """Compare an index with its log entry by entry as Kafka's tool does, and return the problems. Deviations that the
    tool calls harmless are left out."""
    findings: list[Finding] = []
    dump = FileDump(DumpOptions(verify_index_only=True), _Watch(SegmentFacts(-1, 0), deep=False), findings.append)
    try:
        dump.dump(path)
    except FileNotFoundError as missing:
        return [Problem(path, kind, -1, f"cannot be compared: {os.path.basename(missing.filename)} is missing")]
    problems = [_problem(finding, kind) for finding in findings]
    summary = dump.summary
    for entries in summary.mismatches.values():
        problems += [
            Problem(
                path,
                kind,
                -1,
                f"offset {entry.first} is listed at byte {entry.second}, where the log has {entry.log_offset}",
            )
            for entry in entries
            if not entry.is_harmless
        ]
    for entries in summary.wrong_times.values():
        problems += [
            Problem(path, kind, -1, f"timestamp {entry.first} of offset {entry.second}, the log has {_time(entry)}")
            for entry in entries
            if not entry.is_harmless
        ]
    for pairs in summary.times_out_of_order.values():
        problems += [Problem(path, kind, -1, f"timestamp {time} after {before}") for time, before in pairs]
    for entries in summary.offsets_not_found.values():
        problems += [
            Problem(path, kind, -1, f"no batch of the log ends with offset {entry.second}") for entry in entries
        ]
    return problems


def _time(entry: Any) -> object:
    return entry.largest_timestamp
