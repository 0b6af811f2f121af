"""Iteration over single records: `for record in consumer` and `consumer.read_to_end()`.

Rules: a record is consumed once it is yielded; the remaining records of its poll are pending. Commits exclude pending
records. Before any other poll, seek, change of assignment or close, the position moves back to the first pending
record. So a loop may be left at any record without losing or repeating one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from kafkatools.core.consumer.consumer_records import ConsumerRecord, ConsumerRecords
from kafkatools.core.consumer.ends import Ends, KnownEnds, Positioned
from kafkatools.core.consumer.single_thread import one_at_a_time
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import Timeout
from kafkatools.core.records._record_kernel import HeldIterator, HeldRecords

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkatools.core.clock import Clock
    from kafkatools.core.consumer.completed_fetch import FetchedColumns
    from kafkatools.core.consumer.fetcher import Fetcher

_POLL_MS = 1000
_POLL_NEAR_THE_END_MS = 50
_END_CHECK_MS = 1000


class PolledConsumer(Positioned, Protocol):
    """The methods of Consumer that its record iterators call."""

    clock: Clock

    def poll_further(self, timeout_ms: int) -> ConsumerRecords:
        """Poll without moving the position back to pending records."""

    def poll_columns(self, timeout_ms: int) -> list[FetchedColumns]:
        """Return all buffered records as columns."""

    def give_back(self) -> None:
        """Move positions back to the first records that iterators have not yielded."""

    def poll_assignment(self, timeout_ms: int) -> None:
        """Wait until partitions are assigned, without polling records."""

    def seek(self, partition: tuple[str, int], offset: int, leader_epoch: int = -1) -> None:
        """Set the position from which the next poll reads."""


class PendingRecords(HeldRecords):
    """Polled records that no iterator has yielded yet; shared by all iterators of one consumer."""

    records: list[ConsumerRecord]

    def __init__(self) -> None:
        super().__init__()
        self._held_back: dict[TopicPartition, int] = {}

    def __bool__(self) -> bool:
        return self.next_row < len(self.records) or bool(self._held_back)

    def refill(self, records: list[ConsumerRecord]) -> None:
        """Replace the stored records by those of the next poll, after `take` has returned all previous ones."""
        self.records, self.next_row = records, 0

    def hold_back(self, record: ConsumerRecord) -> None:
        """Note a record beyond the iterator's end, which the iterator will not yield; reading resumes at the first such
        record of a partition."""
        self._held_back.setdefault(TopicPartition(record.topic, record.partition), record.offset)

    def forget_revoked(self, is_assigned: Callable[[TopicPartition], bool]) -> None:
        """Forget held-back records of partitions that are no longer assigned: another member reads them, and a later
        commit must not lower that member's offsets."""
        if self._held_back:
            self._held_back = {part: offset for part, offset in self._held_back.items() if is_assigned(part)}

    if TYPE_CHECKING:

        def take(self) -> ConsumerRecord | None: ...

    def offsets(self) -> dict[TopicPartition, int]:
        """Return the first pending or held-back offset of each partition that has one."""
        first_offsets: dict[TopicPartition, int] = {}
        for record in self.records[self.next_row :]:
            first_offsets.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return {**self._held_back, **first_offsets}

    def clear(self) -> dict[TopicPartition, int]:
        """Drop all pending records; return the offset of each partition from which to read again."""
        offsets = self.offsets()
        self.records, self.next_row, self._held_back = [], 0, {}
        return offsets


class RecordIterator(HeldIterator):
    """Iterator over polled records. Endless by default; with `idle_ms` it ends when no record arrived for that time."""

    poll_ms = _POLL_MS

    def __init__(
        self,
        consumer: PolledConsumer,
        pending: PendingRecords,
        undo_poll: Callable[[], None],
        idle_ms: int | None = None,
    ) -> None:
        """`undo_poll` moves the positions back to before the last poll, whose records nobody got."""
        super().__init__(pending)
        self._consumer = consumer
        self._undo_poll = undo_poll
        self._pending = pending
        self._idle_ms = idle_ms

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[ConsumerRecord]: ...

        def __next__(self) -> ConsumerRecord: ...

    def fill(self) -> None:
        """Poll until records are pending. Raises StopIteration at the end of the loop, and the errors of `poll`."""
        now_ms = self._consumer.clock.now_ms
        started_ms = now_ms()
        waited_ms = 0
        while not self._is_over(waited_ms):
            remaining_ms = self.poll_ms if self._idle_ms is None else max(0, self._idle_ms - waited_ms)
            records = self._poll(min(self.poll_ms, remaining_ms))
            if records:
                try:
                    self._take_in(records)
                except BaseException:  # such as KeyboardInterrupt, before the records are pending
                    self._undo_poll()
                    raise
                return
            waited_ms = now_ms() - started_ms
        self._consumer.give_back()
        raise StopIteration

    def _poll(self, timeout_ms: int) -> ConsumerRecords | None:
        return self._consumer.poll_further(timeout_ms)

    def _is_over(self, waited_ms: int) -> bool:
        return self._idle_ms is not None and waited_ms >= self._idle_ms

    def _take_in(self, records: ConsumerRecords) -> None:
        self._pending.refill(list(records))


