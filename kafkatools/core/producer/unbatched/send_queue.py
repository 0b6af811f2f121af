"""SendQueue: plain records that threads send one by one, collected until a batch takes them together.

Strategy: an append for each record, with its locks and checks, costs ten times a row of columns. So `send` only adds a
record to the collection of its topic. The collection is appended when it is full, with each turn of the sender, and
before whatever must come after its records: another kind of send to the topic, flush, close.

Callbacks run without the lock, since they may send and close: what fails while it is held is completed after its
release (`_locked`).

`lock` guards the outbox and may be held while the accumulator's locks are taken, never the other way round. A thread
that needs memory releases it and waits for `_has_progressed`, which the sender's turn notifies.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from kafkatools.core.errors import IllegalState, KafkaError, Timeout
from kafkatools.core.producer._collect_kernel import OpenRows, RowFuture
from kafkatools.core.producer.futures import (
    NO_OFFSET,
    NO_TIMESTAMP,
    ColumnsFuture,
    RecordFuture,
    RecordMetadata,
    RowsRun,
    offset_at,
)
from kafkatools.core.producer.partitioners import UNKNOWN_PARTITION
from kafkatools.core.producer.producer_batch import Callback, Payload, RowsSink, ends_the_program
from kafkatools.core.producer.unbatched.outbox import Outbox, Outgoing

if TYPE_CHECKING:
    from kafkatools.core.clock import Clock
    from kafkatools.core.net.metadata import ClusterView

_log = logging.getLogger(__name__)

Result = TypeVar("Result")

_first_wait = threading.Lock()
"""Held while a thread makes the condition of the records for whose results it waits; most have none."""


class QueuedRecords(Outgoing):
    """Records of one topic with their callbacks and, once known, their results."""

    __slots__ = ("_runs", "_has_result", "_complete")

    def __init__(self, topic: str, partition: int | None, room_bytes: int, complete: Completing) -> None:
        super().__init__(topic, partition, room_bytes)
        self._complete = complete
        self._runs: list[RowsRun] = []
        self._has_result: threading.Condition | None = None

    def sink(self) -> RowsSink:
        """Return the receiver of the results of all records."""
        return RowsSink(_Results(self, self._complete), None, range(self.count))

    def complete(self, run: RowsRun) -> None:
        """Take the results of a run of records: call their callbacks, then wake the threads that wait for them, also
        after Ctrl-C in a callback."""
        try:
            if self.callbacks:
                self._call_all(run)
        finally:
            self._take(run)

    def _call_all(self, run: RowsRun) -> None:
        for position, row in enumerate(run.rows):
            callback = self.callbacks.pop(row, None)
            if callback is not None:
                self._call(callback, self.metadata(row, run, offset_at(run, position)), run.error)

    def _take(self, run: RowsRun) -> None:
        # The sender adds the run, then looks for waiting threads; these announce themselves, then look for the run.
        self._runs.append(run)
        condition = self._has_result
        if condition is not None:
            with condition:
                condition.notify_all()

    def _call(self, callback: Callback, metadata: RecordMetadata, error: Exception | None) -> None:
        try:
            callback(metadata, error)
        except BaseException as problem:  # noqa: BLE001 - a caller's callback must not end the sender's thread
            if ends_the_program(problem):
                raise
            _log.error(
                "Error executing user-provided callback on message for topic-partition '%s-%s'",
                metadata.topic,
                metadata.partition,
                exc_info=True,
            )

    def run_of(self, row: int) -> RowsRun | None:
        """Return the run with the result of a record, None before it is acknowledged or failed."""
        return next((run for run in self._runs if row in run.rows), None)

    def await_run(self, row: int, timeout_ms: int | None) -> RowsRun | None:
        """Return the run with the result of a record, None when the time is up."""
        run = self.run_of(row)
        if run is None:
            with _first_wait:
                condition = self._has_result = self._has_result or threading.Condition()
            with condition:
                condition.wait_for(
                    lambda: self.run_of(row) is not None, None if timeout_ms is None else timeout_ms / 1000
                )
            run = self.run_of(row)
        return run


class _Results(ColumnsFuture):
    """The results of QueuedRecords, as the batches report them."""

    __slots__ = ("_records", "_complete")

    def __init__(self, records: QueuedRecords, complete: Completing) -> None:
        super().__init__(records.count)
        self._records = records
        self._complete = complete

    def add(self, run: RowsRun) -> None:
        """Pass the results of a run on."""
        self._complete(self._records, run)


Completing = Callable[[QueuedRecords, RowsRun], None]


class QueuedFuture(RowFuture, RecordFuture):
    """The future of a record of a SendQueue."""

    __slots__ = ()
    records: QueuedRecords

    def done(self) -> bool:
        """Return whether the record was acknowledged or failed."""
        return self.records.run_of(self.row) is not None

    def get(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Wait for the acknowledgement and return the RecordMetadata. Raises Timeout, or the record's error.
        `timeout_ms` None waits without limit."""
        run = self.records.await_run(self.row, timeout_ms)
        if run is None:
            raise Timeout(f"Timeout after waiting for {timeout_ms} ms.")
        if run.error is not None:
            raise run.error
        return self._metadata_of(run)

    def exception(self) -> Exception | None:
        """The error of a failed record; None when it was acknowledged or is not completed. Does not wait."""
        run = self.records.run_of(self.row)
        return None if run is None else run.error

    def metadata(self) -> RecordMetadata:
        """The RecordMetadata known so far, without waiting. Offset and partition are -1 until the acknowledgement, the
        partition unless the caller chose it; the offset stays -1 after an error and when unknown."""
        run = self.records.run_of(self.row)
        if run is None:
            partition = self.records.partition
            place = self.records.topic, UNKNOWN_PARTITION if partition is None else partition
            run = RowsRun(*place, (self.row,), NO_OFFSET, NO_TIMESTAMP, None)
        return self._metadata_of(run)

    def _metadata_of(self, run: RowsRun) -> RecordMetadata:
        return self.records.metadata(self.row, run, offset_at(run, run.rows.index(self.row)))


