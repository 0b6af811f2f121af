"""The producers of one partition: sequences, epochs, open transactions and their snapshots (ProducerStateManager).

There are two maps of transactions by first offset: open ones, and ended ones whose marker is not below the high
watermark yet. The lowest first offset of both is the first unstable offset, where read_committed consumers stop.

A snapshot holds only the last batch of each producer. `find_duplicate` reads up to four earlier batches from the end of
the log. So a retry of one of them after a restart is still recognized as a duplicate.
"""

import os
from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kafkatools.core.errors import CorruptSnapshot, IllegalState
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import long_hash
from kafkatools.core.log.files import DirectoryEntry, FileSystem
from kafkatools.core.log.format.filenames import DELETED_SUFFIX, SNAPSHOT_SUFFIX, offset_from_name, offset_name
from kafkatools.core.log.format.transaction_index import CURRENT_VERSION, AbortedTransaction
from kafkatools.core.log.producers.append import (
    BATCHES_TO_RETAIN,
    NO_OFFSET,
    AppendOrigin,
    BatchMetadata,
    CompletedTransaction,
    ProducerAppendInfo,
    ProducerEntry,
)
from kafkatools.core.log.producers.snapshot import SnapshotEntry, format_snapshot, read_snapshot
from kafkatools.core.records.header import NO_PRODUCER_ID, BatchHeader
from kafkatools.core.records.layout import CONTROL_BIT, TRANSACTIONAL_BIT


