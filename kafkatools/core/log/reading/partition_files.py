"""The log of one partition, read from its segment files: its ends, lookups by offset and time, and runs of batches.

Batches that a running broker appends after the log was opened are not read. When the broker deletes or
cleans a segment meanwhile, reading continues in the segments that replace it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple, TypeVar

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.format.time_index import TimestampOffset
from kafkatools.core.log.reading.directories import PartitionDirectory, SegmentPath, UnreadableLog
from kafkatools.core.log.reading.segment_reader import Damage, LogEnd, Run, SegmentReader, SegmentReplaced
from kafkatools.core.records.batch import batch_at

_NO_LIMIT = 1 << 63
_MOST_REOPENED = 5

Result = TypeVar("Result")


class Place(NamedTuple):
    """A place in a log: the number of the segment, the position of a batch in it, and the next offset."""

    segment: int
    position: int
    offset: int


class PartitionFiles:
    """The log of one partition. `note` prints a line about missing or damaged indexes and incomplete batches. The
    methods raise UnreadableLog and OSError."""

    def __init__(self, directory: PartitionDirectory, note: Callable[[str], None]) -> None:
        self.topic_partition = directory.topic_partition
        self.path = directory.path
        self._directory = directory
        self._note = note
        self._end: LogEnd | None = None
        self.segments: list[SegmentReader] = []
        self._open()

    def _open(self) -> None:
        for _ in range(_MOST_REOPENED):
            paths = self._directory.segments(_next_offset)
            limits = [path.base_offset for path in paths[1:]] + [_NO_LIMIT]
            try:
                self.segments = [SegmentReader(*item, self._note) for item in zip(paths, limits, strict=True)]
                break
            except FileNotFoundError:
                continue  # a running broker has just deleted it
        if not self.segments:
            raise UnreadableLog(f"{self.path} contains no segment")

    @property
    def log_start_offset(self) -> int:
        """The first offset that the broker serves: that of the checkpoint, or the first segment's."""
        return max(self._directory.log_start_offset(), self.segments[0].base_offset)

    @property
    def log_end_offset(self) -> int:
        """The offset after the last record."""
        return self._log_end().offset

    def _log_end(self) -> LogEnd:
        if self._end is None:
            last = self.segments[-1]
            self._end = end = last.log_end()
            if end.trailing_bytes:
                self._note(
                    f"{last.path}: the last {end.trailing_bytes} bytes, from byte {end.position} on, are no whole batch"
                )
        return self._end

    # --- lookups

    def place_of(self, offset: int) -> Place:
        """Return the place of the first batch whose last offset is at or above `offset`."""
        return self._retried(lambda: self._place_of(offset))

    def _place_of(self, offset: int) -> Place:
        number = max(bisect_right(self.segments, offset, key=attrgetter("base_offset")) - 1, 0)
        segment = self.segments[number]
        return Place(number, segment.position_of(offset), segment.base_offset)

    def first_at(self, timestamp: int) -> TimestampOffset | None:
        """Return the first record at or after a timestamp (ms), None without one."""
        return self._retried(lambda: self._first_at(timestamp))

    def _first_at(self, timestamp: int) -> TimestampOffset | None:
        start = self.log_start_offset
        for segment in self.segments:
            if segment.newest_timestamp() < timestamp:
                continue
            for batch in segment.batches_from_time(timestamp):
                record = _first_record_at(batch, timestamp, start)
                if record is not None:
                    return record
        return None

    def end_before(self, timestamp: int) -> int:
        """Return the offset after the last batch that has a record older than a timestamp (ms), late records behind
        the first newer one included. Batches are judged by their first and their newest timestamp."""
        return self._retried(lambda: self._end_before(timestamp))

    def _end_before(self, timestamp: int) -> int:
        first = self._first_at(timestamp)
        if first is None:
            return self.log_end_offset
        place, end = self._place_of(first.offset), first.offset
        for number in range(place.segment, len(self.segments)):
            segment = self.segments[number]
            end = max(end, segment.late_batches_before(timestamp, place.position if number == place.segment else 0))
        return min(end, self.log_end_offset)

    # --- reading

    def run(self, place: Place, chunk_bytes: int) -> tuple[Run | Damage | None, Place]:
        """Return the next batches at a place, or the damage there, and the place after them; None at the end."""
        try:
            return self._run(place, chunk_bytes)
        except SegmentReplaced:
            self._reopen()
        offset = max(place.offset, self.log_start_offset)
        return self._retried(lambda: self._run(self._place_of(offset), chunk_bytes))

    def _run(self, place: Place, chunk_bytes: int) -> tuple[Run | Damage | None, Place]:
        number, position, offset = place
        while True:
            segment, is_last = self.segments[number], number == len(self.segments) - 1
            if is_last and position >= self._log_end().position:
                return None, Place(number, position, max(offset, self.log_end_offset))
            found = segment.run(position, max(segment.base_offset, offset if position else 0), chunk_bytes)
            if isinstance(found, Run):
                return found, Place(number, found.end, found.next_offset)
            if found is not None:
                return found, Place(number, found.resume_at, found.next_offset)
            if is_last:
                return None, Place(number, position, max(offset, self.log_end_offset))
            number, position = number + 1, 0
            offset = max(offset, self.segments[number].base_offset)

    def _retried(self, look: Callable[[], Result]) -> Result:
        for _ in range(_MOST_REOPENED):
            try:
                return look()
            except SegmentReplaced:
                self._reopen()
        raise UnreadableLog(f"{self.path} changes while it is read")

    def _reopen(self) -> None:
        self._open()
        self._end = None


def _next_offset(segment: SegmentPath) -> int:
    return SegmentReader(segment, _NO_LIMIT).log_end().offset


def _first_record_at(batch: memoryview, timestamp: int, start: int) -> TimestampOffset | None:
    """Return the first record of a batch at or after a timestamp (ms) and an offset. None also for a batch that cannot
    be decoded: reading it reports that."""
    try:
        columns = batch_at(batch, 0).columns()
    except KafkaError:
        return None
    for record, offset in zip(columns.timestamps, columns.offsets, strict=True):
        if record >= timestamp and offset >= start:
            return TimestampOffset(record, offset)
    return None
