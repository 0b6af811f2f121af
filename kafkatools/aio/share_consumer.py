"""ShareConsumer for asyncio: the share sessions and membership of kafkatools.ShareConsumer, turned by the event loop.

Rules: heartbeats and responses go with the turns, also between the calls. Records are put in flight in the step in
which a poll returns them, so the records of a cancelled poll go to the next one. One task at a time polls or commits:
in implicit mode both accept the records of the last poll.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, TypeVar

from kafkatools.aio.names import LoopResolver
from kafkatools.aio.turns import Turn, Turns, run
from kafkatools.core.clock import Clock
from kafkatools.core.closing import ensure_close_timeout
from kafkatools.core.config import Config
from kafkatools.core.config.client_settings import Settings
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer_records import ConsumerRecord, ConsumerRecords
from kafkatools.core.consumer.network import ConsumerNetworkClient, Pause, Steps
from kafkatools.core.consumer.poison import AnyDeserializer, PoisonPolicy
from kafkatools.core.consumer.share.share_consumer_base import INTERRUPTED_CLOSE_MS, ShareConsumerBase
from kafkatools.core.consumer.single_thread import CLOSED, one_at_a_time
from kafkatools.core.errors import IllegalState, KafkaError
from kafkatools.core.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kafkatools.core.consumer.heartbeat_thread import HeartbeatThread

R = TypeVar("R")

_POLL_MS = 1000
_TWO_CALLS = "Another task is in a poll or commit of this consumer"


class ShareConsumer(ShareConsumerBase):
    """Reads records as a member of a share group: `async for record in consumer`, polls, or columns. `async with`
    closes it.

    Settings, deserializers, `poison` and acknowledgements are those of kafkatools.ShareConsumer; deserializers and the
    commit callback run on the loop's thread. The constructor makes no connection and may run outside of a loop; the
    first awaited call binds the consumer to the running loop. There is no thread: a loop that is blocked for the
    group's session time-out loses the membership.

    One task polls, commits or iterates; `acknowledge` may come from any task meanwhile. Times are int milliseconds;
    partitions are pairs (topic, number). Kafka's errors are KafkaError (kafkatools.errors). Raises ConfigError for an
    unknown, invalid or unsupported setting and InvalidGroupId without group.id.
    """

    def __init__(
        self,
        config: Settings | None = None,
        clock: Clock | None = None,
        *,
        key_deserializer: str | AnyDeserializer | None = None,
        value_deserializer: str | AnyDeserializer | None = None,
        poison: PoisonPolicy | str = "fail",
        **settings: object,
    ) -> None:
        self._resolver = LoopResolver(lambda: self._turns.soon())
        super().__init__(
            config,
            clock,
            self._new_client,
            deserializers=(key_deserializer, value_deserializer),
            poison=poison,
            settings=settings,
        )
        self._turns = Turns(self._step, self._client.fileno)
        self._unyielded: deque[ConsumerRecord] = deque()
        self._is_busy = self._is_closing = False

    def _new_client(self, config: Config, clock: Clock) -> ConsumerNetworkClient:
        return ConsumerNetworkClient(config, clock, self._resolver)

    @staticmethod
    def _start_heartbeats(run_once: Callable[[], int], name: str) -> HeartbeatThread | None:
        return None

    async def __aenter__(self) -> ShareConsumer:
        self._turns.start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close the consumer; after a cancellation within 3 seconds instead of 30."""
        is_interrupted = error is not None and not isinstance(error, Exception)
        await self.close(INTERRUPTED_CLOSE_MS if is_interrupted else None)

    # --- subscription

    @one_at_a_time
    def unsubscribe(self) -> None:
        """Leave the group. Records of the last poll stay acquired and can be acknowledged by a commit, until their
        locks end or the consumer is closed."""
        super().unsubscribe()
        self._turns.soon()

    # --- records

    async def poll(self, timeout_ms: int) -> ConsumerRecords:
        """Return records that this member has acquired; wait up to `timeout_ms` for the first. There may be more than
        max.poll.records, to the end of a batch, unless share.acquire.mode is record_limit. Records whose lock was
        renewed are returned again, alone (KIP-1222).

        In implicit mode, accepts the records of the last poll first. Records that a cancelled poll has acquired are
        returned by the next one. Raises IllegalState without a subscription, during another task's poll or commit, and
        in explicit mode while a record of the last poll has no acknowledgement; RecordDeserializationError and
        CorruptBatch after the sound records before; KafkaError caused by a commit callback; ConnectionFailed and the
        like while no bootstrap server was ever reached; and errors that a retry cannot cure. Raises TypeError when
        `timeout_ms` is not an int.
        """
        return await self._run(self._after_release(self._poll_records(timeout_ms)))

    async def poll_columns(self, timeout_ms: int) -> list[FetchedColumns]:
        """Return acquired records as columns, without deserializers; otherwise as `poll`. The records of one item have
        the same delivery count."""
        return await self._run(self._after_release(self._poll_columns(timeout_ms)))

    def __aiter__(self) -> ShareRecords:
        """Iterate over records endlessly. The loop may be left or cancelled at any time: the next poll or loop, and in
        implicit mode the next commit, releases the records that it has not yielded; the others count as those of the
        last poll. Raises the errors of `poll`."""
        return ShareRecords(self)

    async def poll_to_iterate(self) -> deque[ConsumerRecord]:
        """Poll up to a second, and return the records for an iterator to take one by one. Those that are left are
        released by the next poll."""
        self._unyielded = deque(await self.poll(_POLL_MS))
        return self._unyielded

    def _after_release(self, steps: Steps[R]) -> Steps[R]:
        self._release_unyielded()
        return (yield from steps)

    def _release_unyielded(self) -> None:
        """Release the records that an iterator has not yielded. A commit does so in implicit mode, where it would
        accept them; in explicit mode a loop may commit and go on."""
        while self._unyielded:
            record = self._unyielded.popleft()
            self._in_flight.release_unseen(TopicPartition(record.topic, record.partition), record.offset)

    # --- acknowledgements

    async def commit(self, timeout_ms: int | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send acknowledgements and wait for their results: None for a partition after success, else its error, such as
        InvalidRecordState after the lock has ended, or Timeout. Empty without acknowledgements. Waits up to
        `timeout_ms` (default.api.timeout.ms). In implicit mode, accepts the records of the last poll first, without
        those that an iteration has not yielded. When cancelled, the next poll, commit or close sends what was not sent.
        Raises IllegalState during another task's poll or commit, and KafkaError caused by a commit callback."""
        steps = self._commit(timeout_ms)
        return await self._run(steps if self._is_explicit else self._after_release(steps))

    @one_at_a_time
    def commit_async(self) -> None:
        """Send acknowledgements without waiting; results go to the commit callback in a later call. In implicit mode,
        accepts the records of the last poll first. Raises IllegalState during another task's poll or commit, and
        KafkaError caused by a commit callback."""
        self._ensure_free()
        if not self._is_explicit:
            self._release_unyielded()
        super().commit_async()
        self._turns.soon()

    # --- turns and waiting

    def _step(self) -> Turn:
        """One turn: send due heartbeats and queued requests, read responses."""
        delay_ms = self._group.turn(self._clock.now_ms())
        has_changed = self._client.turn()
        network_ms = self._client.delay_ms(self._clock.now_ms())
        return Turn(network_ms if delay_ms is None else min(network_ms, delay_ms), has_changed)

    async def _run(self, steps: Steps[R]) -> R:
        self._ensure_free()
        self._is_busy = True
        try:
            self._turns.start()
            await asyncio.sleep(0)  # other tasks and turns run even if records are always there
            self._ensure_open()
            return await run(steps, self._pause)
        finally:
            self._is_busy = False

    async def _pause(self, pause: Pause) -> None:
        await self._wait(pause)
        self._ensure_open()
        self._client.raise_signal()

    async def _wait(self, pause: Pause) -> None:
        assert isinstance(pause, int)
        if pause <= 0:
            self._turns.soon()
            await asyncio.sleep(0)
            return
        if self._client.is_update_due or self._client.has_unsent:
            self._turns.soon()
        await self._turns.wait(pause)

    def _ensure_open(self) -> None:
        if self._is_closed or self._is_closing:
            raise IllegalState(CLOSED)

    def _ensure_free(self) -> None:
        self._ensure_open()
        self._ensure_outside_callback()
        if self._is_busy:
            raise IllegalState(_TWO_CALLS)

    async def client_instance_id(self, timeout_ms: int | None = None) -> str | None:
        """Return the id that the brokers' metrics of this client carry (KIP-714), as Kafka writes it. Waits for a
        broker's response up to `timeout_ms` (default.api.timeout.ms). None if none came in time, or if the brokers
        take no metrics. Raises IllegalState with enable.metrics.push=false, ValueError if negative, and the error of
        the connection when no broker is reachable."""
        return await self._run(self._client_instance_id(timeout_ms))

    # --- the end

    async def close(self, timeout_ms: int | None = None) -> None:
        """Send the acknowledgements made so far, close the share sessions, which releases all other records of this
        member, leave the group, and close the connections; within `timeout_ms` (default: 30 s), at most
        request.timeout.ms. In implicit mode the records of the last poll are released, not accepted: commit first. When
        cancelled, it closes at once. Calls of other tasks raise IllegalState. A second call does nothing. Raises
        KafkaError caused by a commit callback, after closing; ValueError if negative."""
        ensure_close_timeout(timeout_ms)
        self._ensure_outside_callback()
        if self._is_closed or self._is_closing:
            return
        self._turns.start()
        self._is_closing = True
        await run(self._close(timeout_ms), self._wait)

    def _end(self) -> None:
        self._turns.stop()
        self._resolver.close()
        super()._end()


class ShareRecords(AsyncIterator[ConsumerRecord]):
    """Iterator over the records of a share consumer, endless."""

    def __init__(self, consumer: ShareConsumer) -> None:
        self._consumer = consumer
        self._records: deque[ConsumerRecord] = deque()

    def __aiter__(self) -> ShareRecords:
        return self

    async def __anext__(self) -> ConsumerRecord:
        while not self._records:
            self._records = await self._consumer.poll_to_iterate()
        return self._records.popleft()
