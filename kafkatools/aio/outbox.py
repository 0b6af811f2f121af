"""Outbox: the records that tasks send between two turns of the loop, appended to batches together.

Rules: the records of one topic are collected as columns and appended by the kernel, which costs a fraction of an append
for each record. Their order stays. Appending may have to wait for memory; then it continues after a later turn, and
`send` waits meanwhile (`is_blocked`). No record is lost when a task is cancelled: what is in the outbox is sent.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from kafkatools.core.errors import KafkaError, TransactionAborted
from kafkatools.core.producer.buffer_pool import BufferPool
from kafkatools.core.producer.futures import NO_OFFSET, NO_TIMESTAMP, ColumnsFuture, RecordMetadata, RowsRun
from kafkatools.core.producer.interceptors import ProducerInterceptors
from kafkatools.core.producer.producer_batch import RowsSink
from kafkatools.core.records.columns import NO_HEADERS, RowColumns, encode_headers

if TYPE_CHECKING:
    from kafkatools.core.producer.producer_record import Headers

MOST_RECORDS = 512
MOST_BYTES = 1 << 16

Filling = Generator[int, bytearray, None]


class Outgoing:
    """Records of one topic, for one partition or for the partitioner (None). `wall_ms`: the timestamp of records
    without one."""

    def __init__(self, topic: str, partition: int | None, wall_ms: int) -> None:
        self.topic = topic
        self.partition = partition
        self.wall_ms = wall_ms
        self.size_bytes = 0
        self.futures: list[asyncio.Future[RecordMetadata]] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._timestamps: dict[int, int] = {}
        self._headers: dict[int, Headers] = {}
        self._has_keys = False
        self.is_full = False
        """Whether the records should be appended before another one is added."""

    def add(
        self,
        future: asyncio.Future[RecordMetadata],
        key: bytes | None,
        value: bytes | None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Add a serialized record, whose result completes `future`."""
        futures = self.futures
        if timestamp is not None:
            self._timestamps[len(futures)] = timestamp
        if headers:
            self._headers[len(futures)] = headers
        if key is not None:
            self._has_keys = True
            self.size_bytes += len(key)
        if value is not None:
            self.size_bytes += len(value)
        self._keys.append(key)
        self._values.append(value)
        futures.append(future)
        self.is_full = len(futures) >= MOST_RECORDS or self.size_bytes >= MOST_BYTES

    def rows(self) -> RowColumns:
        """Return the records as columns."""
        rows = RowColumns.of_values(self._values, self._keys if self._has_keys else None)
        rows.timestamps = array("q", [self.wall_ms]) * rows.count
        for row, timestamp in self._timestamps.items():
            rows.timestamps[row] = timestamp
        if self._headers:
            encoded = {row: encode_headers(headers) for row, headers in self._headers.items()}
            rows.headers = [encoded.get(row, NO_HEADERS) for row in range(rows.count)]
        return rows

    def metadata(self, row: int, run: RowsRun, offset: int) -> RecordMetadata:
        """Return the RecordMetadata of a record of a run."""
        timestamp = run.timestamp
        if timestamp == NO_TIMESTAMP:
            timestamp = self._timestamps.get(row, self.wall_ms)
        key, value = self._keys[row], self._values[row]
        fields = (
            run.topic,
            run.partition,
            offset,
            timestamp,
            -1 if key is None else len(key),
            -1 if value is None else len(value),
        )
        return tuple.__new__(RecordMetadata, fields)  # half the time of RecordMetadata(...)


class Deliveries(ColumnsFuture):
    """The futures of the records of one Outgoing."""

    __slots__ = ("_outgoing", "_interceptors")

    def __init__(self, outgoing: Outgoing, interceptors: ProducerInterceptors) -> None:
        super().__init__(len(outgoing.futures))
        self._outgoing = outgoing
        self._interceptors = interceptors

    def add(self, run: RowsRun) -> None:
        """Complete the futures of records that were acknowledged or failed, except cancelled futures."""
        futures, outgoing, error, offset = self._outgoing.futures, self._outgoing, run.error, run.base_offset
        step = 0 if offset == NO_OFFSET else 1
        has_interceptors = bool(self._interceptors)
        for row in run.rows:
            future = futures[row]
            if has_interceptors:
                self._interceptors.on_acknowledgement(outgoing.metadata(row, run, offset), error)
            if not future.done():
                if error is None:
                    future.set_result(outgoing.metadata(row, run, offset))
                else:
                    future.set_exception(error)
                    if isinstance(error, TransactionAborted):
                        future.exception()  # the application's own doing: no log line when nobody awaits the record
            offset += step


