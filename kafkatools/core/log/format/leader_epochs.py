"""The start offset of each leader epoch, kept in `leader-epoch-checkpoint` (LeaderEpochFileCache, KIP-101, KIP-279).

Entries rise in both epoch and offset, and a change rewrites the file (except `forget_from`). The common case, another
batch of the current leader, changes nothing and costs two comparisons. The entry of a new epoch is written at once, but
synced only with the log, before the recovery point passes it. Until then the batches carry the epoch too. So a broker
that becomes the leader of a thousand partitions does not wait for the disk.
"""

from typing import NamedTuple

from kafkatools.core.log.files import FileSystem, is_disk_full, replace_content, write_atomically
from kafkatools.core.log.format.checkpoints import format_checkpoint, read_checkpoint

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of the first record written under it."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """The leader epochs of one partition, in memory and in the file at `path`."""

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self.path = path
        self.entries: list[EpochEntry] = []
        self._in_file: list[EpochEntry] = []
        self._is_file_synced = True

    def load(self) -> None:
        """Read the leader epoch checkpoint. A missing file changes nothing. Raises KafkaStorageError when it is
        malformed, OSError."""
        if self._files.exists(self.path):
            rows = read_checkpoint(self._files, self.path, columns=2)
            self.entries = [EpochEntry(int(epoch), int(offset)) for epoch, offset in rows]
            self._in_file = self.entries

    def _replace(self, entries: list[EpochEntry], *, sync: bool = True) -> None:
        """Write new entries to the file, then to memory, so that the two still agree after a disk error."""
        if entries != self._in_file:
            data = format_checkpoint((str(e.epoch), str(e.start_offset)) for e in entries)
            if sync:
                write_atomically(self._files, self.path, data)
            else:
                replace_content(self._files, self.path, data, sync=False)
            self._is_file_synced = sync
        self.entries = self._in_file = entries

    @property
    def needs_sync(self) -> bool:
        """Return whether some epoch entries are not durable yet."""
        return not self._is_file_synced or self.entries != self._in_file

    def flush(self) -> bool:
        """Make the epoch entries durable. Return True when the caller has to fsync the directory as well, because the
        file was replaced. Raises OSError."""
        if self.entries != self._in_file:
            self._replace(self.entries, sync=False)
        if self._is_file_synced:
            return False
        file = self._files.open(self.path)
        file.flush()
        file.close()
        self._is_file_synced = True
        return True

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch, None when there is none."""
        return self.entries[-1].epoch if self.entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Add the start offset of a leader epoch, without an fsync (LeaderEpochFileCache.assign). Entries of a later
        epoch, or that start at or above this offset, are dropped. The newest epoch keeps its start offset if that is
        not higher. Raises ValueError for a negative epoch or offset, OSError."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"Received invalid partition leader epoch entry ({epoch}, {start_offset})")
        entries = self.entries
        if entries:
            last = entries[-1]
            if epoch == last.epoch and start_offset >= last.start_offset:
                return
            if epoch < last.epoch or start_offset <= last.start_offset:
                entries = [e for e in entries if e.epoch < epoch and e.start_offset < start_offset]
        self._replace([*entries, EpochEntry(epoch, start_offset)], sync=False)

    def note_batch(self, epoch: int, base_offset: int) -> None:
        """Add the leader epoch of a batch found in the log; a negative epoch is ignored. Entries that contradict the
        batch come from an older or newer state of the file, and are dropped."""
        entries = self.entries
        if epoch < 0 or (entries and entries[-1].epoch == epoch and entries[-1].start_offset <= base_offset):
            return
        earlier = [e for e in entries if e.start_offset <= base_offset and e.epoch <= epoch]
        later = [e for e in entries if e.start_offset > base_offset and e.epoch > epoch]
        if not earlier or earlier[-1].epoch < epoch:
            earlier = [e for e in earlier if e.start_offset < base_offset] + [EpochEntry(epoch, base_offset)]
        updated = earlier + later
        if updated != entries:
            self._replace(updated, sync=False)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch that is at most `epoch`, and its end offset (OffsetForLeaderEpoch). The newest epoch
        ends at the log end offset. An epoch below the first one is returned itself, with the first start offset. For
        -1, an epoch above the newest, or an empty cache, return (-1, -1)."""
        if epoch == UNDEFINED_EPOCH or not self.entries:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.entries[-1].epoch:
            return epoch, log_end_offset
        higher = next((entry for entry in self.entries if entry.epoch > epoch), None)
        if higher is None:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        floor = next((entry for entry in reversed(self.entries) if entry.epoch <= epoch), None)
        return (epoch if floor is None else floor.epoch), higher.start_offset

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the last leader epoch that starts at or below an offset, None when there is none."""
        return next((e.epoch for e in reversed(self.entries) if e.start_offset <= offset), None)

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop the epochs that start at or above an offset, durably."""
        if end_offset >= 0 and self.entries and self.entries[-1].start_offset >= end_offset:
            self._replace([entry for entry in self.entries if entry.start_offset < end_offset])

    def forget_from(self, end_offset: int) -> None:
        """Drop the epochs that start at or above an offset, in memory only. The next `flush` writes the file."""
        self.entries = [entry for entry in self.entries if entry.start_offset < end_offset]

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop the epochs that end at or below an offset, durably. The epoch of that offset starts there from now on.
        Changes nothing if the first epoch starts above the offset. On a full disk the epochs are dropped in memory and
        written by the next `flush`, because DeleteRecords and retention make room. Raises OSError."""
        earlier = [entry for entry in self.entries if entry.start_offset <= start_offset]
        if start_offset < 0 or not earlier:
            return
        updated = [EpochEntry(earlier[-1].epoch, start_offset), *self.entries[len(earlier) :]]
        if updated == self.entries:
            return
        try:
            self._replace(updated)
        except OSError as error:
            if not is_disk_full(error):
                raise
            self.entries = updated

    def clear(self) -> None:
        """Drop all epochs, durably."""
        if self.entries:
            self._replace([])
