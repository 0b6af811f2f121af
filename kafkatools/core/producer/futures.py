"""Futures of sent records: RecordFuture for one record, ColumnsFuture for many rows (Kafka's FutureRecordMetadata and
ProduceRequestResult).

Rules: a ProduceRequestResult belongs to one batch and is set once. When a batch is split, the futures of its records
are chained to the results of the smaller batches. So a future reports the batch that carried its record. Nothing here
reads a clock.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.errors import PartialFailure, Timeout
from kafkatools.core.topic_partition import TopicPartition as TopicPartition

NO_OFFSET = -1
NO_TIMESTAMP = -1


class RecordMetadata(NamedTuple):
    """Partition, offset and timestamp (ms) of a sent record. The offset is -1 when unknown: acks=0, an error, or a
    duplicate. The timestamp is the broker's append time, else the record's own.

    Sizes are in bytes, -1 for null. A record that failed before it reached a batch has offset, timestamp and sizes -1;
    its partition is -1 unless the caller set it.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    serialized_key_size: int
    serialized_value_size: int


class RowsRun(NamedTuple):
    """The result of rows with consecutive offsets: their row numbers, partition and first offset, or the error.
    `base_offset` is -1 when unknown or failed; `timestamp` is the broker's append time in ms, else -1. Rows sent one by
    one have their own timestamp."""

    topic: str
    partition: int
    rows: Sequence[int]
    base_offset: int
    timestamp: int
    error: Exception | None

    @property
    def row_count(self) -> int:
        """The number of rows in the run."""
        return len(self.rows)


def offset_at(run: RowsRun, position: int) -> int:
    """Return the offset of a record by its position in a run, NO_OFFSET when unknown."""
    return NO_OFFSET if run.base_offset == NO_OFFSET else run.base_offset + position


class BatchError:
    """The error of a batch: `error` for all its records, or with `by_index` individual ones (KIP-467) and
    `default_error` for the other records."""

    __slots__ = ("error", "by_index", "_default_error")

    def __init__(
        self, error: Exception, by_index: Mapping[int, Exception] | None = None, default_error: Exception | None = None
    ) -> None:
        self.error = error
        self.by_index = by_index or {}
        self._default_error = default_error or error

    def error_at(self, index: int) -> Exception:
        """The error of the record with this index in the batch."""
        return self.by_index.get(index, self._default_error)


class ProduceRequestResult:
    """The result of one batch: base offset, append time in ms (both -1 when unknown) and error."""

    __slots__ = ("topic_partition", "base_offset", "log_append_time", "error", "is_done", "_pending", "_dependents")

    def __init__(self, topic_partition: TopicPartition) -> None:
        self._dependents: list[ProduceRequestResult] = []
        self.topic_partition = topic_partition
        self.base_offset = NO_OFFSET
        self.log_append_time = NO_TIMESTAMP
        self.error: BatchError | None = None
        self.is_done = False
        self._pending = threading.Lock()  # held until there is a result: a sixth of the time of an Event
        self._pending.acquire()

    def set(self, base_offset: int, log_append_time: int, error: BatchError | None) -> None:
        """Store the result without waking waiting threads; `done` does that after the callbacks have run."""
        self.base_offset = base_offset
        self.log_append_time = log_append_time
        self.error = error

    def done(self) -> None:
        """Wake the threads that wait for the result of the batch; call it after `set`."""
        if not self.is_done:
            self.is_done = True
            self._pending.release()

    def error_at(self, index: int) -> Exception | None:
        """The error of the record with this index in the batch; None for success or before a result."""
        return None if self.error is None else self.error.error_at(index)

    def wait(self, timeout_ms: int | None) -> bool:
        """Wait until the batch is acknowledged, failed or split; return False when the time is up. `timeout_ms` None
        waits without limit."""
        if not self.is_done:
            seconds = -1 if timeout_ms is None else min(max(0, timeout_ms) / 1000, threading.TIMEOUT_MAX)
            if self._pending.acquire(timeout=seconds):
                self._pending.release()  # for the next thread that waits
        return self.is_done

    @property
    def are_all_done(self) -> bool:
        """Return whether this batch and the batches that it was split into have a result."""
        return self.is_done and all(result.are_all_done for result in self._dependents)

    def add_dependent(self, result: ProduceRequestResult) -> None:
        """Add the result of a smaller batch that takes over records of this one; call it before `done`."""
        self._dependents.append(result)

    def wait_for_all(self) -> None:
        """Wait, without a time limit, for this batch and for the batches it was split into."""
        waiting = [self]
        while waiting:
            result = waiting.pop()
            result.wait(None)
            waiting += result._dependents


