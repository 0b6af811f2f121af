"""Blocking requests for tools: `Requester.send_all` sends requests through a NetworkClient and waits for the responses.

A request fails early where waiting cannot help. At once: every node that may respond is no Kafka broker, has no
address, refuses authentication or has no common API version. After `UNREACHABLE_PATIENCE_MS`: no node was reached since
the start, all closed the connection at the first request, or the requested node cannot be reached. A connection lost
during a request to a requested node is its error. Other failed connections are retried until the time-out.

Nobody reads from the connections between two calls. So a call first notices those that brokers have closed, as they do
after connections.max.idle.ms: a request on one of them would fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.errors import (
    AuthenticationFailed,
    ClosedUnanswered,
    InvalidRequest,
    KafkaError,
    NameResolutionFailed,
    NoBrokersAvailable,
    NotKafka,
    Timeout,
    UnsupportedVersion,
)
from kafkatools.core.net.addresses import HostPort
from kafkatools.core.net.bodies import build_body
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.net.network_client import NetworkClient
from kafkatools.core.protocol.api_versions import NEVER
from kafkatools.core.protocol.definitions import MAX_STRING_BYTES

UNREACHABLE_PATIENCE_MS = 3000
_HOPELESS = (NotKafka, NameResolutionFailed, AuthenticationFailed, UnsupportedVersion)

Fields = Mapping[str, object] | Callable[[int], Mapping[str, object]]


class BrokerRequest(NamedTuple):
    """A request to a node; with `node` None to the least loaded one. `fields` may be a function of the API version.
    With `decode` False the response's `entity` is the bytes of the response body."""

    node: int | None
    api_key: int
    fields: Fields
    min_version: int = 0
    max_version: int = NEVER
    decode: bool = True


class BrokerResponse(NamedTuple):
    """The decoded response or the error of a BrokerRequest. `node` and `api_version` are those of the request that was
    sent, also if its connection was lost; -1 if unknown, as after a time-out. `error` says whether there is a
    response."""

    node: int
    entity: Any
    error: KafkaError | None
    api_version: int = -1


class Interrupted(Exception):
    """The call was interrupted from another thread; no KafkaError, because no retry may take it for one."""


