"""Division of segments into the splits and tasks of a query.

A split begins and ends at batch boundaries. The segment's sparse index locates them; an entry is trusted only if a
valid batch begins at its position and ends with its offset. Without an index the headers are read from the start, in
local files. Segments and parts of them outside the bounds are skipped: by offset through segment names and `.index`, by
timestamp through `.timeindex`. Small splits share a task.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kafkatools.core.log.dump.resync import next_valid_batch
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.format.filenames import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from kafkatools.core.log.reading.transaction_scan import batch_window
from kafkatools.core.records import kernel
from kafkatools.core.records.layout import HEADER_SIZE, V2_HEADER
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline import storage
from kafkatools.pipeline.sources.log.aborted import FileTransactions
from kafkatools.pipeline.sources.log.files import LogFile
from kafkatools.pipeline.sources.record_bounds import MAX_LONG, RecordBounds

SPLIT_BYTES = 128 << 20
_PROBE_BYTES = 1 << 16  # the window for a look at one batch; a usual window would read the whole file for many splits
_ROWS = 4096
_TRIES = 4
_INDEX_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


@dataclass(frozen=True)
class LogSplit:
    """A byte range of a segment from batch to batch, and the bounds of the records to read. `transactions` gives
    transaction states, None if not requested."""

    file: LogFile
    start_position: int
    end_position: int
    bounds: RecordBounds
    transactions: FileTransactions | None = None

    @property
    def size_bytes(self) -> int:
        """Length of the byte range."""
        return self.end_position - self.start_position


@dataclass(frozen=True)
class LogTask:
    """The splits that one task reads."""

    splits: tuple[LogSplit, ...]

    def __repr__(self) -> str:
        first = self.splits[0]
        suffix = f" and {len(self.splits) - 1} more" if len(self.splits) > 1 else ""
        return f"LogTask({first.file.url}, {first.start_position} to {first.end_position}{suffix})"


def make_tasks(
    files: Iterable[LogFile],
    bounds: Mapping[TopicPartition, RecordBounds],
    *,
    split_bytes: int = SPLIT_BYTES,
    min_partitions: int = 1,
    first_bytes: int = 0,
) -> list[LogTask]:
    """Return the tasks that read the records within the bounds of each partition; partitions without bounds are not
    read. A task has about `split_bytes` at most, or less so that there are about `min_partitions` tasks. With
    `first_bytes` the first task has only about as many, so that its rows are ready soon. Raises PipelineError if a file
    cannot be opened."""
    whole = [
        LogSplit(file, 0, file.size_bytes, bounds[file.topic_partition])
        for file in files
        if file.topic_partition in bounds and file.size_bytes and _overlaps(file, bounds[file.topic_partition])
    ]
    narrow_splits = (_narrowed(split) for split in whole)
    splits = [split for split in narrow_splits if split is not None]
    total = sum(split.size_bytes for split in splits)
    size = max(min(split_bytes, -(-total // max(min_partitions, 1))), 1)
    pieces = [piece for split in splits for piece in _cut(split, size)]
    head, rest = _without_head(pieces, first_bytes) if first_bytes else ([], pieces)
    return [*(LogTask((piece,)) for piece in head), *_pack(rest, size)]


def _overlaps(file: LogFile, bounds: RecordBounds) -> bool:
    if bounds.is_empty or not bounds.takes(file.topic, file.partition) or file.base_offset >= bounds.end_offset:
        return False
    return file.next_base_offset is None or file.next_base_offset > bounds.start_offset


# -- indexes --


def read_index(file: LogFile) -> npt.NDArray[np.int64]:
    """Return the entries of a segment's `.index` as rows of absolute offset and position, up to the first that does not
    increase or is outside of the file. They are not compared with the log. No rows without an index."""
    entries = _entries(file, INDEX_SUFFIX, _INDEX_ENTRY)
    index = np.empty((len(entries), 2), np.int64)
    index[:, 0] = entries["offset"].astype(np.int64) + file.base_offset
    index[:, 1] = entries["position"]
    good = (index[:, 1] > 0) & (index[:, 1] < file.size_bytes)
    good[1:] &= (np.diff(index[:, 0]) > 0) & (np.diff(index[:, 1]) > 0)
    return index[: _leading_count(good)]


def _entries(file: LogFile, suffix: str, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    data = file.read_beside(suffix) or b""
    return np.frombuffer(data, dtype, len(data) // dtype.itemsize)


def _leading_count(good: npt.NDArray[np.bool_]) -> int:
    """Return the number of true values before the first false one."""
    if len(good) and not good[0]:
        return 0
    bad = np.flatnonzero(~good)
    return int(bad[0]) if len(bad) else len(good)


def _narrowed(split: LogSplit) -> LogSplit | None:
    """Narrow the split of a whole segment by its bounds. The index is read only if they end within the segment: those
    of many segments would fill the driver's memory, and take most of the planning."""
    file, bounds = split.file, split.bounds
    has_end = bounds.end_offset < MAX_LONG
    is_within = has_end and (file.next_base_offset is None or bounds.end_offset < file.next_base_offset)
    if bounds.start_offset <= file.base_offset and not is_within and not bounds.has_timestamps:
        return split
    return narrow(file, bounds, read_index(file))


