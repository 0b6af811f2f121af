"""A segment's `.index` file: maps offsets to positions in the `.log` file (Kafka's OffsetIndex).

An entry is a relative offset and a position (4 bytes each, big endian), written about every index.interval.bytes. The
offset is the *last* one of a batch, the position is where that batch begins. `OffsetIndex(files, path, base_offset)`
without a size is for readers and never writes.
"""

from struct import Struct
from typing import NamedTuple

from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.format.sparse_index import InvalidIndexOffset, SparseIndex


class OffsetPosition(NamedTuple):
    """The last offset of a batch and the position of the batch in the segment file."""

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
        """The offset of the last index entry, the segment's base offset in an empty index."""
        if not self.is_loaded:
            self._load()
        return self._last_offset

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or below an offset, (base offset, 0) when there is none."""
        count = self.entry_count
        relative = offset - self.base_offset
        is_past_last = count > 0 and offset >= self._last_offset
        number = count - 1 if is_past_last else self._last_slot_at_most(relative, 0)
        return self.entry_at(number) if number >= 0 else OffsetPosition(self.base_offset, 0)

    def fetch_upper_bound(self, position: int) -> OffsetPosition | None:
        """Return the first entry at or after a file position, None when there is none
        (OffsetIndex.fetchUpperBoundOffset). Its offset is above all records before the position."""
        number = self._last_slot_at_most(position - 1, 1) + 1
        return self.entry_at(number) if number < self.entry_count else None

    def entry_at(self, number: int) -> OffsetPosition:
        """Return the index entry with this number, counted from 0."""
        relative, position = self._slot(number)
        return OffsetPosition(self.base_offset + relative, position)

    def append(self, offset: int, position: int) -> None:
        """Add an entry. Raises InvalidIndexOffset if the offset is not above the last one, is too far from the base
        offset, or the index is full."""
        if not self.is_loaded:
            self._load()
        if self._entry_count and offset <= self._last_offset:
            raise InvalidIndexOffset(
                f"Attempt to append an offset ({offset}) to position {self._entry_count} no larger than the last "
                f"offset appended ({self._last_offset}) to {self.path}"
            )
        self._append_entry(self.relative_offset(offset), position)
        self._last_offset = offset
