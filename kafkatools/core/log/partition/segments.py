"""The segments of one log, sorted by base offset (Kafka's LogSegments)."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from kafkatools.core.log.format.batch_headers import walk_headers
from kafkatools.core.log.partition.segment import LogSegment
from kafkatools.core.records.header import BatchHeader

_TAIL_SEGMENTS = 2


class LogSegments:
    """A list of segments sorted by base offset. The last one is the active segment, which appends go to."""

    def __init__(self) -> None:
        self._base_offsets: list[int] = []
        self._segments: list[LogSegment] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(list(self._segments))

    @property
    def base_offsets(self) -> list[int]:
        """The base offsets of all segments, in rising order."""
        return list(self._base_offsets)

    @property
    def first(self) -> LogSegment:
        """The oldest segment. Raises IndexError when there is none."""
        return self._segments[0]

    @property
    def active(self) -> LogSegment:
        """The newest segment. Raises IndexError when there is none."""
        return self._segments[-1]

    @property
    def size_bytes(self) -> int:
        """The size of all `.log` files in bytes."""
        return sum(segment.size_bytes for segment in self._segments)

    def add(self, segment: LogSegment) -> None:
        """Add a segment in base offset order. A segment with the same base offset is replaced."""
        index = bisect_left(self._base_offsets, segment.base_offset)
        if index < len(self._base_offsets) and self._base_offsets[index] == segment.base_offset:
            self._segments[index] = segment
            return
        self._base_offsets.insert(index, segment.base_offset)
        self._segments.insert(index, segment)

    def remove(self, base_offset: int) -> None:
        """Remove the segment with this base offset from the list. Its files stay. Raises KeyError without a segment."""
        index = bisect_left(self._base_offsets, base_offset)
        if index == len(self._base_offsets) or self._base_offsets[index] != base_offset:
            raise KeyError(f"no segment begins at offset {base_offset}")
        del self._base_offsets[index]
        del self._segments[index]

    def clear(self) -> None:
        """Remove all segments from the list. Their files stay."""
        self._base_offsets.clear()
        self._segments.clear()

    def floor(self, offset: int) -> LogSegment | None:
        """Return the last segment that begins at or below an offset, None when there is none."""
        index = bisect_right(self._base_offsets, offset) - 1
        return self._segments[index] if index >= 0 else None

    def higher(self, base_offset: int) -> LogSegment | None:
        """Return the first segment that begins above an offset, None when there is none."""
        index = bisect_right(self._base_offsets, base_offset)
        return self._segments[index] if index < len(self._segments) else None

    def range(self, start: int, end: int) -> list[LogSegment]:
        """Return the segments that may hold offsets in [start, end)."""
        first = max(bisect_right(self._base_offsets, start) - 1, 0)
        last = bisect_left(self._base_offsets, end)
        return self._segments[first:last]


def tail_headers(segments: LogSegments, end: int) -> list[BatchHeader]:
    """Return the headers of those batches in the last two segments that end below an offset, oldest first. Raises
    CorruptRecord, OSError."""
    headers = []
    for segment in list(segments)[-_TAIL_SEGMENTS:]:
        headers += [header for _, header in walk_headers(segment.log) if header.last_offset < end]
    return headers