class EndIterator(RecordIterator):
    """Iterator that ends at the partitions' end offsets, looked up once partitions are assigned; later records are left
    for the next poll. Raises Timeout or the connection error without an assignment in time, and EndUnreachable."""

    poll_ms = _POLL_NEAR_THE_END_MS

    def __init__(
        self,
        consumer: PolledConsumer,
        pending: PendingRecords,
        undo_poll: Callable[[], None],
        assignment_timeout_ms: int,
    ) -> None:
        super().__init__(consumer, pending, undo_poll)
        self._timeout_ms = assignment_timeout_ms
        self._ends: Ends | None = None
        self._checked_ms = 0

    def _is_over(self, waited_ms: int) -> bool:
        if self._ends is None:
            assigned = self._consumer.assignment()
            if not assigned and waited_ms < self._timeout_ms:
                return False
            if not assigned:
                late = Timeout(f"No partitions were assigned within {self._timeout_ms} ms")
                raise self._consumer.connection_problem() or late
            self._ends = Ends(self._consumer, assigned)
        if not self._ends.undone():
            return True
        if waited_ms == 0:
            self._checked_ms = 0
        elif waited_ms - self._checked_ms >= _END_CHECK_MS:
            self._checked_ms = waited_ms
            self._ends.ensure_reachable()
        return False

    def _poll(self, timeout_ms: int) -> ConsumerRecords | None:
        """Poll. Without an assignment, poll no records: the ends are looked up before any record is read."""
        if self._ends is not None:
            return super()._poll(timeout_ms)
        self._consumer.poll_assignment(timeout_ms)
        return None

    def _take_in(self, records: ConsumerRecords) -> None:
        assert self._ends is not None
        self._pending.refill(keep_before_ends(records, self._ends, self._pending))


def keep_before_ends(records: ConsumerRecords, ends: KnownEnds, pending: PendingRecords) -> list[ConsumerRecord]:
    """Return the records before the ends; hold the others back in `pending`, for the next poll."""
    before_end: list[ConsumerRecord] = []
    later: list[ConsumerRecord] = []
    for record in records:
        is_before_end = record.offset < ends.end_of(TopicPartition(record.topic, record.partition))
        (before_end if is_before_end else later).append(record)
    for record in later:
        pending.hold_back(record)
    return before_end


class RecordLoops:
    """Mixin of Consumer with its record iterators, `for record in consumer`, `records` and `read_to_end`, and with
    `poll_arrow`."""

    _pending: PendingRecords
    _fetcher: Fetcher
    _api_timeout_ms: int
    _call_lock: threading.RLock
    _is_closed: bool

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Iterate over records endlessly; `records` and `read_to_end` return iterators that end. The loop may be left
        at any time: records it has not yielded are not committed, and the next loop or poll starts with them. In a
        group, automatic commits (enable.auto.commit) happen between polls. Raises the errors of `poll`."""
        return RecordIterator(_consumer(self), self._pending, self._fetcher.take_back)

    def records(self, timeout_ms: int) -> Iterator[ConsumerRecord]:
        """Iterate over records until none has arrived for `timeout_ms`. Raises the errors of `poll`, and TypeError when
        `timeout_ms` is not an int."""
        return RecordIterator(_consumer(self), self._pending, self._fetcher.take_back, whole_ms(timeout_ms))

    def read_to_end(self) -> Iterator[ConsumerRecord]:
        """Iterate over the records up to the end offsets that the assigned partitions have when the loop starts.

        Later records are left for the next poll. Waits for an assignment first.

        Raises the errors of `poll`; EndUnreachable when a topic is deleted, recreated or truncated meanwhile; Timeout
        when nothing is assigned within default.api.timeout.ms; ConnectionFailed when brokers cannot be reached.
        """
        return EndIterator(_consumer(self), self._pending, self._fetcher.take_back, self._api_timeout_ms)

    @one_at_a_time
    def poll_arrow(
        self, timeout_ms: int, *, columns: Sequence[str] | None = None, key: str = "binary", value: str = "binary"
    ) -> pa.RecordBatch:
        """Return all buffered records as a pyarrow.RecordBatch; wait up to `timeout_ms` for the first. Without records
        the batch has no rows. Ignores max.poll.records; deserializers and interceptors do not apply.

        `columns` are some of topic, partition, offset, timestamp, key, value and headers, by default all. `key` and
        `value` are the kinds of these columns: `binary`; `string`, with replacement characters for invalid UTF-8;
        `dictionary`, of strings, for few different texts; `view`, bytes without a copy, which keep the received memory.

        Raises the errors of `poll`, ValueError for an unknown column or kind, ImportError without pyarrow.
        """
        from kafkatools.core.records.arrow import ArrowLayout

        layout = ArrowLayout(columns, key, value)
        consumer = _consumer(self)
        fetched = consumer.poll_columns(timeout_ms)
        try:
            pieces = [(item.topic, item.partition, item.columns) for item in fetched]
            fitting = layout.fitting(pieces)
            batch = layout.batch(pieces[:fitting])
        except BaseException:  # KeyboardInterrupt and MemoryError too
            self._fetcher.take_back()
            raise
        for item in reversed(fetched[fitting:]):  # of a partition with several pieces the first one counts
            consumer.seek(item.topic_partition, item.columns.offsets[0])
        return batch


def _consumer(loops: RecordLoops) -> PolledConsumer:
    return cast("PolledConsumer", loops)


def whole_ms(timeout_ms: int) -> int:
    """Return a timeout in ms unchanged. Raises TypeError unless it is an int, such as for fractional seconds."""
    if not isinstance(timeout_ms, int):
        raise TypeError(f"timeout_ms must be an int of milliseconds, not {timeout_ms!r}")
    return timeout_ms
