"""The state of one partition's log, and the operations that change it: roll, flush, delete segments, storage errors.

PartitionLog adds the public operations. Reads, replicated appends, retention, truncation and loading are functions on a
LogState, in modules of their own.
"""

import errno
import os
from collections.abc import Callable, Iterable
from typing import TypeVar

from kafkatools.core.errors import KafkaStorageError, OffsetOutOfRange, RecordListTooLarge
from kafkatools.core.log.cleaner.log_to_clean import LogToClean
from kafkatools.core.log.delayed_tasks import DelayedTasks
from kafkatools.core.log.files import FileSystem, is_disk_full
from kafkatools.core.log.format.checkpoints import read_partition_metadata
from kafkatools.core.log.format.filenames import (
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    partition_of_directory,
)
from kafkatools.core.log.format.leader_epochs import LeaderEpochCache
from kafkatools.core.log.partition.append_validation import AppendRules
from kafkatools.core.log.partition.failed_appends import FailedAppends
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.segment import LogSegment
from kafkatools.core.log.partition.segments import LogSegments, tail_headers
from kafkatools.core.log.producers.append import CompletedTransaction, ProducerAppendInfo
from kafkatools.core.log.producers.state import ProducerStateManager
from kafkatools.core.log.producers.transaction_verification import Attempts

_Result = TypeVar("_Result")


