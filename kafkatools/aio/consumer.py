"""Consumer for asyncio: the fetcher, group membership and commits of kafkatools.Consumer, turned by the event loop.

Rules: heartbeats, responses and reconnections go with the turns, also between the calls. A poll returns records in the
step in which it moves the positions, so a cancelled poll has lost none. Only one task may poll; other calls may overlap
with a poll, because all state changes between two awaits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from kafkatools.aio.names import LoopResolver
from kafkatools.aio.rebalance import Rebalance
from kafkatools.aio.record_iterators import EndRecords, Records
from kafkatools.aio.turns import Turn, Turns, run
from kafkatools.core import steps as blocking
from kafkatools.core.clock import Clock
from kafkatools.core.closing import ensure_close_timeout
from kafkatools.core.config import Config
from kafkatools.core.config.client_settings import Settings
from kafkatools.core.consumer.completed_fetch import FetchedColumns, SkipCorrupt
from kafkatools.core.consumer.consumer_base import DEFAULT_CLOSE_TIMEOUT_MS, INTERRUPTED_CLOSE_MS, ConsumerBase, Place
from kafkatools.core.consumer.consumer_records import ConsumerRecords
from kafkatools.core.consumer.interceptors import ConsumerInterceptor
from kafkatools.core.consumer.network import ConsumerNetworkClient, Pause, Steps
from kafkatools.core.consumer.offset_fetcher import OffsetAndTimestamp
from kafkatools.core.consumer.offset_listing import target_times
from kafkatools.core.consumer.poison import AnyDeserializer, PoisonPolicy
from kafkatools.core.consumer.record_iterator import whole_ms
from kafkatools.core.consumer.single_thread import CLOSED, one_at_a_time
from kafkatools.core.consumer.subscription import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from kafkatools.core.errors import IllegalState, KafkaError, Timeout
from kafkatools.core.group.metadata import OffsetAndMetadata

if TYPE_CHECKING:
    from kafkatools.core.consumer.group_consumer import GroupConsumer
    from kafkatools.core.consumer.group_subscription import RebalanceListener, Topics
    from kafkatools.core.consumer.heartbeat_thread import HeartbeatThread

R = TypeVar("R")

_TWO_POLLS = "Another task is in a poll of this consumer"
_IDLE_POLL_MS = 500


class Consumer(ConsumerBase):
    """Reads records one by one (`async for record in consumer`), by polls, or in columns. `async with` closes it.

    Settings, deserializers, interceptors, `poison` and `skip_corrupt` are those of kafkatools.Consumer; they run on the
    loop's thread. The callbacks of a rebalance listener may be coroutine functions. The constructor makes no connection
    and may run outside of a loop; the first awaited call binds the consumer to the running loop. There is no thread:
    a loop that is blocked for session.timeout.ms loses the group membership.

    One task polls or iterates; other calls may come from any task meanwhile. Times are int milliseconds; partitions are
    pairs (topic, number). Kafka's errors are KafkaError (kafkatools.errors). Raises ConfigError for an unknown, invalid
    or contradictory setting.
    """

    def __init__(
        self,
        config: Settings | None = None,
        clock: Clock | None = None,
        skip_corrupt: SkipCorrupt | None = None,
        *,
        interceptors: Sequence[ConsumerInterceptor] = (),
        key_deserializer: str | AnyDeserializer | None = None,
        value_deserializer: str | AnyDeserializer | None = None,
        poison: PoisonPolicy | str = "fail",
        **settings: object,
    ) -> None:
        self._resolver = LoopResolver(lambda: self._turns.soon())
        super().__init__(
            config,
            clock,
            skip_corrupt,
            self._new_client,
            interceptors=interceptors,
            deserializers=(key_deserializer, value_deserializer),
            poison=poison,
            settings=settings,
        )
        self._turns = Turns(self._step, self._client.fileno)
        self._is_polling = False
        self._rebalancing: Rebalance | None = None
        self._close_deadline_ms = 0
        self._gave_way_ms = -1

    def _new_client(self, config: Config, clock: Clock) -> ConsumerNetworkClient:
        return ConsumerNetworkClient(config, clock, self._resolver)

    @staticmethod
    def _start_heartbeats(run_once: Callable[[], int], name: str) -> HeartbeatThread | None:
        return None

    async def __aenter__(self) -> Consumer:
        self._turns.start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close the consumer; after a cancellation within 3 seconds instead of 30."""
        is_interrupted = error is not None and not isinstance(error, Exception)
        await self.close(INTERRUPTED_CLOSE_MS if is_interrupted else None)

    # --- subscription and assignment

    @one_at_a_time
    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Replace the assigned partitions with these; partitions that stay assigned keep their position. Raises
        IllegalState if subscribed, ValueError for an empty topic name or without a partition: `await unsubscribe()`."""
        requested = list(partitions)
        if not requested:
            raise ValueError("assign needs at least one partition; `await consumer.unsubscribe()` drops all")
        blocking.run(self._assign(requested), _never)

    @one_at_a_time
    def subscribe(self, topics: Topics, listener: RebalanceListener | None = None) -> None:
        """Read topics as a group member: topic names, a compiled regular expression, a predicate, or a
        SubscriptionPattern that the broker matches. The listener's callbacks may be coroutine functions.

        Replaces the previous subscription; the group is joined during the next polls. Raises InvalidGroupId without
        group.id, IllegalState after `assign` or a subscription of another kind, and ValueError for an empty topic name
        or without a topic: `await unsubscribe()`. With the classic protocol, raises UnsupportedVersion for a
        SubscriptionPattern, and ConfigError for assignors without a common rebalance protocol.
        """
        if isinstance(topics, (set, frozenset, list, tuple)) and not topics:
            raise ValueError("subscribe needs at least one topic; `await consumer.unsubscribe()` leaves the group")
        blocking.run(self._subscribe(topics, listener), _never)

    async def unsubscribe(self) -> None:
        """Leave the group and drop all partitions, manually assigned ones too. When cancelled during a listener's
        coroutine, call it again. Raises IllegalState in a listener's coroutine."""
        self._ensure_open()
        self._ensure_outside_listener()
        await self._run(self._finish_rebalance())
        await self._run(self._unsubscribe())

    # --- positions

    async def position(self, partition: tuple[str, int], timeout_ms: int | None = None) -> int:
        """Return the offset of the next record to be returned, waiting for its lookup if unknown. Raises
        NoOffsetForPartition when auto.offset.reset=none and no offset is committed, and the errors of `end_offsets`."""
        return await self._run(self._position(partition, timeout_ms))

    async def seek_to_time(self, timestamp_ms: int, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Move to the first record at or after `timestamp_ms` (ms since 1970), or to the end where there is none.
        Without partitions, moves all assigned ones. Raises the errors of `offsets_for_times`. When cancelled, no
        position has moved."""
        await self._run(self._seek_to_time(timestamp_ms, partitions))

    # --- committed offsets

    async def commit(
        self, offsets: Mapping[Place, OffsetAndMetadata | int] | None = None, timeout_ms: int | None = None
    ) -> None:
        """Commit offsets and wait for the response. Each is the next offset to read; default: the positions, without
        records that an iteration has not yielded. When cancelled, it is open whether they were committed. Raises
        CommitFailed when the partitions were reassigned, RebalanceInProgress, InvalidGroupId, and ValueError for a
        negative offset."""
        await self._run(self._commit(offsets, timeout_ms))

    async def committed(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets, None for a partition without one. Raises Timeout."""
        return await self._run(self._committed(partitions, timeout_ms))

    # --- records

    async def poll(self, timeout_ms: int) -> ConsumerRecords:
        """Return up to max.poll.records records; wait up to `timeout_ms` for the first. Interceptors and the poison
        policy `skip` may leave none. A cancelled poll has lost no record.

        Raises RecordDeserializationError for a record that cannot be deserialized, once the records before it were
        returned, with the position at that record. Raises KafkaError caused by a rebalance listener; ConnectionFailed
        and the like while no bootstrap server was ever reached; and errors that a retry cannot cure. Raises
        IllegalState during another task's poll, and TypeError when `timeout_ms` is not an int.
        """
        self._ensure_open()
        self._ensure_one_poll()
        self.give_back()
        return await self._run_poll(self._poll_records(whole_ms(timeout_ms)))

    async def poll_further(self, timeout_ms: int) -> ConsumerRecords:
        """Poll, leaving the position after records that an iterator holds, which `poll` would return again."""
        return await self._run_poll(self._poll_records(whole_ms(timeout_ms)))

    async def poll_assignment(self, timeout_ms: int) -> None:
        """Wait up to `timeout_ms` until partitions are assigned, without polling records."""
        await self._run_poll(self._poll_assignment(timeout_ms))

    async def poll_columns(self, timeout_ms: int) -> list[FetchedColumns]:
        """Return all buffered records as columns; wait up to `timeout_ms` for the first. Ignores max.poll.records."""
        self._ensure_open()
        self._ensure_one_poll()
        self.give_back()
        return await self._run_poll(self._poll_columns(whole_ms(timeout_ms)))

    def __aiter__(self) -> Records:
        """Iterate over records endlessly. The loop may be left or cancelled at any time: records it has not yielded are
        not committed, and the next loop or poll starts with them. Raises the errors of `poll`."""
        return Records(self, self._pending)

    def records(self, timeout_ms: int) -> Records:
        """Iterate over records until none has arrived for `timeout_ms`. Raises the errors of `poll`, and TypeError when
        `timeout_ms` is not an int."""
        return Records(self, self._pending, whole_ms(timeout_ms))

    def read_to_end(self) -> EndRecords:
        """Iterate over the records up to the end offsets that the assigned partitions have when the loop starts; later
        records are left for the next poll. Waits for an assignment first. Raises the errors of `poll`; EndUnreachable
        when a topic is deleted, recreated or truncated meanwhile; Timeout when nothing is assigned within
        default.api.timeout.ms; ConnectionFailed when brokers cannot be reached."""
        return EndRecords(self, self._pending, self._api_timeout_ms)

    # --- offsets and partitions of the cluster

    async def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition; a partition for which the broker reports none is left out."""
        return await self._run(self._offsets_at(partitions, EARLIEST_TIMESTAMP))

    async def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the high watermark of each partition (the last stable offset under read_committed); a partition for
        which the broker reports none is left out. Raises ConnectionFailed when no bootstrap server was ever reached,
        UnknownTopicOrPartition after 5 seconds, and RequestTimedOut after default.api.timeout.ms."""
        return await self._run(self._offsets_at(partitions, LATEST_TIMESTAMP))

    async def offsets_for_times(
        self, timestamps: Mapping[Place, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return offset and timestamp of each partition's first record at or after its timestamp (ms); None where there
        is none. Raises the errors of `end_offsets`, TopicAuthorizationFailed, and ValueError for a negative time."""
        return await self._run(self._list(target_times(timestamps)))

    async def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """Return a topic's partition numbers, empty if it is missing. Raises InvalidTopic, TopicAuthorizationFailed."""
        return await self._run(self._partitions_for(topic, timeout_ms))

    async def list_topics(self, timeout_ms: int | None = None) -> dict[str, list[int]]:
        """Fetch metadata and return the partition numbers of all topics. From then on the consumer's metadata covers
        all topics."""
        return await self._run(self._list_topics(timeout_ms))

    async def client_instance_id(self, timeout_ms: int | None = None) -> str | None:
        """Return the id that the brokers' metrics of this client carry (KIP-714), as Kafka writes it. Waits for a
        broker's response up to `timeout_ms` (default.api.timeout.ms). None if none came in time, or if the brokers
        take no metrics. Raises IllegalState with enable.metrics.push=false, ValueError if negative, and the error of
        the connection when no broker is reachable."""
        return await self._run(self._client_instance_id(timeout_ms))

    # --- turns and waiting

    def _step(self) -> Turn:
        """One turn: send due heartbeats and queued requests, read responses."""
        delay_ms = None if self._group is None else self._group.tick(self._clock.now_ms())
        has_changed = self._client.turn()
        network_ms = self._client.delay_ms(self._clock.now_ms())
        return Turn(network_ms if delay_ms is None else min(network_ms, delay_ms), has_changed)

    def _poll_limit_ms(self) -> int:
        """Events end a wait; time alone matters only while a position is being looked up, and for automatic commits."""
        if any(self._subscriptions.position(part) is None for part in self._subscriptions.assigned_partitions()):
            return self._client.poll_limit_ms
        return _IDLE_POLL_MS

    async def _run_poll(self, steps: Steps[R]) -> R:
        self._ensure_one_poll()
        self._is_polling = True
        try:
            await self._give_way()
            self._ensure_open()
            self._turns.start()
            return await run(steps, self._pause_poll)
        finally:
            self._is_polling = False

    async def _give_way(self) -> None:
        """Let other tasks and turns run once in a millisecond, also if records are always there."""
        if self._clock.now_ms() != self._gave_way_ms:
            await asyncio.sleep(0)
            self._gave_way_ms = self._clock.now_ms()

    async def _run(self, steps: Steps[R]) -> R:
        self._ensure_open()
        self._turns.start()
        return await run(steps, self._pause)

    async def _pause_poll(self, pause: Pause) -> None:
        await self._pause(pause)
        if self._is_closing:
            raise IllegalState(CLOSED)

    async def _pause(self, pause: Pause) -> None:
        if isinstance(pause, int):
            await self._wait(pause)
        else:
            await asyncio.wait({asyncio.ensure_future(pause)})
        self._ensure_open()
        self._client.raise_signal()

    async def _wait(self, timeout_ms: int) -> None:
        if timeout_ms <= 0:
            self._turns.soon()
            await asyncio.sleep(0)
            return
        if self._client.is_update_due or self._client.has_unsent:
            self._turns.soon()
        await self._turns.wait(timeout_ms)

    def _ensure_open(self) -> None:
        if self._is_closed:
            raise IllegalState(CLOSED)

    def _ensure_one_poll(self) -> None:
        if self._is_closing:
            raise IllegalState(CLOSED)
        self._ensure_outside_listener()
        if self._is_polling:
            raise IllegalState(_TWO_POLLS)

    def _ensure_outside_listener(self) -> None:
        if self._rebalancing is not None:
            self._rebalancing.ensure_outside_listener()

    def _rebalance(self, group: GroupConsumer, now_ms: int) -> Steps[None]:
        if self._rebalancing is None:
            self._rebalancing = Rebalance(group.advance(now_ms))
        return self._finish_rebalance()

    def _finish_rebalance(self) -> Steps[None]:
        """Continue a rebalance, also one that a cancelled poll has left."""
        rebalancing = self._rebalancing
        if rebalancing is None:
            return
        try:
            yield from rebalancing.resume()
        finally:
            if rebalancing.is_over:
                self._rebalancing = None

    # --- the end

    async def close(self, timeout_ms: int | None = None, *, leave_group: bool | None = None) -> None:
        """Leave the group within `timeout_ms` (default: 30 s), then end the fetch sessions and close the connections.
        With enable.auto.commit, commits before leaving. `leave_group` as in kafkatools.Consumer.close. A listener's
        coroutine that takes longer is cancelled. When cancelled, it closes at once. Calls of other tasks raise
        IllegalState. A second call does nothing. Raises KafkaError caused by a rebalance listener, after closing;
        ValueError if negative; IllegalState in a listener's coroutine."""
        ensure_close_timeout(timeout_ms)
        if self._is_closed or self._is_closing:
            return
        self._ensure_outside_listener()
        self._turns.start()
        self.give_back()
        limit_ms = DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else timeout_ms
        self._close_deadline_ms = self._clock.now_ms() + limit_ms
        self._is_closing = True
        try:
            await run(self._close_steps(limit_ms, leave_group), self._pause_to_close)
        finally:
            self._end()

    def _close_steps(self, limit_ms: int, leave_group: bool | None) -> Steps[None]:
        failure: KafkaError | None = None
        try:
            yield from self._finish_rebalance()
        except KafkaError as error:
            failure = error
        yield from self._leave(limit_ms, leave_group)
        if failure is not None:
            raise failure

    async def _pause_to_close(self, pause: Pause) -> None:
        if isinstance(pause, int):
            await self._wait(pause)
            return
        listener = asyncio.ensure_future(pause)
        remaining_ms = max(0, self._close_deadline_ms - self._clock.now_ms())
        try:
            await asyncio.wait({listener}, timeout=remaining_ms / 1000)
        finally:
            if not listener.done():
                listener.cancel()
                await asyncio.wait({listener}, timeout=0)
        if not listener.done() or listener.cancelled():
            raise Timeout("The rebalance listener took longer than the time-out of close, and was cancelled")
        listener.result()

    def _end(self) -> None:
        if self._turns.is_stopped:
            return
        self._turns.stop()
        self._resolver.close()
        if self._rebalancing is not None:
            self._rebalancing.cancel()
        super()._end()


def _never(pause: Pause) -> None:
    raise AssertionError(f"nothing to wait for here: {pause}")
