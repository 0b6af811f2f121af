"""Outbox: records that were sent one by one and are appended to batches together.

Rules: the records of one topic are collected as columns and appended by the kernel, which costs a fraction of an append
for each record. Their order stays. An append that needs memory never waits: it continues with a later `advance`, and
meanwhile no record may be added (`is_blocked`). What is in the outbox is sent, also if nobody waits for it. The
metadata may lose a topic between `open` and the append, for example when the client returns to its bootstrap servers.
The partitions of its records are then those of the metadata at `open`: without a partition count all keys would share
one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from kafkatools.core.errors import KafkaError
from kafkatools.core.producer._collect_kernel import RecordRows
from kafkatools.core.producer.buffer_pool import BufferPool
from kafkatools.core.producer.futures import NO_OFFSET, NO_TIMESTAMP, RecordMetadata, RowsRun
from kafkatools.core.records.columns import NO_HEADERS, RowColumns, encode_headers

if TYPE_CHECKING:
    from kafkatools.core.net.metadata import ClusterView
    from kafkatools.core.producer.producer_batch import RowsSink
    from kafkatools.core.producer.producer_record import Headers

MOST_BYTES = 1 << 16
"""The bytes of records that are collected at most, their overhead included."""

Filling = Generator[int, bytearray, None]


class Sent(NamedTuple):
    """The time at which rows were sent, in ms, and the cluster metadata then, which had their topic."""

    time_ms: int
    cluster: ClusterView


class Outgoing(RecordRows):
    """Records of one topic, with their headers, and what remains of them after `take_rows`. `sent`: when the collection
    was opened."""

    __slots__ = ("sent", "_headers", "_is_taken")

    def __init__(self, topic: str, partition: int | None, room_bytes: int = MOST_BYTES) -> None:
        super().__init__(topic, partition, room_bytes)
        self.sent: Sent | None = None
        self._headers: dict[int, Headers] = {}
        self._is_taken = False

    def add(self, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers = ()) -> int:
        """Add a serialized record and return its row. `timestamp` in ms since 1970."""
        row = self.append(key, value, timestamp)
        if headers:
            self._headers[row] = headers
        return row

    def take_rows(self) -> RowColumns:
        """Return the records as columns, and keep only their sizes and timestamps. No record may be added later."""
        headers = None
        if self._headers:
            encoded = {row: encode_headers(headers) for row, headers in self._headers.items()}
            headers = [encoded.get(row, NO_HEADERS) for row in range(self.count)]
        has_keys = len(self.key_lengths) > 0
        rows = RowColumns(
            self.data,
            self.value_positions,
            self.value_lengths,
            self.key_positions if has_keys else None,
            self.key_lengths if has_keys else None,
            self.timestamps,
            headers,
        )
        self.data, self._headers, self._is_taken = bytearray(), {}, True
        return rows

    def metadata(self, row: int, run: RowsRun, offset: int) -> RecordMetadata:
        """Return the RecordMetadata of a record of a run; its sizes are -1 if it failed before `take_rows`."""
        timestamp, key_bytes, value_bytes = run.timestamp, -1, -1
        if self._is_taken:
            timestamp = self.timestamps[row] if timestamp == NO_TIMESTAMP else timestamp
            key_bytes = self.key_lengths[row] if self.key_lengths else -1
            value_bytes = self.value_lengths[row]
        fields = run.topic, run.partition, offset, timestamp, key_bytes, value_bytes
        return tuple.__new__(RecordMetadata, fields)  # half the time of RecordMetadata(...)

    def sink(self) -> RowsSink:
        """Return the receiver of the results of all records."""
        raise NotImplementedError


class Appending(Protocol):
    """`append(topic, rows, partition, sink, sent)` returns the steps that append rows to batches. The delivery timeout
    of the rows counts from `sent`, None for the time of the append."""

    def __call__(
        self, topic: str, rows: RowColumns, partition: int | None, sink: RowsSink, sent: Sent | None
    ) -> Filling: ...


class _Started:
    """The append of rows that has begun: it needs `size_bytes` of memory to continue, until `deadline_ms`."""

    def __init__(self, steps: Filling, deadline_ms: int) -> None:
        self.steps = steps
        self.deadline_ms = deadline_ms
        self.size_bytes: int | None = None


Collected = TypeVar("Collected", bound=Outgoing)


class Outbox(Generic[Collected]):
    """The records of all topics that are in no batch so far. `collected` by topic: the records that wait for the next
    append, to which others may be added. `begun` and `ended`: the numbers of appends, which end in their order. So
    the appends up to now have ended once `ended` reaches the present `begun`."""

    def __init__(self, pool: BufferPool, append: Appending, max_block_ms: int) -> None:
        self._pool = pool
        self._append = append
        self._max_block_ms = max_block_ms
        self.collected: dict[str, Collected] = {}
        self._started: deque[_Started] = deque()
        self._is_taking = False
        self.begun = 0

    def __bool__(self) -> bool:
        # A thread may ask without the lock, while another one moves records from `collected` to `_started`. In this
        # order at least one of the three shows them.
        return bool(self.collected or self._is_taking or self._started)

    @property
    def ended(self) -> int:
        """The number of appends that have ended."""
        return self.begun - len(self._started)

    @property
    def is_blocked(self) -> bool:
        """Return whether records wait for memory, so that no others may be added."""
        return bool(self._started)

    def outgoing(self, topic: str, partition: int | None) -> Collected | None:
        """The collection to which a record may be added; None when a new one is needed, or memory."""
        found = self.collected.get(topic)
        if found is None or found.partition != partition or found.room_bytes <= 0 or self._started:
            return None
        return found

    def open(self, outgoing: Collected, now_ms: int, cluster: ClusterView) -> None:
        """Begin a new collection, after the append of the topic's last one. `cluster`: metadata that has the topic."""
        self.append_topic(outgoing.topic, now_ms)
        outgoing.sent = Sent(now_ms, cluster)
        self.collected[outgoing.topic] = outgoing

    def append_topic(self, topic: str, now_ms: int) -> None:
        """Append the collected records of a topic to batches, as far as there is memory."""
        if topic not in self.collected:
            return
        self._is_taking = True
        try:
            self._take(self.collected.pop(topic), now_ms)
        finally:
            self._is_taking = False
        self.advance(now_ms)

    def _take(self, outgoing: Collected, now_ms: int) -> None:
        try:
            rows = outgoing.take_rows()
        except Exception as error:  # noqa: BLE001 - nobody else has the records, so their futures would never complete
            _fail(outgoing, error)
            return
        self._begin(self._append(outgoing.topic, rows, outgoing.partition, outgoing.sink(), outgoing.sent), now_ms)

    def _begin(self, steps: Filling, now_ms: int) -> None:
        self._started.append(_Started(steps, now_ms + self._max_block_ms))
        self.begun += 1

    def append_all(self, now_ms: int) -> None:
        """Append all collected records to batches, as far as there is memory."""
        for topic in list(self.collected):
            self.append_topic(topic, now_ms)
        self.advance(now_ms)

    def start(self, topic: str, rows: RowColumns, partition: int | None, sink: RowsSink, now_ms: int) -> None:
        """Append rows to batches, as far as there is memory."""
        self._begin(self._append(topic, rows, partition, sink, None), now_ms)
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
                    started.size_bytes = steps.throw(self._pool.exhausted(size_bytes, self._max_block_ms))
                else:
                    return False
        except StopIteration:
            return True

    def delay_ms(self, now_ms: int) -> int | None:
        """Milliseconds until an append that waits for memory fails; None when none waits."""
        return max(0, self._started[0].deadline_ms - now_ms) if self._started else None

    def fail(self, error: KafkaError) -> None:
        """Fail all records that are not in a batch."""
        while self.collected:
            _fail(self.collected.popitem()[1], error)
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


def _fail(outgoing: Outgoing, error: Exception) -> None:
    """Fail the records of a collection that is no longer open."""
    sink = outgoing.sink()
    partition = -1 if outgoing.partition is None else outgoing.partition
    sink.future.add(RowsRun(outgoing.topic, partition, sink.rows, NO_OFFSET, NO_TIMESTAMP, error))
