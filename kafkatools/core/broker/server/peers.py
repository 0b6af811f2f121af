"""Requests of a node to other nodes, on the thread and selector of its own clients (Kafka's
NodeToControllerChannelManager, InterBrokerSendThread and KafkaNetworkChannel).

Rules: a request waits until the connection is up, and fails with it. Each node has three connections: responses come
in the order of the requests, so a Fetch that waits and a client's change of many topics in an Envelope hold up neither
each other nor a vote or a heartbeat. After a failure the next attempt waits for reconnect.backoff.ms; requests wait for
that attempt. `on_response` is never called from within `send`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kafkatools.core import config as tables
from kafkatools.core.broker.server.channels import OnRawResponse, OnResponse
from kafkatools.core.broker.server.listener import Listener
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.net.metadata import Metadata, Node
from kafkatools.core.net.network_client import NetworkClient
from kafkatools.core.protocol.api_versions import ApiKey

Address = tuple[str, int]
NEVER_MS = 2**31 - 1
_LANES = 3
RECONNECT_BACKOFF_MS = 50
RECONNECT_BACKOFF_MAX_MS = 500


class _NoMetadata(Metadata):
    """Client metadata that never updates: the addresses of nodes come from their caller."""

    def __init__(self) -> None:
        super().__init__(())

    def time_to_next_update_ms(self, now_ms: int) -> int:
        return NEVER_MS


class _Waiting(NamedTuple):
    request: ClientRequest
    deadline_ms: int
    may_send: Callable[[], bool] | None


class Peers:
    """A `PeerChannel`; `address_of` returns the current address of a node, None when it is unknown."""

    def __init__(  # noqa: PLR0913 - wired in one place
        self,
        listener: Listener,
        clock: Clock,
        address_of: Callable[[int], Address | None],
        *,
        client_id: str,
        request_timeout_ms: int,
        max_idle_ms: int = 600_000,
        receive_buffer_bytes: int = -1,
        note_failure: Callable[[Exception], None] | None = None,
        check_response: Callable[[int, Any], None] | None = None,
        security: Mapping[str, object] | None = None,
    ) -> None:
        """`receive_buffer_bytes` is SO_RCVBUF; -1 leaves it to the system. `check_response` gets every response before
        its `on_response`. `security` has the client's settings of TLS and SASL.

        `note_failure` gets what an `on_response` raises; without it the exception reaches the caller of `poll`.
        """
        self._note_failure = note_failure
        self._listener = listener
        self._clock = clock
        self._address_of = address_of
        self._request_timeout_ms = request_timeout_ms
        self._client = NetworkClient(
            _client_config(client_id, request_timeout_ms, max_idle_ms, receive_buffer_bytes, security or {}),
            clock,
            _NoMetadata(),
        )
        self._client.failures.level = logging.DEBUG  # the caller gets the error
        self._waiting: dict[int, deque[_Waiting]] = {}
        self._addresses: dict[int, Address] = {}
        self._next_ms: int | None = None
        self._is_polling = False
        self._check_response = check_response
        listener.watch(self._client, self.poll)

    def send(
        self,
        node_id: int,
        api_key: int,
        fields: Mapping[str, Any],
        on_response: OnResponse,
        *,
        timeout_ms: int | None = None,
        may_send: Callable[[], bool] | None = None,
    ) -> None:
        """Send a request when the connection is up; `on_response` is called once, later, with the response or None.
        `may_send` is called right before the request is written; if it returns False the request is dropped."""

        def build(version: int) -> Any:
            from kafkatools.core.protocol import messages

            return [messages.encode_fields(messages.request_type(api_key, version), fields)]

        def on_client_response(response: ClientResponse) -> None:
            body = _decoded(response)
            if self._check_response is not None and body is not None:
                self._check_response(node_id, body)
            on_response(body)

        request = ClientRequest(_lane(node_id, api_key), api_key, build, on_client_response, timeout_ms, decode=False)
        self._send(request, may_send)

    def send_raw(
        self,
        node_id: int,
        api_key: int,
        version: int,
        body: bytes,
        on_response: OnRawResponse,
        *,
        timeout_ms: int | None = None,
    ) -> None:
        """Send a request with an encoded body; `on_response` gets the response's body without decoding, or None."""
        self._send(
            ClientRequest(
                _lane(node_id, api_key),
                api_key,
                lambda _: [body],
                lambda response: on_response(response.raw),
                timeout_ms,
                min_version=version,
                max_version=version,
                decode=False,
            )
        )

    def _send(self, request: ClientRequest, may_send: Callable[[], bool] | None = None) -> None:
        timeout_ms = self._request_timeout_ms if request.timeout_ms is None else request.timeout_ms
        lane, now_ms = request.node, self._clock.now_ms()
        request = request._replace(callback=partial(self._complete, request.callback))
        if lane not in self._waiting and self._client.can_send(lane, now_ms) and (may_send is None or may_send()):
            self._client.send(request, now_ms)
            self._note_deadline(now_ms)
            return
        self._waiting.setdefault(lane, deque()).append(_Waiting(request, now_ms + timeout_ms, may_send))
        self._next_ms = now_ms

    def _complete(self, callback: Callable[[ClientResponse], None] | None, response: ClientResponse) -> None:
        try:
            if callback is not None:
                callback(response)
        except Exception as error:  # boundary: a callback that fails must not end the connections
            if self._note_failure is None:
                raise
            self._note_failure(error)

    # -- the turn of the crank -------------------------------------------------------------------------------------
    @property
    def next_deadline_ms(self) -> int | None:
        """The time from which `tick` has work to do; None when nothing is pending."""
        return self._next_ms

    def tick(self, now_ms: int) -> None:
        """Connect, send waiting requests and fail late ones; does nothing before `next_deadline_ms`."""
        if self._next_ms is not None and now_ms >= self._next_ms:
            self.poll()

    def poll(self) -> None:
        """Handle the connections now: connect, send waiting requests, and call the `on_response` of responses that
        arrived. Does nothing when called from an `on_response`."""
        if self._is_polling:
            return
        self._is_polling = True
        try:
            now_ms = self._clock.now_ms()
            attempted_lanes = self._connect(now_ms)
            self._client.poll(0, now_ms)
            now_ms = self._clock.now_ms()
            for lane in list(self._waiting):
                self._serve(lane, now_ms, has_failed=lane in attempted_lanes and self._client.connection_failed(lane))
            self._note_deadline(now_ms)
        finally:
            self._is_polling = False

    def _connect(self, now_ms: int) -> set[int]:
        """Begin the connections that requests wait for; returns those that may fail in this turn."""
        attempted_lanes = set()
        for lane in self._waiting:
            address = self._address_of(lane // _LANES)
            if address is None:
                continue
            if self._addresses.get(lane) != address:
                if lane in self._addresses:
                    self._client.disconnect(lane, now_ms)
                self._addresses[lane] = address
                self._client.add_node(Node(lane, *address))
            states = self._client.connection_states
            if states.is_setting_up(lane) or states.can_connect(lane, now_ms):
                attempted_lanes.add(lane)
            self._client.ready(lane, now_ms)
        return attempted_lanes

    def _serve(self, lane: int, now_ms: int, *, has_failed: bool) -> None:
        """Send the requests that wait for a connection; fail them after a failed attempt, after their time-out, or when
        the node's address is unknown."""
        waiting = self._waiting[lane]
        if self._client.can_send(lane, now_ms):
            while waiting and self._client.can_send(lane, now_ms):
                pending_request = waiting.popleft()
                if pending_request.may_send is not None and not pending_request.may_send():
                    self._fail(pending_request)
                    continue
                self._client.send(
                    pending_request.request._replace(timeout_ms=max(1, pending_request.deadline_ms - now_ms)), now_ms
                )
        else:
            is_lost = has_failed or self._address_of(lane // _LANES) is None
            failed = [
                pending_request for pending_request in waiting if is_lost or pending_request.deadline_ms <= now_ms
            ]
            self._waiting[lane] = deque(
                pending_request for pending_request in waiting if not is_lost and pending_request.deadline_ms > now_ms
            )
            for pending_request in failed:
                self._fail(pending_request)
        if not self._waiting[lane]:
            del self._waiting[lane]

    def _fail(self, waiting: _Waiting) -> None:
        request = waiting.request
        if request.callback is not None:
            error = self._client.connection_error(request.node)
            request.callback(ClientResponse(request, -1, None, None, error, True, 0))

    def _note_deadline(self, now_ms: int) -> None:
        waits = [self._client.next_timeout_ms(now_ms)]
        for lane, waiting in self._waiting.items():
            waits.append(min(pending_request.deadline_ms for pending_request in waiting) - now_ms)
            if self._client.connection_states.can_connect(lane, now_ms):
                waits.append(0)
            elif self._client.connection_states.is_blacked_out(lane, now_ms):
                waits.append(self._client.poll_delay_ms(lane, now_ms))
        next_ms = min((wait for wait in waits if wait is not None), default=None)
        self._next_ms = None if next_ms is None else now_ms + max(0, next_ms)

    def connection_error(self, node_id: int, max_age_ms: int = NEVER_MS) -> str:
        """The error of the last connection attempt to a node within `max_age_ms`; empty without an error."""
        states, oldest_ms = self._client.connection_states, self._clock.now_ms() - max_age_ms
        for lane in range(_LANES * node_id, _LANES * (node_id + 1)):
            error = self._client.connection_error(lane)
            if error is not None and states.last_attempt_ms(lane) >= oldest_ms:
                return str(error)
        return ""

    def close(self) -> None:
        """Close the connections and drop the waiting requests, without calling their `on_response`."""
        self._listener.unwatch(self._client)
        self._waiting.clear()
        self._client.close()
        self._next_ms = None


def _lane(node_id: int, api_key: int) -> int:
    """The id of the connection to a node for a request of an API: Fetch, Envelope and all others have one each."""
    return _LANES * node_id + (1 if api_key == ApiKey.FETCH else 2 if api_key == ApiKey.ENVELOPE else 0)


def _decoded(response: ClientResponse) -> Any | None:
    from kafkatools.core.errors import DecodeError
    from kafkatools.core.protocol import messages

    if response.raw is None:
        return None
    try:
        return messages.decode(messages.response_type(response.request.api_key, response.api_version), response.raw)[0]
    except DecodeError:
        return None


def _client_config(
    client_id: str,
    request_timeout_ms: int,
    max_idle_ms: int,
    receive_buffer_bytes: int,
    security: Mapping[str, object],
) -> Config:
    return Config(
        tables.ADMIN,
        {
            "bootstrap.servers": "127.0.0.1:1",
            "client.id": client_id,
            "request.timeout.ms": str(request_timeout_ms),
            "connections.max.idle.ms": str(max_idle_ms),
            "receive.buffer.bytes": str(receive_buffer_bytes),
            "reconnect.backoff.ms": str(RECONNECT_BACKOFF_MS),
            "reconnect.backoff.max.ms": str(RECONNECT_BACKOFF_MAX_MS),
            **security,
        },
    )
