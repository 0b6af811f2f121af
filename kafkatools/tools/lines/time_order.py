"""Merge the records of several partitions by timestamp, in bounded memory (`--order time`).

Rules: the next record is the one with the lowest timestamp among the first unprinted records of all partitions, so no
record is printed while a partition that is not at its end has none buffered. A partition with more than
`MOST_BUFFERED_BYTES` of records is paused. Within a partition records keep their order, also where their timestamps do
not ascend.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.ends import Ends
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.tools.lines.partition_reader import PartitionReader

MOST_BUFFERED_BYTES = 1 << 20
_RUN_BYTES, _ROW_BYTES = 1024, 40

_Head = tuple[int, TopicPartition]


class TimeOrder:
    """The buffered records of the partitions that a consumer reads up to `ends`."""

    def __init__(self, consumer: PartitionReader, ends: Ends) -> None:
        self._consumer = consumer
        self._ends = ends
        self._buffers = {part: _Buffer() for part in consumer.assignment()}

    def unprinted(self) -> list[TopicPartition]:
        """Return the partitions of which records are buffered."""
        return [part for part, buffer in self._buffers.items() if buffer.runs]

    def add(self, runs: Iterable[FetchedColumns]) -> None:
        """Buffer fetched records; those at or after the end of their partition must be cut off."""
        for run in runs:
            if run.columns.count:
                self._buffers[run.topic_partition].add(run)

    def merged(self) -> Iterator[FetchedColumns]:
        """Yield runs of buffered records by ascending timestamp, until a partition that is not at its end has no
        records left. Pauses and resumes the partitions by what is buffered."""
        undone = set(self._ends.undone())
        heads = [(buffer.first_timestamp, part) for part, buffer in self._buffers.items() if buffer.runs]
        heapq.heapify(heads)
        is_blocked = any(not self._buffers[part].runs for part in undone)
        while heads and not is_blocked:
            _, part = heapq.heappop(heads)
            buffer = self._buffers[part]
            yield buffer.take(part, heads[0] if heads else None)
            if buffer.runs:
                heapq.heappush(heads, (buffer.first_timestamp, part))
            else:
                is_blocked = part in undone
        full = {
            part
            for part, buffer in self._buffers.items()
            if part not in undone or buffer.size_bytes > MOST_BUFFERED_BYTES
        }
        self._consumer.pause(full)
        self._consumer.resume(self._buffers.keys() - full)


class _Buffer:
    """The unprinted records of one partition: `runs`, of whose first one the rows before `_row` are printed."""

    def __init__(self) -> None:
        self.runs: deque[FetchedColumns] = deque()
        self.size_bytes = 0
        self._row = 0

    @property
    def first_timestamp(self) -> int:
        """The timestamp of the first unprinted record."""
        return self.runs[0].columns.timestamps[self._row]

    def add(self, run: FetchedColumns) -> None:
        """Add later records."""
        self.runs.append(run)
        self.size_bytes += _size_bytes(run)

    def take(self, part: TopicPartition, next_head: _Head | None) -> FetchedColumns:
        """Remove and return the first records, up to the first one that comes behind `next_head`, the first record of
        another partition."""
        run, start = self.runs[0], self._row
        timestamps, stop = run.columns.timestamps, start + 1
        if next_head is None:
            stop = run.columns.count
        while stop < run.columns.count and next_head is not None and (timestamps[stop], part) < next_head:
            stop += 1
        self._row = stop
        if stop == run.columns.count:
            self.runs.popleft()
            self.size_bytes -= _size_bytes(run)
            self._row = 0
        return run._replace(columns=run.columns.slice(start, stop))


def _size_bytes(run: FetchedColumns) -> int:
    """The bytes from the first to the last value of a run, and those of its columns."""
    columns = run.columns
    value_end = columns.value_positions[-1] + max(0, columns.value_lengths[-1])
    return _RUN_BYTES + _ROW_BYTES * columns.count + max(0, value_end - columns.value_positions[0])
