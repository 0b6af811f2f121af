"""The consumer's way to the brokers: Kafka's ConsumerNetworkClient over NetworkClient and Metadata.

Rules: the only part of the consumer that waits. A request for a node that has no connection yet is kept until there is
one, or until the connection fails; its failure goes to the callback, never to a caller. A cluster of which no bootstrap
server can be reached is an error after a few seconds; once it was reached, lost connections are made again without a
word.

One lock guards everything here, and the membership that lives above it: the heartbeat thread of a group sends and reads
under it, with `poll_background`, and never waits in the network meanwhile. Answers that are not the heartbeat thread's
to take in are kept for the application's next poll. A group's coordinator has a connection of its own, since answers
come in order and a fetch may wait for fetch.max.wait.ms.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection
from typing import NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.consumer import fetch_messages
from kafkatools.core.consumer.errors import WakeupError
from kafkatools.core.consumer.fetch_messages import CurrentLeader, FetchRequest, FetchResponse
from kafkatools.core.consumer.subscription import LeaderAndEpoch, TopicPartition
from kafkatools.core.errors import (
    AuthenticationFailed,
    Disconnected,
    InvalidTopic,
    KafkaError,
    LeaderNotAvailable,
    NotKafka,
    RequestTimedOut,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from kafkatools.core.group.requests import GroupRequest
from kafkatools.core.net.addresses import parse_bootstrap_servers
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.net.metadata import ClusterView, Metadata, Node, NodeEndpoint
from kafkatools.core.net.network_client import NetworkClient
from kafkatools.core.net.requests import Fields, build_request
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity

_UNREACHABLE_AFTER_MS = 3000
_POLL_MS = 100
_RECEIVE_MS = 5
_COORDINATOR_IDS_FROM = 0x7FFFFFFF

OnEntity = Callable[["Entity"], None]
OnFetched = Callable[[FetchResponse, int], None]
OnError = Callable[[KafkaError], None]
OnResponse = Callable[[ClientResponse], None]


class MetadataLeaders:
    """Leaders and topic ids as the fetcher asks for them."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self.changes = 0

    def leader(self, partition: TopicPartition) -> LeaderAndEpoch | None:
        """The leader, None when the partition is not known."""
        found = self._metadata.cluster.partition(*partition)
        if found is None:
            return None
        leader = -1 if found.leader is None else found.leader
        return LeaderAndEpoch(leader, -1 if found.leader_epoch is None else found.leader_epoch)

    def topic_id(self, topic: str) -> uuid.UUID:
        """The topic's id, zero when there is none."""
        return self._metadata.cluster.topic_id(topic) or fetch_messages.ZERO_UUID

    def has_replica(self, partition: TopicPartition, node: int) -> bool:
        """Whether the node is part of the cluster and holds the partition, and is not known to be offline."""
        cluster = self._metadata.cluster
        found = cluster.partition(partition.topic, partition.partition)
        if found is None or cluster.node(node) is None:
            return False
        return node in found.replicas and node not in found.offline_replicas

    def request_update(self) -> None:
        """Asks for fresh metadata."""
        self._metadata.request_update()

    def note_epoch(self, partition: TopicPartition, epoch: int) -> None:
        """A leader epoch was seen: newer than known asks for fresh metadata."""
        if epoch >= 0:
            self._metadata.update_last_seen_epoch_if_newer(*partition, epoch)

    def update_leadership(
        self, partition: TopicPartition, leader: CurrentLeader, endpoints: tuple[NodeEndpoint, ...]
    ) -> bool:
        """Takes over a leader a Fetch response names; False when it is not newer than what is known."""
        is_news = self._metadata.update_leader(*partition, leader.leader_id, leader.leader_epoch, endpoints)
        self.changes += is_news
        return is_news


class _Unsent(NamedTuple):
    request: ClientRequest
    deadline_ms: int