class RecordFuture:
    """The future of one record: `get` returns its RecordMetadata or raises its error."""

    __slots__ = ()

    def done(self) -> bool:
        """Return whether the record was acknowledged or failed."""
        raise NotImplementedError

    def get(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Wait for the acknowledgement and return the RecordMetadata. Raises Timeout, or the record's error.
        `timeout_ms` None waits without limit."""
        raise NotImplementedError

    def result(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Wait for the acknowledgement as `get` does; the name is that of concurrent.futures."""
        return self.get(timeout_ms)

    def exception(self) -> Exception | None:
        """The error of a failed record; None when it was acknowledged or is not completed. Does not wait."""
        raise NotImplementedError

    def metadata(self) -> RecordMetadata:
        """The RecordMetadata known so far, without waiting. Its offset is -1 until the acknowledgement, after an error,
        and when unknown."""
        raise NotImplementedError


class BatchFuture(RecordFuture):
    """The future of a record of a batch, by its index in the batch."""

    __slots__ = ("_result", "_index", "_timestamp", "_key_size", "_value_size", "_next")

    def __init__(
        self, result: ProduceRequestResult, index: int, timestamp: int, key_size: int, value_size: int
    ) -> None:
        self._result = result
        self._index = index
        self._timestamp = timestamp
        self._key_size = key_size
        self._value_size = value_size
        self._next: BatchFuture | None = None

    def chain(self, result: ProduceRequestResult, index: int) -> BatchFuture:
        """Follow a record into a smaller batch after a split; return the new last future of the chain."""
        if self._next is not None:
            return self._next.chain(result, index)
        self._next = BatchFuture(result, index, self._timestamp, self._key_size, self._value_size)
        return self._next

    def done(self) -> bool:
        """Return whether the record was acknowledged or failed."""
        return self._result.is_done if self._next is None else self._next.done()

    def get(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Wait for the acknowledgement and return the RecordMetadata. Raises Timeout, or the record's error.
        `timeout_ms` None waits without limit; after a split the time starts again."""
        if not self._result.wait(timeout_ms):
            raise Timeout(f"Timeout after waiting for {timeout_ms} ms.")
        if self._next is not None:
            return self._next.get(timeout_ms)
        error = self._result.error_at(self._index)
        if error is not None:
            raise error
        return self.metadata()

    def exception(self) -> Exception | None:
        """The error of a failed record; None when it was acknowledged or is not completed. Does not wait."""
        if self._next is not None:
            return self._next.exception()
        return self._result.error_at(self._index)

    def metadata(self) -> RecordMetadata:
        """The RecordMetadata known so far, without waiting. Its offset is -1 until the acknowledgement, after an error,
        and when unknown."""
        result = self._result
        offset = NO_OFFSET if result.base_offset == NO_OFFSET else result.base_offset + self._index
        timestamp = result.log_append_time if result.log_append_time != NO_TIMESTAMP else self._timestamp
        return RecordMetadata(*result.topic_partition, offset, timestamp, self._key_size, self._value_size)


class FailedFuture(BatchFuture):
    """The future of a record that failed before it reached the accumulator (Kafka's FutureFailure)."""

    __slots__ = ()

    def __init__(self, topic_partition: TopicPartition, error: Exception) -> None:
        result = ProduceRequestResult(topic_partition)
        result.set(NO_OFFSET, NO_TIMESTAMP, BatchError(error))
        result.done()
        super().__init__(result, 0, NO_TIMESTAMP, -1, -1)


class ColumnsFuture:
    """The future of rows that were sent as columns. Its result is a list of RowsRun: rows with consecutive offsets, or
    rows that failed with one error. The sender's thread adds them, or the caller's for rows that fail at once; each row
    is in exactly one."""

    __slots__ = ("count", "_runs", "_pending", "_lock", "_event")

    def __init__(self, count: int) -> None:
        self.count = count
        self._runs: list[RowsRun] = []
        self._pending = count
        self._lock = threading.Lock()
        self._event = threading.Event()
        if count == 0:
            self._event.set()

    def add(self, run: RowsRun) -> None:
        """Add a run of rows that were acknowledged or failed."""
        with self._lock:
            self._runs.append(run)
            self._pending -= len(run.rows)
            finished = self._pending == 0
        if finished:
            self._event.set()

    def done(self) -> bool:
        """Return whether every row was acknowledged or failed."""
        return self._event.is_set()

    def get(self, timeout_ms: int | None = None) -> list[RowsRun]:
        """Wait until every row is acknowledged or failed and return the runs; a failed run has an error. Raises
        Timeout; `timeout_ms` None waits without limit."""
        if not self._event.wait(None if timeout_ms is None else timeout_ms / 1000):
            raise Timeout(f"Timeout after waiting for {timeout_ms} ms.")
        return self._runs

    def result(self, timeout_ms: int | None = None) -> list[RowsRun]:
        """Wait as `get` does and return the runs if every row was acknowledged. Raises Timeout; the error, when all
        rows failed with the same one; else PartialFailure. Its `results` are the acknowledged runs, its `errors` the
        errors by row number."""
        runs = self.get(timeout_ms)
        failed = [run for run in runs if run.error is not None]
        if not failed:
            return runs
        first = failed[0].error
        assert first is not None
        if len(failed) == len(runs) and all(run.error is first for run in failed):
            raise first
        errors = {row: run.error for run in failed for row in run.rows if run.error is not None}
        message = f"{len(errors)} of {self.count} records failed, the first with: {first}"
        raise PartialFailure(message, [run for run in runs if run.error is None], errors)

    @property
    def failed_count(self) -> int:
        """The number of rows that have failed so far."""
        with self._lock:
            return sum(len(run.rows) for run in self._runs if run.error is not None)