class SendQueue(OpenRows):
    """The plain records of a producer that are in no batch so far. `room_bytes`: the size of a collection. Keys and
    values that are smaller need no check of the record's size."""

    def __init__(self, outbox: Outbox[QueuedRecords], clock: Clock, room_bytes: int) -> None:
        super().__init__(outbox.collected, threading.Lock(), QueuedFuture)
        self._room_bytes = room_bytes
        self.is_closed = False
        self._outbox = outbox
        self._clock = clock
        self._has_progressed = threading.Condition(self.lock)
        self._waiting = 0
        self._owner: int | None = None  # the thread that holds the lock
        self._late: list[tuple[QueuedRecords, RowsRun]] = []

    def _locked(self, call: Callable[[], Result]) -> Result:
        """Return the result of a call that holds the lock, and complete afterwards the records that failed meanwhile.

        A generator as context manager would keep the lock after Ctrl-C between its `yield` and the block, for as long
        as the traceback lives, and `close` would wait for ever.
        """
        late: list[tuple[QueuedRecords, RowsRun]] = []
        try:
            with self.lock:
                self._owner = threading.get_ident()
                try:
                    return call()
                finally:
                    self._owner = None
                    late, self._late = self._late, []
        finally:
            with ExitStack() as stack:  # completes all, also after Ctrl-C in a callback
                for records, run in reversed(late):
                    stack.callback(records.complete, run)

    def _complete(self, records: QueuedRecords, run: RowsRun) -> None:
        """Complete a run of records, later if this thread holds the lock."""
        if self._owner == threading.get_ident():
            self._late.append((records, run))
        else:
            records.complete(run)

    def collect(self, now_ms: int) -> int | None:
        """Append all records to batches, as far as there is memory; return the ms until an append that waits for memory
        fails, None when none waits. The sender calls it in each turn."""
        return self._locked(lambda: self._collect_locked(now_ms)) if self._outbox else None

    def _collect_locked(self, now_ms: int) -> int | None:
        self._outbox.append_all(now_ms)
        if self._waiting:
            self._has_progressed.notify_all()
        return self._outbox.delay_ms(now_ms)

    def begin(
        self, topic: str, partition: int | None, payload: Payload, callback: Callback | None, cluster: ClusterView
    ) -> QueuedFuture:
        """Add a record to a new collection of its topic, after the append of the last one. Waits for memory while that
        append does, which fails after max.block.ms. `cluster`: metadata that has the topic. Raises IllegalState after
        `close`."""
        size_bytes = len(payload.key or b"") + len(payload.value or b"")

        def add() -> QueuedFuture:
            records = self._records_locked(topic, partition, size_bytes, cluster)
            row = records.add(payload.key, payload.value, payload.timestamp)
            if callback is not None:
                records.callbacks[row] = callback
            return QueuedFuture(records, row)

        return self._locked(add)

    def _records_locked(
        self, topic: str, partition: int | None, size_bytes: int, cluster: ClusterView
    ) -> QueuedRecords:
        records = self._outbox.outgoing(topic, partition)
        if records is not None and records.room_bytes <= size_bytes:
            records = None  # else the room would be used up, and the next record comes here again
        while records is None:
            self._outbox.append_topic(topic, self._clock.now_ms())
            self._await_memory_locked()
            if self.is_closed:
                raise IllegalState("Cannot perform operation after producer has been closed")
            if topic not in self.collected:  # another thread may have begun one during the wait
                opened = QueuedRecords(topic, partition, self._room_bytes, self._complete)
                self._outbox.open(opened, self._clock.now_ms(), cluster)
            records = self._outbox.outgoing(topic, partition)
        return records

    def end(self, topic: str) -> None:
        """Append the records of a topic, waiting for memory as `begin`."""
        if self._outbox:
            self._locked(lambda: self._end_locked(topic))

    def _end_locked(self, topic: str) -> None:
        self._outbox.append_topic(topic, self._clock.now_ms())
        self._await_memory_locked()

    def empty(self, limit_ms: int | None = None) -> None:
        """Append the records that are there to batches, waiting at most `limit_ms` for memory (None: as long as
        max.block.ms lets appends wait). Records that other threads add meanwhile are not waited for."""
        if self._outbox:
            self._locked(lambda: self._empty_locked(limit_ms))

    def _empty_locked(self, limit_ms: int | None) -> None:
        self._outbox.append_all(self._clock.now_ms())
        begun = self._outbox.begun
        self._await_progress_locked(lambda: self._outbox.ended < begun, limit_ms)

    def _await_memory_locked(self) -> None:
        self._await_progress_locked(lambda: self._outbox.is_blocked, None)

    def _await_progress_locked(self, is_waiting: Callable[[], bool], limit_ms: int | None) -> None:
        deadline_ms = None if limit_ms is None else self._clock.now_ms() + limit_ms
        while is_waiting():
            now_ms = self._clock.now_ms()
            delay_ms = self._outbox.delay_ms(now_ms) or 1
            if deadline_ms is not None:
                if now_ms >= deadline_ms:
                    return
                delay_ms = min(delay_ms, deadline_ms - now_ms)
            self._waiting += 1
            try:
                self._has_progressed.wait(delay_ms / 1000)
            finally:
                self._waiting -= 1
                self._owner = threading.get_ident()
            self._outbox.advance(self._clock.now_ms())

    def close(self, limit_ms: int | None) -> None:
        """Refuse further records, and append those that are there, waiting at most `limit_ms`."""
        with self.lock:
            self.is_closed = True
        self.empty(limit_ms)

    def fail(self, error: KafkaError) -> None:
        """Fail the records that are in no batch."""
        self._locked(lambda: self._fail_locked(error))

    def _fail_locked(self, error: KafkaError) -> None:
        self._outbox.fail(error)
        self._has_progressed.notify_all()
