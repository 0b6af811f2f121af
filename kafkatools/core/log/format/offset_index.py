"""`.index`: from offset to the position of its batch in `.log`. Kafka's OffsetIndex.

An entry is a relative offset (4 bytes, big endian) and a position (4 bytes). It names the *last* offset of a batch and
the position where that batch begins, about every index.interval.bytes. Readers: `OffsetIndex(files, path, base_offset)`
without a size never writes.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kafkatools.core.errors import CorruptIndex
from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.format.sparse_index import InvalidIndexOffset, SparseIndex


class OffsetPosition(NamedTuple):
    """An offset and where the batch that ends with it begins in the segment."""

    offset: int
    position: int


class OffsetIndex(SparseIndex):
    """The offset index of one segment."""

    entry = Struct(">ii")
    offset_slot = 0

    def __init__(self, files: FileSystem, path: str, base_offset: int, max_index_bytes: int = -1) -> None:
        super().__init__(files, path, base_offset, max_index_bytes)
        self._last_offset = base_offset

    def _load_last(self) -> None:
        count = self._entry_count
        self._last_offset = self.base_offset + self._slot(count - 1)[0] if count else self.base_offset

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; the base offset when there is none."""
        if not self.is_loaded:
            self._load()
        return self._last_offset

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or below an offset; (base offset, 0) when there is none."""
        count = self.entry_count
        relative = offset - self.base_offset
        is_past_last = count > 0 and offset >= self._last_offset
        number = count - 1 if is_past_last else self._last_slot_at_most(relative, 0)
        return self.entry_at(number) if number >= 0 else OffsetPosition(self.base_offset, 0)

    def fetch_upper_bound(self, position: int) -> OffsetPosition | None:
        """The first entry at or behind a position: its offset is above all that lies before the position. None when
        there is no such entry (fetchUpperBoundOffset)."""
        number = self._last_slot_at_most(position - 1, 1) + 1
        return self.entry_at(number) if number < self.entry_count else None

    def entry_at(self, number: int) -> OffsetPosition:
        """One entry."""
        relative, position = self._slot(number)
        return OffsetPosition(self.base_offset + relative, position)

    def entries(self) -> Iterator[OffsetPosition]:
        """Every slot of the file in order, preallocated zeros included (as offset = base offset, position 0)."""
        for number in range(self.entry_count):
            yield self.entry_at(number)

    def append(self, offset: int, position: int) -> None:
        """Add an entry; raises InvalidIndexOffset unless the offset is above the last one."""
        if not self.is_loaded:
            self._load()
        if self._entry_count and offset <= self._last_offset:
            raise InvalidIndexOffset(
                f"Attempt to append an offset ({offset}) to position {self._entry_count} no larger than the last "
                f"offset appended ({self._last_offset}) to {self.path}"
            )
        self._append_entry(self.relative_offset(offset), position)
        self._last_offset = offset

    def sanity_check(self) -> None:
        """Raise CorruptIndex when the file contradicts itself, with Kafka's words (OffsetIndex.sanityCheck)."""
        if self.entry_count and self._last_offset < self.base_offset:
            raise CorruptIndex(
                f"Corrupt index found, index file ({self.path}) has non-zero size but the last offset is "
                f"{self._last_offset} which is less than the base offset {self.base_offset}"
            )
        if self.file_size_bytes % self.entry.size:
            raise CorruptIndex(
                f"Index file {self.path} is corrupt, found {self.file_size_bytes} bytes which is neither positive "
                f"nor a multiple of {self.entry.size}"
            )
