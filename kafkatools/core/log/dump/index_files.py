"""Read offset and time indexes for the dump as Kafka's OffsetIndex and TimeIndex do. A partial entry is ignored.

No file is created, truncated or written. A missing index is the caller's error, an odd size is only reported. Memory is
bounded: the zeros that a broker preallocates are not kept, and an index with more entries than its log can have batches
is damage.
"""

from __future__ import annotations

import operator
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.segment_file import LARGEST_FILE, SegmentFile
from kafkatools.core.log.format.offset_index import OffsetIndex
from kafkatools.core.log.format.time_index import TimeIndex
from kafkatools.core.records.layout import LOG_OVERHEAD, SMALLEST_OVERHEAD

_WARM_BYTES = 8192
_READ_BYTES = 1 << 20
SLACK_ENTRIES = 1024
"""Entries that a broker may append to an index while its log is read."""


def _hiding_zero(relative_offsets: Iterable[int]) -> int:
    """Return the number of the first zero entry (not the index's first entry) with others after it, where readers stop;
    -1 when there is none."""
    offsets = enumerate(relative_offsets)
    first = next((number for number, offset in offsets if number and not offset), -1)
    return first if first > 0 and any(offset for _, offset in offsets) else -1


class IndexEntries(Sequence[tuple[int, int]]):
    """The entries of an index file of `size` bytes as pairs of integers, unpacked on access. Entries after the end of
    `data` are zeros. `offset_slot` is the place of the offset in a pair; the pairs have it absolute, the file relative
    to `base_offset`."""

    def __init__(self, entry: struct.Struct, offset_slot: int, base_offset: int, data: bytes, size: int) -> None:
        self._entry = entry
        self._offset_slot = offset_slot
        self._bases = (base_offset, 0) if offset_slot == 0 else (0, base_offset)
        self._data = data
        self._count = size // entry.size

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> tuple[int, int]:  # type: ignore[override]  # nobody slices an index
        if number < 0:
            number += self._count
        if not 0 <= number < self._count:
            raise IndexError(number)
        position = number * self._entry.size
        if position + self._entry.size > len(self._data):
            return self._bases
        first, second = self._entry.unpack_from(self._data, position)
        return self._bases[0] + first, self._bases[1] + second

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    @property
    def stored_count(self) -> int:
        """The number of entries without the zeros at the end of the file."""
        return min(self._count, len(self._data) // self._entry.size)

    def relative_offsets(self) -> Iterator[int]:
        """Return the stored entries' offsets, relative to the base offset."""
        whole = memoryview(self._data)[: self.stored_count * self._entry.size]
        return (pair[self._offset_slot] for pair in self._entry.iter_unpack(whole))


def read_index(path: str, entry_bytes: int, log_bytes: int) -> tuple[bytes, int]:
    """Return the bytes of an index without zeros at its end, and the file's size in bytes. Holes of a sparse file are
    not read. Raises OSError, and Damage for an index that is too large for a log of `log_bytes`."""
    limit = min(log_bytes, LARGEST_FILE) // (LOG_OVERHEAD + SMALLEST_OVERHEAD) + SLACK_ENTRIES
    with SegmentFile(path, _READ_BYTES) as file:
        if file.size > LARGEST_FILE:
            raise Damage(f"Size exceeds Integer.MAX_VALUE: an index of {file.size} bytes", 0)
        data = bytearray()
        position = 0
        while (position := file.next_data(position)) < file.size:
            start = position - position % entry_bytes
            chunk = bytes(file.view(start, _READ_BYTES - _READ_BYTES % entry_bytes)).rstrip(b"\0")
            position = start + _READ_BYTES - _READ_BYTES % entry_bytes
            if not chunk:
                continue
            if start + len(chunk) > limit * entry_bytes:
                raise Damage(f"an index with more entries than a log of {log_bytes} bytes can have batches", start)
            data += bytes(start - len(data)) + chunk
        data += bytes(min(-len(data) % entry_bytes, file.size - len(data)))
        return bytes(data), file.size


@dataclass(frozen=True)
class _IndexFile(ABC):
    """The common parts of offset and time indexes. `offset_slot`: the entry's field with the relative offset."""

    label: ClassVar[str]
    entry_format: ClassVar[struct.Struct]
    offset_slot: ClassVar[int]
    base_offset: int
    size: int
    entries: IndexEntries

    @classmethod
    def parse(cls, data: bytes, base_offset: int, size: int | None = None) -> Self:
        """Parse the bytes of an index. `size` is the file's size if zeros at its end are missing in `data`."""
        size = len(data) if size is None else size
        return cls(base_offset, size, IndexEntries(cls.entry_format, cls.offset_slot, base_offset, data, size))

    @classmethod
    def read(cls, path: str, base_offset: int, log_bytes: int) -> Self:
        """Read the index of a log of `log_bytes`. Raises OSError, and Damage for too many entries."""
        data, size = read_index(path, cls.entry_format.size, log_bytes)
        return cls.parse(data, base_offset, size)

    @property
    def odd_bytes(self) -> int:
        """The size of a partial entry at the end of the file, in bytes."""
        return self.size % self.entry_format.size

    @property
    def unseen_from(self) -> int:
        """The file position of a zero entry that hides later entries from readers, negative when there is none."""
        return _hiding_zero(self.entries.relative_offsets()) * self.entry_format.size

    def sanity_check(self, path: str) -> None:
        """Raise Damage with Kafka's message for an impossible last entry or size (AbstractIndex.sanityCheck)."""
        problem = self._problem_of_last(path, self.entries[0], self.entries[-1]) if self.entries else None
        if problem is None and self.odd_bytes:
            problem = (
                f"{self.label} file {path} is corrupt, found {self.size} bytes which is neither positive nor a "
                f"multiple of {self.entry_format.size}"
            )
        if problem is not None:
            raise Damage(problem)

    @abstractmethod
    def _problem_of_last(self, path: str, first: tuple[int, int], last: tuple[int, int]) -> str | None:
        """Return Kafka's message for a last entry that cannot be right, None for a sane one."""


@dataclass(frozen=True)
class OffsetIndexFile(_IndexFile):
    """An offset index, `<base offset>.index`: pairs of offset and position."""

    label = "Index"
    entry_format = OffsetIndex.entry
    offset_slot = OffsetIndex.offset_slot

    def _problem_of_last(self, path: str, first: tuple[int, int], last: tuple[int, int]) -> str | None:
        if last[0] >= self.base_offset:
            return None
        return (
            f"Corrupt index found, index file {path} has non-zero size but the last offset is {last[0]} which is less "
            f"than the base offset {self.base_offset}"
        )

    def lookup(self, target: int) -> int:
        """Return the position of the last entry at or below an offset, 0 without one
        (AbstractIndex.indexSlotRangeFor)."""
        entries = self.entries
        if not entries:
            return 0
        first_warm = max(0, len(entries) - 1 - _WARM_BYTES // self.entry_format.size)
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
class TimeIndexFile(_IndexFile):
    """A time index, `<base offset>.timeindex`: pairs of timestamp and offset."""

    label = "Time index"
    entry_format = TimeIndex.entry
    offset_slot = TimeIndex.offset_slot

    def _problem_of_last(self, path: str, first: tuple[int, int], last: tuple[int, int]) -> str | None:
        start = f"Corrupt time index found, time index file ({path}) has non-zero size but the last"
        if last[0] < first[0]:
            return f"{start} timestamp is {last[0]} which is less than the first timestamp {first[0]}"
        if last[1] < self.base_offset:
            return f"{start} offset is {last[1]} which is less than the first offset {self.base_offset}"
        return None
