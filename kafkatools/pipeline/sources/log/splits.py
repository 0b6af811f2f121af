"""Which parts of which segments the tasks of a query read.

A split begins and ends where batches do. Where that is, the segment's sparse index says; an entry is believed only when
the batch that it points to is one and ends with the entry's offset. Without an index the headers are walked through.
Segments, and stretches of them, that hold nothing within the bounds are left out: by offsets through the names of the
segments and `.index`, by timestamps through `.timeindex`. Small splits share a task.
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
from kafkatools.core.records import kernel
from kafkatools.core.records.layout import HEADER_SIZE, LOG_OVERHEAD, V2_HEADER
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline import storage
from kafkatools.pipeline.sources.log.aborted import FileTransactions
from kafkatools.pipeline.sources.log.files import LogFile
from kafkatools.pipeline.sources.record_bounds import RecordBounds
from kafkatools.pipeline.sources.spark_api import InputPartition

SPLIT_BYTES = 128 << 20
_ROWS = 4096
_TRIES = 4
_INDEX_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


@dataclass(frozen=True)
class LogSplit:
    """A stretch of a segment from batch to batch, and what of it is wanted. `transactions` tells what became of
    those of the segment; None where nobody asks.
    """

    file: LogFile
    start_position: int
    end_position: int
    bounds: RecordBounds
    transactions: FileTransactions | None = None

    @property
    def size_bytes(self) -> int:
        return self.end_position - self.start_position

    @property
    def is_tail(self) -> bool:
        """Whether the log ends with it: what is cut off there was never there as a whole."""
        return self.file.next_base_offset is None and self.end_position == self.file.size_bytes


@dataclass(frozen=True)
class LogTask(InputPartition):
    """What one task of Spark reads."""

    splits: tuple[LogSplit, ...]

    def __repr__(self) -> str:
        first = self.splits[0]
        more = f" and {len(self.splits) - 1} more" if len(self.splits) > 1 else ""
        return f"LogTask({first.file.url}, {first.start_position} to {first.end_position}{more})"


def make_tasks(
    files: Iterable[LogFile],
    bounds: Mapping[TopicPartition, RecordBounds],
    *,
    split_bytes: int = SPLIT_BYTES,
    min_partitions: int = 1,
) -> list[LogTask]:
    """The tasks that read what lies within the bounds of each partition; partitions without bounds are not read."""
    whole = [
        LogSplit(file, 0, file.size_bytes, bounds[file.topic_partition])
        for file in files
        if file.topic_partition in bounds and file.size_bytes and _overlaps(file, bounds[file.topic_partition])
    ]
    indexes = {split.file.url: read_index(split.file) for split in whole}
    narrowed = [narrow(split.file, split.bounds, indexes[split.file.url]) for split in whole]
    wanted = [split for split in narrowed if split is not None]
    total = sum(split.size_bytes for split in wanted)
    size = max(min(split_bytes, -(-total // max(min_partitions, 1))), 1)
    pieces = [piece for split in wanted for piece in _cut(split, indexes[split.file.url], size)]
    return list(_packed(pieces, size))


def _overlaps(file: LogFile, bounds: RecordBounds) -> bool:
    if bounds.is_empty or not bounds.takes(file.topic, file.partition) or file.base_offset >= bounds.end_offset:
        return False
    return file.next_base_offset is None or file.next_base_offset > bounds.start_offset


# -- indexes --


def read_index(file: LogFile) -> npt.NDArray[np.int64]:
    """The sound entries of a segment's `.index`: offsets, absolute, and positions; none when there is no index."""
    entries = _entries(file, INDEX_SUFFIX, _INDEX_ENTRY)
    found = np.empty((len(entries), 2), np.int64)
    found[:, 0] = entries["offset"].astype(np.int64) + file.base_offset
    found[:, 1] = entries["position"]
    good = (found[:, 1] > 0) & (found[:, 1] < file.size_bytes)
    good[1:] &= (np.diff(found[:, 0]) > 0) & (np.diff(found[:, 1]) > 0)
    return found[: _leading(good)]


