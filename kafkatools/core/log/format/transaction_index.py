"""A segment's `.txnindex` file: its aborted transactions, which read_committed consumers skip (Kafka's
TransactionIndex).

An entry has a version (2 bytes, 0), then 8 bytes each: producer id, first offset, last offset (that of the abort
marker), and the last stable offset when the marker was written. Last offsets rise. The file is created with the first
aborted transaction. All entries are kept in memory once read, because they are few.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from struct import Struct
from typing import NamedTuple

from kafkatools.core.errors import CorruptIndex, IllegalState, KafkaError
from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.format.index_file import IndexFile

CURRENT_VERSION = 0
ENTRY = Struct(">hqqqq")
ENTRY_SIZE = ENTRY.size
_LAST_OFFSET = attrgetter("last_offset")


class AbortedTransaction(NamedTuple):
    """One entry of a transaction index (Kafka's AbortedTxn)."""

    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    def __str__(self) -> str:
        return (
            f"AbortedTxn(version={self.version}, producerId={self.producer_id}, firstOffset={self.first_offset}, "
            f"lastOffset={self.last_offset}, lastStableOffset={self.last_stable_offset})"
        )


def parse_entries(data: bytes) -> Iterator[AbortedTransaction]:
    """Yield the entries in the bytes of a transaction index. A partial entry at the end is ignored."""
    for position in range(0, len(data) - ENTRY_SIZE + 1, ENTRY_SIZE):
        yield AbortedTransaction._make(ENTRY.unpack_from(data, position))


class TransactionIndex(IndexFile):
    """The transaction index of one segment."""

    def __init__(self, files: FileSystem, path: str, base_offset: int) -> None:
        super().__init__(files, path, base_offset)
        self._entries: list[AbortedTransaction] | None = None

    def entries(self) -> Iterator[AbortedTransaction]:
        """Yield the whole entries in the file, none if it is missing. Raises KafkaError for an entry of unknown
        version, OSError."""
        try:
            data = self._files.read_bytes(self.path)
        except FileNotFoundError:
            return
        for entry in parse_entries(data):
            if entry.version > CURRENT_VERSION or entry.version < 0:
                raise KafkaError(
                    f"Unexpected aborted transaction version {entry.version} in transaction index "
                    f"{self.path}, current version is {CURRENT_VERSION}"
                )
            yield entry

    def _loaded(self) -> list[AbortedTransaction]:
        if self._entries is None:
            self._entries = list(self.entries())
        return self._entries

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an aborted transaction; the first one creates the file. Raises IllegalState unless its last offset is
        above that of the last entry, OSError."""
        entries = self._loaded()
        if entries and entries[-1].last_offset >= aborted.last_offset:
            raise IllegalState(
                f"The last offset of appended transactions must increase sequentially, but {aborted.last_offset} "
                f"is not greater than current last offset {entries[-1].last_offset} of index {self.path}"
            )
        if self._file is None:
            self._file = self._files.open(self.path, create=True)
        self._file.append(ENTRY.pack(*aborted))
        entries.append(aborted)

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTransaction], bool]:
        """Return the aborted transactions that overlap the offsets [fetch_offset, upper_bound_offset), and whether it
        is certain that no later segment has another one. Raises OSError, KafkaError."""
        aborted = []
        entries = self._loaded()
        for entry in islice(entries, bisect_left(entries, fetch_offset, key=_LAST_OFFSET), None):
            if entry.first_offset < upper_bound_offset:
                aborted.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return aborted, True
        return aborted, False

    def truncate_to(self, offset: int) -> None:
        """Drop the transactions whose abort marker is at or above an offset."""
        entries = self._loaded()
        entry_count = next((i for i, entry in enumerate(entries) if entry.last_offset >= offset), len(entries))
        if entry_count < len(entries):
            self._cut(entry_count)

    def reset(self) -> None:
        """Drop all entries, before the index is rebuilt."""
        self._entries = []
        self._cut(0)

    def _cut(self, count: int) -> None:
        if self._entries is not None:
            del self._entries[count:]
        if self._file is None and self._files.exists(self.path):
            self._file = self._files.open(self.path)
        if self._file is not None:
            self._file.truncate(count * ENTRY_SIZE)

    def sanity_check(self) -> None:
        """Raise CorruptIndex for a last offset below the segment's base offset (TransactionIndex.sanityCheck),
        KafkaError for an entry of unknown version."""
        for entry in self.entries():
            if entry.last_offset < self.base_offset:
                raise CorruptIndex(
                    f"Last offset of aborted transaction {entry} in index {self.path} is less than start offset "
                    f"{self.base_offset}"
                )

    def flush(self) -> None:
        """Fsync the index file, if it is open."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the index file. There are no pending entries."""
        self.release()
