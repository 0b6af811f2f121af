"""Find where a slice starts and ends in each partition, by ListOffsets, and select its records.

Rules: the log end offsets are looked up first, so a slice without an end has every record that arrives meanwhile. A
slice by time starts at the partition's first record at or after the start and ends before the first one at or
after the end; of the records in between only those within the times are taken. `--last` counts records, not offsets: it
reads the end of each partition, and further back where offsets are missing (transaction markers, compaction).
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.ends import Ends
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.exit_status import CommandError
from kafkatools.tools.lines.partition_reader import LateRecordFinder, PartitionReader
from kafkatools.tools.lines.slice import Anchor, Place, Slice

_POLL_MS = 1000
_FURTHER_BACK = 4
_MOST_NOTES = 3
_NO_OFFSETS: Sequence[int] = ()

Offsets = dict[TopicPartition, int]


class SliceBounds(NamedTuple):
    """The first offset of a slice in each partition, and the offset before which it ends; no `ends` for a slice without
    an end."""

    starts: Offsets
    ends: Offsets | None


class SliceFinder:
    """Finds the bounds of one slice. `note` prints a line about offsets that the log does not have."""

    def __init__(self, consumer: PartitionReader, requested: Slice, note: Callable[[str], None]) -> None:
        self._consumer = consumer
        self._slice = requested
        self._note = note
        self._notes: list[str] = []

    def bounds(self, partitions: Sequence[TopicPartition]) -> SliceBounds:
        """Look the slice up in these partitions, and note where logs are shorter. Raises CommandError when the slice
        has no end and the only partition does not have its start offset, and the errors of Consumer.end_offsets."""
        bounds = self._bounds(partitions)
        for line in self._notes[:_MOST_NOTES]:
            self._note(line)
        if len(self._notes) > _MOST_NOTES:
            self._note(f"The logs of {len(self._notes) - _MOST_NOTES} more partitions are shorter than the range")
        return bounds

    def _bounds(self, partitions: Sequence[TopicPartition]) -> SliceBounds:
        log_ends = self._consumer.end_offsets(partitions)
        log_starts = self._consumer.beginning_offsets(partitions)
        starts = self._offsets(self._slice.start, log_starts, log_ends)
        for part, offset in starts.items():
            starts[part] = self._within_log(part, offset, log_starts[part], log_ends[part], len(partitions) == 1)
        if self._slice.end is None and self._slice.last is None:
            return SliceBounds(starts, None)
        ends = dict(log_ends)
        if self._slice.end is not None:
            ends = self._ends(self._slice.end, log_starts, log_ends)
        for part, offset in ends.items():
            is_offset = self._slice.end is not None and self._slice.end.anchor is Anchor.OFFSET
            if is_offset and starts[part] < log_ends[part] < offset:
                self._notes.append(f"{part} ends at offset {log_ends[part]}, before offset {offset}")
            ends[part] = max(min(offset, log_ends[part]), starts[part])
        return SliceBounds(starts, ends)

    def _ends(self, place: Place, log_starts: Offsets, log_ends: Offsets) -> Offsets:
        if place.anchor is Anchor.TIME and isinstance(self._consumer, LateRecordFinder):
            return self._consumer.ends_before_times(dict.fromkeys(log_ends, place.value))
        ends = self._offsets(place, log_starts, log_ends)
        return self._first_records(ends, log_ends, place.value) if place.anchor is Anchor.TIME else ends

    def _first_records(self, found: Offsets, log_ends: Offsets, time_ms: int) -> Offsets:
        """Return the offset of the first record at or after the time that is at or behind the found offset, the log end
        without one. A broker also finds the markers of transactions, which have the time of their commit, in front of
        older records: those are read here up to the first newer one."""
        consumer = self._consumer
        result = dict(found)
        remaining = {part for part, offset in found.items() if offset < log_ends[part]}
        if not remaining:
            return result
        consumer.pause([part for part in consumer.assignment() if part not in remaining])
        for part, offset in found.items():
            consumer.seek(part, offset)  # also where nothing is read: a poll needs the positions of all
        result.update({part: log_ends[part] for part in remaining})
        ends = Ends.at(consumer, {part: log_ends[part] for part in remaining})
        while remaining:
            fetched = consumer.poll_columns(_POLL_MS)
            for item in fetched:
                rows = (row for row, timestamp in enumerate(item.columns.timestamps) if timestamp >= time_ms)
                row = next(rows, None)
                if row is not None and item.topic_partition in remaining:
                    result[item.topic_partition] = min(item.columns.offsets[row], log_ends[item.topic_partition])
                    remaining.discard(item.topic_partition)
            remaining -= {part for part in remaining if consumer.has_read_to(part, log_ends[part])}
            consumer.pause([part for part in consumer.assignment() if part not in remaining])
            if remaining and not fetched:
                ends.ensure_reachable()
        consumer.resume(consumer.assignment())
        return result

    def _offsets(self, place: Place, log_starts: Offsets, log_ends: Offsets) -> Offsets:
        if place.anchor is Anchor.TIME:
            offsets = self._consumer.offsets_for_times(dict.fromkeys(log_ends, place.value))
            return {part: log_ends[part] if listed is None else listed.offset for part, listed in offsets.items()}
        if place.anchor is Anchor.LOG_START:
            return {part: offset + place.value for part, offset in log_starts.items()}
        if place.anchor is Anchor.LOG_END:
            return {part: max(offset - place.value, log_starts[part]) for part, offset in log_ends.items()}
        return dict.fromkeys(log_ends, place.value)

    def _within_log(self, part: TopicPartition, offset: int, log_start: int, log_end: int, is_only: bool) -> int:
        """Return the offset, moved into the log. Raises CommandError for the only partition without an end."""
        if self._slice.start.anchor is not Anchor.OFFSET or log_start <= offset <= log_end:
            return min(max(offset, log_start), log_end)
        if is_only and self._slice.end is None:
            raise CommandError(f"Offset {offset} is out of range: {part} holds offsets {log_start} to {log_end}")
        if offset < log_start:
            self._notes.append(f"{part} starts at offset {log_start}: the log has no earlier ones")
            return log_start
        self._notes.append(f"{part} ends at offset {log_end}, before offset {offset}")
        return log_end


class NewestRecords:
    """Finds the newest records within the bounds of a slice, of each partition or of all partitions together."""

    def __init__(self, consumer: PartitionReader, requested: Slice) -> None:
        self._consumer = consumer
        self._selection = Selection(*requested.times)
        self._tails: dict[TopicPartition, _Tail] = {}

    def of_each(self, bounds: SliceBounds, count: int) -> SliceBounds:
        """Return the bounds of the newest `count` records of each partition."""
        tails = self._read(bounds, count)
        starts = {part: tail.offsets[0] if tail.offsets else bounds.starts[part] for part, tail in tails.items()}
        return SliceBounds(starts, bounds.ends)

    def of_all(self, bounds: SliceBounds, count: int) -> dict[TopicPartition, list[int]]:
        """Return the ascending offsets of the newest `count` records by timestamp, among the last `count` of each
        partition. Equal timestamps are ordered as by TimeOrder: by partition, then offset."""
        rows = (
            (timestamp, part, offset)
            for part, tail in self._read(bounds, count).items()
            for timestamp, offset in zip(tail.timestamps, tail.offsets, strict=True)
        )
        offsets: dict[TopicPartition, list[int]] = {part: [] for part in bounds.starts}
        for _, part, offset in heapq.nlargest(count, rows):
            offsets[part].append(offset)
        return {part: sorted(newest) for part, newest in offsets.items()}

    def _read(self, bounds: SliceBounds, count: int) -> dict[TopicPartition, _Tail]:
        """Read the end of each partition, then ever longer stretches before it, until there are `count` records or the
        start is reached."""
        ends = bounds.ends or {}
        self._tails = {part: _Tail(count) for part in bounds.starts}
        lows = dict(ends)
        while windows := {
            part: (max(bounds.starts[part], low - max(count, _FURTHER_BACK * (ends[part] - low))), low)
            for part, low in lows.items()
            if low > bounds.starts[part] and not self._tails[part].is_full
        }:
            self._read_windows(windows)
            lows.update({part: low for part, (low, _) in windows.items()})
        return self._tails

    def _read_windows(self, windows: Mapping[TopicPartition, tuple[int, int]]) -> None:
        consumer = self._consumer
        idle = [part for part in consumer.assignment() if part not in windows]
        consumer.pause(idle)
        for part, (low, _) in windows.items():
            consumer.seek(part, low)
        highs = {part: high for part, (_, high) in windows.items()}
        ends = Ends.at(consumer, highs)
        fresh = {part: _Tail(self._tails[part].room) for part in windows}
        while remaining := [part for part in ends.undone() if part in windows]:
            fetched = consumer.poll_columns(_POLL_MS)
            for item in fetched:
                part = item.topic_partition
                if part in highs:
                    for run in self._selection.runs(cut(item, highs[part])):
                        fresh[part].add(run)
            consumer.pause([part for part in remaining if consumer.has_read_to(part, highs[part])])
            if not fetched:
                ends.ensure_reachable()
        for part, tail in fresh.items():
            self._tails[part].add_before(tail)
        consumer.resume(consumer.assignment())


def fixed_bounds(
    consumer: PartitionReader, requested: Slice, partitions: Sequence[TopicPartition], note: Callable[[str], None]
) -> SliceBounds:
    """Assign the partitions and look up the bounds of a slice that has an end, with `last` those of the newest records
    of each partition. Raises as SliceFinder."""
    consumer.assign(partitions)
    bounds = SliceFinder(consumer, requested, note).bounds(partitions)
    if requested.last is None:
        return bounds
    for part, offset in bounds.starts.items():
        consumer.seek(part, offset)
    return NewestRecords(consumer, requested).of_each(bounds, requested.last)


class Selection:
    """The records of a slice by timestamp: at or after `since_ms`, before `until_ms`. With `offsets`, only these
    ascending offsets of each partition."""

    def __init__(
        self,
        since_ms: int | None = None,
        until_ms: int | None = None,
        offsets: Mapping[TopicPartition, Sequence[int]] | None = None,
    ) -> None:
        self._since_ms = since_ms
        self._until_ms = until_ms
        self._offsets_of = offsets

    def runs(self, item: FetchedColumns) -> Iterator[FetchedColumns]:
        """Yield the selected records, as runs of consecutive rows."""
        columns = item.columns
        if not columns.count:
            return
        if self._offsets_of is not None:
            yield from _rows_at(item, self._offsets_of.get(item.topic_partition, _NO_OFFSETS))
        elif self._has_all(columns.timestamps):
            yield item
        else:
            yield from self._timely(item)

    def _has_all(self, timestamps: Sequence[int]) -> bool:
        return (self._since_ms is None or min(timestamps) >= self._since_ms) and (
            self._until_ms is None or max(timestamps) < self._until_ms
        )

    def _timely(self, item: FetchedColumns) -> Iterator[FetchedColumns]:
        low = self._since_ms if self._since_ms is not None else min(item.columns.timestamps)
        high = self._until_ms if self._until_ms is not None else max(item.columns.timestamps) + 1
        start = 0
        for row, timestamp in enumerate(item.columns.timestamps):
            if not low <= timestamp < high:
                if start < row:
                    yield item._replace(columns=item.columns.slice(start, row))
                start = row + 1
        if start < item.columns.count:
            yield item._replace(columns=item.columns.slice(start, item.columns.count))


def _rows_at(item: FetchedColumns, chosen: Sequence[int]) -> Iterator[FetchedColumns]:
    """Yield the rows with these ascending offsets, as runs of consecutive rows."""
    offsets = item.columns.offsets
    place, end = bisect_left(chosen, offsets[0]), bisect_left(chosen, offsets[-1] + 1)
    while place < end:
        start = stop = bisect_left(offsets, chosen[place])
        while place < end and stop < len(offsets) and offsets[stop] == chosen[place]:
            place, stop = place + 1, stop + 1
        if start < stop:
            yield item._replace(columns=item.columns.slice(start, stop))
        else:
            place += 1  # the record was deleted meanwhile


def cut_before(item: FetchedColumns, start: int) -> FetchedColumns:
    """Return the records from offset `start` on."""
    offsets = item.columns.offsets
    if not offsets or offsets[0] >= start:
        return item
    return item._replace(columns=item.columns.slice(bisect_left(offsets, start), item.columns.count))


def cut(item: FetchedColumns, end: int) -> FetchedColumns:
    """Return the records before offset `end`."""
    offsets = item.columns.offsets
    if not offsets or offsets[-1] < end:
        return item
    return item._replace(columns=item.columns.slice(0, bisect_left(offsets, end)))


class _Tail:
    """Offsets and timestamps of the last `room` records of a stretch of a partition, ascending by offset."""

    def __init__(self, room: int) -> None:
        self._count = room
        self.offsets = array("q")
        self.timestamps = array("q")

    @property
    def room(self) -> int:
        """The number of records that the tail still takes."""
        return max(0, self._count - len(self.offsets))

    @property
    def is_full(self) -> bool:
        """Return whether the tail has all its records."""
        return len(self.offsets) >= self._count

    def add(self, item: FetchedColumns) -> None:
        """Add later records; earlier ones are dropped."""
        self.offsets.extend(item.columns.offsets)
        self.timestamps.extend(item.columns.timestamps)
        if len(self.offsets) > 2 * self._count:
            self._trim()

    def add_before(self, earlier: _Tail) -> None:
        """Add the records of an earlier stretch of the partition."""
        earlier._trim()
        self.offsets = earlier.offsets + self.offsets
        self.timestamps = earlier.timestamps + self.timestamps
        self._trim()

    def _trim(self) -> None:
        excess = max(0, len(self.offsets) - self._count)
        del self.offsets[:excess], self.timestamps[:excess]
