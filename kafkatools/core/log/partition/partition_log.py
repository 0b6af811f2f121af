"""The log of one partition: append, read, roll, truncate, flush (Kafka's UnifiedLog and LocalLog).

Only one thread at a time may use a log. An append does all validation, producer checks and rolling before it writes.
Offsets and producer state change only after the write succeeded, so an error leaves them as they were. On the hot path,
one plain batch of magic 2, it reads the header and the checksum, patches offset and leader epoch in the caller's
buffer, and makes one write. A disk error becomes KafkaStorageError. Nothing here waits or reads a clock.
"""

import os

from kafkatools.core.errors import InvalidRecord, KafkaStorageError, OffsetOutOfRange
from kafkatools.core.log.delayed_tasks import DelayedTasks
from kafkatools.core.log.files import FileSystem, RealFileSystem
from kafkatools.core.log.format.checkpoints import write_partition_metadata
from kafkatools.core.log.format.filenames import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from kafkatools.core.log.format.transaction_index import AbortedTransaction
from kafkatools.core.log.partition import segment_reads
from kafkatools.core.log.partition.append_validation import (
    AppendRules,
    check_batch,
    check_contents,
    single_batch,
    split_batches,
)
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.log_results import CheckedBatch, LogAppendInfo, LogSlice
from kafkatools.core.log.partition.log_state import LogState
from kafkatools.core.log.partition.replicated_append import append_replicated
from kafkatools.core.log.partition.retention import delete_old_segments
from kafkatools.core.log.partition.segment import LogSegment, TimestampAndOffset
from kafkatools.core.log.partition.truncation import truncate, truncate_fully
from kafkatools.core.log.producers.append import AppendOrigin
from kafkatools.core.log.producers.transaction_verification import ensure_verified
from kafkatools.core.log.producers.updates import append_batch
from kafkatools.core.log.recovery import loading as recovery
from kafkatools.core.records.batch import stamp_batch
from kafkatools.core.records.header import NO_PRODUCER_ID, NO_TIMESTAMP, BatchHeader
from kafkatools.core.records.layout import CODEC_MASK


