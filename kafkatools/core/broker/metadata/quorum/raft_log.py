"""The replicated `__cluster_metadata-0`: what a leader appends, what a follower takes over, where two logs part
(Kafka's KafkaRaftLog).

Rules: nothing below the high watermark is ever cut off; an end that others may count on is on the disk (`flush`). A
log that begins with a snapshot has that snapshot's epoch as the epoch of what lies before its start. Snapshots are of
committed records only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import unpack_from
from typing import Any, NamedTuple

from kafkatools.core.broker.metadata.batches import encode_batch, encode_control_batch
from kafkatools.core.broker.metadata.metadata_log import CommittedBatch, MetadataLog, Transactions
from kafkatools.core.broker.metadata.snapshot import Snapshot, SnapshotDownload, SnapshotId
from kafkatools.core.errors import SnapshotNotFound
from kafkatools.core.records.header import read_header, whole_batches
from kafkatools.core.records.layout import LOG_OVERHEAD


class Validity(NamedTuple):
    """What a leader says to a follower's (offset, epoch): go on, cut to `diverging` or look for another common end, or
    begin with `snapshot`."""

    diverging: SnapshotId | None = None
    snapshot: SnapshotId | None = None

    @property
    def is_valid(self) -> bool:
        return self.diverging is None and self.snapshot is None


VALID = Validity()


class RaftLog:
    """Over an open `MetadataLog`; `wall_ms` gives the time for records and files. With `commits_at_once` a record is
    committed when it is written, and applied by its writer: in a quorum of one."""

    def __init__(self, metadata_log: MetadataLog, wall_ms: Callable[[], int], *, commits_at_once: bool = False) -> None:
        self.metadata_log = metadata_log
        self.log = metadata_log.log
        self.snapshots = metadata_log.snapshots
        self._commits_at_once = commits_at_once
        self.wall_ms = wall_ms
        self._transactions = Transactions()
        self._applied = SnapshotId(0, 0)
        ids = self.snapshots.ids()
        self.log.update_high_watermark(ids[-1].offset if ids else 0)

    @property
    def start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, also of one that lies in a snapshot; 0 in an empty log."""
        epoch = self.log.latest_epoch
        if epoch is None:  # nothing behind the snapshot, or all of that was cut off
            epoch = next((each.epoch for each in reversed(self.snapshots.ids()) if each.offset == self.end_offset), 0)
        return epoch

    @property
    def end(self) -> SnapshotId:
        """Where the log ends: offset and epoch."""
        return SnapshotId(self.end_offset, self.last_epoch)

    @property
    def applied(self) -> SnapshotId:
        """How far `committed` has read, but for a transaction that is not complete: where a snapshot may be."""
        return self._applied

    # -- writing ---------------------------------------------------------------------------------------------------
    def append_leader_change(self, leader_id: int, epoch: int, voters: Iterable[int], granting: Iterable[int]) -> None:
        """Write the first record of a leader's epoch."""
        from kafkatools.core.protocol.schemas.snapshot import LeaderChangeMessage

        message = LeaderChangeMessage(
            version=0,
            leader_id=leader_id,
            voters=tuple({"voter_id": voter} for voter in voters),
            granting_voters=tuple({"voter_id": voter} for voter in granting),
        )
        self.take_over(encode_control_batch(message, self.end_offset, epoch, self.wall_ms()))

    def append(self, records: list[Any], epoch: int, wall_ms: int) -> int:
        """Write a leader's records as one batch; gives the offset of the first."""
        first = self.end_offset
        self.take_over(encode_batch(records, first, epoch, wall_ms))
        return first

    def take_over(self, batches: bytes | memoryview) -> None:
        """Append batches that have their offsets and epochs, one by one when a segment does not take them together.
        Raises UnexpectedAppendOffset, CorruptRecord, RecordListTooLarge, KafkaStorageError."""
        view = memoryview(bytearray(batches))
        wall_ms = self.wall_ms()
        if len(view) <= self.log.config.segment_bytes:
            self.log.append_as_follower(view, wall_ms)
        else:
            while view:
                size = read_header(view).size_bytes
                self.log.append_as_follower(view[:size], wall_ms)
                view = view[size:]
        if self._commits_at_once:
            self._applied = self.end
            self.update_high_watermark(self.end_offset)
            self.metadata_log.note_applied(len(batches), wall_ms)

    def flush(self) -> None:
        """Everything is on the disk."""
        self.log.flush(self.wall_ms())

    def update_high_watermark(self, offset: int) -> None:
        """What is committed."""
        self.log.maybe_increment_high_watermark(offset)

    # -- two logs --------------------------------------------------------------------------------------------------
    def end_of_epoch(self, epoch: int) -> SnapshotId:
        """The largest epoch here that is at most `epoch`, and where it ends."""
        found, offset = self.log.end_offset_for_epoch(epoch)
        return self.end if offset < 0 else SnapshotId(offset, found)

    def validate(self, offset: int, epoch: int) -> Validity:
        """Whether a log that ends at (offset, epoch) is the beginning of this one (validateOffsetAndEpoch)."""
        if offset == epoch == self.start_offset == 0:
            return VALID
        ids = self.snapshots.ids()
        first = ids[0] if ids else None
        start = self.start_offset
        if first is not None and (offset < start or (offset == start and epoch != first.epoch) or epoch < first.epoch):
            return Validity(snapshot=ids[-1])
        end = self.end_of_epoch(epoch)
        if end.epoch != epoch or end.offset < offset:
            return Validity(diverging=end)
        return VALID

    def truncate_to_end(self, end: SnapshotId) -> int:
        """Cut to where this log and the leader's have the same records, as far as the leader's answer tells; gives the
        new end (truncateToEndOffset)."""
        offset = min(end.offset, self.end_offset)
        if end.epoch > 0:
            mine = self.end_of_epoch(end.epoch)
            offset = min(mine.offset, end.offset) if mine.epoch == end.epoch else mine.offset
        self.log.truncate_to(offset, self.wall_ms())
        return offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Batches from an offset on, committed or not; at least one whole."""
        return self.log.read(offset, max_bytes).read()

    # -- what is committed -----------------------------------------------------------------------------------------
    def load_snapshot(self) -> Snapshot | None:
        """The newest sound snapshot; `committed` goes on behind it."""
        snapshot = self.metadata_log.load_snapshot()
        self._transactions = Transactions()
        self._applied = SnapshotId(0, 0) if snapshot is None else snapshot.snapshot_id
        return snapshot

    def committed(self, first: int, end: int) -> Iterator[CommittedBatch]:
        """The batches between two offsets; the records of a transaction come with the batch that ends it."""
        for next_offset, epoch, records in self.metadata_log.read_batches(first, end):
            counting = self._transactions.feed(records)
            if not self._transactions.is_open:
                self._applied = SnapshotId(next_offset, epoch)
            yield CommittedBatch(next_offset, epoch, counting)

    @property
    def has_open_transaction(self) -> bool:
        """Whether the committed records end amid a transaction: a new controller has to abort it."""
        return self._transactions.is_open

    # -- snapshots -------------------------------------------------------------------------------------------------
    def maybe_snapshot(self, records: Callable[[], Iterable[Any]], now_ms: int) -> bool:
        """Write a snapshot of what was applied when it is time, remove what is too old; whether one was written."""
        return self.metadata_log.maybe_snapshot(records, now_ms, self.wall_ms(), self.applied)

    def take_snapshot(self, records: Iterable[Any], now_ms: int) -> SnapshotId:
        """Write one now."""
        return self.metadata_log.take_snapshot(records, now_ms, self.wall_ms(), self.applied)

    def read_snapshot_part(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        """The size of a snapshot and bytes of it. Raises SnapshotNotFound."""
        size = self.snapshots.sizes().get(snapshot_id)
        if size is None:
            raise SnapshotNotFound()
        return size, self.snapshots.read_part(snapshot_id, position, max_bytes) if 0 <= position < size else b""

    def begin_download(self, snapshot_id: SnapshotId) -> SnapshotDownload | None:
        """Where the parts of the leader's snapshot go; None when it is here already."""
        found: SnapshotDownload | None = None
        if snapshot_id not in self.snapshots.ids():
            found = self.snapshots.begin_download(snapshot_id)
        return found

    def begin_at(self, snapshot_id: SnapshotId) -> None:
        """The log begins anew where a snapshot ends (truncateToLatestSnapshot); older snapshots go."""
        wall_ms = self.wall_ms()
        self.log.truncate_fully_and_start_at(snapshot_id.offset, wall_ms)
        self.log.assign_epoch_start_offset(snapshot_id.epoch)
        self.log.update_high_watermark(snapshot_id.offset)
        for each in self.snapshots.ids():
            if each < snapshot_id:
                self.snapshots.delete(each)


def whole_batches_until(data: bytes | memoryview, epoch: int) -> memoryview:
    """The batches of a fetch that are there whole (a leader may cut the last one) and of no later epoch."""
    view = memoryview(data)
    end = 0
    for position, size in whole_batches(view):
        if unpack_from(">i", view, position + LOG_OVERHEAD)[0] > epoch:
            break
        end = position + size
    return view[:end]
