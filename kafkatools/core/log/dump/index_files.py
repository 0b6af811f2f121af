"""Offset and time indexes as Kafka's OffsetIndex and TimeIndex read them: whole entries only, a partial one ignored.

Nothing is created, truncated or written: a missing index is an error of the caller's, an odd size is only reported.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from kafkatools.core.log.dump.damage import Damage

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_WARM_BYTES = 8192


def _hiding_zero(relative_offsets: list[int]) -> int:
    """Number of the first zero entry after the first one, if others follow; readers stop at it. -1 for none."""
    zeros = (number for number, offset in enumerate(relative_offsets) if number and not offset)
    first = next(zeros, -1)
    return first if first > 0 and any(relative_offsets[first:]) else -1


@dataclass(frozen=True)
class OffsetIndexFile:
    """`<base offset>.index`: pairs of offset and position."""

    base_offset: int
    size: int
    entries: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, data: bytes, base_offset: int) -> OffsetIndexFile:
        whole = len(data) - len(data) % _OFFSET_ENTRY.size
        pairs = _OFFSET_ENTRY.iter_unpack(data[:whole])
        return cls(base_offset, len(data), tuple((base_offset + offset, position) for offset, position in pairs))

    def sanity_check(self, path: str) -> None:
        """OffsetIndex.sanityCheck; raises Damage."""
        if self.entries and self.entries[-1][0] < self.base_offset:
            raise Damage(
                f"Corrupt index found, index file {path} has non-zero size but the last offset is "
                f"{self.entries[-1][0]} which is less than the base offset {self.base_offset}"
            )
        if self.size % _OFFSET_ENTRY.size:
            raise Damage(
                f"Index file {path} is corrupt, found {self.size} bytes which is neither positive nor a multiple of "
                f"{_OFFSET_ENTRY.size}"
            )

    @property
    def odd_bytes(self) -> int:
        """How many bytes at the end are less than an entry."""
        return self.size % _OFFSET_ENTRY.size

    @property
    def unseen_from(self) -> int:
        """The byte of a zero entry that hides others behind it, negative when there is none."""
        offsets = [offset - self.base_offset for offset, _ in self.entries]
        return _hiding_zero(offsets) * _OFFSET_ENTRY.size

    def lookup(self, target: int) -> int:
        """Position of the last entry at or below `target`, 0 when there is none (AbstractIndex.indexSlotRangeFor)."""
        entries = self.entries
        if not entries:
            return 0
        first_warm = max(0, len(entries) - 1 - _WARM_BYTES // _OFFSET_ENTRY.size)
        if entries[first_warm][0] < target:
            return self._search(target, first_warm, len(entries) - 1)
        if entries[0][0] > target:
            return 0
        return self._search(target, 0, first_warm)

    def _search(self, target: int, low: int, high: int) -> int:
        while low < high:
            middle = (low + high + 1) >> 1
            offset, position = self.entries[middle]
            if offset == target:
                return position
            if offset > target:
                high = middle - 1
            else:
                low = middle
        return self.entries[low][1]


@dataclass(frozen=True)
class TimeIndexFile:
    """`<base offset>.timeindex`: pairs of timestamp and offset."""

    base_offset: int
    size: int
    entries: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, data: bytes, base_offset: int) -> TimeIndexFile:
        whole = len(data) - len(data) % _TIME_ENTRY.size
        pairs = _TIME_ENTRY.iter_unpack(data[:whole])
        return cls(base_offset, len(data), tuple((timestamp, base_offset + offset) for timestamp, offset in pairs))

    @property
    def odd_bytes(self) -> int:
        """How many bytes at the end are less than an entry."""
        return self.size % _TIME_ENTRY.size

    @property
    def unseen_from(self) -> int:
        """The byte of a zero entry that hides others behind it, negative when there is none."""
        offsets = [offset - self.base_offset for _, offset in self.entries]
        return _hiding_zero(offsets) * _TIME_ENTRY.size

    def sanity_check(self, path: str) -> None:
        """TimeIndex.sanityCheck; raises Damage."""
        start = f"Corrupt time index found, time index file ({path}) has non-zero size but the last"
        if self.entries:
            timestamp, offset = self.entries[-1]
            if timestamp < self.entries[0][0]:
                raise Damage(
                    f"{start} timestamp is {timestamp} which is less than the first timestamp {self.entries[0][0]}"
                )
            if offset < self.base_offset:
                raise Damage(f"{start} offset is {offset} which is less than the first offset {self.base_offset}")
        if self.size % _TIME_ENTRY.size:
            raise Damage(
                f"Time index file {path} is corrupt, found {self.size} bytes which is neither positive nor a multiple "
                f"of {_TIME_ENTRY.size}"
            )
