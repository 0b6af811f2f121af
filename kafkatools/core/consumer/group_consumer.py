"""Group membership of a consumer: subscriptions, rebalances and committed offsets.

Rules: each poll calls `advance` before it fetches. In Kafka's order, that runs commit callbacks, rebalance steps and
the automatic commit, then looks up positions. When nothing is due this costs a few comparisons, and nothing per record.
With manually assigned partitions the consumer commits and reads offsets without being a group member.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from kafkatools.core.client_log import ClientLog
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.consumer.classic_rebalance import ClassicRebalance
from kafkatools.core.consumer.coordinator_channel import CoordinatorChannel
from kafkatools.core.consumer.group_subscription import (
    GroupSubscription,
    ListenerCalls,
    RebalanceListener,
    SubscriptionPattern,
    SubscriptionType,
    Topics,
)
from kafkatools.core.consumer.heartbeat_thread import IN_FLIGHT_CHECK_MS, LONGEST_SLEEP_MS, HeartbeatThread
from kafkatools.core.consumer.member_heartbeats import GroupParts
from kafkatools.core.consumer.network import ConsumerNetworkClient, Steps
from kafkatools.core.consumer.offset_commits import CommitCallback, NoMembership, OffsetCommits
from kafkatools.core.consumer.offset_requests import Fetched, is_retriable_fetch
from kafkatools.core.consumer.single_thread import IN_LISTENER
from kafkatools.core.consumer.subscription import FetchPosition, SubscriptionState, TopicPartition
from kafkatools.core.errors import ConfigError, IllegalState, KafkaError, UnsupportedVersion
from kafkatools.core.group.classic_membership import ClassicMembership
from kafkatools.core.group.coordinator import CoordinatorKind, CoordinatorLookup
from kafkatools.core.group.heartbeat_timers import Heartbeat
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata, offsets_to_commit
from kafkatools.core.metrics.membership import GROUP, CoordinatorMetrics, RebalanceMetrics
from kafkatools.core.net.connection_states import ExponentialBackoff

if TYPE_CHECKING:
    from kafkatools.core.consumer.consumer_rebalance import ConsumerRebalance

_log = logging.getLogger(__name__)

NO_GROUP = (
    "To use the group management or offset commit APIs, you must provide a valid group.id in the consumer "
    "configuration."
)
Place = TypeVar("Place", bound=tuple[str, int])
StartHeartbeats = Callable[[Callable[[], int], str], HeartbeatThread | None]
_LEAVE_WAIT_MS = 1000
_LOOKUP_CHECK_MS = 100


NOT_WITH = {
    "classic": ("group.remote.assignor",),
    "consumer": ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms"),
}


def check_settings(config: Config) -> None:
    """Raise ConfigError for settings of the other group protocol, unknown assignors, or heartbeat.interval.ms not below
    session.timeout.ms."""
    protocol = config.group_protocol.lower()
    for name in NOT_WITH[protocol]:
        if config.is_explicit(name):
            raise ConfigError(f"{name} cannot be set when group.protocol={protocol.upper()}")
    if protocol == "classic" and config.heartbeat_interval_ms >= config.session_timeout_ms:
        raise ConfigError("Heartbeat must be set lower than the session timeout")
    if config.is_explicit("partition.assignment.strategy"):
        from kafkatools.core.consumer.assignors.by_name import assignor_for_name

        for name in config.partition_assignment_strategy:
            assignor_for_name(name)


class GroupConsumer:
    """The group half of a consumer: subscribe, rebalance, commit, fetch committed offsets and leave."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        client: ConsumerNetworkClient,
        subscriptions: SubscriptionState,
        start_heartbeats: StartHeartbeats,
    ) -> None:
        """`start_heartbeats` starts the heartbeat thread with its turn and its name; if it returns None, the caller
        calls `tick`."""
        check_settings(config)
        self._config = config
        self._log = ClientLog.of(_log, config)
        self._clock = clock
        self._client = client
        self._subscriptions = subscriptions
        backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._lookup = CoordinatorLookup(CoordinatorKind.GROUP, config.group_id, backoff)
        metrics = CoordinatorMetrics(client.metrics, GROUP, has_joins=config.group_protocol.lower() == "classic")
        metrics.add_commits()
        self.channel = CoordinatorChannel(client, self._lookup, clock, metrics)
        self.subscription = GroupSubscription(config.exclude_internal_topics)
        self._rebalances = RebalanceMetrics(client.metrics, lambda: len(subscriptions.assigned_partitions()))
        self._listener = ListenerCalls(self.subscription, self._rebalances)
        self._by_hand = NoMembership(config.group_id)
        self.commits = OffsetCommits(config, self.channel, subscriptions, self._by_hand, clock)
        self._heartbeat = Heartbeat(
            config.heartbeat_interval_ms, config.session_timeout_ms, config.max_poll_interval_ms
        )
        self._rebalance: ClassicRebalance | ConsumerRebalance | None = None
        self._start_heartbeats = start_heartbeats
        self._has_polled = False
        self._thread: HeartbeatThread | None = None
        self._fetching: frozenset[TopicPartition] = frozenset()
        self._retry_ms = 0
        self._seen_metadata = -1
        self._missing: set[str] = set()  # missing subscribed topics, already logged
        self._failure: KafkaError | None = None

    # --- subscriptions

    def subscribe(self, topics: Topics, listener: RebalanceListener | None) -> Steps[None]:
        """Replace the subscription; the group is joined during the next polls. An empty collection unsubscribes. Raises
        IllegalState when the new subscription is of another kind, ValueError for an empty topic name, and InvalidTopic
        for one that no request can hold. With the classic protocol, raises UnsupportedVersion for a SubscriptionPattern
        and ConfigError for assignors without a common rebalance protocol."""
        if not isinstance(topics, (str, SubscriptionPattern)) and not callable(topics) and not hasattr(topics, "match"):
            topics = frozenset(topics)
            if not topics:
                yield from self.unsubscribe()
                return
        is_by_server = isinstance(topics, SubscriptionPattern)
        if is_by_server and self._config.group_protocol.lower() != "consumer":
            raise UnsupportedVersion("Subscribe to RE2/J regular expression is not supported with the classic protocol")
        self.subscription.subscribe(topics, listener)
        if self._rebalance is None:
            self._rebalance = self._new_rebalance()
        self.commits.identity = self._rebalance
        self.channel.on_tick = self._rebalance.tick
        for part in self._subscriptions.assigned_partitions():
            is_gone = self.subscription.type is SubscriptionType.AUTO_TOPICS and not self.subscription.accepts([part])
            self._subscriptions.state(part).pending_revocation = is_gone
        self.cover_topics()

    def cover_topics(self) -> None:
        """Make metadata cover the subscription: all topics for a pattern, which is then matched against cached
        metadata, else the group's topics."""
        if self.subscription.needs_all_topics:
            self._client.replace_topics(None)
            self.subscription.match(self._client.cluster.topics)
        elif self._rebalance is not None:
            self._client.replace_topics(self._rebalance.metadata_topics())

    def _new_rebalance(self) -> ClassicRebalance | ConsumerRebalance:
        parts = GroupParts(
            self._client,
            self.channel,
            self.subscription,
            self._subscriptions,
            self.commits,
            self._listener,
            self._rebalances,
        )
        if self._config.group_protocol.lower() == "consumer":
            from kafkatools.core.consumer.consumer_rebalance import ConsumerRebalance
            from kafkatools.core.group.consumer_membership import ConsumerMembership

            return ConsumerRebalance(ConsumerMembership(self._config, self._lookup, self._heartbeat), parts)
        from kafkatools.core.consumer.assignors.by_name import assignor_for_name

        assignors = [assignor_for_name(name) for name in self._config.partition_assignment_strategy]
        return ClassicRebalance(ClassicMembership(self._config, self._lookup, self._heartbeat), parts, assignors)

    @property
    def is_in_listener(self) -> bool:
        """Return whether a callback of the rebalance listener runs now."""
        return self._listener.is_calling

    def unsubscribe(self) -> Steps[None]:
        """Leave the group, if joined, and drop the subscription and all partitions. Raises KafkaError with the
        listener's exception as its cause, IllegalState in a callback of the listener."""
        if self.is_in_listener:
            raise IllegalState(IN_LISTENER)
        if self.subscription.is_automatic and self._rebalance is not None:
            yield from self._rebalance.leave("the consumer unsubscribed from all topics")
        self.subscription.unsubscribe()
        self._subscriptions.assign(())
        self.commits.identity = self._by_hand
        self.channel.on_tick = None
        self._listener.raise_error()

    def assign_by_hand(self) -> None:
        """Switch to manual assignment. Raises IllegalState when the consumer is subscribed to topics."""
        self.subscription.become(SubscriptionType.USER_ASSIGNED)

    @property
    def problem(self) -> KafkaError | None:
        """The last error response of the coordinator or of its lookup, while no coordinator is known or after three
        refusals in a row; else None."""
        error = self._lookup.problem
        return None if error is None else type(error)(f"Group {self._config.group_id}: {error}")

    # --- the turn of a poll

    def advance(self, now_ms: int) -> Steps[None]:
        """Run the group's part of a poll: commit callbacks, rebalance steps, automatic commit, position lookups. Sends
        requests without waiting for responses. Raises FencedInstanceId, fatal membership and lookup errors, a
        listener's error, InvalidTopic and TopicAuthorizationFailed."""
        self.commits.run_callbacks()
        self.commits.advance()
        self._raise_failure()
        rebalance = self._rebalance
        if rebalance is not None and self.subscription.is_automatic:
            self._heartbeat.poll(now_ms)
            self._has_polled = True
            self._check_topics()
            if self._thread is None:
                self._thread = self._start_heartbeats(self._run_background, f"heartbeat | {self._config.group_id}")
            self.channel.tick(now_ms)
            yield from rebalance.advance(now_ms)
        self.commits.maybe_auto_commit(now_ms)
        self.find_positions(now_ms)

    def _check_topics(self) -> None:
        """After a new metadata response, raise InvalidTopic or TopicAuthorizationFailed for a subscribed topic and log
        missing ones."""
        version = self._client.update_version
        if version == self._seen_metadata:
            return
        self._seen_metadata = version
        for topic in self.subscription.topics:
            error = self._client.cluster.topic_error(topic)
            if error is not None:
                raise error
            self._warn_if_missing(topic)

    def _warn_if_missing(self, topic: str) -> None:
        """Log once that a subscribed topic does not exist; again after it was created and deleted."""
        if not self._client.is_missing(topic):
            self._missing.discard(topic)
        elif topic not in self._missing:
            self._missing.add(topic)
            self._log.warning("Topic %s does not exist; group %s waits for it", topic, self._config.group_id)

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure or self.channel.take_failure(), None
        if failure is not None:
            raise failure

    def _run_background(self) -> int:
        """Run one turn of the heartbeat thread: read responses, then send due requests. Returns the ms to sleep."""
        with self.channel.lock:
            if self._is_expecting:
                self._client.poll_background()
            now_ms = self._clock.now_ms()
            self.channel.tick(now_ms)
            if self._is_expecting:
                self._client.poll_background()
                return IN_FLIGHT_CHECK_MS
            return self._heartbeat_delay_ms(now_ms)

    def _heartbeat_delay_ms(self, now_ms: int) -> int:
        longest_ms = min(LONGEST_SLEEP_MS, self._heartbeat.interval_ms)
        return longest_ms if self._rebalance is None else self._rebalance.delay_ms(now_ms, longest_ms)

    def tick(self, now_ms: int) -> int | None:
        """Send due heartbeats between the calls of an application without a heartbeat thread. Returns the ms until the
        next call; None when none is needed."""
        if self._rebalance is None or not self.subscription.is_automatic or not self._has_polled:
            return None
        self.channel.tick(now_ms)
        if not self._lookup.is_known:
            return _LOOKUP_CHECK_MS
        return max(IN_FLIGHT_CHECK_MS, self._heartbeat_delay_ms(now_ms))

    @property
    def _is_expecting(self) -> bool:
        return self._heartbeat.is_in_flight or not self._lookup.is_known or self._client.has_unsent

    # --- positions from committed offsets

    def find_positions(self, now_ms: int) -> None:
        """Request committed offsets for partitions without a position, without waiting (Kafka's
        refreshCommittedOffsetsIfNeeded). The response sets the positions, or requests a reset by auto.offset.reset
        where none is committed. Raises the error of an earlier request."""
        self._raise_failure()
        if self._fetching or now_ms < self._retry_ms:
            return
        waiting = self._subscriptions.initializing_partitions()
        if not waiting:
            return
        if not self._lookup.is_known:
            self.channel.tick(now_ms)
            return
        self._fetching = frozenset(waiting)
        self.commits.request_committed(waiting, self._handle_committed)

    def _handle_committed(self, response: Fetched) -> None:
        requested, self._fetching = self._fetching, frozenset()
        if response.error is not None:
            if is_retriable_fetch(response.error):
                self._retry_ms = self._clock.now_ms() + self._config.retry_backoff_ms
            else:
                self._failure = response.error
            return
        waiting = requested.intersection(self._subscriptions.initializing_partitions())
        for part in waiting:
            self._start_at(part, response.offsets.get(part))
        try:
            self._subscriptions.reset_initializing_positions(waiting)
        except KafkaError as error:
            self._failure = error

    def _start_at(self, part: TopicPartition, committed: OffsetAndMetadata | None) -> None:
        if committed is None:
            return
        self._client.leaders.note_epoch(part, committed.leader_epoch)
        leader = self._client.leaders.leader(part)
        position = FetchPosition(committed.offset, committed.leader_epoch)
        self._subscriptions.seek(part, position if leader is None else position._replace(leader=leader))

    # --- commits

    def commit_sync(self, offsets: Mapping[Place, OffsetAndMetadata | int] | None, timeout_ms: int) -> Steps[None]:
        """Commit these offsets (default: all positions) and wait for the response, at most `timeout_ms`. Raises
        Timeout, CommitFailed, RebalanceInProgress, the broker's errors, and the errors of `offsets_to_commit`."""
        yield from self.commits.commit_sync(self._offsets(offsets), timeout_ms)

    def commit_async(
        self, offsets: Mapping[Place, OffsetAndMetadata | int] | None, callback: CommitCallback | None
    ) -> None:
        """Commit these offsets (default: all positions) without waiting; `callback` runs in a later call. Raises
        the errors of `offsets_to_commit`."""
        self.commits.commit_async(self._offsets(offsets), callback)

    def _offsets(
        self, offsets: Mapping[Place, OffsetAndMetadata | int] | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return self.commits.all_consumed() if offsets is None else offsets_to_commit(offsets)

    def committed(
        self, parts: Iterable[tuple[str, int]], timeout_ms: int
    ) -> Steps[dict[TopicPartition, OffsetAndMetadata | None]]:
        """Return the group's committed offsets, None for a partition without one. Raises Timeout and the broker's
        non-retriable errors."""
        return self.commits.committed((TopicPartition(*part) for part in parts), timeout_ms)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return this member's group metadata. Before the first subscription, it has the group id and instance id
        only."""
        if self._rebalance is None:
            return ConsumerGroupMetadata(self._config.group_id, group_instance_id=self._config.group_instance_id)
        return self._rebalance.group_metadata()

    def enforce_rebalance(self, reason: str) -> None:
        """Make the next poll rejoin the group, in the classic protocol. With group.protocol=consumer this only logs a
        warning; before the first subscription it does nothing."""
        if self._rebalance is not None:
            self._rebalance.request_rejoin(reason or "rebalance enforced by user")

    # --- the end

    def close(self, timeout_ms: int, leave_group: bool | None = None) -> Steps[None]:
        """Commit (with enable.auto.commit), revoke partitions and leave the group. The commit and pending async commits
        wait up to `timeout_ms`, the leave request up to 1 s; both end without a reachable broker. A failed commit is
        logged. `leave_group` as in Consumer.close. Raises the exception of a commit callback, and KafkaError with the
        listener's exception as its cause."""
        deadline = self._clock.now_ms() + timeout_ms
        self._client.ignores_wakeup = True
        failure: Exception | None = None
        try:
            if self._lookup.is_known or self._client.cluster_problem() is None:
                yield from self.commits.commit_before_end(deadline)
                yield from self.commits.finish_pending(deadline)
        except Exception as error:  # noqa: BLE001 (an application's callback; raised below)
            failure = error
        yield from self._leave(deadline, leave_group)
        if failure is not None:
            raise failure
        self._listener.raise_error()

    def _leave(self, deadline: int, leave_group: bool | None) -> Steps[None]:
        try:
            if self.subscription.is_automatic and self._rebalance is not None:
                yield from self._rebalance.leave("the consumer is being closed", leave_group)
                self.subscription.unsubscribe()
                self.channel.on_tick = None
        finally:
            self.end_thread()
        yield from self._drain(min(deadline, self._clock.now_ms() + _LEAVE_WAIT_MS))

    def end_thread(self) -> None:
        """End the heartbeat thread."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    def _drain(self, deadline: int) -> Steps[None]:
        """Poll until the coordinator has answered the last requests, unsent ones included, or the deadline passes."""
        endpoint = self._lookup.endpoint
        if endpoint is None:
            return
        node = self._client.coordinator_node(endpoint)
        while (self._client.has_unsent or self._client.in_flight_count(node)) and self._clock.now_ms() < deadline:
            yield max(0, min(deadline - self._clock.now_ms(), self._client.poll_limit_ms))