class ConsumerNetworkClient:
    """Requests with callbacks; `poll` makes everything move."""

    poll_limit_ms = _POLL_MS

    def __init__(self, config: Config, clock: Clock) -> None:
        self._clock = clock
        self._request_timeout_ms: int = config.request_timeout_ms
        self._metadata = Metadata(
            parse_bootstrap_servers(config.bootstrap_servers),
            max_age_ms=config.metadata_max_age_ms,
            backoff=ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
            allow_auto_topic_creation=config.allow_auto_create_topics,
            rebootstrap_trigger_ms=config.metadata_recovery_rebootstrap_trigger_ms,
        )
        self._client = NetworkClient(config, clock, self._metadata)
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
        """The cluster as it is known now."""
        return self._metadata.cluster

    def request_metadata(self) -> int:
        """Asks for fresh metadata; the update version to wait to be passed."""
        return self._metadata.request_update()

    @property
    def update_version(self) -> int:
        """How many metadata answers were taken in."""
        return self._metadata.update_version

    def replace_topics(self, topics: Collection[str] | None) -> None:
        """Metadata covers exactly these topics (None: all)."""
        self._metadata.set_topics(topics)

    def note_epoch(self, partition: TopicPartition, epoch: int) -> None:
        """A leader epoch was seen in a committed offset: newer than known asks for fresh metadata."""
        self.leaders.note_epoch(partition, epoch)

    @property
    def metadata_version(self) -> int:
        """Grows with every change of leaders."""
        return self._metadata.update_version + self.leaders.changes

    def set_topics(self, topics: Collection[str]) -> None:
        """Metadata covers these topics too (it keeps what it was asked for before)."""
        self._metadata.add_topics(topics)

    def refresh_metadata(self, deadline_ms: int) -> None:
        """Waits for a metadata answer newer than now. Raises what keeps it away."""
        wanted = self._metadata.request_update()
        started = self._clock.now_ms()
        while self._metadata.update_version <= wanted:
            now = self._clock.now_ms()
            self._raise_unreachable(now - started >= _UNREACHABLE_AFTER_MS or now >= deadline_ms)
            if now >= deadline_ms:
                raise RequestTimedOut("Timed out waiting for metadata of the cluster")
            self.poll(min(deadline_ms - now, _POLL_MS))

    def ensure_contact(self, now_ms: int) -> None:
        """Raise the connection error when all bootstrap servers have failed for some seconds and none responded."""
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

    def topic_error(self, topic: str) -> KafkaError | None:
        """Why a topic cannot be read; None when it can be, or just does not exist."""
        error = self._metadata.cluster.topic_errors.get(topic)
        if error is InvalidTopic:
            return InvalidTopic(f"Invalid topics: [{topic}]")
        if error is TopicAuthorizationFailed:
            return TopicAuthorizationFailed(f"Not authorized to access topics: [{topic}]")
        return None

    def is_being_created(self, topic: str) -> bool:
        """Whether the topic has no leaders yet."""
        return self._metadata.cluster.topic_errors.get(topic) is LeaderNotAvailable

    def is_missing(self, topic: str) -> bool:
        """Whether the cluster answered that it has no such topic."""
        return self._metadata.cluster.topic_errors.get(topic) is UnknownTopicOrPartition

    def topics(self) -> dict[str, list[int]]:
        """Topics and their partitions as they are known now."""
        return {name: sorted(topic.partitions) for name, topic in self._metadata.cluster.topics.items()}

    def connection_problem(self, node: int) -> KafkaError | None:
        """Why there is no connection to a node; None when there is one, or none was tried."""
        return self._client.connection_error(node)

    def cluster_problem(self) -> KafkaError | None:
        """Why no broker that is known can be reached; None when one can, or was not tried."""
        errors = [self._client.connection_error(node) for node in self._metadata.cluster.nodes]
        return errors[0] if errors and all(errors) else None

    # --- requests

    def can_send(self, node: int) -> bool:
        """Whether a request may go to the node now; else a connection is begun."""
        with self.lock:
            return self._client.ready(node, self._clock.now_ms())

    def any_node(self) -> int | None:
        """The best node for a question that every node can answer."""
        with self.lock:
            return self._client.least_loaded_node(self._clock.now_ms())

    def coordinator_node(self, endpoint: Node) -> int:
        """The id of the connection to a coordinator, apart from the one that fetches use."""
        connection = _COORDINATOR_IDS_FROM - endpoint.id
        with self.lock:
            self._client.add_node(endpoint._replace(id=connection))
        return connection

    def send_fetch(self, node: int, request: FetchRequest, on_response: OnFetched, on_error: OnError) -> None:
        """Sends a Fetch request to a node that can be sent to; the answer is decoded over the receive buffer. The
        heartbeat thread may have found the connection lost meanwhile."""

        def complete(response: ClientResponse) -> None:
            if response.body is None:
                on_error(response.error or Disconnected(f"Node {node} is disconnected"))
                return
            try:
                answer = fetch_messages.decode_fetch_response(response.body, response.api_version)
            except KafkaError as error:
                on_error(error)
                return
            self._client.throttle(node, answer.throttle_time_ms, self._clock.now_ms())
            on_response(answer, response.api_version)

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
            now = self._clock.now_ms()
            if self._client.ready(node, now):
                self._client.send(wire, now)
                return
        on_error(Disconnected(f"Node {node} is disconnected"))

    def _for_application(self, complete: OnResponse) -> OnResponse:
        """The same, but kept for the application's thread when the heartbeat thread reads the answer."""

        def arrived(response: ClientResponse) -> None:
            if self._in_background:
                self._deferred.append((complete, response))
            else:
                complete(response)

        return arrived

    def send(self, node: int, api_key: int, fields: Fields, on_entity: OnEntity, on_error: OnError) -> None:
        """Sends a request as soon as there is a connection."""
        request = GroupRequest(
            api_key, fields, lambda entity, now_ms: on_entity(entity), lambda error, now_ms: on_error(error)
        )
        self.send_request(node, request)

    def send_request(self, node: int, outgoing: GroupRequest) -> None:
        """Sends a request as soon as there is a connection, within its time."""

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
        waiting, self._unsent = self._unsent, []
        for item in waiting:
            node = item.request.node
            if self._client.ready(node, now_ms):
                self._client.send(item.request, now_ms)
            else:
                self._unsent.append(item)

    def _fail_unsent(self, now_ms: int) -> None:
        """Requests whose node cannot be reached, or not in time, end with the reason."""
        waiting, self._unsent = self._unsent, []
        for item in waiting:
            node = item.request.node
            error = self.connection_problem(node) if self._client.connection_failed(node) else None
            if error is None and now_ms >= item.deadline_ms:
                error = Disconnected(f"No connection to node {item.request.node} in time (request.timeout.ms)")
            if error is None:
                self._unsent.append(item)
            elif item.request.callback is not None:
                item.request.callback(ClientResponse(item.request, -1, None, None, error, True, 0))

    def poll(self, timeout_ms: int) -> None:
        """Waits up to `timeout_ms` for something to happen and runs callbacks. Raises WakeupError after `wakeup`, and
        AuthenticationFailed when a node refused us, once for every refusal."""
        with self.lock:
            is_woken = self._is_woken and not self.ignores_wakeup
            self._poll(0 if self._run_deferred() or is_woken else timeout_ms)
        if self._is_woken and not self.ignores_wakeup:
            self._is_woken = False
            raise WakeupError
        states = self._client.connection_states
        if states.refusal is not None and not self.ignores_wakeup:
            refusal, states.refusal = states.refusal, None
            raise refusal

    def poll_background(self) -> None:
        """One turn without waiting, for the heartbeat thread: only background answers are taken in."""
        with self.lock:
            self._in_background = True
            try:
                self._poll(0)
            finally:
                self._in_background = False

    def _poll(self, timeout_ms: int) -> None:
        now = self._clock.now_ms()
        self._send_unsent(now)
        responses = self._client.poll(timeout_ms, now)
        now = self._clock.now_ms()
        patience = now + min(timeout_ms, _RECEIVE_MS)
        while not responses and now < patience and self._client.is_receiving and not self._is_woken:
            # A large answer takes many reads; nobody above has anything to do before it is complete.
            responses = self._client.poll(patience - now, now)
            now = self._clock.now_ms()
        self._send_unsent(now)
        self._fail_unsent(now)

    def _run_deferred(self) -> bool:
        deferred, self._deferred = self._deferred, []
        for complete, response in deferred:
            complete(response)
        return bool(deferred)

    @property
    def has_unsent(self) -> bool:
        """Whether requests wait for a connection."""
        return bool(self._unsent)

    def in_flight_count(self, node: int) -> int:
        """Requests to a node that have no answer yet."""
        return self._client.in_flight_count(node)

    def wakeup(self) -> None:
        """Ends the present or the next poll; any thread may call it."""
        self._is_woken = True
        self._client.wakeup()

    def close(self) -> None:
        """Closes the connections."""
        with self.lock:
            self._client.close()
