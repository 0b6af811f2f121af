"""A set of offsets of one partition, as ranges, and its text for the metadata of a committed offset.

The text is the distances between the ranges as varints, compressed, in base64: a random half of the records takes about
a third of a byte for each record.
"""

from __future__ import annotations

import base64
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from kafkatools.core.records.kernel import read_varlong, varint

_MOST_BYTES = 1 << 24


class OffsetRanges:
    """A set of offsets: ascending ranges that neither overlap nor touch; ends are excluded."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in ranges:
            self.add(start, end)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    def __contains__(self, offset: int) -> bool:
        place = bisect_right(self._starts, offset)
        return place > 0 and offset < self._ends[place - 1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetRanges) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def add(self, start: int, end: int) -> None:
        """Add the offsets from `start` to before `end`; nothing if there are none."""
        if start >= end:
            return
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def cut(self, end: int) -> bool:
        """Remove the offsets from `end` on. Return whether there were any."""
        if not self._ends or self._ends[-1] <= end:
            return False
        place = bisect_left(self._ends, end + 1)
        del self._starts[place + 1 :], self._ends[place + 1 :]
        self._ends[place] = end
        if self._starts[place] >= end:
            del self._starts[place], self._ends[place]
        return True

    def first_missing(self, offset: int = 0) -> int:
        """Return the first offset from `offset` on that is not in the set."""
        place = bisect_right(self._starts, offset)
        return max(offset, self._ends[place - 1]) if place else offset

    def first(self) -> int:
        """Return the lowest offset. Raises IndexError for an empty set."""
        return self._starts[0]

    def encoded(self, base: int) -> str:
        """Return the ranges above `base` as text, empty without any."""
        data = bytearray()
        for start, end in self:
            if start > base:
                data += varint(start - base) + varint(end - start)
                base = end
        return base64.b64encode(zlib.compress(bytes(data), 9)).decode() if data else ""

    @classmethod
    def decoded(cls, text: str, base: int) -> OffsetRanges:
        """Return the ranges of a text that `encoded` returned. Raises ValueError for any other text."""
        ranges = cls()
        if not text:
            return ranges
        inflater = zlib.decompressobj()
        try:
            data = inflater.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
            position = 0
            while position < len(data):
                gap, position = read_varlong(data, position)
                length, position = read_varlong(data, position)
                if gap <= 0 or length <= 0:
                    raise ValueError("a range is not ascending")
                ranges._starts.append(base + gap)
                ranges._ends.append(base + gap + length)
                base += gap + length
        except (zlib.error, IndexError) as error:
            raise ValueError(str(error)) from None
        if not inflater.eof or position != len(data):
            raise ValueError("the text is incomplete")
        return ranges