def narrow(file: LogFile, bounds: RecordBounds, index: npt.NDArray[np.int64]) -> LogSplit | None:
    """Return the part of a segment that may hold records within the bounds, according to its indexes; None if there is
    none. An index entry counts only if a valid batch is at its position. Raises PipelineError if the file cannot be
    opened."""
    start, end = 0, file.size_bytes
    first = bounds.start_offset
    if bounds.has_timestamps:
        older = _offset_before(file, bounds.start_timestamp_ms)
        if older is None:
            return None
        first = max(first, older)
    if len(index):
        at = int(np.searchsorted(index[:, 0], first, "right")) - 1
        start = _sound_start(file, index[at : at + 1]) if at >= 0 else 0
        # The batch of this entry may still hold records below the end, so read up to the next entry.
        after = int(np.searchsorted(index[:, 0], bounds.end_offset, "left")) + 1
        if after < len(index):
            end = _sound_start(file, index[after : after + 1]) or end
    return LogSplit(file, start, end, bounds) if start < end else None


def _offset_before(file: LogFile, timestamp: int) -> int | None:
    """Return an offset before which all records are older than a timestamp; None if all records of the segment are. The
    base offset if the time index is missing or says nothing: that of the last segment may be incomplete."""
    entries = _entries(file, TIME_INDEX_SUFFIX, _TIME_ENTRY)
    times = entries["timestamp"].astype(np.int64)
    offsets = entries["offset"].astype(np.int64)
    good = (times > 0) & (offsets >= 0)
    good[1:] &= np.diff(times) > 0
    count = _leading_count(good)
    if count == 0:
        return file.base_offset
    is_closed = file.next_base_offset is not None and count == len(entries)
    if is_closed and times[-1] < timestamp:
        return None
    at = int(np.searchsorted(times[:count], timestamp, "left")) - 1
    return file.base_offset + int(offsets[at]) if at >= 0 else file.base_offset


def _sound_start(file: LogFile, entry: npt.NDArray[np.int64]) -> int:
    """Return the position of an index entry if a valid batch begins there and ends with the entry's offset; else 0."""
    offset, position = int(entry[0, 0]), int(entry[0, 1])
    with storage.open_segment(file.url, _PROBE_BYTES) as segment:
        return position if _begins_batch(segment, position, offset) else 0


def _begins_batch(segment: SegmentFile, position: int, offset: int | None) -> bool:
    """Return whether a valid batch begins at a position; with `offset`, one whose last offset is that."""
    header = bytes(segment.view(position, min(HEADER_SIZE, segment.size - position)))
    if len(header) <= 16:
        return False
    is_legacy = header[16] < 2
    if next_valid_batch(segment, position, segment.size, legacy=is_legacy, before=position + 1) != position:
        return False
    if offset is None:
        return True
    base = int.from_bytes(header[:8], "big", signed=True)
    delta = 0 if is_legacy else int(V2_HEADER.unpack_from(header)[6])
    return base + delta == offset