class RowsDelivery(ColumnsFuture):
    """The rows of one `send_many`, which complete one future of the loop."""

    __slots__ = ("_future",)

    def __init__(self, count: int, future: asyncio.Future[list[RowsRun]]) -> None:
        super().__init__(count)
        self._future = future
        self._settle()

    def add(self, run: RowsRun) -> None:
        """Add a run of rows, and complete the future after the last one."""
        super().add(run)
        self._settle()

    def _settle(self) -> None:
        if not self.done() or self._future.done():
            return
        try:
            self._future.set_result(self.result(0))
        except Exception as error:  # noqa: BLE001 - the error of the rows, whatever it is, belongs to the future
            self._future.set_exception(error)


class _Started:
    """The append of rows that has begun: it needs `size_bytes` of memory to continue, until `deadline_ms`."""

    def __init__(self, steps: Filling, deadline_ms: int) -> None:
        self.steps = steps
        self.deadline_ms = deadline_ms
        self.size_bytes: int | None = None


class Outbox:
    """The records of all topics that are not in a batch so far. `append(topic, rows, partition, sink)` returns the
    steps that append rows to batches."""

    def __init__(
        self,
        pool: BufferPool,
        interceptors: ProducerInterceptors,
        append: Callable[[str, RowColumns, int | None, RowsSink], Filling],
        max_block_ms: int,
    ) -> None:
        self._pool = pool
        self._interceptors = interceptors
        self._append = append
        self._max_block_ms = max_block_ms
        self._open: dict[str, Outgoing] = {}
        self._started: deque[_Started] = deque()

    def __bool__(self) -> bool:
        return bool(self._open or self._started)

    @property
    def is_blocked(self) -> bool:
        """Return whether records wait for memory, so that no others may be added."""
        return bool(self._started)

    def outgoing(self, topic: str, partition: int | None) -> Outgoing | None:
        """The collection to which a record may be added; None when a new one is needed, or memory."""
        found = self._open.get(topic)
        if found is None or found.partition != partition or found.is_full or self._started:
            return None
        return found

    def open(self, topic: str, partition: int | None, now_ms: int, wall_ms: int) -> Outgoing:
        """Begin a new collection, after the append of the topic's last one."""
        self.append_topic(topic, now_ms)
        outgoing = self._open[topic] = Outgoing(topic, partition, wall_ms)
        return outgoing

    def append_topic(self, topic: str, now_ms: int) -> None:
        """Append the collected records of a topic to batches, as far as there is memory."""
        outgoing = self._open.pop(topic, None)
        if outgoing is not None:
            sink = RowsSink(Deliveries(outgoing, self._interceptors), None, range(len(outgoing.futures)))
            self.start(topic, outgoing.rows(), outgoing.partition, sink, now_ms)

    def append_all(self, now_ms: int) -> None:
        """Append all collected records to batches, as far as there is memory."""
        for topic in list(self._open):
            self.append_topic(topic, now_ms)
        self.advance(now_ms)

    def start(self, topic: str, rows: RowColumns, partition: int | None, sink: RowsSink, now_ms: int) -> None:
        """Append rows to batches, as far as there is memory."""
        steps = self._append(topic, rows, partition, sink)
        self._started.append(_Started(steps, now_ms + self._max_block_ms))
        self.advance(now_ms)

    def advance(self, now_ms: int) -> None:
        """Continue with appends that wait for memory. Rows that waited for max.block.ms fail with BufferExhausted."""
        while self._started and self._advance_first(self._started[0], now_ms):
            self._started.popleft()
        self._pool.waiting_tasks = len(self._started)  # makes every batch ready to be sent

    def _advance_first(self, started: _Started, now_ms: int) -> bool:
        """Continue one append; return whether it has ended."""
        steps = started.steps
        try:
            if started.size_bytes is None:
                started.size_bytes = next(steps)
            while True:
                size_bytes = started.size_bytes
                try:
                    buffer = self._pool.try_allocate(size_bytes)
                except KafkaError as error:
                    started.size_bytes = steps.throw(error)
                    continue
                if buffer is not None:
                    started.size_bytes = steps.send(buffer)
                elif now_ms >= started.deadline_ms:
                    available = self._pool.available_bytes
                    started.size_bytes = steps.throw(self._pool.exhausted(size_bytes, self._max_block_ms, available))
                else:
                    return False
        except StopIteration:
            return True

    def delay_ms(self, now_ms: int) -> int | None:
        """Milliseconds until an append that waits for memory fails; None when none waits."""
        return max(0, self._started[0].deadline_ms - now_ms) if self._started else None

    def fail(self, error: KafkaError) -> None:
        """Fail all records that are not in a batch."""
        for outgoing in self._open.values():
            partition = -1 if outgoing.partition is None else outgoing.partition
            run = RowsRun(outgoing.topic, partition, range(len(outgoing.futures)), NO_OFFSET, NO_TIMESTAMP, error)
            Deliveries(outgoing, self._interceptors).add(run)
        self._open.clear()
        while self._started:
            started = self._started.popleft()
            try:
                while True:
                    if started.size_bytes is None:
                        started.size_bytes = next(started.steps)
                    started.size_bytes = started.steps.throw(error)
            except StopIteration:
                continue
        self._pool.waiting_tasks = 0
