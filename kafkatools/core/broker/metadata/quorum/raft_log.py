"""The replicated `__cluster_metadata-0`: appends of a leader and a follower, and the comparison of two logs (Kafka's
KafkaRaftLog).

Rules: records below the high watermark are not truncated; only a newer snapshot from the leader may replace them. An
end offset that other members may count on is synced (`flush`). In a log that begins with a snapshot, records before the
start have the snapshot's epoch. Snapshots have committed records only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import unpack_from
from typing import Any, NamedTuple

from kafkatools.core.broker.metadata.batches import EncodedBatch, encode_batch, encode_control_batch
from kafkatools.core.broker.metadata.image import Transactions
from kafkatools.core.broker.metadata.metadata_log import READ_BYTES, CommittedBatch, MetadataLog
from kafkatools.core.broker.metadata.quorum.voter_set import VoterHistory
from kafkatools.core.broker.metadata.snapshot import ControlRecord, Snapshot, SnapshotDownload, SnapshotId
from kafkatools.core.errors import SnapshotNotFound
from kafkatools.core.protocol.schemas.snapshot import LeaderChangeMessage, encode_record
from kafkatools.core.records.header import read_header, whole_batches
from kafkatools.core.records.layout import LOG_OVERHEAD

Records = list[Any] | EncodedBatch
"""The records of one batch, encoded or not."""


class Validity(NamedTuple):
    """The leader's verdict on a follower's (offset, epoch): valid, diverging, or so old that a snapshot is needed."""

    diverging: SnapshotId | None = None
    snapshot: SnapshotId | None = None

    @property
    def is_valid(self) -> bool:
        """Return whether the follower can fetch from this offset: its log does not diverge, and it needs no
        snapshot."""
        return self.diverging is None and self.snapshot is None


VALID = Validity()


class RaftLog:
    """The quorum's view of an open `MetadataLog`; `wall_ms` is the time for records and files. With `commits_at_once`,
    in a quorum of one, a record is committed when it is written, and its writer applies it."""

    def __init__(self, metadata_log: MetadataLog, wall_ms: Callable[[], int], *, commits_at_once: bool = False) -> None:
        self.metadata_log = metadata_log
        self.log = metadata_log.log
        self.snapshots = metadata_log.snapshots
        self._commits_at_once = commits_at_once
        self.wall_ms = wall_ms
        self.voters = VoterHistory()
        self._transactions = Transactions()
        self._applied = SnapshotId(0, 0)
        ids = self.snapshots.ids()
        self.log.update_high_watermark(ids[-1].offset if ids else 0)

    @property
    def start_offset(self) -> int:
        """The first offset of the log."""
        return self.log.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self.log.log_end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, in the log or in a snapshot; 0 in an empty log."""
        epoch = self.log.latest_epoch
        if epoch is None:  # no record after the snapshot, or all of them were truncated
            epoch = next(
                (snapshot.epoch for snapshot in reversed(self.snapshots.ids()) if snapshot.offset == self.end_offset), 0
            )
        return epoch

    @property
    def end(self) -> SnapshotId:
        """The end offset and the epoch of the last record."""
        return SnapshotId(self.end_offset, self.last_epoch)

    @property
    def applied(self) -> SnapshotId:
        """The offset and epoch up to which `committed` has read complete transactions: where a snapshot may end."""
        return self._applied

    def append_leader_change(
        self,
        leader_id: int,
        epoch: int,
        voters: Iterable[int],
        granting: Iterable[int],
        quorum_records: Iterable[ControlRecord] = (),
    ) -> None:
        """Append the LeaderChange record that begins a leader's epoch, with other control records in the same batch."""
        message = LeaderChangeMessage(
            version=0,
            leader_id=leader_id,
            voters=tuple({"voter_id": voter} for voter in voters),
            granting_voters=tuple({"voter_id": voter} for voter in granting),
        )
        self.append_control([encode_record(message), *quorum_records], epoch)

    def append_control(self, records: Sequence[ControlRecord], epoch: int) -> int:
        """Append a leader's control records as one batch. Returns the offset of the first. Raises KafkaStorageError."""
        first = self.end_offset
        self.take_over(encode_control_batch(records, first, epoch, self.wall_ms()))
        return first

    def append(self, records: Records, epoch: int, wall_ms: int) -> int:
        """Append a leader's records as one batch. Returns the offset of the first. Raises RecordListTooLarge,
        KafkaStorageError."""
        first = self.end_offset
        if isinstance(records, EncodedBatch):
            self.take_over(records.at(first, epoch))
        else:
            self.take_over(encode_batch(records, first, epoch, wall_ms))
        return first

    def take_over(self, batches: bytes | bytearray | memoryview) -> None:
        """Append batches that already have offsets and epochs; one by one if a segment is too small for them all. In a
        quorum of one they are committed at once. Raises UnexpectedAppendOffset, CorruptRecord, RecordListTooLarge,
        KafkaStorageError."""
        view = memoryview(bytearray(batches))
        wall_ms = self.wall_ms()
        if len(view) <= self.log.config.segment_bytes:
            self.log.append_as_follower(view, wall_ms)
            self.voters.feed(view)
        else:
            while view:
                size = read_header(view).size_bytes
                self.log.append_as_follower(view[:size], wall_ms)
                self.voters.feed(view[:size])
                view = view[size:]
        if self._commits_at_once:
            self._applied = self.end
            self.update_high_watermark(self.end_offset)
            self.metadata_log.note_applied(len(batches), wall_ms)

    def flush(self) -> None:
        """Sync the log to disk."""
        self.log.flush(self.wall_ms())

    def update_high_watermark(self, offset: int) -> None:
        """Advance the log's high watermark to an offset, if it is larger."""
        self.log.maybe_increment_high_watermark(offset)

    def end_of_epoch(self, epoch: int) -> SnapshotId:
        """Return the end offset and epoch of the largest epoch that is at most `epoch`; the log's end if that is
        unknown."""
        largest, offset = self.log.end_offset_for_epoch(epoch)
        return self.end if offset < 0 else SnapshotId(offset, largest)

    def validate(self, offset: int, epoch: int) -> Validity:
        """Compare a follower's log end (offset, epoch) with this log (validateOffsetAndEpoch)."""
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
        """Truncate to where the log meets the leader's diverging epoch (truncateToEndOffset). Returns the new end. The
        caller must not truncate below the high watermark."""
        offset = min(end.offset, self.end_offset)
        if end.epoch > 0:
            own_end = self.end_of_epoch(end.epoch)
            offset = min(own_end.offset, end.offset) if own_end.epoch == end.epoch else own_end.offset
        self.log.truncate_to(offset, self.wall_ms())
        self.voters.truncate(offset)
        return offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return batches from `offset` on, committed or not: at least one, or no bytes at the log's end. Raises
        OffsetOutOfRange, KafkaStorageError."""
        return self.log.read(offset, max_bytes).read()

    def load_snapshot(self) -> Snapshot | None:
        """Return the newest valid snapshot, where `committed` continues; None without one. Reads the voters of the
        snapshot and of the log after it. Raises CorruptRecord, KafkaStorageError."""
        snapshot = self.metadata_log.load_snapshot()
        self._transactions = Transactions()
        self._applied = SnapshotId(0, 0) if snapshot is None else snapshot.snapshot_id
        self.voters.restart(() if snapshot is None else snapshot.quorum_records, self._applied.offset)
        offset = max(self.start_offset, self._applied.offset)
        while offset < self.end_offset:
            data = self.log.read(offset, READ_BYTES).read()
            self.voters.feed(data)
            offset = self._end_of(data)
        return snapshot

    def _end_of(self, data: bytes) -> int:
        last, size = list(whole_batches(data))[-1]
        return read_header(memoryview(data)[last : last + size]).last_offset + 1

    def committed(self, first: int, end: int) -> Iterator[CommittedBatch]:
        """Yield the batches between two offsets. The records of a transaction come with the batch that ends it."""
        return (batch for batch in self.committed_in_portions(first, end) if batch is not None)

    def committed_in_portions(self, first: int, end: int) -> Iterator[CommittedBatch | None]:
        """Yield the batches as `committed` does, and None between portions of the decoding of a large one."""
        for batch in self.metadata_log.read_in_portions(first, end):
            if batch is None:
                yield None
                continue
            next_offset, epoch, records = batch
            counting = self._transactions.feed(records)
            if not self.has_open_transaction:
                self._applied = SnapshotId(next_offset, epoch)
            yield CommittedBatch(next_offset, epoch, counting)

    @property
    def has_open_transaction(self) -> bool:
        """Return whether the records read by `committed` end inside of a transaction, which a new controller must
        abort."""
        return self._transactions.pending is not None

    def maybe_snapshot(self, records: Callable[[], Iterable[Any]], now_ms: int) -> bool:
        """Write a snapshot of applied records if it is due and delete old ones. Returns whether one was written."""
        return self.metadata_log.maybe_snapshot(records, now_ms, self.wall_ms(), self.applied)

    def take_snapshot(self, records: Iterable[Any], now_ms: int) -> SnapshotId:
        """Write a snapshot of the applied records now. Returns its id."""
        return self.metadata_log.take_snapshot(records, now_ms, self.wall_ms(), self.applied)

    def read_snapshot_part(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes]:
        """Return a snapshot's size in bytes and up to `max_bytes` from `position` on; no bytes for a position outside
        of it. Raises SnapshotNotFound, FileNotFoundError."""
        size = self.snapshots.sizes().get(snapshot_id)
        if size is None:
            raise SnapshotNotFound()
        return size, self.snapshots.read_part(snapshot_id, position, max_bytes) if 0 <= position < size else b""

    def begin_download(self, snapshot_id: SnapshotId) -> SnapshotDownload | None:
        """Start downloading the leader's snapshot, from its first byte. Returns None if this node already has it."""
        return None if snapshot_id in self.snapshots.ids() else self.snapshots.begin_download(snapshot_id)

    def begin_at(self, snapshot_id: SnapshotId) -> None:
        """Restart the log at a snapshot's end (truncateToLatestSnapshot) and delete older snapshots."""
        wall_ms = self.wall_ms()
        self.log.truncate_fully_and_start_at(snapshot_id.offset, wall_ms)
        self.log.assign_epoch_start_offset(snapshot_id.epoch)
        self.log.update_high_watermark(snapshot_id.offset)
        self.voters.restart(self.snapshots.read(snapshot_id).quorum_records, snapshot_id.offset)
        self.snapshots.delete_before(snapshot_id)


def whole_batches_until(data: bytes | memoryview, epoch: int) -> memoryview:
    """Return the complete batches of a fetch up to a leader epoch; a leader may cut off the last batch."""
    view = memoryview(data)
    end = 0
    for position, size in whole_batches(view):
        if unpack_from(">i", view, position + LOG_OVERHEAD)[0] > epoch:
            break
        end = position + size
    return view[:end]
