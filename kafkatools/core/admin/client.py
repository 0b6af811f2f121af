"""The admin client's core: one NetworkClient, the cluster's brokers, and the retry rules of admin requests.

The modules beside it (topics, configs, ...) are functions that take an `AdminClient`. Requests for the controller go to
any broker, which forwards them in KRaft; after NOT_CONTROLLER they go to the controller itself, until a request to it
fails. With `through_controllers` the bootstrap servers are controllers (KIP-919), and all requests go to the active
one, because controllers do not forward. Requests about partitions go to their leaders.
Requests are retried with back-off until default.api.timeout.ms. Every requested item ends with a result or its own
error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from kafkatools.core import config as config_tables
from kafkatools.core.clock import Clock
from kafkatools.core.closing import Closing
from kafkatools.core.config import Config
from kafkatools.core.errors import (
    ConnectionFailed,
    CoordinatorNotAvailable,
    Disconnected,
    KafkaError,
    LeaderNotAvailable,
    NoBrokersAvailable,
    NotController,
    NotLeaderOrFollower,
    ThrottlingQuotaExceeded,
    Timeout,
    UnknownServerError,
    error_from_code,
)
from kafkatools.core.metrics.network import NetworkMetrics
from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.net.addresses import parse_bootstrap_servers
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.net.metadata import Metadata
from kafkatools.core.net.network_client import NetworkClient
from kafkatools.core.net.requests import BrokerRequest, BrokerResponse, Fields, Requester
from kafkatools.core.net.transport import TransportFactory
from kafkatools.core.protocol.api_versions import NEVER, ApiKey
from kafkatools.core.protocol.entities import Entity

K = TypeVar("K")
R = TypeVar("R")

# Endpoint types of DescribeCluster.
BROKERS = 1
CONTROLLERS = 2
_METADATA_VERSION = 12
_CLOSING_POLL_MS = 100
_OF_ANY_CONTROLLER = (ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER)
LOST_CONNECTION = (ConnectionFailed, Disconnected)
"""Errors of a node to which no connection can be made, or whose connection ended."""
CHANGING_APIS = frozenset(
    {
        ApiKey.OFFSET_COMMIT,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.END_TXN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DELETE_GROUPS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.OFFSET_DELETE,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    }
)
"""The APIs of admin requests that change a cluster, unless the request only validates."""

Responded = Callable[[Sequence[BrokerResponse]], None]
ChangeObserver = Callable[["AdminClient", Sequence[BrokerRequest]], Responded | None]
"""Called before requests of CHANGING_APIS are sent; may send requests of other APIs with the client. The function that
it returns is called with the responses."""


class AdminClient(Closing):
    """Sends admin requests and retries them. A context manager; for one thread. Creating one opens no connection.
    Raises ConfigError."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        config: Config | Mapping[str, object] | None,
        clock: Clock,
        transport_factory: TransportFactory | None = None,
        *,
        through_controllers: bool = False,
    ) -> None:
        settings = config if isinstance(config, Config) else Config(config_tables.ADMIN, config, allow_unknown=True)
        self.config = settings
        self.clock = clock
        metadata = Metadata(
            parse_bootstrap_servers(bootstrap_servers),
            max_age_ms=settings.metadata_max_age_ms,
            backoff=ExponentialBackoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms),
            topics=(),
            rebootstrap_trigger_ms=settings.metadata_recovery_rebootstrap_trigger_ms,
        )
        metadata.consider_fresh(clock.now_ms())
        self.metrics = MetricsRegistry.of(settings, clock)
        network = NetworkMetrics(self.metrics, "admin-client")
        self.client = NetworkClient(settings, clock, metadata, transport_factory=transport_factory, metrics=network)
        if settings.enable_metrics_push:
            from kafkatools.core.net.telemetry import TelemetrySender

            self.client.telemetry = TelemetrySender(self.client, settings, self.metrics, clock)
        self._requester = Requester(self.client, clock, learns_nodes=not through_controllers)
        self.through_controllers = through_controllers
        self._backoff = ExponentialBackoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self.timeout_ms: int = settings.default_api_timeout_ms
        # The node for controller requests: any broker (None) until one responds NOT_CONTROLLER, and again after a
        # request to it failed.
        self.controller: int | None = None
        self.change_observer: ChangeObserver | None = None

    def close(self) -> None:
        """Push the metrics for the last time, if the broker asked for them, and close the connections."""
        telemetry = self.client.telemetry
        try:
            while telemetry is not None and telemetry.has_last_push(self.clock.now_ms()):
                self.client.poll(_CLOSING_POLL_MS)
        finally:
            self.client.close()

    def instance_id(self, timeout_ms: int | None) -> str | None:
        """Wait for the client instance id (KIP-714) and return it; None if no broker gave one within `timeout_ms`.
        Raises IllegalState with enable.metrics.push=false, KafkaError if the cluster is unreachable."""
        from kafkatools.core.net.telemetry import ensure_enabled

        telemetry = ensure_enabled(self.client.telemetry, timeout_ms)
        deadline_ms = self.deadline_ms(timeout_ms)
        if telemetry.instance_id is None and not telemetry.is_ended:
            self.refresh_cluster(timeout_ms)
        while telemetry.instance_id is None and not telemetry.is_ended and self.remaining_ms(deadline_ms):
            self._requester.ensure_not_interrupted()
            self.client.poll(self.remaining_ms(deadline_ms))
        return telemetry.instance_id

    def interrupt(self, *, is_interrupted: bool = True) -> None:
        """Make the present and later calls raise Interrupted (core/net/requests.py) at their next wait, at most a retry
        back-off later, until this is undone. Callable from any thread."""
        self._requester.interrupt(is_interrupted=is_interrupted)

    def deadline_ms(self, timeout_ms: int | None = None) -> int:
        """Return the clock time in ms when `timeout_ms` (default: default.api.timeout.ms) will be over."""
        return self.clock.now_ms() + (self.timeout_ms if timeout_ms is None else timeout_ms)

    def remaining_ms(self, deadline_ms: int) -> int:
        """Return the ms until the deadline, at least 0."""
        return max(0, deadline_ms - self.clock.now_ms())

    def wait_before_retry(self, attempts: int, deadline_ms: int) -> bool:
        """Sleep for the back-off of this attempt, at most until the deadline, and return True. Return False without
        sleeping if the deadline has passed."""
        remaining_ms = self.remaining_ms(deadline_ms)
        if remaining_ms == 0:
            return False
        self.clock.sleep_ms(min(remaining_ms, self._backoff.backoff_ms(attempts)))
        return True

    def send_all(
        self, requests: Sequence[BrokerRequest], deadline_ms: int, silence_ms: int | None = None
    ) -> list[BrokerResponse]:
        """Send requests of one API in parallel and return their responses in order. A failed request's response has its
        error, which is not raised. `silence_ms`: time-out until the first response, if it is shorter. Calls the change
        observer before changes are sent and after their responses."""
        responded: Responded | None = None
        if self.change_observer is not None and requests and requests[0].api_key in CHANGING_APIS:
            responded = self.change_observer(self, requests)
        responses = self._requester.send_all(requests, self.remaining_ms(deadline_ms), silence_ms)
        for request, response in zip(requests, responses, strict=True):
            if request.node == self.controller and isinstance(response.error, (*LOST_CONNECTION, Timeout)):
                self.controller = None
        if responded is not None:
            responded(responses)
        return responses

    def send(
        self,
        api_key: int,
        fields: Fields,
        *,
        node: int | None = None,
        min_version: int = 0,
        max_version: int = NEVER,
        check: Callable[[Entity], KafkaError | None] = lambda entity: None,
        timeout_ms: int | None = None,
    ) -> Entity:
        """Send a request until it succeeds and return its response. `node`: the broker (None: any); `check` extracts a
        response's error. Retriable errors are retried until `timeout_ms` (default: default.api.timeout.ms) has passed,
        without `node` at the controller after NOT_CONTROLLER. Raises KafkaError, at once for timeouts and for
        connection errors of `node`, which send_all has already retried."""
        deadline_ms = self.deadline_ms(timeout_ms)
        attempts = 0
        is_for_controller = self.through_controllers and node is None and api_key not in _OF_ANY_CONTROLLER
        may_retry = self.may_move()
        while True:
            target = self.controller_node(deadline_ms) if is_for_controller else node
            request = BrokerRequest(target, api_key, fields, min_version, max_version)
            response = self.send_all([request], deadline_ms)[0]
            error = response.error or check(response.entity)
            if error is None:
                return _entity(response)
            can_help = may_retry(error) if target != node else may_help_again(error)
            if not (error.retriable and can_help and self.wait_before_retry(attempts, deadline_ms)):
                raise error
            if node is None and isinstance(error, (NotController, NotLeaderOrFollower)):
                self.follow_controller(deadline_ms)
                is_for_controller = True
            attempts += 1

    def send_by_node(
        self,
        nodes: Mapping[K, int | None],
        build: Callable[[int | None, list[K]], BrokerRequest],
        read: Callable[[BrokerResponse, list[K]], Mapping[K, R | KafkaError]],
        deadline_ms: int,
    ) -> dict[K, R | KafkaError]:
        """Send one request to each node about all its items, in parallel; return each item's result or error. `nodes`:
        the node of each item (None: any). A failed request's error is that of all its items."""
        groups: dict[int | None, list[K]] = {}
        for item, node in nodes.items():
            groups.setdefault(node, []).append(item)
        requests = [build(node, group) for node, group in groups.items()]
        results: dict[K, R | KafkaError] = {}
        for group, response in zip(groups.values(), self.send_all(requests, deadline_ms), strict=True):
            results.update(read(response, group) if response.error is None else dict.fromkeys(group, response.error))
        return results

    def _send_once(self, request: BrokerRequest, deadline_ms: int) -> Entity:
        """Send one request and return its response. Raises KafkaError."""
        response = self.send_all([request], deadline_ms)[0]
        if response.error is not None:
            raise response.error
        return _entity(response)

    def send_to_controller(self, api_key: int, fields: Fields, deadline_ms: int) -> Entity:
        """Send one request for the controller and return its response. Until `follow_controller`, any broker gets and
        forwards it. When the connection to the controller is lost or cannot be made, another broker gets the request.
        Raises KafkaError."""
        may_retry = self.may_move()
        attempts = 0
        while True:
            node = self.controller_node(deadline_ms)
            response = self.send_all([BrokerRequest(node, api_key, fields)], deadline_ms)[0]
            if response.error is None:
                return _entity(response)
            is_lost = node is not None and isinstance(response.error, LOST_CONNECTION)
            if not (is_lost and may_retry(response.error) and self.wait_before_retry(attempts, deadline_ms)):
                raise response.error
            attempts += 1

    def controller_node(self, deadline_ms: int) -> int | None:
        """Return the node for a request to the controller, None for any broker. Controllers do not forward, so the
        active one is looked up first. Raises KafkaError."""
        if self.through_controllers and self.controller is None:
            self.follow_controller(deadline_ms)
        return self.controller

    def change(
        self, api_key: int, fields: Fields, check: Callable[[Entity], KafkaError | None] | None = None
    ) -> Entity:
        """Send one change to the controller and return its response, retrying when the controller moves. `check`
        extracts the response's error; by default its error code counts. Raises KafkaError."""

        def once(items: list[int], deadline_ms: int) -> dict[int, Entity | KafkaError]:
            response = self.send_to_controller(api_key, fields, deadline_ms)
            return {api_key: (check or error_in)(response) or response}

        outcome = self.retry_items([api_key], once)[api_key]
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    def retry_items(
        self,
        items: Iterable[K],
        once: Callable[[list[K], int], Mapping[K, R | KafkaError]],
        timeout_ms: int | None = None,
        may_retry: Callable[[KafkaError], bool] | None = None,
    ) -> dict[K, R | KafkaError]:
        """Call `once(items, deadline_ms)`, then again for items with retriable errors, until none is left or the
        deadline passes. `once` returns a result or an error for each item; an omitted item gets UnknownServerError. By
        default only NotController and quota errors are retried, as in KafkaAdminClient. Raises what `once` raises in
        the first attempt. In a later one that is the error of the items that were tried again, unless it is a
        Timeout."""
        should_retry = may_retry or is_about_controller
        deadline_ms = self.deadline_ms(timeout_ms)
        requested = list(dict.fromkeys(items))
        outcomes: dict[K, R | KafkaError] = {}
        pending = requested
        attempts = 0
        has_moved = False
        while pending:
            try:
                if has_moved:
                    self.follow_controller(deadline_ms)
                responses = once(pending, deadline_ms)
            except KafkaError as error:
                if not outcomes:
                    raise
                if not isinstance(error, Timeout):  # an earlier error says more than the timeout of a retry
                    outcomes.update(dict.fromkeys(pending, error))
                break
            for item, outcome in responses.items():
                # An earlier error says more than the timeout of a retry.
                if item not in outcomes or self.remaining_ms(deadline_ms) > 0 or not isinstance(outcome, Timeout):
                    outcomes[item] = outcome
            for item in pending:
                outcomes.setdefault(item, UnknownServerError(f"The response has no result for {item}"))
            errors = {item: outcome for item in pending if isinstance(outcome := outcomes[item], KafkaError)}
            pending = [item for item, error in errors.items() if error.retriable and should_retry(error)]
            if pending and not self.wait_before_retry(attempts, deadline_ms):
                break
            has_moved = any(isinstance(errors[item], NotController) for item in pending)
            attempts += 1
        return {item: outcomes[item] for item in requested}

    def may_move(self, leaderless_ms: int | None = None) -> Callable[[KafkaError], bool]:
        """Return the retry rule for requests to a leader or coordinator that may move to another broker. Without one,
        or while it is unreachable, retries last request.timeout.ms from now. `leaderless_ms`: a shorter limit for
        partitions without a leader."""
        until_ms = self.deadline_ms(self.config.request_timeout_ms)
        leader_until_ms = until_ms if leaderless_ms is None else min(until_ms, self.deadline_ms(leaderless_ms))

        def may_retry(error: KafkaError) -> bool:
            if isinstance(error, LeaderNotAvailable):
                return self.clock.now_ms() < leader_until_ms
            if isinstance(error, (ConnectionFailed, CoordinatorNotAvailable)):
                return self.clock.now_ms() < until_ms
            return not isinstance(error, Timeout)

        return may_retry

    def send_to_brokers(
        self, brokers: Iterable[int], api_key: int, fields: Fields, read: Callable[[BrokerResponse], R | KafkaError]
    ) -> dict[int, R | KafkaError]:
        """Send one request to each broker in parallel; return `read(response)` or the error by broker. Retriable errors
        are retried until default.api.timeout.ms, except timeouts and connection errors, which send_all has already
        retried."""

        def once(nodes: list[int], deadline_ms: int) -> dict[int, R | KafkaError]:
            responses = self.send_all([BrokerRequest(node, api_key, fields) for node in nodes], deadline_ms)
            return {node: response.error or read(response) for node, response in zip(nodes, responses, strict=True)}

        return self.retry_items(brokers, once, may_retry=may_help_again)

    def follow_controller(self, deadline_ms: int) -> None:
        """Look up the controller and send later controller requests to it directly; to any broker while none is known.
        Raises KafkaError."""
        self._learn_nodes(deadline_ms)
        controller = self.client.metadata.cluster.controller
        self.controller = None if controller is None else controller.id

    def brokers(self) -> list[int]:
        """Return the sorted ids of the cluster's present brokers. Raises KafkaError."""
        if not self.client.metadata.cluster.is_bootstrap:
            self._learn_nodes(self.deadline_ms())
        self.refresh_cluster()
        return sorted(self.client.metadata.cluster.nodes)

    def refresh_cluster(self, timeout_ms: int | None = None) -> None:
        """Fetch the broker list if only bootstrap addresses are known. Raises KafkaError; NoBrokersAvailable if the
        list is empty until `timeout_ms` (default: default.api.timeout.ms)."""
        deadline_ms = self.deadline_ms(timeout_ms)
        if self.client.metadata.cluster.is_bootstrap:
            self._learn_nodes(deadline_ms)
        attempts = 0
        while self.client.metadata.cluster.is_bootstrap:
            self.wait_before_retry(attempts, deadline_ms)
            attempts += 1
            with contextlib.suppress(Timeout):
                self._learn_nodes(deadline_ms)
            if self.client.metadata.cluster.is_bootstrap and self.remaining_ms(deadline_ms) == 0:
                raise NoBrokersAvailable("The responding broker lists no live brokers")

    def learn_brokers(self, response: Entity) -> None:
        """Update the cached broker list from a Metadata response, unless the response lists no brokers. A broker that
        has just started may list none; the cached brokers stay usable."""
        if response.brokers:
            self.client.metadata.update(1 << 30, response, False, self.clock.now_ms())

    def _learn_nodes(self, deadline_ms: int) -> None:
        """Fetch nodes and controller with Metadata, or with DescribeCluster from controllers. Raises KafkaError."""
        if not self.through_controllers:
            self.metadata_of((), deadline_ms)
            return
        request = BrokerRequest(None, ApiKey.DESCRIBE_CLUSTER, {"endpoint_type": CONTROLLERS}, 1)
        response = self._send_once(request, deadline_ms)
        error = error_in(response)
        if error is not None:
            raise error
        from kafkatools.core.protocol.messages import build, response_type

        nodes = [
            {"node_id": node.broker_id, "host": node.host, "port": node.port, "rack": node.rack}
            for node in response.brokers
        ]
        fields = {"brokers": nodes, "cluster_id": response.cluster_id, "topics": ()}
        fields["controller_id"] = response.controller_id
        view = build(response_type(ApiKey.METADATA, _METADATA_VERSION), fields)
        self.learn_brokers(view)

    def metadata_of(self, names: Sequence[str] | None, deadline_ms: int) -> Entity:
        """Return Metadata of these topics (None: all) without creating any, and update the cached broker list. Errors
        of topics are in the response. Raises KafkaError."""

        def fields(version: int) -> Mapping[str, object]:
            if names is None:
                return {"topics": () if version == 0 else None, **_no_creation(version)}
            return {"topics": [{"topic_id": None, "name": name} for name in names], **_no_creation(version)}

        oldest = 1 if names == () else 0
        view = self._send_once(BrokerRequest(None, ApiKey.METADATA, fields, oldest), deadline_ms)
        self.learn_brokers(view)
        return view


def _no_creation(version: int) -> Mapping[str, object]:
    return {"allow_auto_topic_creation": False} if version >= 4 else {}


def may_help_again(error: KafkaError) -> bool:
    """The retry rule for requests to a fixed broker: not after timeouts and connection errors, already retried."""
    return not isinstance(error, (Timeout, ConnectionFailed))


def is_about_controller(error: KafkaError) -> bool:
    """The retry rule of requests that any broker may answer: the controller moved, or a quota is used up."""
    return isinstance(error, (NotController, ThrottlingQuotaExceeded))


def error_of(code: int, message: str | None = None) -> KafkaError | None:
    """Return the KafkaError of an error code with the broker's message, None for 0."""
    return error_from_code(int(code), message)


def error_in(part: Entity) -> KafkaError | None:
    """Return the error of a response or of one of its parts, None for success."""
    return error_of(getattr(part, "error_code", 0), getattr(part, "error_message", None))


def first_error(parts: Iterable[Entity]) -> KafkaError | None:
    """Return the first error among parts of a response, None when all succeeded."""
    return next(filter(None, map(error_in, parts)), None)


def _entity(response: BrokerResponse) -> Entity:
    entity: Entity = response.entity
    return entity
