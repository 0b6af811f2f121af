"""The files of `__cluster_metadata-0`: the metadata log and its snapshots, in Kafka's record format.

Rules: a start reads the newest valid snapshot and the log after it. A snapshot is written after enough records, or when
the last one is old. Beyond metadata.max.retention.*, the oldest snapshots are deleted with the log below the next one;
the last snapshot stays. Records between BeginTransaction and AbortTransaction are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kafkatools.core.broker.metadata.snapshot import (
    QUORUM_KINDS,
    ControlRecord,
    Snapshot,
    SnapshotId,
    SnapshotStore,
    encode_snapshot,
)
from kafkatools.core.config import BROKER, Config
from kafkatools.core.errors import CorruptRecord
from kafkatools.core.log.delayed_tasks import DelayedTasks
from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.format.checkpoints import write_partition_metadata
from kafkatools.core.log.format.filenames import PARTITION_METADATA
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.metadata import decode_record
from kafkatools.core.protocol.uuids import METADATA_TOPIC_ID, uuid_text
from kafkatools.core.records.batch import RecordBatch, read_batches

DIRECTORY = "__cluster_metadata-0"
READ_BYTES = 1 << 20
CLEANING_INTERVAL_MS = 60_000
RECORDS_AT_ONCE = 500
"""Decoding a record takes about 10 us."""
METADATA_LOG_CONFIG = LogConfig(retention_ms=-1, max_message_bytes=8 * 1024 * 1024, segment_ms=7 * 86_400_000)


@dataclass(frozen=True)
class SnapshotRules:
    """The conditions for writing and deleting snapshots; the defaults are those of the metadata.* settings."""

    max_record_bytes_between_snapshots: int = BROKER.default_number("metadata.log.max.record.bytes.between.snapshots")
    max_snapshot_interval_ms: int = BROKER.default_number("metadata.log.max.snapshot.interval.ms")
    max_retention_bytes: int = BROKER.default_number("metadata.max.retention.bytes")
    max_retention_ms: int = BROKER.default_number("metadata.max.retention.ms")
    log_config: LogConfig = METADATA_LOG_CONFIG

    @classmethod
    def of(cls, config: Config) -> SnapshotRules:
        """Read the rules from a broker's configuration."""
        segment_bytes = config["internal.metadata.log.segment.bytes"] or config.metadata_log_segment_bytes
        return cls(
            config["metadata.log.max.record.bytes.between.snapshots"],
            config["metadata.log.max.snapshot.interval.ms"],
            config["metadata.max.retention.bytes"],
            config["metadata.max.retention.ms"],
            replace(
                METADATA_LOG_CONFIG,
                segment_bytes=segment_bytes,
                segment_ms=config.metadata_log_segment_ms,
                file_delete_delay_ms=config["internal.metadata.delete.delay.millis"],
            ),
        )


class CommittedBatch(NamedTuple):
    """A batch of the metadata log: the offset after it, its leader epoch, and its records. From `RaftLog.committed`
    these are the records that take effect with the batch."""

    next_offset: int
    epoch: int
    records: list[Entity]


