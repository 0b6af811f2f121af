"""Asynchronous iteration over single records: `async for record in consumer` and `consumer.read_to_end()`.

Rules: as in core/consumer/record_iterator.py, a record is consumed once it is yielded, so a loop may be left or
cancelled at any record without losing or repeating one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from kafkatools.core.clock import Clock
from kafkatools.core.consumer.consumer_records import ConsumerRecord, ConsumerRecords
from kafkatools.core.consumer.ends import Known, KnownEnds
from kafkatools.core.consumer.record_iterator import PendingRecords, keep_before_ends
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import Timeout, UnknownTopicOrPartition

_POLL_MS = 1000
_POLL_NEAR_THE_END_MS = 50
_END_CHECK_MS = 1000


class Polled(Known, Protocol):
    """The methods of aio.Consumer that its iterators call."""

    clock: Clock

    async def poll_further(self, timeout_ms: int) -> ConsumerRecords:
        """Poll without moving the position back to pending records."""

    async def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition."""

    def give_back(self) -> None:
        """Move positions back to the first records that iterators have not yielded."""

    async def poll_assignment(self, timeout_ms: int) -> None:
        """Wait until partitions are assigned, without polling records."""


class Records(AsyncIterator[ConsumerRecord]):
    """Iterator over polled records. Endless by default; with `idle_ms` it ends when no record arrived for that time."""

    _poll_ms = _POLL_MS

    def __init__(self, consumer: Polled, pending: PendingRecords, idle_ms: int | None = None) -> None:
        self._consumer = consumer
        self._pending = pending
        self._take = pending.take
        self._idle_ms = idle_ms

    def __aiter__(self) -> Records:
        return self

    async def __anext__(self) -> ConsumerRecord:
        record = self._take()
        while record is None:
            await self._fill()
            record = self._take()
        return record

    async def _fill(self) -> None:
        now_ms = self._consumer.clock.now_ms
        started_ms, waited_ms = now_ms(), 0
        while not await self._is_over(waited_ms):
            remaining_ms = self._poll_ms if self._idle_ms is None else max(0, self._idle_ms - waited_ms)
            records = await self._poll(min(self._poll_ms, remaining_ms))
            if records:
                self._take_in(records)
                return
            waited_ms = now_ms() - started_ms
        self._consumer.give_back()
        raise StopAsyncIteration

    async def _poll(self, timeout_ms: int) -> ConsumerRecords | None:
        return await self._consumer.poll_further(timeout_ms)

    async def _is_over(self, waited_ms: int) -> bool:
        return self._idle_ms is not None and waited_ms >= self._idle_ms

    def _take_in(self, records: ConsumerRecords) -> None:
        self._pending.refill(list(records))


class EndRecords(Records):
    """Iterator that ends at the partitions' end offsets, looked up once partitions are assigned; later records are left
    for the next poll."""

    _poll_ms = _POLL_NEAR_THE_END_MS

    def __init__(self, consumer: Polled, pending: PendingRecords, assignment_timeout_ms: int) -> None:
        super().__init__(consumer, pending)
        self._timeout_ms = assignment_timeout_ms
        self._ends: KnownEnds | None = None
        self._checked_ms = 0

    async def _is_over(self, waited_ms: int) -> bool:
        if self._ends is None:
            assigned = self._consumer.assignment()
            if not assigned and waited_ms < self._timeout_ms:
                return False
            if not assigned:
                late = Timeout(f"No partitions were assigned within {self._timeout_ms} ms")
                raise self._consumer.connection_problem() or late
            self._ends = KnownEnds(self._consumer, assigned, await self._consumer.end_offsets(assigned))
        if not self._ends.undone():
            return True
        if waited_ms == 0:
            self._checked_ms = 0
        elif waited_ms - self._checked_ms >= _END_CHECK_MS:
            self._checked_ms = waited_ms
            await self._ensure_reachable(self._ends)
        return False

    async def _ensure_reachable(self, ends: KnownEnds) -> None:
        unread = ends.unread()
        if unread:
            try:
                ends.ensure_not_truncated(await self._consumer.end_offsets(unread))
            except UnknownTopicOrPartition as error:
                raise ends.deleted(error) from None

    async def _poll(self, timeout_ms: int) -> ConsumerRecords | None:
        """Poll. Without an assignment, poll no records: the ends are looked up before any record is read."""
        if self._ends is not None:
            return await super()._poll(timeout_ms)
        await self._consumer.poll_assignment(timeout_ms)
        return None

    def _take_in(self, records: ConsumerRecords) -> None:
        assert self._ends is not None
        self._pending.refill(keep_before_ends(records, self._ends, self._pending))
