"""`leader-epoch-checkpoint`: where each leader's writing began (KIP-101, KIP-279). Kafka's LeaderEpochFileCache.

Entries rise in both epoch and offset. The file is rewritten whenever they change; the common case, another batch of the
current leader, changes nothing and costs two comparisons. A new epoch is written at once but synced with the log,
before the recovery point passes it: until then the batches themselves tell of it. So becoming the leader of a thousand
partitions does not wait for the disk.
"""

from typing import NamedTuple

from kafkatools.core.log.files import FileSystem, replace_content, write_atomically
from kafkatools.core.log.format.checkpoints import format_checkpoint, read_checkpoint

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset written under it."""

    epoch: int
    start_offset: int


class LeaderEpochCache:
    """The epochs of one partition."""

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self.path = path
        self.entries: list[EpochEntry] = []
        self._in_file: list[EpochEntry] = []
        self._is_file_synced = True

    def load(self) -> None:
        """Read the file; one that is missing is empty. Raises KafkaStorageError when it is malformed."""
        if self._files.exists(self.path):
            rows = read_checkpoint(self._files, self.path, columns=2)
            self.entries = [EpochEntry(int(epoch), int(offset)) for epoch, offset in rows]
            self._in_file = self.entries

    def _replace(self, entries: list[EpochEntry], *, sync: bool = True) -> None:
        """Change the file, then what is known: after an error of the disk the two still agree."""
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
        """Whether `flush` has something to do."""
        return not self._is_file_synced or self.entries != self._in_file

    def flush(self) -> bool:
        """Make the entries durable, unless they are; True when the caller has to sync the directory too."""
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
        """The newest epoch, None when none was written."""
        return self.entries[-1].epoch if self.entries else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch` writes from `start_offset` on. Entries that contradict it (a later epoch, or a start at or
        above this offset) are dropped, as in LeaderEpochFileCache.assign."""
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
        """Take over the leader epoch of a batch of the log; below 0 it has none. Epochs rise with the offsets: entries
        that contradict the batch come from a file that is older or newer than the log, and are dropped."""
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
        """The largest epoch known that is at most `epoch`, and where it ends: the OffsetForLeaderEpoch answer. (-1, -1)
        when nothing can be said."""
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
        """The epoch under which an offset was written."""
        return next((e.epoch for e in reversed(self.entries) if e.start_offset <= offset), None)

    def truncate_from_end(self, end_offset: int) -> None:
        """Drop what begins at or above an offset."""
        if end_offset >= 0 and self.entries and self.entries[-1].start_offset >= end_offset:
            self._replace([entry for entry in self.entries if entry.start_offset < end_offset])

    def forget_from(self, end_offset: int) -> None:
        """As `truncate_from_end`, in memory until `flush`: what the file has more has written nothing."""
        self.entries = [entry for entry in self.entries if entry.start_offset < end_offset]

    def truncate_from_start(self, start_offset: int) -> None:
        """Drop what ends below an offset; the epoch that holds it begins there now."""
        earlier = [entry for entry in self.entries if entry.start_offset <= start_offset]
        if start_offset < 0 or not earlier:
            return
        updated = [EpochEntry(earlier[-1].epoch, start_offset), *self.entries[len(earlier) :]]
        if updated != self.entries:
            self._replace(updated)

    def clear(self) -> None:
        """Forget everything, in the file too."""
        if self.entries:
            self._replace([])