class MetadataLog:
    """The open metadata log and its snapshots; `RaftLog` writes to it."""

    def __init__(
        self,
        files: FileSystem,
        root: str,
        rules: SnapshotRules | None = None,
        *,
        on_storage_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """`on_storage_error` is called with each disk error on a node with several log directories; the first one is
        kept in `failure`."""
        self.failure: Exception | None = None
        self.directory = f"{root}/{DIRECTORY}"
        self.snapshots = SnapshotStore(files, self.directory)
        self._files = files
        self._rules = rules or SnapshotRules()
        self._on_storage_error = on_storage_error
        self._log: PartitionLog | None = None
        self._quorum_records: dict[bytes, bytes] = {}
        self._last_snapshot_offset = self._last_snapshot_ms = self._last_clean_ms = self._bytes_since_snapshot = 0
        self._last_timestamp = -1

    @property
    def log(self) -> PartitionLog:
        """The partition log of the open metadata log."""
        assert self._log is not None, "the metadata log is open"
        return self._log

    def open(self, now_ms: int, wall_ms: int, *, is_clean: bool) -> bool:
        """Open or create the log. Returns whether it is empty."""
        if not self._files.exists(f"{self.directory}/{PARTITION_METADATA}"):
            self._files.make_directory(self.directory)
            write_partition_metadata(
                self._files, f"{self.directory}/{PARTITION_METADATA}", uuid_text(METADATA_TOPIC_ID)
            )
        self.snapshots.remove_leftovers()
        self._log = PartitionLog(
            self.directory, self._rules.log_config, self._files, DelayedTasks(), self._note_storage_error
        )
        self._log.load(0, 0, wall_ms, had_clean_shutdown=is_clean)
        ids = self.snapshots.ids()
        end = (self._log.latest_epoch or 0, self._log.log_end_offset)
        if (
            ids and (ids[-1].epoch, ids[-1].offset) > end
        ):  # a crash cut off the end of the log, but the snapshot is whole
            self._log.truncate_fully_and_start_at(ids[-1].offset, wall_ms)
            self._log.assign_epoch_start_offset(ids[-1].epoch)
        self._delete_snapshots_below_start()
        self._last_snapshot_ms = self._last_clean_ms = now_ms
        return self._log.log_end_offset == 0

    def _delete_snapshots_below_start(self) -> None:
        """Delete snapshots below the log start offset, whose deletion a power loss may have undone. The log after such
        a snapshot is gone. As the oldest snapshot it would send a follower at the log start back to it again and
        again."""
        start, ids = self.log.log_start_offset, self.snapshots.ids()
        if ids and ids[-1].offset >= start:
            self.snapshots.delete_before(SnapshotId(start, 0))

    def _note_storage_error(self, error: Exception) -> None:
        self.failure = self.failure or error
        if self._on_storage_error is not None:
            self._on_storage_error(error)

    def sync_every_append(self) -> None:
        """Sync every append to disk from now on, as Kafka does."""
        self.log.update_config(replace(self._rules.log_config, flush_messages=1))
        self.log.flush()

    def note_applied(self, size_bytes: int, wall_ms: int) -> None:
        """Count the bytes of a batch that was applied when it was written towards the next snapshot."""
        self._bytes_since_snapshot += size_bytes
        self._last_timestamp = wall_ms

    @property
    def quorum_records(self) -> Mapping[bytes, bytes]:
        """The last KRaftVersion and KRaftVoters records that were read, by key; empty for a static quorum."""
        return self._quorum_records

    def note_quorum_records(self, records: Iterable[ControlRecord]) -> None:
        """Keep KRaftVersion and KRaftVoters records that were applied when they were written, for later snapshots."""
        self._quorum_records.update(records)

    def load_snapshot(self) -> Snapshot | None:
        """Return the newest valid snapshot, None if the log starts at offset 0 without one. Raises CorruptRecord when
        no valid snapshot reaches the log start offset."""
        snapshot = self._newest_snapshot()
        if snapshot is not None:
            self._last_snapshot_offset = snapshot.snapshot_id.offset
            self._last_timestamp = snapshot.last_contained_timestamp
            self._quorum_records = dict(snapshot.quorum_records)
            self._bytes_since_snapshot = 0
        return snapshot

    def read_in_portions(self, offset: int, end: int) -> Iterator[CommittedBatch | None]:
        """Yield the batches between two offsets, control batches without records; counts them for the next snapshot.
        Yields None after each `RECORDS_AT_ONCE` decoded records, so that the caller can let other work run."""
        while offset < end:
            data = self.log.read(offset, READ_BYTES, max_offset=end).read()
            for batch in read_batches(data):
                if batch.next_offset <= offset:
                    continue
                records: list[Entity] = []
                if batch.is_control:
                    self._note_control_batch(batch)
                else:
                    for number, record in enumerate(_records_of(batch, offset), 1):
                        records.append(record)
                        if not number % RECORDS_AT_ONCE:
                            yield None
                self._bytes_since_snapshot += batch.size_bytes
                self._last_timestamp = batch.max_timestamp
                offset = batch.next_offset
                yield CommittedBatch(offset, batch.partition_leader_epoch, records)

    def _note_control_batch(self, batch: Any) -> None:
        """Keep the quorum's control records, which every later snapshot must contain."""
        for record in batch.records():
            if int.from_bytes((record.key or b"")[2:4], "big") in QUORUM_KINDS:
                self._quorum_records[record.key] = record.value

    def _newest_snapshot(self) -> Snapshot | None:
        failure: CorruptRecord | None = None
        for snapshot_id in reversed(self.snapshots.ids()):
            if snapshot_id.offset < self.log.log_start_offset:
                break
            try:
                return self.snapshots.read(snapshot_id)
            except CorruptRecord as error:
                failure = failure or error
        if self.log.log_start_offset > 0:
            start = f"The metadata log in {self.directory} begins at offset {self.log.log_start_offset}"
            detail = "" if failure is None else f": {failure}"
            raise CorruptRecord(f"{start} and has no valid snapshot from there on{detail}")
        return None

    def maybe_snapshot(
        self, records: Callable[[], Iterable[Entity]], now_ms: int, wall_ms: int, at: SnapshotId
    ) -> bool:
        """Write a snapshot if it is due (SnapshotGenerator) and return whether one was written. `records` returns the
        image's records as of the offset `at`. After that, or once a minute, also deletes old snapshots
        (KafkaMetadataLog.maybeClean)."""
        rules = self._rules
        interval_ms = rules.max_snapshot_interval_ms
        is_due = self._bytes_since_snapshot >= rules.max_record_bytes_between_snapshots
        is_old = interval_ms > 0 and now_ms - self._last_snapshot_ms >= interval_ms
        is_written = (is_due or is_old) and at.offset > self._last_snapshot_offset
        if is_written:
            self.take_snapshot(records(), now_ms, wall_ms, at)
        if is_written or now_ms - self._last_clean_ms >= CLEANING_INTERVAL_MS:
            self._last_clean_ms = now_ms
            self.clean(wall_ms)
        self.log.tasks.run_due(wall_ms)
        return is_written

    def take_snapshot(self, records: Iterable[Entity], now_ms: int, wall_ms: int, at: SnapshotId) -> SnapshotId:
        """Write a snapshot of the log up to `at` and return its id. The log is synced first."""
        quorum: list[ControlRecord] = list(self._quorum_records.items())
        data = encode_snapshot(
            records, at.epoch, last_contained_timestamp=self._last_timestamp, wall_ms=wall_ms, quorum_records=quorum
        )
        self.log.flush(wall_ms)
        self.snapshots.write(at, data)
        self._last_snapshot_offset = at.offset
        self._last_snapshot_ms = now_ms
        self._bytes_since_snapshot = 0
        return at

    def clean(self, wall_ms: int) -> int:
        """Delete snapshots beyond metadata.max.retention.*, oldest first, and the log before the next snapshot. The
        newest snapshot stays. If it and the log still exceed metadata.max.retention.bytes, also delete the log before
        it. Return the number of deleted snapshots."""
        sizes = self.snapshots.sizes()
        ids = sorted(sizes)
        total = self.log.size_bytes + sum(sizes.values())
        removed = 0
        for snapshot_id, following in zip(ids, ids[1:], strict=False):
            is_too_much = 0 <= self._rules.max_retention_bytes < total
            if not is_too_much and not self._is_expired(snapshot_id, wall_ms):
                break
            total -= sizes[snapshot_id]
            self._delete_before(following, wall_ms)
            self.snapshots.delete(snapshot_id)
            removed += 1
        if ids and len(ids) == removed + 1:
            total = self.log.size_bytes + sizes[ids[-1]]
            if 0 <= self._rules.max_retention_bytes < total:
                self._delete_before(ids[-1], wall_ms)
        return removed

    def _is_expired(self, snapshot_id: SnapshotId, wall_ms: int) -> bool:
        if self._rules.max_retention_ms < 0:
            return False
        try:
            timestamp = self.snapshots.read(snapshot_id).last_contained_timestamp
        except CorruptRecord:
            return True
        return wall_ms - timestamp > self._rules.max_retention_ms

    def _delete_before(self, snapshot_id: SnapshotId, wall_ms: int) -> None:
        """Advance the log start offset to a snapshot and delete the segments below it."""
        self.log.increment_log_start_offset(snapshot_id.offset)
        self.log.delete_retention_segments(wall_ms)

    def close(self) -> None:
        """Sync the log to disk and close it."""
        log, self._log = self._log, None
        if log is not None:
            log.flush_and_close()


def data_records(data: bytes) -> Iterator[Entity]:
    """Yield the metadata records of a snapshot or segment file, without control batches."""
    for batch in read_batches(data):
        if not batch.is_control:
            yield from _records_of(batch, 0)


def _records_of(batch: Any, from_offset: int) -> Iterator[Entity]:
    assert isinstance(batch, RecordBatch)
    for record in batch.records():
        if record.offset >= from_offset and record.value is not None:
            yield decode_record(record.value)
