"""ProducerBatch: the records of one batch with their futures and callbacks (Kafka's ProducerBatch).

Rules:
- A batch reaches at most one of the final states ABORTED, FAILED and SUCCEEDED; a split batch reaches none. A response
  after ABORTED or FAILED is only logged.
- A thunk holds the callback and future of a record, or of a run of rows. The sender's thread completes it outside all
  locks.
- While `is_inflight`, a request may read the batch's memory, even if the batch has expired. The memory must not return
  to the pool, or other records would be sent in its place.
- A split moves the thunks to the smaller batches in order; their sequence numbers stay continuous, and they take no
  further records.

The accumulator's lock guards appends; the rest belongs to the sender's thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, unique
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from kafkatools.core.errors import IllegalState, RecordTooLarge
from kafkatools.core.producer.futures import (
    NO_OFFSET,
    NO_TIMESTAMP,
    BatchError,
    BatchFuture,
    ColumnsFuture,
    ProduceRequestResult,
    RecordFuture,
    RecordMetadata,
    RowsRun,
    TopicPartition,
)
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import name_bytes
from kafkatools.core.records.layout import HEADER_SIZE

if TYPE_CHECKING:
    from kafkatools.core.producer.producer_record import EncodableHeaders
    from kafkatools.core.records.columns import RowColumns

_log = logging.getLogger(__name__)

NO_SEQUENCE = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1

Callback = Callable[[RecordMetadata, "Exception | None"], None]
RowsCallback = Callable[[RowsRun], None]


@unique
class FinalState(Enum):
    """The final states of a producer batch."""

    ABORTED = "aborted"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


class Payload(NamedTuple):
    """A serialized record without topic and partition; timestamp in ms since 1970."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: EncodableHeaders


class RowsSink(NamedTuple):
    """The future and callback of rows; `rows` are the row numbers that the caller uses."""

    future: ColumnsFuture
    callback: RowsCallback | None
    rows: Sequence[int]


class RecordThunk:
    """The future and callback of one record in a batch."""

    __slots__ = ("future", "callback")
    count: ClassVar[int] = 1

    def __init__(self, future: BatchFuture, callback: Callback | None) -> None:
        self.future = future
        self.callback = callback

    def complete(self, result: ProduceRequestResult, first_index: int) -> None:
        """Call the record's callback, if it has one, with its RecordMetadata and its error (None for success)."""
        if self.callback is not None:
            self.callback(self.future.metadata(), result.error_at(first_index))

    def move(self, result: ProduceRequestResult, start: int, stop: int, index: int) -> RecordThunk:
        """The record's thunk in a smaller batch, with its future chained to that batch's result."""
        return RecordThunk(self.future.chain(result, index), self.callback)


class RowsThunk:
    """The future and callback of a run of rows in a batch."""

    __slots__ = ("sink", "count")

    def __init__(self, sink: RowsSink) -> None:
        self.sink = sink
        self.count = len(sink.rows)

    def complete(self, result: ProduceRequestResult, first_index: int) -> None:
        """Report the rows to callback and future: as one run, or row by row when some rows have errors of their own."""
        if result.error is None or not result.error.by_index:
            self._report(result, 0, self.count, first_index)
            return
        for row in range(self.count):
            self._report(result, row, row + 1, first_index + row)

    def _report(self, result: ProduceRequestResult, start: int, stop: int, index: int) -> None:
        base_offset = NO_OFFSET if result.base_offset == NO_OFFSET else result.base_offset + index
        run = RowsRun(
            *result.topic_partition,
            self.sink.rows[start:stop],
            base_offset,
            result.log_append_time,
            result.error_at(index),
        )
        try:
            if self.sink.callback is not None:
                self.sink.callback(run)
        finally:
            self.sink.future.add(run)

    def move(self, result: ProduceRequestResult, start: int, stop: int, index: int) -> RowsThunk:
        """A thunk for the rows start..stop that move to a smaller batch."""
        return RowsThunk(self.sink._replace(rows=self.sink.rows[start:stop]))


Thunk = RecordThunk | RowsThunk


def ends_the_program(error: BaseException) -> bool:
    """Return whether a callback's exception ends the program: Ctrl-C or SystemExit on the main thread. On the sender's
    thread `sys.exit` would end only that thread, and all other records would wait for ever."""
    return not isinstance(error, Exception) and threading.current_thread() is threading.main_thread()


