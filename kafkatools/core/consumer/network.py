"""The consumer's way to the brokers: Kafka's ConsumerNetworkClient over NetworkClient and Metadata.

Rules: the only part of the consumer that waits. A request for a node that has no connection yet is kept until there is
one, or until the connection fails; its failure goes to the callback, never to a caller. A cluster of which no bootstrap
server can be reached is an error after a few seconds; once it was reached, lost connections are made again without a
word.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.consumer import fetch_messages
from kafkatools.core.consumer.errors import WakeupError
from kafkatools.core.consumer.fetch_messages import CurrentLeader, FetchRequest, FetchResponse, NodeEndpoint
from kafkatools.core.consumer.subscription import LeaderAndEpoch, TopicPartition
from kafkatools.core.errors import (
    Disconnected,
    InvalidTopic,
    KafkaError,
    LeaderNotAvailable,
    NotKafka,
    RequestTimedOut,
    TopicAuthorizationFailed,
)
from kafkatools.core.net.addresses import parse_bootstrap_servers
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.net.metadata import Metadata
from kafkatools.core.net.network_client import ClientRequest, ClientResponse, NetworkClient
from kafkatools.core.protocol.api_versions import ApiKey

_UNREACHABLE_AFTER_MS = 3000
_POLL_MS = 100

OnEntity = Callable[[Any], None]
OnFetched = Callable[[FetchResponse, int], None]
OnError = Callable[[KafkaError], None]


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

    def has_node(self, node: int) -> bool:
        """Whether the node is part of the cluster."""
        return self._metadata.cluster.node(node) is not None

    def request_update(self) -> None:
        """Asks for fresh metadata."""
        self._metadata.request_update()

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
        self._unsent: list[_Unsent] = []
        self._is_woken = False

    # --- metadata

    @property
    def metadata_version(self) -> int:
        """Grows with every change of leaders."""
        return self._metadata.update_version + self.leaders.changes

    def set_topics(self, topics: Collection[str]) -> None:
        """Metadata covers these topics too (it keeps what it was asked for before)."""
        self._metadata.add_topics(topics)

    def want_all_topics(self) -> None:
        """Metadata covers every topic."""
        self._metadata.set_topics(None)

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

    def _raise_unreachable(self, is_late: bool) -> None:
        error = self._metadata.take_error()
        if error is not None:
            raise error
        nodes = self._metadata.cluster.nodes
        if not all(self._client.connection_failed(node) for node in nodes):
            return
        errors = [error for error in map(self._client.connection_error, nodes) if error is not None]
        for error in errors:
            if is_late or isinstance(error, NotKafka):
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
        return self._client.ready(node, self._clock.now_ms())

    def send_fetch(self, node: int, request: FetchRequest, on_response: OnFetched, on_error: OnError) -> None:
        """Sends a Fetch request to a node that can be sent to; the answer is decoded over the receive buffer."""

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
            complete,
            min_version=fetch_messages.MIN_VERSION,
            max_version=newest,
            decode=False,
        )
        self._client.send(wire, self._clock.now_ms())

    def send(self, node: int, api_key: int, fields: Mapping[str, Any], on_entity: OnEntity, on_error: OnError) -> None:
        """Sends a request as soon as there is a connection."""
        from kafkatools.core.protocol.messages import build, request_type

        def complete(response: ClientResponse) -> None:
            if response.body is None:
                on_error(response.error or Disconnected(f"Node {node} is disconnected"))
            else:
                on_entity(response.body)

        def make(version: int) -> Any:
            return build(request_type(api_key, version), fields)

        request = ClientRequest(node, api_key, make, complete)
        self._unsent.append(_Unsent(request, self._clock.now_ms() + self._request_timeout_ms))
        self._send_unsent(self._clock.now_ms())

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
            error = self.connection_problem(item.request.node)
            if error is None and now_ms >= item.deadline_ms:
                error = Disconnected(f"No connection to node {item.request.node} in time (request.timeout.ms)")
            if error is None:
                self._unsent.append(item)
            elif item.request.callback is not None:
                item.request.callback(ClientResponse(item.request, -1, None, None, error, True, 0))

    def poll(self, timeout_ms: int) -> None:
        """Waits up to `timeout_ms` for something to happen and runs callbacks. Raises WakeupError after `wakeup`."""
        now = self._clock.now_ms()
        self._send_unsent(now)
        self._client.poll(0 if self._is_woken else timeout_ms, now)
        now = self._clock.now_ms()
        self._send_unsent(now)
        self._fail_unsent(now)
        if self._is_woken:
            self._is_woken = False
            raise WakeupError

    def wakeup(self) -> None:
        """Ends the present or the next poll; any thread may call it."""
        self._is_woken = True
        self._client.wakeup()

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()
