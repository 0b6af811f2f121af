"""The consumer's network layer: Kafka's ConsumerNetworkClient over NetworkClient and Metadata.

Rules: only this part of the consumer blocks. A request for an unconnected node is queued until the connection is made
or fails; failures go to the request's callback. An unreachable cluster raises an error after a few seconds; after the
first metadata response, lost connections are silently made again.

One lock guards this object and the group membership above it. The heartbeat thread sends and reads under that lock with
`poll_background`, never blocking in the network. Responses for the application are kept for its next poll. A group
coordinator has its own connection: responses arrive in order, and a Fetch may take fetch.max.wait.ms.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator
from typing import NamedTuple, TypeVar

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.consumer import fetch_messages
from kafkatools.core.consumer.errors import WakeupError
from kafkatools.core.consumer.fetch_messages import CurrentLeader, FetchRequest, FetchResponse
from kafkatools.core.consumer.subscription import LeaderAndEpoch, TopicPartition
from kafkatools.core.errors import (
    AuthenticationFailed,
    Disconnected,
    KafkaError,
    LeaderNotAvailable,
    NotKafka,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from kafkatools.core.group.requests import GroupRequest
from kafkatools.core.metrics.network import NetworkMetrics
from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.net.addresses import Resolver, parse_bootstrap_servers
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse, taken
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.net.metadata import ClusterView, Metadata, Node, NodeEndpoint
from kafkatools.core.net.network_client import NetworkClient
from kafkatools.core.net.requests import Fields, build_request
from kafkatools.core.net.telemetry import TelemetrySender, ensure_enabled
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.steps import run

_UNREACHABLE_AFTER_MS = 3000
_POLL_MS = 100
_RECEIVE_MS = 5
_UNSENT_CHECK_MS = 50
_COORDINATOR_IDS_FROM = 0x7FFFFFFF

Result = TypeVar("Result")
Pause = int | Awaitable[object]
"""A wait of a consumer: for network events, at most so many ms; or for the coroutine of a rebalance listener."""
Steps = Generator[Pause, None, Result]
"""A call of a consumer that waits (core/steps.py): `ConsumerNetworkClient.run` runs it on a thread."""

OnEntity = Callable[["Entity"], None]
OnFetched = Callable[[FetchResponse, int], None]
OnError = Callable[[KafkaError], None]
OnResponse = Callable[[ClientResponse], None]


class MetadataLeaders:
    """Leaders, replicas and topic ids from cached metadata. `changes` counts leaders from Fetch responses."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self.changes = 0

    def leader(self, partition: TopicPartition) -> LeaderAndEpoch | None:
        """Return the partition's leader (-1 = none) and epoch (-1 = unknown), None when metadata lacks the
        partition."""
        metadata = self._metadata.cluster.partition(*partition)
        if metadata is None:
            return None
        leader = -1 if metadata.leader is None else metadata.leader
        return LeaderAndEpoch(leader, -1 if metadata.leader_epoch is None else metadata.leader_epoch)

    def topic_id(self, topic: str) -> uuid.UUID:
        """Return the topic's id, the zero UUID when it has none."""
        return self._metadata.cluster.topic_id(topic) or fetch_messages.ZERO_UUID

    def has_replica(self, partition: TopicPartition, node: int) -> bool:
        """Return whether the node is in the cluster and holds an online replica of the partition."""
        cluster = self._metadata.cluster
        metadata = cluster.partition(partition.topic, partition.partition)
        if metadata is None or cluster.node(node) is None:
            return False
        return node in metadata.replicas and node not in metadata.offline_replicas

    def request_update(self, reset_backoff: bool = False) -> int:
        """Request fresh metadata; it has arrived once `update_version` exceeds the returned number. Requests of every
        turn keep retry.backoff.ms while responses bring no change, as in Kafka's FetchUtils; `reset_backoff` ends it,
        for a caller that asks once or keeps the back-off itself."""
        return self._metadata.request_update(reset_backoff)

    def note_epoch(self, partition: TopicPartition, epoch: int) -> None:
        """Request fresh metadata when this leader epoch (-1 = none) is newer than the cached one; do nothing when none
        is cached."""
        if epoch >= 0:
            self._metadata.update_last_seen_epoch_if_newer(*partition, epoch)

    def update_leadership(
        self, partition: TopicPartition, leader: CurrentLeader, endpoints: tuple[NodeEndpoint, ...]
    ) -> bool:
        """Apply a leader reported by a Fetch response (KIP-951); return False when it is not newer."""
        key: tuple[str, int] = partition
        news = self._metadata.update_partition_leadership({key: (leader.leader_id, leader.leader_epoch)}, endpoints)
        self.changes += bool(news)
        return bool(news)


