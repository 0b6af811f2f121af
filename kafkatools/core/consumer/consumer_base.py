"""ConsumerBase: what Consumer and kafkatools.aio.Consumer have in common, which is everything but waiting.

A call that must wait is a generator of steps (core/steps.py, `Pause` in network.py). A poll advances the group, sends
due requests (offset resets, validations, fetches) and returns buffered records. Before it returns, it sends the next
fetches, so that brokers work while records are processed. Without group.id the group code in `group_consumer.py` is
never loaded.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kafkatools.core import config as tables
from kafkatools.core.client_log import log_prefix
from kafkatools.core.clock import Clock, SystemClock
from kafkatools.core.config import Config
from kafkatools.core.config.client_settings import Settings, config_of, take_objects
from kafkatools.core.consumer.completed_fetch import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchedColumns,
    FetchOptions,
    SkipCorrupt,
)
from kafkatools.core.consumer.consumer_records import ConsumerRecords
from kafkatools.core.consumer.fetcher import Fetcher, FetchSettings
from kafkatools.core.consumer.heartbeat_thread import HeartbeatThread
from kafkatools.core.consumer.interceptors import ConsumerInterceptor, ConsumerInterceptors
from kafkatools.core.consumer.network import ConsumerNetworkClient, Steps
from kafkatools.core.consumer.offset_fetcher import NodeRequest, OffsetAndTimestamp, OffsetFetcher
from kafkatools.core.consumer.offset_listing import OffsetListing, target_times
from kafkatools.core.consumer.partition_wait import PartitionWait, names_of
from kafkatools.core.consumer.poison import (
    AnyDeserializer,
    PoisonPolicy,
    RecordDecoder,
    RefusedRecords,
    up_to_failures,
)
from kafkatools.core.consumer.record_iterator import PendingRecords, whole_ms
from kafkatools.core.consumer.single_thread import one_at_a_time
from kafkatools.core.consumer.subscription import (
    AutoOffsetResetStrategy,
    FetchPosition,
    ResetKind,
    SubscriptionState,
    TopicPartition,
)
from kafkatools.core.errors import (
    DecodeError,
    IllegalState,
    InvalidGroupId,
    KafkaError,
    LeaderNotAvailable,
    UnsupportedVersion,
)
from kafkatools.core.group.requests import ignore_outcome
from kafkatools.core.metrics.fetching import FetchMetrics
from kafkatools.core.metrics.polls import GROUP as POLL_GROUP
from kafkatools.core.metrics.polls import CommitTimes, PollMetrics
from kafkatools.core.metrics.registry import MetricValues
from kafkatools.core.net.sendable_names import ensure_sendable_topic
from kafkatools.core.topic_partition import as_partition

if TYPE_CHECKING:
    from kafkatools.core.consumer.group_consumer import GroupConsumer
    from kafkatools.core.consumer.group_subscription import RebalanceListener, Topics
    from kafkatools.core.consumer.offset_commits import CommitCallback
    from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
    from kafkatools.core.protocol.entities import Entity

DEFAULT_CLOSE_TIMEOUT_MS = 30_000
_ALL_BUFFERED = 1 << 62
INTERRUPTED_CLOSE_MS = 3000
_OBJECTS = ("key.deserializer", "value.deserializer")

Place = TypeVar("Place", bound=tuple[str, int])
Fetched = TypeVar("Fetched")
Polled = TypeVar("Polled")


class ConsumerBase:
    """The settings and parts of a consumer, its calls that do not wait, and the steps of those that do."""

    def __init__(
        self,
        config: Settings | None,
        clock: Clock | None,
        skip_corrupt: SkipCorrupt | None,
        new_client: Callable[[Config, Clock], ConsumerNetworkClient],
        *,
        interceptors: Sequence[ConsumerInterceptor],
        deserializers: tuple[str | AnyDeserializer | None, str | AnyDeserializer | None],
        poison: PoisonPolicy | str,
        settings: Mapping[str, object],
    ) -> None:
        plain_settings, objects = take_objects(config, _OBJECTS)
        config = config_of(tables.CONSUMER, plain_settings, settings)
        key_deserializer = deserializers[0] or objects.get("key.deserializer")
        value_deserializer = deserializers[1] or objects.get("value.deserializer")
        self._decoder = RecordDecoder.of(config, key_deserializer, value_deserializer, poison)
        self._interceptors = ConsumerInterceptors.of(config, interceptors)
        self.config = config
        self.clock = self._clock = clock or SystemClock()
        self._pending = PendingRecords()
        self._call_lock = threading.RLock()
        isolation = READ_COMMITTED if config.isolation_level == "read_committed" else READ_UNCOMMITTED
        options = FetchOptions(
            isolation,
            config.check_crcs,
            config.max_decompressed_message_bytes,
            skip_corrupt,
            log_prefix=log_prefix(config),
        )
        self._subscriptions = SubscriptionState(AutoOffsetResetStrategy.parse(config.auto_offset_reset))
        self._client = new_client(config, self._clock)
        self._refused = RefusedRecords(self._decoder, self._subscriptions)
        self._leaders = self._client.leaders
        metrics = self._client.metrics
        self._polls, self._call_times = PollMetrics(metrics, POLL_GROUP), CommitTimes(metrics)
        fetch_settings = FetchSettings.of(config, options)
        self._fetcher = Fetcher(fetch_settings, self._subscriptions, self._leaders, FetchMetrics(metrics))
        self._offsets = OffsetFetcher(
            self._subscriptions, self._leaders, isolation, config.retry_backoff_ms, config.request_timeout_ms
        )
        self._is_committed_only = isolation == READ_COMMITTED
        self._max_poll_records: int = config.max_poll_records
        self._api_timeout_ms: int = config.default_api_timeout_ms
        self._failure: KafkaError | None = None
        self._seen_metadata = -1
        self._is_closed = self._is_closing = False
        self._group = self._new_group(config)
        self._client.push_metrics(config, self._member_id)

    @staticmethod
    def _start_heartbeats(run_once: Callable[[], int], name: str) -> HeartbeatThread | None:
        """Start the thread that sends heartbeats between the calls; None without a thread, as on an event loop."""
        return HeartbeatThread(run_once, name)

    def _new_group(self, config: Config) -> GroupConsumer | None:
        if not config.group_id:
            return None
        from kafkatools.core.consumer.group_consumer import GroupConsumer

        try:
            group = GroupConsumer(config, self._clock, self._client, self._subscriptions, self._start_heartbeats)
        except KafkaError:
            self._client.close()
            raise
        group.commits.unread = self._pending.offsets
        if self._interceptors:
            group.commits.on_commit = self._interceptors.on_commit
        return group

    # --- subscription and assignment

    def _assign(self, partitions: Iterable[tuple[str, int]]) -> Steps[None]:
        requested = [as_partition(part) for part in partitions]
        for part in requested:
            ensure_sendable_topic(part.topic)
        self.give_back()
        if not requested:
            yield from self._unsubscribe()
        elif self._group is not None:
            self._group.assign_by_hand()
        self._subscriptions.assign(requested)
        self._client.set_topics(self._subscriptions.topics())

    def _subscribe(self, topics: Topics, listener: RebalanceListener | None) -> Steps[None]:
        self.give_back()
        yield from self._grouped().subscribe(topics, listener)

    def _unsubscribe(self) -> Steps[None]:
        self.give_back()
        if self._group is not None:
            yield from self._group.unsubscribe()
        self._subscriptions.assign(())

    @one_at_a_time
    def subscription(self) -> set[str]:
        """Return the subscribed topics; for a client-side pattern those that match so far. Else empty."""
        return set() if self._group is None else set(self._group.subscription.topics)

    @one_at_a_time
    def enforce_rebalance(self, reason: str = "") -> None:
        """Make the next poll rejoin the group, in the classic protocol. With group.protocol=consumer this only logs a
        warning; before the first `subscribe` it does nothing. Raises InvalidGroupId without group.id."""
        self._grouped().enforce_rebalance(reason)

    @one_at_a_time
    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's identity for Producer.send_offsets_to_transaction. Raises InvalidGroupId."""
        return self._grouped().group_metadata()

    def _grouped(self) -> GroupConsumer:
        if self._group is None:
            from kafkatools.core.consumer.group_consumer import NO_GROUP

            raise InvalidGroupId(NO_GROUP)
        return self._group

    @one_at_a_time
    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return self._subscriptions.assigned_partitions()

    @one_at_a_time
    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return no records of these partitions until `resume`; buffered records are kept."""
        for part in partitions:
            self._subscriptions.pause(TopicPartition(*part))

    @one_at_a_time
    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return records of these paused partitions again."""
        for part in partitions:
            self._subscriptions.resume(TopicPartition(*part))

    @one_at_a_time
    def paused(self) -> list[TopicPartition]:
        """Return the paused partitions."""
        return self._subscriptions.paused_partitions()

    # --- positions

    @one_at_a_time
    def seek(self, partition: tuple[str, int], offset: int, leader_epoch: int = -1) -> None:
        """Make the next poll read from `offset`. Raises ValueError for a negative offset. With `leader_epoch`, the
        epoch of the record before that offset, a truncated log is detected."""
        if offset < 0:
            raise ValueError("seek offset must not be a negative number")
        self.give_back()
        part = TopicPartition(*partition)
        self._leaders.note_epoch(part, leader_epoch)
        leader = self._leaders.leader(part)
        position = FetchPosition(offset, leader_epoch)
        self._subscriptions.seek(part, position if leader is None else position._replace(leader=leader))

    @one_at_a_time
    def seek_to_beginning(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Move partitions (default: all assigned) to their log start offsets, looked up by the next poll."""
        self._request_reset(partitions, ResetKind.EARLIEST)

    @one_at_a_time
    def seek_to_end(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Move partitions (default: all assigned) to their end, the last stable offset under read_committed."""
        self._request_reset(partitions, ResetKind.LATEST)

    def _seek_to_time(self, timestamp_ms: int, partitions: Iterable[tuple[str, int]]) -> Steps[None]:
        requested = [TopicPartition(*part) for part in partitions] or self.assignment()
        offsets = yield from self._list(target_times(dict.fromkeys(requested, timestamp_ms)))
        self.give_back()
        for part, at in offsets.items():
            if at is None:
                self._request_reset([part], ResetKind.LATEST)
            else:
                self.seek(part, at.offset)

    def _request_reset(self, partitions: Iterable[tuple[str, int]], kind: ResetKind) -> None:
        self.give_back()
        requested = [TopicPartition(*part) for part in partitions] or self.assignment()
        for part in requested:
            self._subscriptions.request_offset_reset(part, AutoOffsetResetStrategy(kind))

    @one_at_a_time
    def give_back(self) -> None:
        """Move the positions of assigned partitions back to the first records that iterators have not yielded, so that
        they are read again."""
        if not self._pending:
            return
        for part, offset in self._pending.clear().items():
            if self._subscriptions.is_assigned(part):
                self.seek(part, offset)

    def _position(self, partition: tuple[str, int], timeout_ms: int | None) -> Steps[int]:
        part = TopicPartition(*partition)
        if self._pending and part in (pending := self._pending.offsets()):
            return pending[part]
        message = f"Timeout expired before the position for partition {part} could be determined"
        wait = self._wait_for([part], message, timeout_ms)
        while True:
            position = self._subscriptions.position(part)
            if position is not None:
                return position.offset
            if self._group is not None:
                self._group.find_positions(self._clock.now_ms())
            self._update_positions()
            yield from wait.poll()
            self._raise_failure()

    def known_position(self, partition: tuple[str, int]) -> int | None:
        """Return the position, None while it is unknown; never waits."""
        position = self._subscriptions.position(TopicPartition(*partition))
        return None if position is None else position.offset

    def has_read_to(self, partition: tuple[str, int], end: int) -> bool:
        """Return whether the position has reached offset `end`, or the broker reported no records between both; never
        waits. A position beyond `end` counts only after a fetch confirmed it: a committed offset may lie outside of the
        log. Raises ValueError for an unassigned partition."""
        part = TopicPartition(*partition)
        position = self._subscriptions.position(part)
        if position is None:
            return False
        if position.offset > end:
            served_to = self._subscriptions.state(part).high_watermark
            return served_to is not None and served_to >= position.offset
        return position.offset == end or self._fetcher.has_nothing_before(part, end)

    @one_at_a_time
    def current_lag(self, partition: tuple[str, int]) -> int | None:
        """Return the records between the position and the end of the log, as of the last fetch; None while unknown."""
        state = self._subscriptions.state(TopicPartition(*partition))
        end = state.last_stable_offset if self._is_committed_only else state.high_watermark
        return None if end is None or state.position is None else max(0, end - state.position.offset)

    # --- committed offsets

    def _commit(self, offsets: Mapping[Place, OffsetAndMetadata | int] | None, timeout_ms: int | None) -> Steps[None]:
        limit_ms = self._api_timeout_ms if timeout_ms is None else timeout_ms
        with self._call_times.time("commit-sync"):
            yield from self._grouped().commit_sync(offsets, limit_ms)

    def _committed(
        self, partitions: Iterable[tuple[str, int]], timeout_ms: int | None
    ) -> Steps[dict[TopicPartition, OffsetAndMetadata | None]]:
        limit_ms = self._api_timeout_ms if timeout_ms is None else timeout_ms
        with self._call_times.time("committed"):
            return (yield from self._grouped().committed(partitions, limit_ms))

    @one_at_a_time
    def commit_async(
        self, offsets: Mapping[Place, OffsetAndMetadata | int] | None = None, callback: CommitCallback | None = None
    ) -> None:
        """Commit without waiting or retrying; `callback(offsets, error)` runs in a later call, in commit order."""
        self._grouped().commit_async(offsets, callback)

    # --- records

    def _poll_records(self, timeout_ms: int) -> Steps[ConsumerRecords]:
        """Raises IllegalState without a subscription and assigned partitions, as Kafka's consumer. Columns have no such
        rule: a tool polls them while it waits for a topic."""
        limit_ms = whole_ms(timeout_ms)
        self._ensure_subscribed()
        return (yield from self._handing_out(self._poll_decoded(limit_ms)))

    def _poll_assignment(self, timeout_ms: int) -> Steps[None]:
        """Poll until partitions are assigned, without collecting records. Raises IllegalState without a
        subscription."""
        self._ensure_subscribed()
        yield from self._poll(timeout_ms, self._subscriptions.assigned_partitions)

    def _ensure_subscribed(self) -> None:
        has_subscription = self._group is not None and self._group.subscription.is_automatic
        if not has_subscription and not self._subscriptions.assigned_partitions():
            raise IllegalState("Consumer is not subscribed to any topics or assigned any partitions")

    def _poll_decoded(self, timeout_ms: int) -> Steps[ConsumerRecords]:
        columns = yield from self._poll(timeout_ms, self._collect_records)
        records = self._decoded(columns) if self._decoder and columns else ConsumerRecords(columns)
        return self._interceptors.on_consume(records) if records else records

    def _handing_out(self, steps: Steps[Polled]) -> Steps[Polled]:
        """Run a poll. If an interrupt, such as KeyboardInterrupt, keeps its records from the caller, move the positions
        back: `close` would commit them."""
        self._fetcher.note_handed_out()
        try:
            return (yield from steps)
        except KafkaError:
            self._fetcher.note_handed_out()
            raise
        except BaseException:
            self._fetcher.take_back()
            raise

    def _collect_records(self) -> list[FetchedColumns]:
        self._refused.retry()
        return self._fetcher.collect(self._max_poll_records)

    def _decoded(self, columns: Sequence[FetchedColumns]) -> ConsumerRecords:
        decoded = self._decoder.decode(columns)
        self._refused.add(decoded.failures)
        for part, failure in decoded.failures.items():
            self.seek(part, failure.offset)
        if decoded.failures and not decoded.records:
            raise next(iter(decoded.failures.values()))
        return ConsumerRecords(up_to_failures(columns, decoded.failures), decoded.records)

    def _poll_columns(self, timeout_ms: int) -> Steps[list[FetchedColumns]]:
        steps = self._poll(whole_ms(timeout_ms), partial(self._fetcher.collect, _ALL_BUFFERED))
        return (yield from self._handing_out(steps))

    def _poll(self, timeout_ms: int, collect: Callable[[], list[Fetched]]) -> Steps[list[Fetched]]:
        """Raises ValueError for a negative time-out."""
        if timeout_ms < 0:
            raise ValueError(f"Invalid negative timeout {timeout_ms}")
        with self._polls.time():
            return (yield from self._poll_until(timeout_ms, collect))

    def _poll_until(self, timeout_ms: int, collect: Callable[[], list[Fetched]]) -> Steps[list[Fetched]]:
        now_ms = self._clock.now_ms()
        deadline_ms = now_ms + timeout_ms
        while True:
            self._raise_failure()
            if self._group is not None:
                yield from self._rebalance(self._group, now_ms)
                self._pending.forget_revoked(self._subscriptions.is_assigned)
            self._update_positions()
            self._fetcher.note_time(now_ms)
            try:
                items = collect()
            except KafkaError:
                # An application that polls again and again must not drop out of its group: the group's requests and
                # responses go on here.
                self._send_fetches(now_ms)
                yield 0
                raise
            self._send_fetches(now_ms)
            if items:
                return items
            remaining_ms = deadline_ms - now_ms
            if remaining_ms <= 0:
                yield 0
                return collect() if self._fetcher.has_completed() else []
            yield min(remaining_ms, self._poll_limit_ms())
            now_ms = self._clock.now_ms()
            self._client.ensure_contact(now_ms)

    def _rebalance(self, group: GroupConsumer, now_ms: int) -> Steps[None]:
        """Run the group's part of a poll. It waits only for a listener's coroutine."""
        return group.advance(now_ms)

    def _poll_limit_ms(self) -> int:
        """The longest wait of a poll in ms."""
        return self._client.poll_limit_ms

    def _send_fetches(self, now_ms: int) -> None:
        for item in self._fetcher.prepare(now_ms, self._client.can_send):
            on_response = partial(self._fetcher.handle_response, item.node)
            self._client.send_fetch(item.node, item.request, on_response, partial(self._fetch_failed, item.node))

    def _fetch_failed(self, node: int, error: KafkaError) -> None:
        self._fetcher.handle_failure(node)
        if isinstance(error, (DecodeError, UnsupportedVersion)):
            self._failure = error  # a retry would fail alike

    # --- resets and validation of positions

    def _update_positions(self) -> None:
        now_ms = self._clock.now_ms()
        if self._client.metadata_version != self._seen_metadata:
            self._seen_metadata = self._client.metadata_version
            self._offsets.note_leaders()
            self._check_assigned_topics()
        for request in self._offsets.validation_requests(now_ms):
            self._send(request, self._offsets.handle_validation_response)
        if self._group is None:
            self._subscriptions.reset_initializing_positions()
        for request in self._offsets.reset_requests(now_ms, self._clock.wall_ms()):
            self._send(request, self._offsets.handle_reset_response)

    def _check_assigned_topics(self) -> None:
        """Raise InvalidTopic or TopicAuthorizationFailed for a topic that is assigned by hand; a group checks its
        own."""
        if self._group is not None and self._group.subscription.topics:
            return
        for topic in self._subscriptions.topics():
            error = self._client.cluster.topic_error(topic)
            if error is not None:
                raise error

    def _send(self, request: NodeRequest, handle: Callable[[NodeRequest, Entity, int], None]) -> None:
        def on_response(entity: Entity) -> None:
            try:
                handle(request, entity, self._clock.now_ms())
            except KafkaError as error:
                self._failure = error

        def on_failure(error: KafkaError) -> None:
            if isinstance(error, UnsupportedVersion) and handle == self._offsets.handle_validation_response:
                self._offsets.skip_validation(request)
            else:
                self._offsets.handle_failure(request, self._clock.now_ms())

        self._client.send(request.node, request.api_key, request.fields, on_response, on_failure)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def metrics(self) -> MetricValues:
        """Return the values of the consumer's metrics by MetricName: Kafka's consumer-metrics, consumer-node-metrics,
        consumer-fetch-manager-metrics and, with group.id, consumer-coordinator-metrics. Callable from any thread."""
        return self._client.metrics.values()

    def _member_id(self) -> str:
        return "" if self._group is None else self._group.group_metadata().member_id

    def _client_instance_id(self, timeout_ms: int | None) -> Steps[str | None]:
        return self._client.instance_id(self._api_timeout_ms if timeout_ms is None else timeout_ms)

    # --- offsets and partitions of the cluster

    def _offsets_at(self, partitions: Iterable[tuple[str, int]], timestamp: int) -> Steps[dict[TopicPartition, int]]:
        offsets = yield from self._list({TopicPartition(*part): timestamp for part in partitions})
        return {part: offset.offset for part, offset in offsets.items() if offset is not None}

    def _list(self, timestamps: Mapping[TopicPartition, int]) -> Steps[dict[TopicPartition, OffsetAndTimestamp | None]]:
        wait = self._wait_for(timestamps, f"Failed to get offsets by times in time for {names_of(timestamps)}", None)
        return (yield from OffsetListing(self._client, self._offsets, wait).list(timestamps))

    def _partitions_for(self, topic: str, timeout_ms: int | None) -> Steps[list[int]]:
        deadline = self._deadline(timeout_ms)
        self._client.set_topics({topic})
        yield from self._client.refresh_metadata(deadline)
        while self._client.is_being_created(topic) and self._clock.now_ms() < deadline:
            yield from self._client.refresh_metadata(deadline)
        if (error := self._client.cluster.topic_error(topic)) is not None:
            raise error
        return self._client.topics().get(topic, [])

    def _list_topics(self, timeout_ms: int | None) -> Steps[dict[str, list[int]]]:
        self._client.replace_topics(None)
        yield from self._client.refresh_metadata(self._deadline(timeout_ms))
        return self._client.topics()

    def _deadline(self, timeout_ms: int | None) -> int:
        return self._clock.now_ms() + (self._api_timeout_ms if timeout_ms is None else timeout_ms)

    def _wait_for(self, partitions: Collection[TopicPartition], message: str, timeout_ms: int | None) -> PartitionWait:
        return PartitionWait(self._client, self._clock, self._deadline(timeout_ms), message, partitions)

    @property
    def metadata_version(self) -> int:
        """A counter that grows with every metadata response and every leader learned from a Fetch response."""
        return self._client.metadata_version

    def known_partitions(self) -> dict[str, list[int]]:
        """Return the partition numbers of each topic in cached metadata; never waits."""
        return self._client.topics()

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """Return the topic's id from cached metadata, None when it has none or is missing there; never waits."""
        return self._client.cluster.topic_id(topic)

    def connection_problem(self) -> KafkaError | None:
        """Return the connection error of the first unreachable leader of an assigned partition, else None. While a
        leader is unknown, and with group.id but no assigned partitions, the error of all brokers counts instead.
        Without partitions, also that of the coordinator. Polls raise none of these errors once metadata has arrived;
        they retry."""
        if self._group is not None and not self.assignment():
            return self._client.cluster_problem() or self._group.problem
        for part in self.assignment():
            leader, client = self._leaders.leader(part), self._client
            problem = client.cluster_problem() if leader is None else client.connection_problem(leader.leader)
            if problem is not None:
                return problem
        return None

    def missing_leader(self) -> KafkaError | None:
        """Return LeaderNotAvailable for the first assigned partition that metadata lists without a leader, else None. A
        partition that is missing from metadata does not count."""
        for part in self.assignment():
            if (leader := self._leaders.leader(part)) is not None and leader.leader < 0:
                return LeaderNotAvailable(f"{part[0]}-{part[1]} has no leader")
        return None

    def has_broker(self) -> bool:
        """Return False when the last connection to every known broker failed; True otherwise, also before the first
        attempt."""
        return self._client.cluster_problem() is None

    # --- the end

    def _leave(self, timeout_ms: int | None, leave_group: bool | None = None) -> Steps[None]:
        """Commit, leave the group and close the connections, also after an error or a cancellation of a wait."""
        limit_ms = DEFAULT_CLOSE_TIMEOUT_MS if timeout_ms is None else timeout_ms
        deadline_ms = self._clock.now_ms() + limit_ms
        try:
            if self._group is not None:
                self._client.note_member()
                yield from self._group.close(limit_ms, leave_group)
            yield from self._client.push_last_metrics(deadline_ms)
        finally:
            self._end()

    def _end(self) -> None:
        """End the fetch sessions without waiting, and close the connections."""
        self._is_closed = True
        if self._group is not None:
            self._group.end_thread()
        self._interceptors.close()
        for item in self._fetcher.close_requests():
            if self._client.can_send(item.node):
                self._client.send_fetch(item.node, item.request, ignore_outcome, ignore_outcome)
        self._client.close()
