"""Records one by one: what `for record in consumer` and `consumer.read_to_end()` go through.

Rules: a record counts as consumed once it is handed out; the rest of its poll is pending. A commit of the positions
leaves out what is pending, and it is given back (the position goes back to it) before anything else moves the consumer:
a poll, a seek, the end. So a loop may be left in the middle, and nothing is lost or repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, cast

from kafkatools.core.consumer.consumer_records import ConsumerRecord, ConsumerRecords
from kafkatools.core.consumer.ends import Ends, Positioned
from kafkatools.core.consumer.single_thread import one_at_a_time
from kafkatools.core.consumer.subscription import SubscriptionState, TopicPartition
from kafkatools.core.errors import Timeout

if TYPE_CHECKING:
    from kafkatools.core.clock import Clock
    from kafkatools.core.consumer.single_thread import Lock

_POLL_MS = 1000
_POLL_NEAR_THE_END_MS = 50
_LOOK_AT_ENDS_MS = 1000


class PolledConsumer(Positioned, Protocol):
    """The part of Consumer that its iterators poll and move."""

    clock: Clock

    def poll_further(self, timeout_ms: int) -> ConsumerRecords:
        """The next poll, which keeps what the iterator holds back."""

    def give_back(self) -> None:
        """Take back the records that iterators have not handed out."""

    def seek(self, partition: tuple[str, int], offset: int, leader_epoch: int = -1) -> None:
        """Read from `offset` in the next poll."""


class PendingRecords:
    """What was polled and is not handed out yet; one for each consumer, shared by its iterators."""

    def __init__(self) -> None:
        self._records: list[ConsumerRecord] = []
        self._next = 0
        self._held_back: dict[TopicPartition, int] = {}

    def __bool__(self) -> bool:
        return self._next < len(self._records) or bool(self._held_back)

    def refill(self, records: list[ConsumerRecord]) -> None:
        """Takes the records of the next poll; those before were all taken."""
        self._records, self._next = records, 0

    def hold_back(self, record: ConsumerRecord) -> None:
        """A record that is not for this iterator: it and those behind it are given back in the end."""
        self._held_back.setdefault(TopicPartition(record.topic, record.partition), record.offset)

    def take(self) -> ConsumerRecord | None:
        """The next record, None when there is none left."""
        if self._next >= len(self._records):
            return None
        self._next += 1
        return self._records[self._next - 1]

    def offsets(self) -> dict[TopicPartition, int]:
        """The first pending offset of each partition that has one."""
        found: dict[TopicPartition, int] = {}
        for index in range(self._next, len(self._records)):
            record = self._records[index]
            found.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return {**self._held_back, **found}

    def clear(self) -> dict[TopicPartition, int]:
        """Forgets everything; the offsets from which it is to be read again."""
        found = self.offsets()
        self._records, self._next, self._held_back = [], 0, {}
        return found


class RecordIterator(Iterator[ConsumerRecord]):
    """Never ends, or with `idle_ms` when no record came for so long."""

    poll_ms = _POLL_MS

    def __init__(self, consumer: PolledConsumer, pending: PendingRecords, idle_ms: int | None = None) -> None:
        self._consumer = consumer
        self._pending = pending
        self._idle_ms = idle_ms

    def __next__(self) -> ConsumerRecord:
        record = self._pending.take()
        while record is None:
            self._fill()
            record = self._pending.take()
        return record

    def _fill(self) -> None:
        """Polls until records came. Raises StopIteration when it is over."""
        now_ms = self._consumer.clock.now_ms
        started_ms = now_ms()
        waited_ms = 0
        while not self._is_over(waited_ms):
            left_ms = self.poll_ms if self._idle_ms is None else max(0, self._idle_ms - waited_ms)
            records = self._consumer.poll_further(min(self.poll_ms, left_ms))
            if records:
                self._take_in(records)
                return
            waited_ms = now_ms() - started_ms
        self._consumer.give_back()
        raise StopIteration

    def _is_over(self, waited_ms: int) -> bool:
        return self._idle_ms is not None and waited_ms >= self._idle_ms

    def _take_in(self, records: ConsumerRecords) -> None:
        self._pending.refill(list(records))


class EndIterator(RecordIterator):
    """Ends when everything is read that was there when it began; what came later is given back."""

    poll_ms = _POLL_NEAR_THE_END_MS

    def __init__(self, consumer: PolledConsumer, pending: PendingRecords, assignment_timeout_ms: int) -> None:
        super().__init__(consumer, pending)
        self._timeout_ms = assignment_timeout_ms
        self._ends: Ends | None = None
        self._looked_ms = 0

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
            self._looked_ms = 0
        elif waited_ms - self._looked_ms >= _LOOK_AT_ENDS_MS:
            self._looked_ms = waited_ms
            self._ends.ensure_reachable()
        return False

    def _take_in(self, records: ConsumerRecords) -> None:
        wanted = []
        for record in records:
            if self._ends is not None and record.offset < self._ends.end_of(
                TopicPartition(record.topic, record.partition)
            ):
                wanted.append(record)
            else:
                self._pending.hold_back(record)
        self._pending.refill(wanted)


class RecordLoops:
    """The loops over a consumer's records, and what they hold back."""

    _pending: PendingRecords
    _subscriptions: SubscriptionState
    _api_timeout_ms: int
    _call_lock: Lock
    _closed: bool

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """`for record in consumer`: every record, for ever; see `records` and `read_to_end` for loops that end.

        The loop may be left at any time: what it has not handed out is not committed, and the next loop or poll begins
        with it. In a group, commits in the background (enable.auto.commit) happen between polls. Raises as `poll`.
        """
        return RecordIterator(_consumer(self), self._pending)

    def records(self, timeout_ms: int) -> Iterator[ConsumerRecord]:
        """As `for record in consumer`, but ends when no record came for `timeout_ms`."""
        return RecordIterator(_consumer(self), self._pending, whole_ms(timeout_ms))

    def read_to_end(self) -> Iterator[ConsumerRecord]:
        """The records of the assigned partitions that are there when the loop begins, and then the end; what is
        produced meanwhile is left to be read later. In a group the assignment is waited for.

        Raises as `poll`; EndUnreachable when a topic is deleted or truncated meanwhile; Timeout when the group assigns
        nothing within default.api.timeout.ms; ConnectionFailed when brokers cannot be reached.
        """
        return EndIterator(_consumer(self), self._pending, self._api_timeout_ms)

    @one_at_a_time
    def give_back(self) -> None:
        """Takes back what iterators have not handed out: it will be read again."""
        if not self._pending:
            return
        for part, offset in self._pending.clear().items():
            if self._subscriptions.is_assigned(part):
                _consumer(self).seek(part, offset)


def _consumer(loops: RecordLoops) -> PolledConsumer:
    """The consumer that they are the loops of."""
    return cast("PolledConsumer", loops)


def whole_ms(timeout_ms: int) -> int:
    """A time to wait. Raises TypeError for seconds as a fraction, which others take."""
    if not isinstance(timeout_ms, int):
        raise TypeError(f"timeout_ms is a number of whole milliseconds, not {timeout_ms!r}")
    return timeout_ms
