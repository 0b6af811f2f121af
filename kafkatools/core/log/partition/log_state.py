"""The state of one partition's log and what every change of it is made of: storage errors, rolling, flushing, deleting.

PartitionLog adds the operations of its users. They live in modules beside it (reads, replicated appends, retention,
truncation, loading), which take this class.
"""

import os
from collections.abc import Callable, Iterable
from typing import TypeVar

from kafkatools.core.errors import KafkaStorageError, OffsetOutOfRange, RecordListTooLarge
from kafkatools.core.log.cleaner.log_to_clean import LogToClean
from kafkatools.core.log.delayed_tasks import DelayedTasks
from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.format.checkpoints import read_partition_metadata
from kafkatools.core.log.format.filenames import (
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    partition_of_directory,
)
from kafkatools.core.log.format.leader_epochs import LeaderEpochCache
from kafkatools.core.log.partition.append_validation import (
    AppendRules,
)
from kafkatools.core.log.partition.failed_appends import FailedAppends
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.segment import LogSegment
from kafkatools.core.log.partition.segments import LogSegments, tail_headers
from kafkatools.core.log.producers.append import CompletedTransaction, ProducerAppendInfo
from kafkatools.core.log.producers.state import ProducerStateManager
from kafkatools.core.log.producers.transaction_verification import Attempts

_Result = TypeVar("_Result")


