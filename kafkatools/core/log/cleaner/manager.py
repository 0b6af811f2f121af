"""Choose the next log to compact and handle the outcome of each cleaning (Kafka's LogCleanerManager).

A compacted log is due when its dirty part exceeds min.cleanable.dirty.ratio, or when it has records older than
max.compaction.lag.ms. The dirtiest log is cleaned first. A log that cannot be cleaned (damage, a bug) is marked
uncleanable, with the reason, until the next start. After a disk error a log is tried again five minutes later.
Everything here runs on the thread that owns the logs. Each log keeps its own `first_dirty_offset`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkatools.core.errors import CorruptRecord, KafkaStorageError
from kafkatools.core.log.cleaner.log_to_clean import CleaningAborted, LogToClean, SegmentOverflowed
from kafkatools.core.log.cleaner.planning import measure, plan
from kafkatools.core.log.format.filenames import TopicPartition
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.partition.segment_swap import split_segment

if TYPE_CHECKING:
    from kafkatools.core.log.cleaner.cleaner import CleanerStats

RETRY_MS = 300_000


class LogCleanerManager:
    """Chooses the log to clean, and records which logs are uncleanable or wait for another try."""

    def __init__(self) -> None:
        self.uncleanable: dict[TopicPartition, str] = {}
        self.dirtiest_ratio = 0.0
        self._retry_at_ms: dict[TopicPartition, int] = {}

    def grab_filthiest_log(self, logs: Iterable[PartitionLog], now_ms: int) -> tuple[PartitionLog, LogToClean] | None:
        """Return the log with the highest dirty ratio of those due for cleaning, and its plan; None without one. The
        plan becomes the log's `cleaning`, so that it is not chosen twice. A log with damage is marked uncleanable; one
        with a disk error is tried again after five minutes."""
        best: tuple[float, PartitionLog, LogToClean] | None = None
        self.dirtiest_ratio = 0.0
        for log in logs:
            if not self._is_candidate(log, now_ms):
                continue
            try:
                log_state = measure(log, now_ms)
                self.dirtiest_ratio = max(self.dirtiest_ratio, log_state.cleanable_ratio)
                is_due = log_state.cleanable_ratio > log.config.min_cleanable_dirty_ratio
                is_due = is_due or (log_state.needs_compaction_now and log_state.cleanable_bytes > 0)
                if is_due and (best is None or log_state.cleanable_ratio > best[0]):
                    best = log_state.cleanable_ratio, log, plan(log, log_state)
            except CorruptRecord as error:
                self.put_aside(log, error)
            except OSError:
                self._retry_at_ms[log.topic_partition] = now_ms + RETRY_MS
        if best is None:
            return None
        _, log, log_to_clean = best
        log.cleaning = log_to_clean
        return log, log_to_clean

    def _is_candidate(self, log: PartitionLog, now_ms: int) -> bool:
        return (
            log.config.is_compacted
            and log.cleaning is None
            and log.failure is None
            and not log.is_closed
            and log.topic_partition not in self.uncleanable
            and self._retry_at_ms.get(log.topic_partition, now_ms) <= now_ms
        )

    def put_aside(self, log: PartitionLog, error: BaseException) -> None:
        """Mark a log as uncleanable until the next start, with the error as the reason."""
        self.uncleanable[log.topic_partition] = f"{type(error).__name__}: {error}"

    def forget(self, name: TopicPartition) -> None:
        """Forget a deleted partition's failures, so that a later partition of the same name starts afresh."""
        self.uncleanable.pop(name, None)
        self._retry_at_ms.pop(name, None)

    def done_cleaning(
        self, log: PartitionLog, log_to_clean: LogToClean, outcome: CleanerStats | Exception, now_ms: int
    ) -> bool:
        """Record the outcome of a cleaning round. Return True if the log was cleaned (`first_dirty_offset` moves on),
        or if its overflowed segment was split. Return False for an aborted round, which changes nothing, and for an
        error. After an OSError the log waits for RETRY_MS; any other error makes it uncleanable."""
        if log.cleaning is log_to_clean:
            log.cleaning = None
        if not isinstance(outcome, Exception):
            if not log_to_clean.is_aborted:
                log.first_dirty_offset = outcome.end_offset
            return not log_to_clean.is_aborted
        if isinstance(outcome, CleaningAborted) or log_to_clean.is_aborted:
            return False
        if isinstance(outcome, OSError):
            self._retry_at_ms[log.topic_partition] = now_ms + RETRY_MS
            return False
        if isinstance(outcome, SegmentOverflowed):
            try:
                split_segment(log, outcome.base_offset, now_ms)
                return True
            except KafkaStorageError as error:
                outcome = error
        self.put_aside(log, outcome)
        return False