class _Unsent(NamedTuple):
    request: ClientRequest
    deadline_ms: int


class ConsumerNetworkClient:
    """Sends requests with callbacks; `poll` does the I/O and runs the callbacks."""

    poll_limit_ms = _POLL_MS

    def __init__(self, config: Config, clock: Clock, resolver: Resolver | None = None) -> None:
        """`resolver` as in NetworkClient."""
        self._clock = clock
        self._request_timeout_ms: int = config.request_timeout_ms
        self._metadata = Metadata(
            parse_bootstrap_servers(config.bootstrap_servers),
            max_age_ms=config.metadata_max_age_ms,
            backoff=ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
            allow_auto_topic_creation=config.allow_auto_create_topics,
            rebootstrap_trigger_ms=config.metadata_recovery_rebootstrap_trigger_ms,
        )
        self.metrics = MetricsRegistry.of(config, clock)
        network = NetworkMetrics(self.metrics, "consumer")
        self._client = NetworkClient(config, clock, self._metadata, resolver=resolver, metrics=network)
        self.leaders = MetadataLeaders(self._metadata)
        self.lock = threading.RLock()
        self._unsent: list[_Unsent] = []
        self._deferred: list[tuple[OnResponse, ClientResponse]] = []
        self._in_background = False
        self._is_woken = False
        self._unreached_since_ms: int | None = None
        self.ignores_wakeup = False

    # --- metadata

    @property
    def cluster(self) -> ClusterView:
        """The cached cluster metadata."""
        return self._metadata.cluster

    @property
    def update_version(self) -> int:
        """The number of metadata responses received."""
        return self._metadata.update_version

    def replace_topics(self, topics: Collection[str] | None) -> None:
        """Make metadata cover exactly these topics (None: all)."""
        self._metadata.set_topics(topics)

    @property
    def metadata_version(self) -> int:
        """A counter that grows with every metadata response and every leader learned from a Fetch response."""
        return self._metadata.update_version + self.leaders.changes

    def set_topics(self, topics: Collection[str]) -> None:
        """Make metadata cover these topics in addition to the present ones."""
        self._metadata.add_topics(topics)

    def refresh_metadata(self, deadline_ms: int) -> Steps[None]:
        """Wait for a new metadata response. Raises RequestTimedOut at the deadline. When no broker is reachable, raises
        the connection error after 3 s or at the deadline, AuthenticationFailed and NotKafka at once. Raises WakeupError
        after `wakeup`."""
        version = self._metadata.request_update()
        started = self._clock.now_ms()
        while self._metadata.update_version <= version:
            now_ms = self._clock.now_ms()
            self._raise_unreachable(now_ms - started >= _UNREACHABLE_AFTER_MS or now_ms >= deadline_ms)
            if now_ms >= deadline_ms:
                raise RequestTimedOut("Timed out waiting for metadata of the cluster")
            yield min(deadline_ms - now_ms, _POLL_MS)

    def ensure_contact(self, now_ms: int) -> None:
        """Raise the connection error when all bootstrap servers have failed for 3 seconds. Does nothing once a metadata
        response has arrived."""
        if self._metadata.update_version:
            return
        if not all(self._client.connection_error(node) for node in self._metadata.cluster.nodes):
            self._unreached_since_ms = None
        elif self._unreached_since_ms is None:
            self._unreached_since_ms = now_ms
        elif now_ms - self._unreached_since_ms >= _UNREACHABLE_AFTER_MS:
            self._unreached_since_ms = None
            self._raise_unreachable(is_late=True)

    def _raise_unreachable(self, is_late: bool) -> None:
        """Raise the metadata error, or the connection error when no broker is reachable. Before `is_late`, only
        NotKafka and AuthenticationFailed are raised among the connection errors."""
        error = self._metadata.take_error()
        if error is not None:
            raise error
        nodes = self._metadata.cluster.nodes
        if not all(self._client.connection_failed(node) for node in nodes):
            return
        errors = [error for error in map(self._client.connection_error, nodes) if error is not None]
        for error in errors:
            if is_late or isinstance(error, (NotKafka, AuthenticationFailed)):
                raise error

    def is_being_created(self, topic: str) -> bool:
        """Return whether the topic's metadata is LEADER_NOT_AVAILABLE, as during topic creation."""
        return self._metadata.cluster.topic_errors.get(topic) is LeaderNotAvailable

    def is_missing(self, topic: str) -> bool:
        """Return whether metadata reports the topic as nonexistent."""
        return self._metadata.cluster.topic_errors.get(topic) is UnknownTopicOrPartition

    def is_absent(self, topic: str) -> bool:
        """Return whether the topic does not exist by the cached metadata: reported as nonexistent, or without an entry
        in the metadata of all topics."""
        is_unlisted = self.covers_all_topics and self.update_version > 0
        return self.cluster.partition_count(topic) is None and (self.is_missing(topic) or is_unlisted)

    @property
    def covers_all_topics(self) -> bool:
        """Return whether metadata covers all topics, so that a topic without an entry does not exist."""
        return self._metadata.topics_of_interest() is None

    def topics(self) -> dict[str, list[int]]:
        """Return the partition numbers of each topic in cached metadata."""
        return {name: sorted(topic.partitions) for name, topic in self._metadata.cluster.topics.items()}

    def connection_problem(self, node: int) -> KafkaError | None:
        """Return the node's last connection error; None when it is connected or was never tried."""
        return self._client.connection_error(node)

    def cluster_problem(self) -> KafkaError | None:
        """Return a connection error when the last connection or attempt failed at every known broker, else None."""
        return self._client.cluster_error()

    # --- requests

    def can_send(self, node: int) -> bool:
        """Return whether the node can take a request now. Otherwise start connecting, unless a back-off forbids it."""
        with self.lock:
            return self._client.ready(node, self._clock.now_ms())

    def any_node(self) -> int | None:
        """Return the least loaded node, for requests that any broker can answer; None when none is usable."""
        with self.lock:
            return self._client.least_loaded_node(self._clock.now_ms())

    def coordinator_node(self, endpoint: Node) -> int:
        """Return the node id of the coordinator's own connection, separate from fetch connections to that broker."""
        connection = _COORDINATOR_IDS_FROM - endpoint.id
        with self.lock:
            self._client.add_node(endpoint._replace(id=connection))
        return connection

    def send_fetch(self, node: int, request: FetchRequest, on_response: OnFetched, on_error: OnError) -> None:
        """Send a Fetch request to a connected node; records are decoded as slices of the receive buffer. `on_error`
        gets Disconnected when the connection was lost, also since the caller checked, or the error of an unreadable
        response."""

        def complete(response: ClientResponse) -> None:
            if response.body is None:
                on_error(response.error or Disconnected(f"Node {node} is disconnected"))
                return
            try:
                fetch_response = fetch_messages.decode_fetch_response(response.body, response.api_version)
            except KafkaError as error:
                on_error(error)
                return
            self._client.throttle(node, fetch_response.throttle_time_ms, self._clock.now_ms())
            fetch_response.latency_ms = response.latency_ms
            on_response(fetch_response, response.api_version)

        newest = fetch_messages.MAX_VERSION if request.can_use_topic_ids else fetch_messages.TOPIC_ID_VERSION - 1
        wire = ClientRequest(
            node,
            ApiKey.FETCH,
            lambda version: [fetch_messages.encode_fetch_request(request, version)],
            self._for_application(complete),
            min_version=fetch_messages.MIN_VERSION,
            max_version=newest,
            decode=False,
        )
        with self.lock:
            now_ms = self._clock.now_ms()
            if self._client.ready(node, now_ms):
                self._client.send(wire, now_ms)
                return
        on_error(Disconnected(f"Node {node} is disconnected"))

    def _for_application(self, complete: OnResponse) -> OnResponse:
        """Wrap a callback so that a response read by the heartbeat thread waits for the application's next poll."""

        def arrived(response: ClientResponse) -> None:
            if self._in_background:
                self._deferred.append((complete, response))
            else:
                complete(response)

        return arrived

    def send(self, node: int, api_key: int, fields: Fields, on_entity: OnEntity, on_error: OnError) -> None:
        """Send a request as soon as the node is connected; one of the two callbacks gets the result. `on_error` gets
        Disconnected after request.timeout.ms without a connection."""
        request = GroupRequest(
            api_key, fields, lambda entity, now_ms: on_entity(entity), lambda error, now_ms: on_error(error)
        )
        self.send_request(node, request)

    def send_request(self, node: int, outgoing: GroupRequest) -> None:
        """Send a GroupRequest once the node is connected; fail it after request.timeout.ms without a connection."""

        def complete(response: ClientResponse) -> None:
            now_ms = self._clock.now_ms()
            if response.body is None:
                outgoing.failed(response.error or Disconnected(f"Node {node} is disconnected"), now_ms)
            else:
                outgoing.answered(response.body, now_ms)

        request = ClientRequest(
            node,
            outgoing.api_key,
            lambda version: build_request(outgoing.api_key, version, outgoing.fields),
            complete if outgoing.is_background else self._for_application(complete),
            timeout_ms=outgoing.timeout_ms,
            min_version=outgoing.min_version,
            max_version=outgoing.max_version,
        )
        with self.lock:
            now = self._clock.now_ms()
            self._unsent.append(_Unsent(request, now + self._request_timeout_ms))
            self._send_unsent(now)

    def _send_unsent(self, now_ms: int) -> None:
        for item in taken(self._unsent):
            node = item.request.node
            if self._client.ready(node, now_ms):
                self._client.send(item.request, now_ms)
            else:
                self._unsent.append(item)

    def _fail_unsent(self, now_ms: int) -> None:
        """Fail queued requests whose node is unreachable or whose deadline has passed."""
        for item in taken(self._unsent):
            node = item.request.node
            error = self.connection_problem(node) if self._client.connection_failed(node) else None
            if error is None and now_ms >= item.deadline_ms:
                error = Disconnected(f"No connection to node {item.request.node} in time (request.timeout.ms)")
            if error is None:
                self._unsent.append(item)
            elif item.request.callback is not None:
                item.request.callback(ClientResponse(item.request, -1, None, None, error, True, 0))

    def poll(self, timeout_ms: int) -> None:
        """Wait up to `timeout_ms` for network events and run callbacks; does not wait after running callbacks of
        earlier responses. Raises WakeupError after `wakeup`, and AuthenticationFailed once for each refused login;
        neither while `ignores_wakeup`."""
        with self.lock:
            is_woken = self._is_woken and not self.ignores_wakeup
            self._poll(0 if self._run_deferred() or is_woken else timeout_ms)
        self.raise_signal()

    def raise_signal(self) -> None:
        """Raise WakeupError after `wakeup`, and AuthenticationFailed once for each refused login; neither while
        `ignores_wakeup`."""
        if self._is_woken and not self.ignores_wakeup:
            self._is_woken = False
            raise WakeupError
        states = self._client.connection_states
        if states.refusal is not None and not self.ignores_wakeup:
            refusal, states.refusal = states.refusal, None
            raise refusal

    def run(self, steps: Steps[Result]) -> Result:
        """Run a call on this thread: `poll` for each of its waits."""
        return run(steps, self._pause)

    def _pause(self, pause: Pause) -> None:
        if isinstance(pause, int):
            self.poll(pause)
            return
        if isinstance(pause, Coroutine):
            pause.close()
        raise TypeError("A rebalance listener returned a coroutine: coroutines need kafkatools.aio.Consumer")

    def turn(self) -> bool:
        """Send and receive without waiting, and run callbacks; return whether anything happened. For event loops."""
        with self.lock:
            unsent = len(self._unsent)
            self._poll(0)
            return self._client.had_events or len(self._unsent) != unsent

    def delay_ms(self, now_ms: int) -> int:
        """Milliseconds until the next `turn` is worthwhile without a ready socket."""
        delay_ms = self._client.delay_ms(now_ms)
        return min(delay_ms, _UNSENT_CHECK_MS) if self._unsent else delay_ms

    @property
    def is_update_due(self) -> bool:
        """Return whether fresh metadata was requested, which the next poll sends."""
        return self._metadata.update_requested

    def fileno(self) -> int:
        """A file descriptor that is readable while a socket of the client is ready."""
        return self._client.fileno()

    def poll_background(self) -> None:
        """Send and receive once without waiting, for the heartbeat thread. Responses to background requests run their
        callbacks; the others wait for the application's next `poll`."""
        with self.lock:
            self._in_background = True
            try:
                self._poll(0)
            finally:
                self._in_background = False

    def _poll(self, timeout_ms: int) -> None:
        now_ms = self._clock.now_ms()
        self._send_unsent(now_ms)
        responses = self._client.poll(timeout_ms, now_ms)
        now_ms = self._clock.now_ms()
        patience = now_ms + min(timeout_ms, _RECEIVE_MS)
        while not responses and now_ms < patience and self._client.is_receiving and not self._is_woken:
            # A large response takes many reads; the caller can do nothing before it is complete.
            responses = self._client.poll(patience - now_ms, now_ms)
            now_ms = self._clock.now_ms()
        self._send_unsent(now_ms)
        self._fail_unsent(now_ms)

    def _run_deferred(self) -> bool:
        has_deferred = bool(self._deferred)
        for complete, response in taken(self._deferred):
            complete(response)
        return has_deferred

    @property
    def has_unsent(self) -> bool:
        """Return whether requests are queued for a connection."""
        return bool(self._unsent)

    def in_flight_count(self, node: int) -> int:
        """Return the number of requests to the node without a response."""
        return self._client.in_flight_count(node)

    def wakeup(self) -> None:
        """Make the current or next `poll` raise WakeupError, unless `ignores_wakeup`; callable from any thread."""
        self._is_woken = True
        self._client.wakeup()

    def push_metrics(self, config: Config, member_id: Callable[[], str]) -> None:
        """Push the consumer's metrics from now on, if brokers ask for them; `member_id` as in TelemetrySender."""
        if config.enable_metrics_push:
            self._client.telemetry = TelemetrySender(self._client, config, self.metrics, self._clock, member_id)

    def instance_id(self, timeout_ms: int) -> Steps[str | None]:
        """Wait for the client instance id (KIP-714) and return it; None if no broker gave one within `timeout_ms`.
        Raises IllegalState with enable.metrics.push=false, and the connection error as `ensure_contact`."""
        telemetry = ensure_enabled(self._client.telemetry, timeout_ms)
        deadline_ms = self._clock.now_ms() + timeout_ms
        if telemetry.instance_id is None and not self._metadata.update_version:
            self._metadata.request_update()
        while telemetry.instance_id is None and not telemetry.is_ended:
            now_ms = self._clock.now_ms()
            self.ensure_contact(now_ms)
            if now_ms >= deadline_ms:
                break
            yield min(deadline_ms - now_ms, _POLL_MS)
        return telemetry.instance_id

    def note_member(self) -> None:
        """Keep the member id for the last push of metrics."""
        if self._client.telemetry is not None:
            self._client.telemetry.note_member()

    def push_last_metrics(self, deadline_ms: int) -> Steps[None]:
        """Push the metrics of a closing consumer until the deadline, if the broker asked for them."""
        telemetry = self._client.telemetry
        pause_ms = 0  # the first pause only sends
        while telemetry is not None and telemetry.has_last_push(self._clock.now_ms(), deadline_ms):
            self.ignores_wakeup = True
            yield pause_ms
            pause_ms = min(_POLL_MS, max(0, deadline_ms - self._clock.now_ms()))

    def close(self) -> None:
        """Close all connections."""
        with self.lock:
            self._client.close()