@dataclass(eq=False, repr=False)
class ProducerStateManager:
    """The state of one partition's producers up to `map_end_offset`, and the snapshot files with it. `label` names the
    partition in error messages. `load_snapshots` must be called first."""

    files: FileSystem
    directory: str
    label: object
    producer_id_expiration_ms: int
    producers: dict[int, ProducerEntry] = field(default_factory=dict, init=False)
    _ongoing: dict[int, int] = field(default_factory=dict, init=False)
    _ongoing_offsets: list[int] = field(default_factory=list, init=False)
    _unreplicated: dict[int, int] = field(default_factory=dict, init=False)
    snapshot_offsets: list[int] = field(default_factory=list, init=False)
    map_end_offset: int = field(default=0, init=False)
    _last_snapshot_offset: int = field(default=0, init=False)
    _earlier_batches_loaded: bool = field(default=True, init=False)
    _tail: Callable[[], Iterable[BatchHeader]] | None = field(default=None, init=False)

    # snapshot files

    def load_snapshots(self, entries: Iterable[DirectoryEntry] | None = None) -> None:
        """List the offsets of the snapshot files in the directory, or among its `entries`, in `snapshot_offsets`. The
        files are not read. Raises OSError."""
        if entries is None:
            entries = self.files.list_directory(self.directory)
        offsets = (offset_from_name(entry.name) for entry in entries if entry.name.endswith(SNAPSHOT_SUFFIX))
        self.snapshot_offsets = sorted(offset for offset in offsets if offset is not None)

    def snapshot_path(self, offset: int) -> str:
        """Return the path of the snapshot file at an offset."""
        return os.path.join(self.directory, offset_name(offset) + SNAPSHOT_SUFFIX)

    def remove_stray_snapshots(self, segment_base_offsets: Iterable[int]) -> None:
        """Remove snapshot files that are not at a segment's base offset. The newest one stays if it is above all
        segments: a clean shutdown wrote it."""
        bases = set(segment_base_offsets)
        stray = [offset for offset in self.snapshot_offsets if offset not in bases]
        if stray and bases and stray[-1] > max(bases):
            stray.pop()
        for offset in stray:
            self._delete_snapshot(offset)

    def _delete_snapshot(self, offset: int) -> None:
        if offset in self.snapshot_offsets:
            self.snapshot_offsets.remove(offset)
            self.files.remove(self.snapshot_path(offset))

    def mark_snapshot_for_deletion(self, offset: int) -> str | None:
        """Forget the snapshot at an offset and rename its file to `.deleted`. Return the new path, None when there is
        no such file. Raises OSError."""
        if offset not in self.snapshot_offsets:
            return None
        self.snapshot_offsets.remove(offset)
        path = self.snapshot_path(offset)
        if not self.files.exists(path):
            return None
        self.files.rename(path, path + DELETED_SUFFIX)
        return path + DELETED_SUFFIX

    def take_snapshot(self, *, sync: bool = False) -> None:
        """Write a snapshot file at `map_end_offset`, unless the last snapshot is at this offset or later. Without
        `sync` it may be lost: then its checksum is wrong, and the state is rebuilt from the log. Raises OSError."""
        if self.map_end_offset <= self._last_snapshot_offset:
            return
        entries = [self._snapshot_entry(self.producers[i]) for i in hash_order(self.producers, long_hash)]
        offset = self.map_end_offset
        self.files.write_bytes(self.snapshot_path(offset), format_snapshot(entries), sync=sync and bool(entries))
        if offset not in self.snapshot_offsets:
            insort(self.snapshot_offsets, offset)
        self._last_snapshot_offset = offset

    @staticmethod
    def _snapshot_entry(entry: ProducerEntry) -> SnapshotEntry:
        return SnapshotEntry(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_data_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )

    def _load_from_snapshot(self, log_start_offset: int, now_ms: int) -> None:
        while self.snapshot_offsets:
            offset = self.snapshot_offsets[-1]
            try:
                entries = read_snapshot(self.snapshot_path(offset), self.files)
            except (CorruptSnapshot, FileNotFoundError):
                self._delete_snapshot(offset)
                continue
            for entry in entries:
                self._load_entry(entry, now_ms)
            self._earlier_batches_loaded = not self.producers
            self._last_snapshot_offset = self.map_end_offset = offset
            return
        self._last_snapshot_offset = self.map_end_offset = log_start_offset

    def _load_entry(self, saved: SnapshotEntry, now_ms: int) -> None:
        if saved.current_txn_first_offset < 0 and now_ms - saved.timestamp >= self.producer_id_expiration_ms:
            return
        entry = ProducerEntry(saved.producer_id)
        entry.producer_epoch = saved.producer_epoch
        entry.coordinator_epoch = saved.coordinator_epoch
        entry.last_timestamp = saved.timestamp
        entry.current_txn_first_offset = max(saved.current_txn_first_offset, NO_OFFSET)
        if saved.last_offset >= 0:
            entry.batches.append(
                BatchMetadata(saved.last_sequence, saved.last_offset, saved.offset_delta, saved.timestamp)
            )
        self.producers[saved.producer_id] = entry
        if entry.current_txn_first_offset >= 0:
            self._start_transaction(entry.current_txn_first_offset, saved.producer_id)

    # producers and transactions

    @property
    def is_empty(self) -> bool:
        """Return whether there is no producer, and no transaction that waits for the high watermark."""
        return not self.producers and not self._unreplicated

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open or whose marker is not below the high watermark. None
        when there is none."""
        ongoing = self._ongoing_offsets[0] if self._ongoing_offsets else None
        if not self._unreplicated:
            return ongoing
        unreplicated = min(self._unreplicated)
        return unreplicated if ongoing is None else min(ongoing, unreplicated)

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether a producer has an open transaction under this producer epoch."""
        entry = self.producers.get(producer_id)
        return entry is not None and entry.current_txn_first_offset >= 0 and entry.producer_epoch == producer_epoch

    def continued_entry(self, header: BatchHeader) -> ProducerEntry | None:
        """Return the producer's entry if a data batch has the same epoch, the next sequence and the same transaction
        state. Such a batch needs no further check. None means that the full checks are needed, as for an unknown
        producer or a wrapped sequence."""
        entry = self.producers.get(header.producer_id)
        if entry is None or header.attributes & CONTROL_BIT:
            return None
        if not entry.continues(header.producer_epoch, header.base_sequence):
            return None
        is_in_transaction = entry.current_txn_first_offset >= 0
        return entry if is_in_transaction == (header.attributes & TRANSACTIONAL_BIT != 0) else None

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the one of the producer's last five batches that `header` repeats, None when there is none. After a
        restart this may read the end of the log. Raises OSError, CorruptRecord."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return None
        duplicate = entry.find_duplicate(header)
        is_out_of_sequence = header.base_sequence != entry.last_sequence + 1
        if duplicate is None and header.producer_epoch == entry.producer_epoch and is_out_of_sequence:
            self._remember_earlier_batches()
            duplicate = entry.find_duplicate(header)
        return duplicate

    def set_tail(self, tail: Callable[[], Iterable[BatchHeader]]) -> None:
        """Set the source of the batches that snapshots omit: batch headers of the log's end, oldest first. It is called
        at most once per loaded snapshot, for a batch that neither continues a sequence nor repeats the last batch."""
        self._tail = tail

    def _remember_earlier_batches(self) -> None:
        """Add up to four batches before the last one of each producer, which snapshots omit; once per snapshot."""
        if self._earlier_batches_loaded:
            return
        self._earlier_batches_loaded = True
        earlier_batches: dict[int, list[BatchMetadata]] = {}
        for header in self._tail() if self._tail is not None else ():
            entry = self.producers.get(header.producer_id)
            if entry is None or header.is_control or header.producer_epoch != entry.producer_epoch:
                continue
            if entry.batches and header.last_offset < entry.batches[0].first_offset:
                earlier_batches.setdefault(header.producer_id, []).append(
                    BatchMetadata(
                        header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp
                    )
                )
        for producer_id, earlier in earlier_batches.items():
            entry = self.producers[producer_id]
            room = BATCHES_TO_RETAIN - len(entry.batches)
            entry.batches.extendleft(reversed(earlier[-room:] if room else []))

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        """Return an object that checks and collects the changes of an append by one producer, known or new. It changes
        nothing until `update`."""
        entry = self.producers.get(producer_id)
        return ProducerAppendInfo(ProducerEntry(producer_id) if entry is None else entry, origin, self.label)

    def update(self, append_info: ProducerAppendInfo) -> None:
        """Apply a checked append to the producer's state, after the write. Raises IllegalState for producer id -1."""
        producer_id = append_info.producer_id
        if producer_id == NO_PRODUCER_ID:
            raise IllegalState(f"Invalid producer id {producer_id} passed to update for partition {self.label}")
        self.producers[producer_id] = append_info.apply()
        for first_offset in append_info.started_transactions:
            self._start_transaction(first_offset, producer_id)

    def _start_transaction(self, first_offset: int, producer_id: int) -> None:
        if first_offset not in self._ongoing:
            insort(self._ongoing_offsets, first_offset)
        self._ongoing[first_offset] = producer_id

    def aborted_entry(self, completed: CompletedTransaction) -> AbortedTransaction:
        """Return the transaction index entry of an aborted transaction. Its last stable offset is the first offset of
        the oldest open transaction of another producer, else the offset after the marker."""
        others = (offset for offset in self._ongoing_offsets if self._ongoing[offset] != completed.producer_id)
        last_stable_offset = next(others, completed.last_offset + 1)
        return AbortedTransaction(
            CURRENT_VERSION, completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
        )

    def complete_transaction(self, completed: CompletedTransaction) -> None:
        """End a transaction. It counts as unstable until the high watermark passes its marker. Raises IllegalState for
        a transaction that is not open."""
        if self._ongoing.pop(completed.first_offset, None) is None:
            raise IllegalState(
                f"Attempted to complete transaction {completed} on partition {self.label} which was not started"
            )
        self._ongoing_offsets.remove(completed.first_offset)
        self._unreplicated[completed.first_offset] = completed.last_offset

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Forget ended transactions whose marker is below the high watermark."""
        if self._unreplicated:
            self._unreplicated = {f: last for f, last in self._unreplicated.items() if last >= high_watermark}

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Forget transactions that ended below the new log start offset, and raise `map_end_offset` to it if it is
        lower. Open transactions and producers stay."""
        self.on_high_watermark_updated(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        self._last_snapshot_offset = self.snapshot_offsets[-1] if self.snapshot_offsets else log_start_offset

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget producers that have no open transaction and wrote nothing for producer.id.expiration.ms."""
        for producer_id, entry in list(self.producers.items()):
            idle_ms = now_ms - entry.last_timestamp
            if entry.current_txn_first_offset < 0 and idle_ms >= self.producer_id_expiration_ms:
                del self.producers[producer_id]

    # truncation

    def _clear(self) -> None:
        self.producers.clear()
        self._ongoing.clear()
        self._ongoing_offsets.clear()
        self._unreplicated.clear()
        self._earlier_batches_loaded = True

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Remove the snapshots outside (log start, log end], and reload the state from the newest readable one. Without
        one the state is empty at the log start offset; unreadable ones are removed. A state that is at the log end
        already is kept. Raises OSError."""
        for offset in list(self.snapshot_offsets):
            if offset > log_end_offset or offset <= log_start_offset:
                self._delete_snapshot(offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._clear()
        self._load_from_snapshot(log_start_offset, now_ms)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget all producers and transactions, remove all snapshots, and continue at an offset."""
        self._clear()
        for snapshot in list(self.snapshot_offsets):
            self._delete_snapshot(snapshot)
        self._last_snapshot_offset = 0
        self.map_end_offset = offset
