"""Find gaps in the offsets of a log."""

from __future__ import annotations

from array import array

from kafkatools.core.java.longs import wrapped

_ANYWHERE = -2


class GapFinder:
    """Collects gaps between consecutive records in the caller's dict: offset before the gap -> offset after it. A log
    that does not begin at offset 0 has a gap after -1."""

    def __init__(self, gaps: dict[int, int]) -> None:
        self._gaps = gaps
        self.last = -1

    def begin_anywhere(self) -> None:
        """Take the first record as the beginning of the log, also if it is not at offset 0."""
        self.last = _ANYWHERE

    def begin_after(self, offset: int) -> None:
        """Take the record after this offset as the beginning of the log, if no record was seen."""
        if self.last == _ANYWHERE:
            self.last = offset

    def see(self, offset: int) -> None:
        """Take the offset of the next record, and store a gap unless it follows the previous one."""
        if offset != wrapped(self.last + 1) and self.last != _ANYWHERE:
            self._gaps[self.last] = offset
        self.last = offset

    def see_column(self, offsets: array[int]) -> None:
        """Take the offsets of a batch, in one step if they continue without a gap."""
        first = self.last + 1
        is_in_bounds = first + len(offsets) <= 1 << 63
        if self.last != _ANYWHERE and is_in_bounds and offsets == array("q", range(first, first + len(offsets))):
            self.last += len(offsets)
            return
        for offset in offsets:
            self.see(offset)

    def see_all(self, pairs: array[int], count: int, last: int) -> None:
        """Add `count` gaps of a batch, found by the kernel as pairs of offsets, and the batch's last offset."""
        for number in range(count):
            self._gaps[pairs[2 * number]] = pairs[2 * number + 1]
        self.last = last