class LogState:
    """The segments, offsets, leader epochs and producer state of one partition. One thread at a time may use it."""

    def __init__(
        self,
        directory: str,
        config: LogConfig,
        files: FileSystem,
        tasks: DelayedTasks,
        on_storage_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """`on_storage_error` is called with each disk error, if the broker has several log directories."""
        self.directory = directory
        self.config = config
        self.files = files
        self.tasks = tasks
        self.topic_partition = partition_of_directory(os.path.basename(directory))
        self.on_storage_error = on_storage_error
        self.segments = LogSegments()
        self.epochs = LeaderEpochCache(files, os.path.join(directory, LEADER_EPOCH_CHECKPOINT))
        self.producer_state = ProducerStateManager(
            files, directory, self.topic_partition, config.producer_id_expiration_ms
        )
        self.producer_state.set_tail(lambda: tail_headers(self.segments, self.log_end_offset))
        self.rules = AppendRules(config, self.topic_partition)
        self.attempts = Attempts()
        self.failed_appends = FailedAppends()
        self.topic_id: str | None = None
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.high_watermark = 0
        self.last_flush_ms = 0
        self._are_names_durable = False
        self.is_closed = False
        self.failure: KafkaStorageError | None = None
        self.first_dirty_offset: int | None = None
        self.cleaning: LogToClean | None = None
        self.truncations = 0  # after one, positions that a reader has kept may hold other records

    @property
    def size_bytes(self) -> int:
        """The size of all `.log` files in bytes."""
        return self.segments.size_bytes

    @property
    def active_segment(self) -> LogSegment:
        """The newest segment, which appends go to."""
        return self.segments.active

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest transaction that is open, or whose marker is not below the high watermark. At
        least the log start offset; None when there is no such transaction."""
        offset = self.producer_state.first_unstable_offset
        return None if offset is None else max(offset, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """The offset where read_committed consumers stop: the first unstable offset, at most the high watermark."""
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def load_topic_id(self) -> None:
        """Read the topic id from `partition.metadata`, if the file exists. Raises KafkaStorageError for a malformed
        file, OSError."""
        path = os.path.join(self.directory, PARTITION_METADATA)
        if self.files.exists(path):
            self.topic_id = read_partition_metadata(self.files, path).topic_id

    def storage(self, operation_text: str, operation: Callable[[], _Result]) -> _Result:
        """Run a disk operation and return its result. An OSError is reported to `on_storage_error` and raised as
        KafkaStorageError, with `operation_text` in its message."""
        try:
            return operation()
        except OSError as error:
            raise self.storage_error(
                f"while {operation_text} for {self.topic_partition} in {self.directory}", error
            ) from error

    def storage_error(self, context: str, error: Exception) -> KafkaStorageError:
        """Report a disk error to `on_storage_error`, if there is one, and return a KafkaStorageError for it."""
        if self.on_storage_error is not None:
            self.on_storage_error(error)
        return KafkaStorageError(f"Error {context}: {error}")

    def settle_end(self, now_ms: int) -> None:
        """Finish an append: update the producer state's end offset, and flush if flush.messages is reached. Raises
        KafkaStorageError."""
        self.producer_state.map_end_offset = self.log_end_offset
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush(now_ms)

    def ensure_fits_segment(self, size: int) -> None:
        """Raise RecordListTooLarge for an append of more bytes than segment.bytes."""
        if size > self.config.segment_bytes:
            raise RecordListTooLarge(
                f"Message batch size is {size} bytes in append to partition {self.topic_partition}, which exceeds the "
                f"maximum configured segment size of {self.config.segment_bytes}."
            )

    def settle_producers(
        self, segment: LogSegment, updates: Iterable[ProducerAppendInfo], completed: Iterable[CompletedTransaction]
    ) -> None:
        """Apply the producer updates and ended transactions of an append, after its write. Aborted transactions are
        added to the segment's transaction index; if that fails, the log goes offline and KafkaStorageError is
        raised."""
        for update in updates:
            self.producer_state.update(update)
        for transaction in completed:
            if transaction.is_aborted:
                try:
                    segment.txn_index.append(self.producer_state.aborted_entry(transaction))
                except OSError as error:  # the marker is in the log without its index entry: only recovery can add it
                    raise self.go_offline(error) from error
            self.producer_state.complete_transaction(transaction)

    def roll(self, now_ms: int, next_offset: int = 0) -> LogSegment:
        """Create and return a new active segment at the log end offset, or at `next_offset`, the offset of the next
        batch, if that is above. Writes a producer snapshot and schedules a flush of the older segments. An empty active
        segment at that offset is returned as it is; one with records raises KafkaStorageError. Raises OSError."""
        active = self.segments.active
        base_offset = max(self.log_end_offset, next_offset)
        if active.base_offset == base_offset:
            if active.size_bytes == 0:
                return active
            raise KafkaStorageError(
                f"Trying to roll a new log segment for {self.topic_partition} with start offset {base_offset} while it "
                f"already exists"
            )
        active.become_inactive()
        self.recovery_point = min(self.recovery_point, active.base_offset)  # the indexes are not durable yet
        self.producer_state.map_end_offset = base_offset
        self.producer_state.take_snapshot()
        if not self._are_names_durable:
            # The name of a later segment may reach the disk first. After a power loss the log would begin there.
            self.files.fsync_directory(self.directory)
        segment = LogSegment.create(self.files, self.directory, base_offset, self.config, now_ms)
        self._are_names_durable = False
        self.segments.add(segment)
        self.tasks.schedule(now_ms, lambda: self.flush(now_ms, up_to=base_offset))
        return segment

    def delete_segments(self, segments: Iterable[LogSegment], now_ms: int) -> int:
        """Remove segments from the log. Return their number. Their files are renamed to `.deleted` and removed after
        file.delete.delay.ms, so that reads in progress can finish. Aborts a cleaning. Raises OSError: the segment whose
        files could not be renamed, and those after it, stay in the log."""
        segments = list(segments)
        if segments:
            self.abort_cleaning()
        for segment in segments:
            segment.change_suffix(DELETED_SUFFIX)  # first: a forgotten segment would come back
            self.segments.remove(segment.base_offset)
            snapshot = self.producer_state.mark_snapshot_for_deletion(segment.base_offset)
            self.remove_later(segment, snapshot, now_ms)
        return len(segments)

    def remove_later(self, segment: LogSegment, snapshot: str | None, now_ms: int) -> None:
        """Remove the files of a deleted segment and its producer snapshot (a path or None) after file.delete.delay.ms.
        Closes them at once, because the log may be closed before."""
        segment.release()

        def remove() -> None:
            segment.delete_files()
            if snapshot is not None:
                self.files.remove(snapshot)

        self.tasks.schedule(now_ms + self.config.file_delete_delay_ms, remove)

    def flush(self, now_ms: int = 0, up_to: int | None = None) -> None:
        """Make the log durable below an offset (default: its end), and move the recovery point there. Does nothing in a
        closed log, or if the recovery point is there already. `now_ms` is kept as the time of the flush. A failed sync
        takes the log offline: the content of the disk is unknown, and a later sync would not tell. Raises
        KafkaStorageError."""
        offset = self.log_end_offset if up_to is None else min(up_to, self.log_end_offset)
        if offset <= self.recovery_point or self.is_closed:
            return
        self.storage("flushing", lambda: self._flush_segments(offset))
        self.recovery_point = max(self.recovery_point, offset)
        self.last_flush_ms = now_ms

    def _flush_segments(self, offset: int) -> None:
        has_new_names = self.epochs.flush()
        segments = self.segments.range(self.recovery_point, offset)
        for segment in segments:
            try:
                segment.flush(with_indexes=segment is not self.segments.active)
            except OSError as error:
                if error.errno == errno.EIO or is_disk_full(error):
                    raise self.go_offline(error) from error
                raise  # the file could not be opened
        if has_new_names or any(segment.base_offset >= self.recovery_point for segment in segments):
            self.files.fsync_directory(self.directory)
            self._are_names_durable = True

    def refuse(self, error: Exception) -> KafkaStorageError:
        """Refuse all appends and reads from now on, because of a disk error. Return the KafkaStorageError that callers
        get, which names the first error."""
        if self.failure is None:
            self.failure = KafkaStorageError(
                f"The log of {self.topic_partition} in {self.directory} is offline: {error}"
            )
        return self.failure

    def go_offline(self, error: Exception) -> KafkaStorageError:
        """Take the log offline: refuse all operations and close its files, because memory and disk may differ. The next
        start recovers the log. Return the KafkaStorageError that callers get."""
        if self.failure is None:
            self.storage_error("of the disk", error)
        failure = self.refuse(error)
        if not self.is_closed:
            self.release()
        return failure

    def release(self) -> None:
        """Close all files without writing, because the disk may have failed, and mark the log as closed. Aborts a
        cleaning."""
        self.abort_cleaning()
        for segment in self.segments:
            segment.release()
        self.is_closed = True

    @property
    def may_have_holes(self) -> bool:
        """Return whether offsets may be missing, because the log is or was compacted."""
        return self.config.is_compacted or self.first_dirty_offset is not None

    def abort_cleaning(self) -> None:
        """Abort the cleaner's current plan, if there is one, because the segments of the log change."""
        if self.cleaning is not None:
            self.cleaning.abort()

    def increment_log_start_offset(self, offset: int) -> bool:
        """Raise the log start offset (DeleteRecords). Return False, without a change, if the offset is not above it.
        Segments below it are deleted by the next retention run. Raises OffsetOutOfRange above the high watermark,
        KafkaStorageError."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"Cannot increment the log start offset to {offset} of partition {self.topic_partition} since it is "
                f"larger than the high watermark {self.high_watermark}"
            )
        if offset <= self.log_start_offset:
            return False
        self.storage("truncating epochs", lambda: self.epochs.truncate_from_start(offset))
        self.log_start_offset = offset
        self.producer_state.on_log_start_offset_incremented(offset)
        return True
