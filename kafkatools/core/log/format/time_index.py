"""A segment's `.timeindex` file: maps timestamps to offsets (Kafka's TimeIndex).

An entry is a timestamp (8 bytes) and a relative offset (4 bytes): no record up to that offset is newer than the
timestamp. An entry is written together with one of `.index` if the newest timestamp has risen, and once more when the
segment is closed. `TimeIndex(files, path, base_offset)` without a size is for readers and never writes.
"""

from struct import Struct
from typing import NamedTuple

from kafkatools.core.errors import IllegalState
from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.format.sparse_index import InvalidIndexOffset, SparseIndex

NO_TIMESTAMP = -1


class TimestampOffset(NamedTuple):
    """A timestamp in ms and the offset of a record or batch that has it."""

    timestamp: int
    offset: int


class TimeIndex(SparseIndex):
    """The time index of one segment."""

    entry = Struct(">qi")
    offset_slot = 1

    def __init__(self, files: FileSystem, path: str, base_offset: int, max_index_bytes: int = -1) -> None:
        super().__init__(files, path, base_offset, max_index_bytes)
        self._last_entry = TimestampOffset(NO_TIMESTAMP, base_offset)

    def _load_last(self) -> None:
        count = self._entry_count
        self._last_entry = self.entry_at(count - 1) if count else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    @property
    def is_full(self) -> bool:
        """Return whether the index takes no further entry. One slot is kept free for the entry that closes the
        segment."""
        return self.entry_count >= self._max_entries - 1

    @property
    def last_entry(self) -> TimestampOffset:
        """The last index entry, (-1, base offset) in an empty index."""
        if not self.is_loaded:
            self._load()
        return self._last_entry

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry at or below a timestamp, (-1, base offset) when there is none."""
        number = self._last_slot_at_most(timestamp, 0)
        return self.entry_at(number) if number >= 0 else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def entry_at(self, number: int) -> TimestampOffset:
        """Return the index entry with this number, counted from 0."""
        timestamp, relative = self._slot(number)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def maybe_append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> None:
        """Add an entry if the timestamp is above that of the last entry; the same timestamp changes nothing.
        `skip_full_check` is for the entry that closes the segment: it has a slot of its own, and gets a further one in
        an index whose size limit is too small or was lowered.

        Raises IllegalState for a lower timestamp or a full index. Raises InvalidIndexOffset for a lower offset or one
        too far from the base offset.
        """
        last = self.last_entry
        if not skip_full_check and self.is_full:
            raise IllegalState(f"Attempt to append to a full time index (size = {self._entry_count}).")
        if self._entry_count and offset < last.offset:
            raise InvalidIndexOffset(
                f"Attempt to append an offset ({offset}) to slot {self._entry_count} no larger than the last offset "
                f"appended ({last.offset}) to {self.path}"
            )
        if self._entry_count and timestamp < last.timestamp:
            raise IllegalState(
                f"Attempt to append a timestamp ({timestamp}) to slot {self._entry_count} no larger than the last "
                f"timestamp appended ({last.timestamp}) to {self.path}"
            )
        if timestamp > last.timestamp:
            self._append_entry(timestamp, self.relative_offset(offset), may_exceed=skip_full_check)
            self._last_entry = TimestampOffset(timestamp, offset)