class PartitionLog(LogState):
    """The log of one partition. Use `PartitionLog.open` to create or load it."""

    @classmethod
    def open(
        cls,
        directory: str,
        config: LogConfig,
        files: FileSystem | None = None,
        now_ms: int = 0,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        had_clean_shutdown: bool = True,
        tasks: DelayedTasks | None = None,
    ) -> "PartitionLog":
        """Load the log in a directory, or begin an empty one. Raises KafkaStorageError, CorruptRecord; see `load`."""
        log = cls(directory, config, files or RealFileSystem(), tasks or DelayedTasks())
        log.load(log_start_offset, recovery_point, now_ms, had_clean_shutdown=had_clean_shutdown)
        return log

    def load(self, log_start_offset: int, recovery_point: int, now_ms: int, *, had_clean_shutdown: bool) -> None:
        """Load the log from its directory; an empty or missing directory gives an empty log. The two offsets come from
        the log directory's checkpoints. Without a clean shutdown everything from the recovery point on is checked, and
        cut off at damage.

        Set `first_dirty_offset` before: a log that was cleaned may have holes, whatever its policy is now. Raises
        KafkaStorageError, CorruptRecord.
        """
        self.storage(
            "loading", lambda: recovery.load(self, log_start_offset, recovery_point, had_clean_shutdown, now_ms)
        )

    def begin(self, now_ms: int) -> None:
        """Begin an empty log in a new directory, without the listing that `load` does. Raises KafkaStorageError."""
        self.storage("creating", lambda: recovery.begin(self, now_ms))

    # state

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch in the log, None when there is none."""
        return self.epochs.latest_epoch

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark, limited to the range from log start to log end offset. Return the new value."""
        self.high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))
        self.producer_state.on_high_watermark_updated(self.high_watermark)
        return self.high_watermark

    def maybe_increment_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark to an offset, at most to the log end offset. Return False, without a change, when
        the offset is not above the high watermark."""
        if offset <= self.high_watermark:
            return False
        self.update_high_watermark(offset)
        return True

    def update_config(self, config: LogConfig) -> None:
        """Apply changed topic settings, from the next append on. The size of existing index files stays as it was."""
        self.config = config
        self.rules = AppendRules(config, self.topic_partition)
        self.producer_state.producer_id_expiration_ms = config.producer_id_expiration_ms
        for segment in self.segments:
            segment.index_interval_bytes = config.index_interval_bytes

    def assign_topic_id(self, topic_id: str) -> None:
        """Set the topic id and write it to `partition.metadata`, unless the log has this id already. Raises
        KafkaStorageError."""
        if self.topic_id != topic_id:
            path = os.path.join(self.directory, PARTITION_METADATA)
            self.storage("writing metadata", lambda: write_partition_metadata(self.files, path, topic_id))
            self.topic_id = topic_id

    def assign_epoch_start_offset(self, epoch: int, start_offset: int | None = None) -> None:
        """Record the start offset of a leader epoch (default: the log end offset), when a replica becomes leader.
        Changes nothing if it is the newest epoch already and starts at or below that offset; later epochs are dropped.
        Raises KafkaStorageError, ValueError for a negative epoch."""
        start = self.log_end_offset if start_offset is None else start_offset
        self.storage("writing epochs", lambda: self.epochs.assign(epoch, start))

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch in the log that is at most `epoch`, for an
        OffsetForLeaderEpoch request. See `LeaderEpochCache.end_offset_for` for an epoch outside the log's range."""
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether a producer has an open transaction in this partition under this producer epoch."""
        return self.producer_state.has_ongoing_transaction(producer_id, producer_epoch)

    # appends

    def append_as_leader(
        self,
        records: memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = -1,
        is_verified: bool = True,
    ) -> LogAppendInfo:
        """Assign the next offsets to whole batches of magic 2 and append them; from a client exactly one batch.

        `records` must be writable and is patched in place. `is_verified` False means that the transaction coordinator
        does not know of this partition. Then a transactional batch is refused unless its transaction is open already or
        transaction.partition.verification.enable is false (KIP-890). A duplicate is no error: the result has the
        offsets of the first append. Raises CorruptRecord, InvalidRecord, MessageTooLarge, RecordListTooLarge,
        InvalidTimestamp, UnsupportedCompressionType, OutOfOrderSequenceNumber, InvalidProducerEpoch, InvalidTxnState,
        TransactionCoordinatorFenced, KafkaStorageError.
        """
        if self.failure is not None:
            raise self.failure
        header = single_batch(records)
        if header is None:
            return self._append_several(records, leader_epoch, now_ms, origin, transaction_version)
        is_client = origin is AppendOrigin.CLIENT
        check_batch(header, records, self.config.max_message_bytes, self.topic_partition, is_client=is_client)
        if is_client and header.attributes & CODEC_MASK == 0:
            header = check_contents(header, records, self.topic_partition)
        append_time = None
        if not self.rules.is_plain(header, now_ms):
            records, header, append_time = self._as_topic_wants(records, header, origin, now_ms)
        if len(records) > self.config.segment_bytes:
            self.ensure_fits_segment(len(records))
        batch = CheckedBatch(
            records, header, leader_epoch, now_ms, NO_TIMESTAMP if append_time is None else append_time
        )
        if header.producer_id == NO_PRODUCER_ID:
            self._write(batch)
        else:
            entry = self.producer_state.continued_entry(header) if is_client else None
            if entry is None:
                return self._append_checked(batch, origin, transaction_version, is_verified)
            self._write(batch)
            entry.add_batch(header, self.log_end_offset - 1, batch.max_timestamp)
        return self._append_info(batch)

    def _append_info(self, batch: CheckedBatch) -> LogAppendInfo:
        self.settle_end(batch.now_ms)
        end = self.log_end_offset
        delta = batch.header.last_offset_delta
        first = end - 1 - delta
        return LogAppendInfo(first, end - 1, batch.append_time, self.log_start_offset, batch.max_timestamp, False)

    def _append_checked(
        self, batch: CheckedBatch, origin: AppendOrigin, transaction_version: int, is_verified: bool
    ) -> LogAppendInfo:
        """Append a batch that needs the full checks on its producer's state. A duplicate is not written: the result has
        the offsets of the first append."""
        header = batch.header
        duplicate = self.producer_state.find_duplicate(header) if origin is AppendOrigin.CLIENT else None
        if duplicate is not None:
            return LogAppendInfo.of_duplicate(duplicate, self.log_start_offset)
        if self.failed_appends and origin is AppendOrigin.CLIENT:
            self.failed_appends.check(header, self.producer_state.producers.get(header.producer_id))
        if not is_verified:
            ensure_verified(
                header, origin, self.producer_state, is_required=self.config.transaction_partition_verification_enable
            )
        if self.attempts and origin is AppendOrigin.CLIENT:
            self.attempts.check(
                header, self.producer_state.producers.get(header.producer_id), self.log_end_offset, self.topic_partition
            )
        update = self.producer_state.prepare_update(header.producer_id, origin)
        completed = append_batch(
            update, header, batch.records, self.log_end_offset, batch.max_timestamp, transaction_version
        )
        segment = self._write(batch)
        if self.attempts:
            self.attempts.note_append(header, transaction_version)
        self.settle_producers(segment, (update,), () if completed is None else (completed,))
        return self._append_info(batch)

    def _as_topic_wants(
        self, records: memoryview, header: BatchHeader, origin: AppendOrigin, now_ms: int
    ) -> tuple[memoryview, BatchHeader, int | None]:
        """Apply the topic's rules. Return the batch (the same or new bytes), its header, and the append time or
        None."""
        records = self.rules.apply(header, records, origin, now_ms)
        return records, split_batches(records, self.topic_partition)[0], self.rules.append_time(now_ms)

    def _write(self, batch: CheckedBatch) -> LogSegment:
        """Stamp the offsets and the leader epoch on a batch and append it, rolling the active segment if needed. A disk
        error is reported, the batch is added to `failed_appends`, and KafkaStorageError is raised."""
        records, header, leader_epoch, now_ms, append_time = batch
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        max_timestamp = header.max_timestamp if append_time < 0 else append_time
        stamp_batch(
            records,
            0,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            append_time=None if append_time < 0 else append_time,
        )
        try:
            self.epochs.assign(leader_epoch, base_offset)
            segment = self.segments.active
            if segment.should_roll(self.config, len(records), last_offset, max_timestamp, now_ms):
                segment = self.roll(now_ms)
            segment.append(records, last_offset, max_timestamp, base_offset)
        except OSError as error:
            self.failed_appends.note(header.producer_id, header.producer_epoch, header.base_sequence)
            context = f"while appending records to {self.topic_partition} in dir {self.directory}"
            raise self.storage_error(context, error) from error
        self.log_end_offset = last_offset + 1
        return segment

    def _append_several(
        self, records: memoryview, leader_epoch: int, now_ms: int, origin: AppendOrigin, transaction_version: int
    ) -> LogAppendInfo:
        """Append several batches from a coordinator or the controller. All are checked before the first is appended,
        except their producers' state: after such an error the batches before it stay. Raises InvalidRecord for a
        client."""
        headers = split_batches(records, self.topic_partition)
        if origin is AppendOrigin.CLIENT:
            raise InvalidRecord(
                f"Produce requests with version 3 or higher are only allowed to contain exactly one record batch per "
                f"partition ({self.topic_partition})"
            )
        batches = []
        position = 0
        for header in headers:
            batches.append(records[position : position + header.size_bytes])
            check_batch(header, batches[-1], self.config.max_message_bytes, self.topic_partition, is_client=False)
            position += header.size_bytes
        infos = [
            self.append_as_leader(
                batch, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin, transaction_version=transaction_version
            )
            for batch in batches
        ]
        return infos[-1]._replace(first_offset=infos[0].first_offset)

    def append_as_follower(self, records: memoryview, now_ms: int) -> LogAppendInfo:
        """Append batches from the leader, with their offsets and epochs; a gap after the log end is allowed. All are
        checked before the first is written.

        Raises UnexpectedAppendOffset for an offset below the log end, CorruptRecord for a wrong checksum, InvalidRecord
        for bytes that are not whole batches of magic 2, RecordListTooLarge above segment.bytes,
        UnsupportedCompressionType, KafkaStorageError.
        """
        return append_replicated(self, records, now_ms)

    # flush and close

    @property
    def needs_full_flush(self) -> bool:
        """Return whether more than an fsync of the active segment's file is needed: for older segments, for the name of
        a new segment, or for leader epochs."""
        return self.recovery_point <= self.active_segment.base_offset or self.epochs.needs_sync

    def note_flushed(self, offset: int, now_ms: int) -> None:
        """Move the recovery point, after the owner has fsynced the active segment's file up to an offset. Does nothing
        if the segment was rolled meanwhile, because its indexes are not durable."""
        if self.active_segment.base_offset < offset:
            self.recovery_point = max(self.recovery_point, min(offset, self.log_end_offset))
            self.last_flush_ms = now_ms

    def close(self) -> None:
        """Write producer snapshot and pending index entries, and close all files. The segments are not fsynced. Does
        nothing in a closed log. Raises KafkaStorageError."""
        self.abort_cleaning()
        if not self.is_closed:
            self.storage("closing", self._close)
            self.is_closed = True

    def _close(self) -> None:
        self.producer_state.take_snapshot(sync=True)
        for segment in self.segments:
            segment.close()

    def flush_and_close(self) -> None:
        """Flush and close the log. After a disk error, close its files and raise KafkaStorageError."""
        try:
            self.flush()
            self.close()
        except KafkaStorageError:
            self.release()
            raise

    # reads

    def read(
        self, offset: int, max_bytes: int, *, min_one_message: bool = True, max_offset: int | None = None
    ) -> LogSlice:
        """Return the batches from the one with `offset` on, below `max_offset` (default: log end), from one segment.
        The slice may end within a batch, and is empty if nothing is below `max_offset`.

        `max_bytes` limits its size; with `min_one_message` the first batch is whole even if it is larger. Raises
        OffsetOutOfRange outside [log start, log end], CorruptRecord at an impossible batch size, KafkaStorageError.
        """
        end = self.log_end_offset
        if offset > end or offset < self.log_start_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self.topic_partition}, but we only have log "
                f"segments from offset {self.log_start_offset} up to {end}."
            )
        if self.failure is not None:
            raise self.failure
        limit = end if max_offset is None else min(max_offset, end)
        segment = self.segments.floor(offset) or self.segments.first
        if offset >= limit:
            return LogSlice(segment.log, segment.size_bytes, 0, offset, segment)
        try:
            return segment_reads.read_segments(self, segment, offset, max_bytes, min_one_message, limit)
        except OSError as error:
            raise self.storage_error(f"while reading {self.topic_partition}", error) from error

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """Return the first record at or after a timestamp (ms), None when there is none (ListOffsets). Raises
        CorruptRecord, InvalidRecord, KafkaStorageError."""
        return self.storage("searching by timestamp", lambda: segment_reads.search(self, timestamp))

    def max_timestamp(self) -> TimestampAndOffset | None:
        """Return the first record with the newest timestamp, None in a log without timestamps (ListOffsets with -3).
        Raises CorruptRecord, InvalidRecord, KafkaStorageError."""
        return self.storage("searching by timestamp", lambda: segment_reads.newest_record(self))

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap the offsets [start_offset, end_offset). Raises OSError,
        KafkaError for a damaged transaction index."""
        return segment_reads.aborted_transactions(self, start_offset, end_offset)

    # truncation and retention

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Remove all batches with a record at or above an offset, which becomes the log end offset. Return False if the
        log ends at or below the offset; leader epochs that begin there are removed all the same. Raises ValueError for
        a negative offset, KafkaStorageError, CorruptRecord."""
        if offset < 0:
            raise ValueError(f"Cannot truncate partition {self.topic_partition} to a negative offset ({offset}).")
        if offset >= self.log_end_offset:
            self.storage("truncating", lambda: self.epochs.truncate_from_end(offset))
            return False
        self.truncations += 1
        self.storage("truncating", lambda: truncate(self, offset, now_ms))
        return True

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Remove all records, leader epochs and producer state, and continue the log at an offset. Raises
        KafkaStorageError."""
        self.truncations += 1
        self.storage("truncating", lambda: truncate_fully(self, offset, now_ms))

    def delete_retention_segments(self, now_ms: int) -> int:
        """Delete segments by retention.ms, retention.bytes and log start offset. Return their number. Raises
        KafkaStorageError."""
        return self.storage("deleting segments", lambda: delete_old_segments(self, now_ms))

    def move_to(self, directory: str) -> None:
        """Use a new path, after the partition's directory was renamed. Aborts a cleaning."""
        self.abort_cleaning()
        self.directory = directory
        self.epochs.path = os.path.join(directory, LEADER_EPOCH_CHECKPOINT)
        self.producer_state.directory = directory
        for segment in self.segments:
            segment.move_to(directory)