class ProducerBatch:
    """A batch of one partition: open for appends, queued, in flight, split or completed."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        builder: BatchBuilder,
        now_ms: int,
        buffer: bytearray | None = None,
        is_split: bool = False,
    ) -> None:
        self.topic_partition = topic_partition
        self.builder = builder
        self.buffer = buffer
        self.is_split = is_split
        self.drained_ms = 0
        self.attempts = 0
        self.backoff_ms = 0
        self.is_inflight = False
        self.is_deallocated = False
        self.max_record_bytes = 0
        self.final_state: FinalState | None = None
        self.thunks: list[Thunk] = []
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.sequence_has_been_reset = False
        self._reopened = False
        self._records: memoryview | bytes | None = None
        self._closed_for_appends = False
        self._leader_epoch: int | None = None
        self._attempts_when_leader_changed = -1
        self.created_ms = now_ms
        self.last_append_ms = now_ms
        self.last_attempt_ms = now_ms
        self.produce_future = ProduceRequestResult(self.topic_partition)

    def __repr__(self) -> str:
        return f"ProducerBatch({self.topic_partition}, {self.record_count} records, sequence {self.base_sequence})"

    # -- appending (under the accumulator's lock) --

    @property
    def record_count(self) -> int:
        return self.builder.record_count

    def try_append(self, payload: Payload, callback: Callback | None, now_ms: int) -> RecordFuture | None:
        """Append a record and return its future; None when the batch has no room or is closed for appends."""
        timestamp, key, value, headers = payload
        size = record_size_upper_bound(payload)
        builder = self.builder
        if self._closed_for_appends or not builder.has_room_for(size):
            return None
        index = builder.append(timestamp, key, value, headers)
        self.max_record_bytes = max(self.max_record_bytes, size)
        self.last_append_ms = now_ms
        future = BatchFuture(
            self.produce_future, index, timestamp, -1 if key is None else len(key), -1 if value is None else len(value)
        )
        self.thunks.append(RecordThunk(future, callback))
        return future

    def try_append_rows(
        self, columns: RowColumns, span: tuple[int, int], sink: RowsSink, now_ms: int, wall_ms: int
    ) -> int:
        """Append as many rows of a (start, stop) span as fit and return their number; 0 when none fits or the batch is
        closed for appends. `wall_ms`: the timestamp of rows without one. If only a part fits, the batch refuses further
        appends."""
        start, stop = span
        if self._closed_for_appends:
            return 0
        count = self.builder.append_columns(columns, start, stop, wall_ms)
        if count > 0:
            self.last_append_ms = now_ms
            self.thunks.append(RowsThunk(sink._replace(rows=sink.rows[start : start + count])))
            if count < stop - start:
                self._closed_for_appends = True
        return count

    def close_for_appends(self) -> None:
        """Refuse further records: the batch counts as full."""
        self._closed_for_appends = True

    @property
    def is_full(self) -> bool:
        return self._closed_for_appends or self.builder.is_full

    @property
    def estimated_size_bytes(self) -> int:
        """The size in bytes: exact once the batch is closed, before that an estimate after compression."""
        return len(self._records) if self._records is not None else self.builder.estimated_size_bytes

    # -- producer state --

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; 0 follows 2147483647."""
        return (self.base_sequence + self.record_count - 1) & 0x7FFFFFFF

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> None:
        """Set the producer id, epoch and sequence number of a batch that is not encoded yet."""
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence
        self.builder.set_producer_state(producer_id, producer_epoch, base_sequence, is_transactional)

    def reset_producer_state(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Replace the producer id, epoch and sequence number that a batch has already; the next `close` rewrites its
        header. Until then `sequence_has_been_reset`: the response to come is about the sequence before."""
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence
        self.sequence_has_been_reset = True
        self._reopened = True

    # -- sending --

    def close(self, is_transactional: bool = False) -> None:
        """Encode the batch: write the header, compress the records, compute the CRC. No effect on an encoded batch,
        except that after `reset_producer_state` its header and CRC are rewritten."""
        if self._records is not None and not self._reopened:
            return
        if self._reopened:
            state = (self.producer_id, self.producer_epoch, self.base_sequence, is_transactional)
            if self._records is None:
                self.builder.set_producer_state(*state)
            else:
                self.builder.reopen_and_rewrite_producer_state(*state)
        self._reopened = self.sequence_has_been_reset = False
        self._closed_for_appends = True
        self._records = self.builder.close()

    def records(self) -> memoryview | bytes:
        """The encoded batch for the Produce request. Raises IllegalState before `close`."""
        if self._records is None:
            raise IllegalState(f"{self} is not closed")
        return self._records

    def drained(self, now_ms: int) -> None:
        """Record the time at which the batch was drained from its queue."""
        self.drained_ms = max(self.drained_ms, now_ms)

    def reenqueued(self, now_ms: int) -> None:
        """Count a failed attempt, before the batch is put back into its queue."""
        self.attempts += 1
        self.last_attempt_ms = max(self.last_append_ms, now_ms)
        self.last_append_ms = max(self.last_append_ms, now_ms)

    def waited_ms(self, now_ms: int) -> int:
        """Milliseconds since the last failed attempt to send the batch, or since its creation."""
        return max(0, now_ms - self.last_attempt_ms)

    def has_reached_delivery_timeout(self, delivery_timeout_ms: int, now_ms: int) -> bool:
        return now_ms - self.created_ms >= delivery_timeout_ms

    def maybe_update_leader_epoch(self, leader_epoch: int | None) -> None:
        """Record a newer leader epoch, so that a retry with the new leader needs no back-off (KIP-951)."""
        if leader_epoch is not None and (self._leader_epoch is None or self._leader_epoch < leader_epoch):
            self._leader_epoch = leader_epoch
            self._attempts_when_leader_changed = self.attempts

    @property
    def has_leader_changed(self) -> bool:
        """Return whether the leader has changed since the last attempt of a batch in retry."""
        return self.attempts >= 1 and self.attempts == self._attempts_when_leader_changed

    # -- the end --

    @property
    def is_done(self) -> bool:
        return self.final_state is not None

    def complete(self, base_offset: int, log_append_time: int) -> bool:
        """Complete the batch with its offset and append time and run the callbacks; False when the batch had failed or
        expired before. Raises IllegalState when it was completed with success before."""
        return self._finish(FinalState.SUCCEEDED, base_offset, log_append_time, None)

    def complete_exceptionally(self, error: BatchError) -> bool:
        """Fail the batch and run the callbacks; False when it had failed or expired before. Raises IllegalState after
        success."""
        return self._finish(FinalState.FAILED, NO_OFFSET, NO_TIMESTAMP, error)

    def abort(self, error: Exception) -> None:
        """Fail the batch without a response of the broker and run the callbacks. Raises IllegalState when it was
        completed before."""
        if self.is_done:
            raise IllegalState(f"Batch has already been completed in final state {self.final_state}")
        self._finish(FinalState.ABORTED, NO_OFFSET, NO_TIMESTAMP, BatchError(error))

    def _finish(self, state: FinalState, base_offset: int, log_append_time: int, error: BatchError | None) -> bool:
        if self.final_state is None:
            self.final_state = state
            self._complete_future_and_fire_callbacks(base_offset, log_append_time, error)
            return True
        if self.final_state is FinalState.SUCCEEDED:
            raise IllegalState(
                f"A {self.final_state.value} batch must not attempt another state change to {state.value}"
            )
        _log.debug("Ignored state transition %s -> %s of %s at offset %d", self.final_state, state, self, base_offset)
        return False

    def _complete_future_and_fire_callbacks(
        self, base_offset: int, log_append_time: int, error: BatchError | None
    ) -> None:
        result = self.produce_future
        result.set(base_offset, log_append_time, error)
        index = 0
        for thunk in self.thunks:
            try:
                thunk.complete(result, index)
            except BaseException as error:  # noqa: BLE001 - a caller's callback must not end the sender's thread
                if ends_the_program(error):
                    raise
                _log.error(
                    "Error executing user-provided callback on message for topic-partition '%s'",
                    self.topic_partition,
                    exc_info=True,
                )
            index += thunk.count
        result.done()

    # -- splitting --

    def split(self, split_batch_bytes: int, make_builder: Callable[[int], BatchBuilder]) -> deque[ProducerBatch]:
        """Split an encoded batch into smaller ones of about `split_batch_bytes` and move the thunks to them. Returns
        the new batches: at least two, unless the batch has one record.

        Kafka splits by size alone and may get the same batch again, endlessly; here a split without effect halves the
        number of records.
        """
        batches = self._split_records(split_batch_bytes, self.record_count, make_builder)
        if len(batches) == 1 and self.record_count > 1:
            batches = self._split_records(split_batch_bytes, (self.record_count + 1) // 2, make_builder)
        self._hand_over_thunks(batches)
        for batch in batches:
            # A record that joined a part would get a sequence number that the next batch has too. The broker would
            # take the later one of the two for a duplicate and acknowledge it without writing it.
            batch.close_for_appends()
            self.produce_future.add_dependent(batch.produce_future)
        self.produce_future.set(NO_OFFSET, NO_TIMESTAMP, BatchError(RecordTooLarge("The batch was split")))
        self.produce_future.done()
        if self.has_sequence:
            sequence = self.base_sequence
            for batch in batches:
                batch.set_producer_state(self.producer_id, self.producer_epoch, sequence, self.builder.is_transactional)
                sequence = (sequence + batch.record_count) & 0x7FFFFFFF
        return batches

    def _split_records(
        self, size: int, max_records: int, make_builder: Callable[[int], BatchBuilder]
    ) -> deque[ProducerBatch]:
        batches: deque[ProducerBatch] = deque()
        columns = RecordBatch(self.records()).columns()
        for row, timestamp in enumerate(columns.timestamps):
            payload = Payload(timestamp, columns.key(row), columns.value(row), columns.raw_headers(row))
            record_bytes = record_size_upper_bound(payload)
            current = batches[-1] if batches else None
            if current is None or current.record_count >= max_records or not current.builder.has_room_for(record_bytes):
                builder = make_builder(max(size, batch_size_upper_bound(payload)))
                current = ProducerBatch(self.topic_partition, builder, self.created_ms, is_split=True)
                batches.append(current)
            current.builder.append(*payload)
            current.max_record_bytes = max(current.max_record_bytes, record_bytes)
        return batches

    def _hand_over_thunks(self, batches: deque[ProducerBatch]) -> None:
        queue = deque(self.thunks)
        start = 0
        for batch in batches:
            index = 0
            while index < batch.record_count:
                thunk = queue[0]
                stop = min(thunk.count, start + batch.record_count - index)
                batch.thunks.append(thunk.move(batch.produce_future, start, stop, index))
                index += stop - start
                start = stop
                if start == thunk.count:
                    queue.popleft()
                    start = 0
        self.thunks = []


MAX_RECORD_OVERHEAD = 21


def _varint_size(length: int) -> int:
    size = 1
    limit = 64
    while length >= limit:
        limit <<= 7
        size += 1
    return size


def _field_size(data: bytes | None) -> int:
    if data is None:
        return 1
    length = len(data)
    return length + (1 if length < 64 else 2 if length < 8192 else _varint_size(length))


def record_size_upper_bound(payload: Payload) -> int:
    """The maximum size in bytes of a record in a batch (DefaultRecord.recordSizeUpperBound)."""
    size = MAX_RECORD_OVERHEAD + _field_size(payload.key) + _field_size(payload.value) + 1
    return size + _headers_size(payload.headers) if payload.headers else size


def _headers_size(headers: EncodableHeaders) -> int:
    size = _varint_size(len(headers)) - 1
    for name, value in headers:
        size += _field_size(name_bytes(name)) + _field_size(value)
    return size


def batch_size_upper_bound(payload: Payload) -> int:
    """The maximum size in bytes of a batch with only this record (AbstractRecords.estimateSizeInBytesUpperBound, magic
    2)."""
    return HEADER_SIZE + record_size_upper_bound(payload)


def rows_size_upper_bound(columns: RowColumns, row: int) -> int:
    """The maximum size in bytes of a batch with only this row of the columns."""
    headers_size = 1 if columns.headers is None else len(columns.headers[row])
    size = HEADER_SIZE + MAX_RECORD_OVERHEAD + headers_size + _cell_size(columns.value_lengths[row])
    return size + (1 if columns.key_lengths is None else _cell_size(columns.key_lengths[row]))


def _cell_size(length: int) -> int:
    return 1 if length < 0 else length + _varint_size(length)


def value_size_upper_bound(length: int) -> int:
    """The maximum size in bytes of a batch with one record without key and headers, whose value has `length` bytes."""
    return HEADER_SIZE + MAX_RECORD_OVERHEAD + 1 + 1 + _cell_size(length)