class Requester:
    """Sends one or several requests and blocks until all have a response or an error. For use by one thread."""

    def __init__(self, client: NetworkClient, clock: Clock, *, learns_nodes: bool = True) -> None:
        """`learns_nodes`: request metadata when a node is unknown; controllers do not answer Metadata."""
        self._client = client
        self._learns_nodes = learns_nodes
        self._clock = clock
        self._has_reached_a_node = False
        self._is_interrupted = False
        self._last_errors: dict[int, KafkaError] = {}  # by question: the error of its last retry
        self._node_errors: dict[int, KafkaError] = {}  # by requested node: the error of its last connection

    def send_all(
        self, requests: Sequence[BrokerRequest], timeout_ms: int, silence_ms: int | None = None
    ) -> list[BrokerResponse]:
        """Send the requests to their nodes in parallel and return the responses in the same order. A failure or
        time-out is returned as the `error` of its response instead of raised. An error code inside a response is not an
        `error`. `silence_ms`: the time-out until the first response arrives, if it is shorter."""
        patience_ms = timeout_ms if silence_ms is None else min(timeout_ms, silence_ms)
        started_ms = self._clock.now_ms()
        responses: list[BrokerResponse | None] = [None] * len(requests)
        self._last_errors.clear()
        self._node_errors.clear()
        waiting = set(range(len(requests)))
        self._client.poll(0, started_ms)
        while any(response is None for response in responses):
            self.ensure_not_interrupted()
            now_ms = self._clock.now_ms()
            for index in sorted(waiting):
                self._try_send(requests[index], index, responses, waiting, now_ms)
            if any(response is not None and response.error is None for response in responses):
                patience_ms = timeout_ms
            remaining_ms = started_ms + patience_ms - now_ms
            hopeless = self._hopeless(requests, waiting, now_ms - started_ms, remaining_ms)
            for index, error in hopeless.items():
                responses[index] = BrokerResponse(-1, None, error)
                waiting.discard(index)
            if remaining_ms <= 0:
                break
            if any(response is None for response in responses):
                self._client.poll(min(remaining_ms, 100 if waiting else remaining_ms), now_ms)
        return [
            response or BrokerResponse(-1, None, self._timed_out(index, requests[index].node, patience_ms))
            for index, response in enumerate(responses)
        ]

    def interrupt(self, *, is_interrupted: bool = True) -> None:
        """Make the present and later calls raise Interrupted, until this is undone. Callable from any thread."""
        self._is_interrupted = is_interrupted
        if is_interrupted:
            self._client.wakeup()

    def ensure_not_interrupted(self) -> None:
        """Raise Interrupted after `interrupt`."""
        if self._is_interrupted:
            raise Interrupted

    def _try_send(
        self, request: BrokerRequest, index: int, responses: list[BrokerResponse | None], waiting: set[int], now_ms: int
    ) -> None:
        """Send a request if its node is ready, else start to connect. The response is put into `responses` later, or
        the request back into `waiting` if any node may serve it and the connection was lost."""
        node = self._client.least_loaded_node(now_ms) if request.node is None else request.node
        if node is None or not self._client.can_send(node, now_ms):
            if node is not None:
                self._reach(node, now_ms)
            return

        def complete(response: ClientResponse) -> None:
            self._has_reached_a_node = True
            if response.disconnected and request.node is None:
                waiting.add(index)
                if response.error is not None:
                    self._last_errors[index] = response.error
            else:
                responses[index] = BrokerResponse(
                    response.request.node, response.body, response.error, response.api_version
                )

        waiting.discard(index)
        self._has_reached_a_node = True
        client_request = ClientRequest(
            node,
            request.api_key,
            lambda version: build_request(request.api_key, version, request.fields),
            complete,
            min_version=request.min_version,
            max_version=request.max_version,
            decode=request.decode,
        )
        self._client.send(client_request, now_ms)

    def _reach(self, node: int, now_ms: int) -> None:
        """Connect to a node when an attempt is due. Request metadata for an unknown node, which may have registered
        since."""
        if self._learns_nodes and self._client.find_node(node) is None:
            self._client.metadata.request_update(reset_backoff=False)
        self._client.ready(node, now_ms)

    def _hopeless(
        self, requests: Sequence[BrokerRequest], waiting: set[int], waited_ms: int, remaining_ms: int
    ) -> dict[int, KafkaError]:
        """The requests that can get no response any more, with the reason: {index: error}. Also keeps the connection
        errors of requested nodes for the message of a time-out."""
        hopeless = {}
        for index in waiting:
            target = requests[index].node
            nodes = list(self._client.metadata.cluster.nodes) if target is None else [target]
            errors = [self._client.connection_error(node) for node in nodes]
            reasons = [error for error in errors if error is not None]
            if target is not None and reasons:
                self._node_errors[target] = reasons[0]
            if not reasons or len(reasons) < len(nodes):
                continue
            is_final = all(isinstance(error, _HOPELESS) for error in reasons)
            is_refused = all(isinstance(error, ClosedUnanswered) for error in reasons)
            is_patient = self._has_reached_a_node and target is None and not is_refused
            is_unreachable = waited_ms >= UNREACHABLE_PATIENCE_MS and not is_patient
            if is_final or is_unreachable or remaining_ms <= 0:
                hopeless[index] = _joined(reasons)
        return hopeless

    def _timed_out(self, index: int, node: int | None, timeout_ms: int) -> KafkaError:
        if node is not None:
            reason = self._node_errors.get(node)
            last_error = f"; last error: {reason}" if reason is not None else ""
            return Timeout(f"No response from {self._client.name_of(node)} within {timeout_ms} ms{last_error}")
        last = self._last_errors.get(index)
        if last is not None:
            return Timeout(f"No response within {timeout_ms} ms; last error: {last}")
        if not self._has_reached_a_node:
            nodes = self._client.metadata.cluster.nodes.values()
            servers = ", ".join(str(HostPort(node.host, node.port)) for node in nodes)
            return NoBrokersAvailable(f"No broker responded within {timeout_ms} ms at {servers}")
        return Timeout(f"No response within {timeout_ms} ms")


def _joined(reasons: Sequence[KafkaError]) -> KafkaError:
    """Combine the errors of several nodes: the error itself if all are alike, else one that quotes each."""
    texts = list(dict.fromkeys(str(reason) for reason in reasons))
    if len(texts) == 1:
        return reasons[0]
    return NoBrokersAvailable("No broker can be reached: " + "; ".join(texts))


def build_request(api_key: int, version: int, fields: Fields) -> list[bytes]:
    """Encode the body of a request from its fields, or from a function that returns the fields of a version. Raises
    UnsupportedVersion for a field that the version lacks, InvalidRequest for a text that no request can hold."""
    values = fields(version) if callable(fields) else fields
    try:
        return build_body(api_key, version, values)
    except ValueError:
        _refuse_long_text(values)
        raise


def _refuse_long_text(fields: object, name: str = "") -> None:
    """Raise InvalidRequest for the first text above the limit of the protocol in the fields of a request."""
    if isinstance(fields, str):
        size = len(fields.encode(errors="surrogatepass"))
        if size > MAX_STRING_BYTES:
            raise InvalidRequest(
                f"The field {name} has {size:,} bytes; a text in a request has at most {MAX_STRING_BYTES:,}"
            )
    elif isinstance(fields, Mapping):
        for key, value in fields.items():
            _refuse_long_text(value, str(key))
    elif isinstance(fields, (list, tuple)):
        for value in fields:
            _refuse_long_text(value, name)
