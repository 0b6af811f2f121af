"""Offsets that are not followed by their successors."""

from __future__ import annotations

from array import array


class GapFinder:
    """Notes which offset is followed by another than its successor, in a table of the caller's."""

    def __init__(self, gaps: dict[int, int]) -> None:
        self._gaps = gaps
        self.last = -1

    def see(self, offset: int) -> None:
        """One record after the other."""
        if offset != self.last + 1:
            self._gaps[self.last] = offset
        self.last = offset

    def see_column(self, offsets: array[int]) -> None:
        """A batch, at once when its offsets follow each other and the last one seen."""
        first = self.last + 1
        if offsets == array("q", range(first, first + len(offsets))):
            self.last += len(offsets)
            return
        for offset in offsets:
            self.see(offset)

    def see_all(self, pairs: array[int], count: int, last: int) -> None:
        """What the kernel found in a batch: `count` pairs, and the last offset."""
        for number in range(count):
            self._gaps[pairs[2 * number]] = pairs[2 * number + 1]
        self.last = last
