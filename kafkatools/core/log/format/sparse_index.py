"""The common base of `.index` and `.timeindex`: a bounded file of sorted entries of fixed size.

Kafka maps its index files into memory (AbstractIndex). Here new entries collect in memory and are written a page at a
time, and lookups read pages. The bytes on disk are the same. No partition holds a descriptor or address space, and a
disk error is an OSError instead of a signal. Entries that are lost with the process belong to segments above the
recovery point, whose indexes recovery rebuilds anyway. The file of the active segment is preallocated to its largest
size with its first page (a sparse file). It is trimmed when the segment is rolled or closed, as in Kafka.
"""

import os
from contextlib import suppress
from struct import Struct
from typing import ClassVar

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.files import FileSystem, LogFile
from kafkatools.core.log.format.index_file import IndexFile

PAGE_BYTES = 4096
UNLOADED = -1
MAX_RELATIVE_OFFSET = 2**31 - 1


class InvalidIndexOffset(KafkaError, name="INVALID_OFFSET"):
    """An offset does not fit an index: not above the last entry, too far from the base offset, or the index is full
    (InvalidOffsetException)."""


class SparseIndex(IndexFile):
    """A file of sorted entries of fixed size. Subclasses define the entry's layout and order. `offset_slot` is the
    field of an entry that holds the relative offset."""

    entry: ClassVar[Struct]
    offset_slot: ClassVar[int]

    def __init__(self, files: FileSystem, path: str, base_offset: int, max_index_bytes: int = -1) -> None:
        """`max_index_bytes`: the size limit of the file; -1 (for readers) means no limit and no preallocation."""
        super().__init__(files, path, base_offset)
        self.max_index_bytes = max_index_bytes
        self._max_entries = max_index_bytes // self.entry.size if max_index_bytes >= 0 else 2**62
        self._slots_per_page = PAGE_BYTES // self.entry.size
        self._entry_count = UNLOADED
        self._persisted_count = 0
        self._pending = bytearray()
        self._page_number = -1
        self._page = b""

    # entries

    @property
    def entry_count(self) -> int:
        """The number of entries, pending ones included. As in Kafka, the preallocated zeros of a file that was not
        closed count as entries until recovery."""
        if self._entry_count == UNLOADED:
            self._load()
        return self._entry_count

    @property
    def size_bytes(self) -> int:
        """The size of all entries in bytes, without preallocated space."""
        return self.entry_count * self.entry.size

    @property
    def is_full(self) -> bool:
        """Return whether the index takes no further entry, so that the segment has to roll."""
        return self.entry_count >= self._max_entries

    @property
    def is_loaded(self) -> bool:
        """Return whether the entry count has been read from the file."""
        return self._entry_count != UNLOADED

    def _load(self) -> None:
        file = self._open_existing()
        self._persisted_count = 0 if file is None else file.size_bytes // self.entry.size
        self._entry_count = self._persisted_count
        self._load_last()

    def _load_last(self) -> None:
        """Set the last entry that the subclass caches, after a load or a truncation."""

    def _open_existing(self) -> LogFile | None:
        if self._file is None:
            try:
                self._file = self._files.open(self.path)
            except FileNotFoundError:
                return None
        return self._file

    def _slot(self, number: int) -> tuple[int, ...]:
        size = self.entry.size
        if number >= self._persisted_count:
            return self.entry.unpack_from(self._pending, (number - self._persisted_count) * size)
        page_number, slot = divmod(number, self._slots_per_page)
        if page_number != self._page_number or len(self._page) < (slot + 1) * size:
            self._read_page(page_number)
        return self.entry.unpack_from(self._page, slot * size)

    def _read_page(self, page_number: int) -> None:
        file = self._open_existing()
        if file is None:
            raise FileNotFoundError(self.path)
        first = page_number * self._slots_per_page
        count = min(self._slots_per_page, self._persisted_count - first)
        self._page = file.read_at(first * self.entry.size, count * self.entry.size)
        self._page_number = page_number

    def _last_slot_at_most(self, target: int, field: int) -> int:
        """Return the number of the last entry whose `field` is at most `target`, -1 when there is none."""
        low, high = 0, self.entry_count
        while low < high:
            middle = (low + high) // 2
            if self._slot(middle)[field] <= target:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def relative_offset(self, offset: int) -> int:
        """Return an offset relative to the base offset. Raises InvalidIndexOffset if it does not fit an int32."""
        relative = offset - self.base_offset
        if not 0 <= relative <= MAX_RELATIVE_OFFSET:
            raise InvalidIndexOffset(
                f"Integer overflow for offset: {offset} ({self.path}), base offset {self.base_offset}"
            )
        return relative

    # changes

    def _append_entry(self, *fields: int, may_exceed: bool = False) -> None:
        if self._entry_count >= self._max_entries and not may_exceed:
            raise InvalidIndexOffset(
                f"Attempt to append to a full index (size = {self._entry_count}): {os.path.basename(self.path)}"
            )
        self._pending += self.entry.pack(*fields)
        self._entry_count += 1
        if len(self._pending) >= PAGE_BYTES:
            # The batch is in the log already, so an error here must not fail the append. The entries stay pending;
            # flush, roll and close try again and raise.
            with suppress(OSError):
                self.write_pending()

    def create(self) -> None:
        """Open the index file, and create it if it is missing. Raises OSError."""
        if self._file is None:
            self._file = self._files.open(self.path, create=True)

    def write_pending(self) -> None:
        """Write the entries that are still in memory to the file, without fsync. In an index with a size limit, the
        first write preallocates the file to that size. Raises OSError."""
        if not self._pending:
            return
        self.create()
        assert self._file is not None
        position = self._persisted_count * self.entry.size
        if self._file.size_bytes < position + len(self._pending) and self.max_index_bytes > 0:
            self._file.truncate(max(self._max_entries * self.entry.size, position + len(self._pending)))
        self._file.write_at(position, bytes(self._pending))  # an error that is kept must not hold a view of `_pending`
        self._persisted_count = self._entry_count
        self._pending = bytearray()
        self._page_number = -1

    def flush(self) -> None:
        """Write the pending entries and fsync the file."""
        self.write_pending()
        if self._file is not None:
            self._file.flush()

    def trim_to_valid_size(self) -> None:
        """Write the pending entries and cut off the preallocated space after them. An index whose entry count was never
        read is left as it is. Raises OSError."""
        if self._entry_count == UNLOADED:
            return
        self.write_pending()
        file = self._open_existing()
        if file is not None and file.size_bytes != self.size_bytes:
            file.truncate(self.size_bytes)

    def truncate_to(self, offset: int) -> None:
        """Drop the entries with an offset at or above this one."""
        relative = offset - self.base_offset
        number = self._last_slot_at_most(relative, self.offset_slot)
        entry_count = number if number >= 0 and self._slot(number)[self.offset_slot] == relative else number + 1
        self._truncate_to_entries(entry_count)

    def _truncate_to_entries(self, count: int) -> None:
        pending_bytes = max(0, count - self._persisted_count) * self.entry.size
        del self._pending[pending_bytes:]
        self._persisted_count = min(self._persisted_count, count)
        self._entry_count = count
        self._page_number = -1
        file = self._open_existing()
        if file is not None and file.size_bytes > self._persisted_count * self.entry.size:
            file.truncate(self._persisted_count * self.entry.size)
        self._load_last()

    def reset(self) -> None:
        """Drop all entries, before the index is rebuilt. Creates a missing file. Raises OSError."""
        self.create()
        self._entry_count = 0
        self._truncate_to_entries(0)

    def close(self) -> None:
        """Write the pending entries, trim the file and close it."""
        self.trim_to_valid_size()
        self.release()