# -- cutting --


def _cut(split: LogSplit, size: int) -> Iterator[LogSplit]:
    count = -(-split.size_bytes // size)
    if count == 1:
        yield split
        return
    index = read_index(split.file)
    goals = [split.start_position + split.size_bytes * number // count for number in range(1, count)]
    edges = [split.start_position, *_edges(split, index, goals), split.end_position]
    for start, end in zip(edges[:-1], edges[1:], strict=True):
        yield replace(split, start_position=start, end_position=end)


def _without_head(pieces: list[LogSplit], size: int) -> tuple[list[LogSplit], list[LogSplit]]:
    """Return the first `size` bytes or more of the first piece as a piece of its own, and all other pieces. The first
    list is empty if the first piece has only one batch."""
    if not pieces or pieces[0].size_bytes <= size:
        return pieces[:1], pieces[1:]
    first = pieces[0]
    edges = _edges(first, read_index(first.file), [first.start_position + size])
    if not edges:
        return [], pieces
    head, rest = replace(first, end_position=edges[0]), replace(first, start_position=edges[0])
    return [head], [rest, *pieces[1:]]


def _edges(split: LogSplit, index: npt.NDArray[np.int64], goals: list[int]) -> list[int]:
    """Return sorted batch positions at or after the goals, strictly inside the split, from the index; in local files
    also from the headers. There may be fewer positions than goals."""
    if not goals:
        return []
    with storage.open_segment(split.file.url, _PROBE_BYTES) as segment:
        edge_by_goal = {goal: _indexed_edge(segment, index, goal) for goal in goals}
    edges = set(edge_by_goal.values())
    unindexed_goals = [goal for goal, edge in edge_by_goal.items() if not edge]
    if unindexed_goals and storage.local_path(split.file.url) is not None:
        with storage.open_segment(split.file.url) as segment:
            edges.update(_walked_edges(segment, split, unindexed_goals))
    return sorted(edge for edge in edges if split.start_position < edge < split.end_position)


def _indexed_edge(segment: SegmentFile, index: npt.NDArray[np.int64], goal: int) -> int:
    at = int(np.searchsorted(index[:, 1], goal, "left"))
    for offset, position in index[at : at + _TRIES].tolist():
        if _begins_batch(segment, position, offset):
            return int(position)
    return 0


def _walked_edges(segment: SegmentFile, split: LogSplit, goals: list[int]) -> Iterator[int]:
    """Yield batch positions at or after the goals, found by walking the headers from the start of the split. Ends early
    at bytes that are not a batch."""
    table = array("q", bytes(8 * kernel.HEADER_WIDTH * _ROWS))
    status = array("q", bytes(8 * kernel.STATUS_SIZE))
    position = split.start_position
    for goal in goals:
        while position < goal:
            window = batch_window(segment, position, split.end_position)
            rows = kernel.scan_batches(window, 0, len(window), table, status)
            if rows == 0:
                return
            starts = np.frombuffer(table, np.int64)[: rows * kernel.HEADER_WIDTH : kernel.HEADER_WIDTH] + position
            at = int(np.searchsorted(starts, goal))
            position = int(starts[at]) if at < rows else position + status[kernel.STATUS_POSITION]
        if position < split.end_position and _begins_batch(segment, position, None):
            yield position


def _pack(pieces: list[LogSplit], size: int) -> Iterator[LogTask]:
    """Combine consecutive pieces of together at most `size` bytes into one task, since each task has a fixed cost. A
    larger piece has its own task."""
    pending: list[LogSplit] = []
    for piece in pieces:
        if pending and sum(split.size_bytes for split in pending) + piece.size_bytes > size:
            yield LogTask(tuple(pending))
            pending = []
        pending.append(piece)
    if pending:
        yield LogTask(tuple(pending))