def _entries(file: LogFile, suffix: str, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    data = file.read_beside(suffix) or b""
    return np.frombuffer(data, dtype, len(data) // dtype.itemsize)


def _leading(good: npt.NDArray[np.bool_]) -> int:
    """How many are good up to the first that is not. The very first entry of an index may be at position 0."""
    if len(good) and not good[0]:
        return 0
    bad = np.flatnonzero(~good)
    return int(bad[0]) if len(bad) else len(good)


def narrow(file: LogFile, bounds: RecordBounds, index: npt.NDArray[np.int64]) -> LogSplit | None:
    """The part of a segment that may hold what is wanted, as far as its indexes say; None for nothing."""
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
        # the entry's batch may hold wanted records too: up to the one behind it
        after = int(np.searchsorted(index[:, 0], bounds.end_offset, "left")) + 1
        if after < len(index):
            end = _sound_start(file, index[after : after + 1]) or end
    return LogSplit(file, start, end, bounds) if start < end else None


def _offset_before(file: LogFile, timestamp: int) -> int | None:
    """An offset up to which all records are older than a timestamp; None when all of the segment's are. What the
    index of the last segment says is not the whole story.
    """
    entries = _entries(file, TIME_INDEX_SUFFIX, _TIME_ENTRY)
    times = entries["timestamp"].astype(np.int64)
    offsets = entries["offset"].astype(np.int64)
    good = (times > 0) & (offsets >= 0)
    good[1:] &= np.diff(times) > 0
    count = _leading(good)
    if count == 0:
        return file.base_offset
    is_closed = file.next_base_offset is not None and count == len(entries)
    if is_closed and times[-1] < timestamp:
        return None
    at = int(np.searchsorted(times[:count], timestamp, "left")) - 1
    return file.base_offset + int(offsets[at]) if at >= 0 else file.base_offset


def _sound_start(file: LogFile, entry: npt.NDArray[np.int64]) -> int:
    """The position of an entry whose batch is one and ends with its offset; 0 for any other."""
    offset, position = int(entry[0, 0]), int(entry[0, 1])
    with storage.open_segment(file.url) as segment:
        return position if _begins_batch(segment, position, offset) else 0


def _begins_batch(segment: SegmentFile, position: int, offset: int | None) -> bool:
    """Whether a sound batch begins at a position; with an offset, one that ends with it."""
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


def _cut(split: LogSplit, index: npt.NDArray[np.int64], size: int) -> Iterator[LogSplit]:
    """A stretch in pieces of about a size."""
    count = -(-split.size_bytes // size)
    goals = [split.start_position + split.size_bytes * number // count for number in range(1, count)]
    edges = [split.start_position, *_edges(split, index, goals), split.end_position]
    for start, end in zip(edges[:-1], edges[1:], strict=True):
        yield replace(split, start_position=start, end_position=end)


def _edges(split: LogSplit, index: npt.NDArray[np.int64], goals: list[int]) -> list[int]:
    """Positions of batches at or behind the goals, rising, strictly within the stretch."""
    if not goals:
        return []
    with storage.open_segment(split.file.url) as segment:
        found: set[int] = set()
        missed = []
        for goal in goals:
            edge = _indexed_edge(segment, index, goal)
            if edge:
                found.add(edge)
            else:
                missed.append(goal)
        if missed and storage.local_path(split.file.url) is not None:
            found.update(_walked_edges(segment, split, missed))
    return sorted(edge for edge in found if split.start_position < edge < split.end_position)


def _indexed_edge(segment: SegmentFile, index: npt.NDArray[np.int64], goal: int) -> int:
    at = int(np.searchsorted(index[:, 1], goal, "left"))
    for offset, position in index[at : at + _TRIES].tolist():
        if _begins_batch(segment, position, offset):
            return int(position)
    return 0


def _walked_edges(segment: SegmentFile, split: LogSplit, goals: list[int]) -> Iterator[int]:
    """The same by the headers from the beginning of the stretch on, as far as they lead."""
    table = array("q", bytes(8 * kernel.HEADER_WIDTH * _ROWS))
    status = array("q", bytes(8 * kernel.STATUS_SIZE))
    position = split.start_position
    for goal in goals:
        while position < goal:
            window = _whole_batch(segment, position, split.end_position)
            rows = kernel.scan_batches(window, 0, len(window), table, status)
            if rows == 0:
                return
            starts = np.frombuffer(table, np.int64)[: rows * kernel.HEADER_WIDTH : kernel.HEADER_WIDTH] + position
            at = int(np.searchsorted(starts, goal))
            position = int(starts[at]) if at < rows else position + status[kernel.STATUS_POSITION]
        if position < split.end_position and _begins_batch(segment, position, None):
            yield position


def _whole_batch(segment: SegmentFile, position: int, end: int) -> memoryview:
    """A window that holds one batch at least, if there is a whole one."""
    window = segment.window(position, min(HEADER_SIZE, end - position))
    size = int.from_bytes(window[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
    if len(window) < size <= end - position:
        window = segment.window(position, size)
    return window[: end - position]


def _packed(pieces: list[LogSplit], size: int) -> Iterator[LogTask]:
    """Neighbours that are small together in one task: a task has its price."""
    waiting: list[LogSplit] = []
    for piece in pieces:
        if waiting and sum(each.size_bytes for each in waiting) + piece.size_bytes > size:
            yield LogTask(tuple(waiting))
            waiting = []
        waiting.append(piece)
    if waiting:
        yield LogTask(tuple(waiting))
