"""Look up offsets and timestamps in the `.index` and `.timeindex` files of a segment, which may be missing or damaged.

Entries are only hints here: a reader checks the batch that an entry points to, and reads the segment from its start
when the entry is wrong. The zeros at the end of a file that no broker has closed are not entries.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right

from kafkatools.core.log.format.filenames import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from kafkatools.core.log.format.offset_index import OffsetIndex, OffsetPosition
from kafkatools.core.log.format.time_index import TimeIndex, TimestampOffset
from kafkatools.core.log.reading.directories import SegmentPath


class SegmentIndexes:
    """The offset and time index of one segment, read when they are first used."""

    def __init__(self, segment: SegmentPath) -> None:
        self._segment = segment
        self._offsets: _Entries | None = None
        self._times: _Entries | None = None

    @property
    def offsets(self) -> _Entries:
        """The entries of `.index`: relative offset and position."""
        if self._offsets is None:
            self._offsets = _Entries(self._segment.beside(INDEX_SUFFIX), OffsetIndex.entry)
        return self._offsets

    @property
    def times(self) -> _Entries:
        """The entries of `.timeindex`: timestamp and relative offset."""
        if self._times is None:
            self._times = _Entries(self._segment.beside(TIME_INDEX_SUFFIX), TimeIndex.entry)
        return self._times

    def position_of(self, offset: int) -> OffsetPosition | None:
        """Return the last entry at or below an offset, None without one."""
        return self._offset_entry(bisect_right(self.offsets, offset - self._segment.base_offset) - 1)

    def last_position(self) -> OffsetPosition | None:
        """Return the last entry of the offset index, None without one."""
        return self._offset_entry(len(self.offsets) - 1)

    def before_time(self, timestamp: int) -> TimestampOffset | None:
        """Return the last entry with an earlier timestamp, None without one. No record up to its offset has the
        timestamp (ms) or a later one."""
        return self._time_entry(bisect_left(self.times, timestamp) - 1)

    def newest(self) -> TimestampOffset | None:
        """Return the last entry of the time index, None without one."""
        return self._time_entry(len(self.times) - 1)

    def _offset_entry(self, number: int) -> OffsetPosition | None:
        if number < 0:
            return None
        relative, position = self.offsets.entry(number)
        return OffsetPosition(self._segment.base_offset + relative, position)

    def _time_entry(self, number: int) -> TimestampOffset | None:
        if number < 0:
            return None
        timestamp, relative = self.times.entry(number)
        return TimestampOffset(timestamp, self._segment.base_offset + relative)


class _Entries:
    """The entries of an index file, as a sequence of their first fields. `is_missing`: there is no such file."""

    def __init__(self, path: str, layout: struct.Struct) -> None:
        self.path = path
        self._layout = layout
        self.is_missing = False
        try:
            with open(path, "rb") as file:
                self._data = file.read()
        except OSError:
            self._data, self.is_missing = b"", True
        used = len(self._data.rstrip(b"\0"))
        self._count = min(-(-used // layout.size), len(self._data) // layout.size)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> int:
        field: int = self.entry(number)[0]
        return field

    def entry(self, number: int) -> tuple[int, ...]:
        return self._layout.unpack_from(self._data, number * self._layout.size)