class LogState:
    """The segments of one partition, their ends, and the state of epochs and producers. One thread at a time."""

    def __init__(
        self,
        directory: str,
        config: LogConfig,
        files: FileSystem,
        tasks: DelayedTasks,
        on_storage_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """`on_storage_error` is called with each error of the disk: one of several directories failed."""
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
        self.truncations = 0  # other records may lie where a reader found some before

    @property
    def size_bytes(self) -> int:
        """The size of all segments."""
        return self.segments.size_bytes

    @property
    def active_segment(self) -> LogSegment:
        """The segment that is written."""
        return self.segments.active

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest undecided transaction."""
        offset = self.producer_state.first_unstable_offset
        return None if offset is None else max(offset, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        """Where read_committed readers stop: the first unstable offset, at most the high watermark."""
        unstable = self.first_unstable_offset
        return self.high_watermark if unstable is None else min(unstable, self.high_watermark)

    def load_topic_id(self) -> None:
        """Read `partition.metadata`, if it is there."""
        path = os.path.join(self.directory, PARTITION_METADATA)
        if self.files.exists(path):
            self.topic_id = read_partition_metadata(self.files, path).topic_id

    def storage(self, what: str, operation: Callable[[], _Result]) -> _Result:
        """Run something that touches the disk; its errors become KafkaStorageError."""
        try:
            return operation()
        except OSError as error:
            raise self.storage_error(f"while {what} for {self.topic_partition} in {self.directory}", error) from error

    def storage_error(self, when: str, error: Exception) -> KafkaStorageError:
        """What an error of the disk is for whoever asked; the owner of the directory hears of it too."""
        if self.on_storage_error is not None:
            self.on_storage_error(error)
        return KafkaStorageError(f"Error {when}: {error}")

    def settle_end(self, now_ms: int) -> None:
        """After a write: the end of the log, flush.messages."""
        self.producer_state.map_end_offset = self.log_end_offset
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush(now_ms)

    def ensure_fits_segment(self, size: int) -> None:
        """Raise RecordListTooLarge for more than a segment takes."""
        if size > self.config.segment_bytes:
            raise RecordListTooLarge(
                f"Message batch size is {size} bytes in append to partition {self.topic_partition}, which exceeds the "
                f"maximum configured segment size of {self.config.segment_bytes}."
            )

    def settle_producers(
        self, segment: LogSegment, updates: Iterable[ProducerAppendInfo], completed: Iterable[CompletedTransaction]
    ) -> None:
        """After a write: what it changed of producers and transactions."""
        for update in updates:
            self.producer_state.update(update)
        for transaction in completed:
            self._complete(segment, transaction)

    def _complete(self, segment: LogSegment, completed: CompletedTransaction) -> None:
        """A marker was written: note an aborted transaction in the index, then let the transaction go."""
        if completed.is_aborted:
            try:
                segment.txn_index.append(self.producer_state.aborted_entry(completed))
            except OSError as error:  # the marker is in the log, its entry is not: only recovery can add it
                raise self.go_offline(error) from error
        self.producer_state.complete_transaction(completed)

    def roll(self, now_ms: int) -> LogSegment:
        """Begin a new segment at the end of the log; gives it. An empty active segment at that offset is kept."""
        active = self.segments.active
        base_offset = self.log_end_offset
        if active.base_offset == base_offset:
            if active.size_bytes == 0:
                return active
            raise KafkaStorageError(
                f"Trying to roll a new log segment for {self.topic_partition} with start offset {base_offset} while it "
                f"already exists"
            )
        active.become_inactive()
        self.recovery_point = min(self.recovery_point, active.base_offset)  # its indexes are not durable yet
        self.producer_state.map_end_offset = base_offset
        self.producer_state.take_snapshot()
        if not self._are_names_durable:
            # The name of a later segment may reach the disk first: after a loss of power the log would begin there.
            self.files.fsync_directory(self.directory)
        segment = LogSegment.create(self.files, self.directory, base_offset, self.config, now_ms)
        self._are_names_durable = False
        self.segments.add(segment)
        self.tasks.schedule(now_ms, lambda: self.flush(now_ms, up_to=base_offset))
        return segment

    def delete_segments(self, doomed: Iterable[LogSegment], now_ms: int) -> int:
        """Take segments out of the log: their files are renamed `.deleted` now and removed after file.delete.delay.ms,
        so that readers who have a slice can finish. Gives how many."""
        doomed = list(doomed)
        if doomed:
            self.abort_cleaning()
        for segment in doomed:
            self.segments.remove(segment.base_offset)
            segment.change_suffix(DELETED_SUFFIX)
            snapshot = self.producer_state.mark_snapshot_for_deletion(segment.base_offset)
            self.remove_later(segment, snapshot, now_ms)
        return len(doomed)

    def remove_later(self, segment: LogSegment, snapshot: str | None, now_ms: int) -> None:
        """Remove the files of a segment that is out of the log after file.delete.delay.ms. Lets its descriptors go at
        once: the log may be closed before."""
        segment.release()

        def remove() -> None:
            segment.delete_files()
            if snapshot is not None:
                self.files.remove(snapshot)

        self.tasks.schedule(now_ms + self.config.file_delete_delay_ms, remove)

    def flush(self, now_ms: int = 0, up_to: int | None = None) -> None:
        """Make everything below an offset durable, by default the whole log, and move the recovery point there."""
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
            segment.flush(with_indexes=segment is not self.segments.active)
        if has_new_names or any(segment.base_offset >= self.recovery_point for segment in segments):
            self.files.fsync_directory(self.directory)
            self._are_names_durable = True

    def refuse(self, error: Exception) -> KafkaStorageError:
        """Refuse every append and read: the directory's disk failed. Returns the error that callers get from now on."""
        if self.failure is None:
            self.failure = KafkaStorageError(
                f"The log of {self.topic_partition} in {self.directory} is offline: {error}"
            )
        return self.failure

    def go_offline(self, error: Exception) -> KafkaStorageError:
        """Refuse everything and let the files go: memory and disk may disagree, and the next start recovers."""
        if self.failure is None:
            self.storage_error("of the disk", error)
        failure = self.refuse(error)
        if not self.is_closed:
            self.release()
        return failure

    def release(self) -> None:
        """Let all files go without writing: the disk may have failed."""
        self.abort_cleaning()
        for segment in self.segments:
            segment.release()
        self.is_closed = True

    @property
    def may_have_holes(self) -> bool:
        """Whether offsets may be missing: the log is compacted, or was once."""
        return self.config.is_compacted or self.first_dirty_offset is not None

    def abort_cleaning(self) -> None:
        """The cleaner's plan is void: the segments it was made for are not those of the log any more."""
        if self.cleaning is not None:
            self.cleaning.abort()

    def increment_log_start_offset(self, offset: int) -> bool:
        """Make everything below an offset unreadable (DeleteRecords); whether anything changed. Segments that lie below
        go with the next retention pass. Raises OffsetOutOfRange above the high watermark."""
        if offset > self.high_watermark:
            raise OffsetOutOfRange(
                f"Cannot increment the log start offset to {offset} of partition {self.topic_partition} since it is "
                f"larger than the high watermark {self.high_watermark}"
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.storage("truncating epochs", lambda: self.epochs.truncate_from_start(offset))
        self.producer_state.on_log_start_offset_incremented(offset)
        return True
