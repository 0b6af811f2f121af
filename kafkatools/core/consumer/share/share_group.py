"""The membership of a share consumer: coordinator, heartbeats and the assigned partitions.

Rules: the application's thread subscribes and reads the assignment; a thread of its own sends heartbeats while the
application processes records. Topic ids of the assignment become names with metadata; those that metadata lacks wait
for fresh metadata.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.consumer.coordinator_channel import CoordinatorChannel
from kafkatools.core.consumer.heartbeat_thread import IN_FLIGHT_CHECK_MS, LONGEST_SLEEP_MS, HeartbeatThread
from kafkatools.core.consumer.network import ConsumerNetworkClient, Steps
from kafkatools.core.consumer.share.session import PartitionId
from kafkatools.core.errors import KafkaError
from kafkatools.core.group.coordinator import CoordinatorKind, CoordinatorLookup
from kafkatools.core.group.heartbeat_timers import Heartbeat
from kafkatools.core.group.share_membership import Assigned, ShareMembership
from kafkatools.core.metrics.membership import SHARE_GROUP, CoordinatorMetrics, ShareRebalanceMetrics
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.topic_partition import TopicPartition

_LEAVE_WAIT_MS = 1000
_LOOKUP_CHECK_MS = 100

StartHeartbeats = Callable[[Callable[[], int], str], HeartbeatThread | None]


class ShareGroup:
    """One member of a share group: subscribe, heartbeats, assigned partitions, leave."""

    def __init__(
        self, config: Config, clock: Clock, client: ConsumerNetworkClient, start_heartbeats: StartHeartbeats
    ) -> None:
        self._config = config
        self._clock = clock
        self._client = client
        self._start_heartbeats = start_heartbeats
        backoff = ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._lookup = CoordinatorLookup(CoordinatorKind.GROUP, config.group_id, backoff)
        metrics = CoordinatorMetrics(client.metrics, SHARE_GROUP, has_joins=False)
        self._rebalances = ShareRebalanceMetrics(client.metrics)
        self._channel = CoordinatorChannel(client, self._lookup, clock, metrics)
        self._heartbeat = Heartbeat(
            config.heartbeat_interval_ms, config.session_timeout_ms, config.max_poll_interval_ms
        )
        self._membership = ShareMembership(config, self._lookup, self._heartbeat)
        self._thread: HeartbeatThread | None = None
        self._has_polled = False
        self.topics: frozenset[str] = frozenset()
        self._resolved: tuple[Assigned, int] | None = None
        self._assigned: dict[PartitionId, TopicPartition] = {}

    @property
    def member_id(self) -> str:
        """The member id, which the client chooses."""
        return self._membership.member_id

    @property
    def problem(self) -> KafkaError | None:
        """The last error response of the coordinator or of its lookup, while no coordinator is known or after three
        refusals in a row; else None."""
        error = self._lookup.problem
        return None if error is None else type(error)(f"Group {self._config.group_id}: {error}")

    def subscribe(self, topics: frozenset[str]) -> None:
        """Subscribe to these topics, at least one; the group is joined during the next polls."""
        self.topics = topics
        self._client.set_topics(topics)  # older ones stay: their records may await acknowledgement
        with self._channel.lock:
            self._membership.subscribe(topics)

    def advance(self, now_ms: int) -> None:
        """Run the group's part of a poll: rejoin after a fence, send a due heartbeat. Raises fatal membership errors,
        each time until `leave`, lookup errors, InvalidTopic and TopicAuthorizationFailed."""
        with self._channel.lock:
            self._heartbeat.poll(now_ms)
            self._has_polled = True
            if self._thread is None:
                self._thread = self._start_heartbeats(self._run_background, f"heartbeat | {self._config.group_id}")
            self._membership.maybe_rejoin()
            self.tick(now_ms)
            failure = self._membership.failure_to_raise() or self._channel.take_failure()
        if failure is not None:
            raise failure.with_traceback(None)  # each poll may raise it, and would add to its traceback
        for topic in self.topics:
            error = self._client.cluster.topic_error(topic)
            if error is not None:
                raise error

    def tick(self, now_ms: int) -> None:
        """Look up an unknown coordinator and send a due heartbeat; also for calls that wait without polling."""
        with self._channel.lock:
            self._channel.tick(now_ms)
            self._send_due(now_ms)

    def _send_due(self, now_ms: int) -> None:
        membership = self._membership
        is_late = membership.is_in_group and membership.heartbeat.poll_expired(now_ms)
        request = membership.poll_expired() if is_late else membership.heartbeat_request(now_ms)
        if request is not None:
            self._channel.send(request)

    def _run_background(self) -> int:
        """Run one turn of the heartbeat thread: read responses, then send due requests. Returns the ms to sleep."""
        with self._channel.lock:
            if self._is_expecting:
                self._client.poll_background()
            now_ms = self._clock.now_ms()
            self.tick(now_ms)
            if self._is_expecting:
                self._client.poll_background()
                return IN_FLIGHT_CHECK_MS
            return self._heartbeat_delay_ms(now_ms)

    def _heartbeat_delay_ms(self, now_ms: int) -> int:
        longest_ms = min(LONGEST_SLEEP_MS, self._heartbeat.interval_ms)
        if not self._membership.is_in_group:
            return longest_ms
        return min(longest_ms, self._heartbeat.delay_ms(now_ms), self._heartbeat.poll_delay_ms(now_ms))

    def turn(self, now_ms: int) -> int | None:
        """Send a due heartbeat between the calls of an application without a heartbeat thread. Returns the ms until the
        next call; None when none is needed."""
        if not self._has_polled or not self._membership.is_in_group:
            return None
        self.tick(now_ms)
        if not self._lookup.is_known:
            return _LOOKUP_CHECK_MS
        return max(IN_FLIGHT_CHECK_MS, self._heartbeat_delay_ms(now_ms))

    @property
    def _is_expecting(self) -> bool:
        return self._heartbeat.is_in_flight or not self._lookup.is_known or self._client.has_unsent

    def assigned(self) -> dict[PartitionId, TopicPartition]:
        """Return the assigned partitions whose topic ids metadata knows; requests fresh metadata for the others."""
        with self._channel.lock:
            assignment = self._membership.assignment
        version = self._client.update_version
        is_new = self._resolved is None or self._resolved[0] is not assignment
        if is_new and (self._resolved is not None or assignment):
            self._rebalances.assigned(self._clock.now_ms())
        if is_new or self._resolved is None or self._resolved[1] != version:
            names = {topic: self._client.cluster.topic_name(topic) for topic in assignment}
            if None in names.values():
                self._client.leaders.request_update()
            self._resolved = assignment, version
            self._assigned = {
                PartitionId(topic, index): TopicPartition(name, index)
                for topic, name in names.items()
                if name is not None
                for index in assignment[topic]
            }
        return self._assigned

    def leave(self) -> None:
        """Leave the group without waiting, and drop the subscription."""
        self.topics = frozenset()
        with self._channel.lock:
            request = self._membership.leave_request()
            if request is not None:
                self._channel.send(request)

    def end_thread(self) -> None:
        """End the heartbeat thread."""
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    def close(self, deadline_ms: int) -> Steps[None]:
        """Leave the group, end the thread, and wait up to 1 s for the coordinator's answer."""
        try:
            self.leave()
        finally:
            self.end_thread()
        endpoint = self._lookup.endpoint
        if endpoint is None:
            return
        deadline_ms = min(deadline_ms, self._clock.now_ms() + _LEAVE_WAIT_MS)
        node = self._client.coordinator_node(endpoint)
        while (self._client.has_unsent or self._client.in_flight_count(node)) and self._clock.now_ms() < deadline_ms:
            yield max(0, min(deadline_ms - self._clock.now_ms(), self._client.poll_limit_ms))
