"""The state of the connection to every node and its reconnect back-off (ClusterConnectionStates, ExponentialBackoff).

A failed connection is retried after reconnect.backoff.ms, doubled with every failure up to reconnect.backoff.max.ms,
plus or minus 20 %. The time allowed for connection setup grows in the same way from socket.connection.setup.timeout.ms
(KIP-601). Here the setup includes the ApiVersions response. Kafka's clients wait request.timeout.ms for that response,
so a server that accepts and does not answer blocks them longer. A name with several addresses is tried address by
address (KIP-302), with a back-off after all of them failed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum, unique

from kafkatools.core.errors import KafkaError
from kafkatools.core.net.addresses import Address, HostPort, Resolver, resolve

Random = Callable[[], float]


@unique
class ConnectionState(Enum):
    """The states of a connection to a node (Kafka's ConnectionState)."""

    DISCONNECTED = "DISCONNECTED"
    CONNECTING = "CONNECTING"
    CHECKING_API_VERSIONS = "CHECKING_API_VERSIONS"
    AUTHENTICATING = "AUTHENTICATING"
    READY = "READY"
    AUTHENTICATION_FAILED = "AUTHENTICATION_FAILED"


FOREVER_MS = 1 << 62
_SETTING_UP = (ConnectionState.CONNECTING, ConnectionState.CHECKING_API_VERSIONS)


def system_random() -> float:
    """A random number in [0, 1)."""
    return int.from_bytes(os.urandom(4), "big") / 2**32


class ExponentialBackoff:
    """Exponential back-off: `initial_ms` * 2^attempts, at most `max_ms`, randomized by plus or minus `jitter` (a
    fraction). With `initial_ms` at or above `max_ms` it is `max_ms`, not randomized."""

    def __init__(self, initial_ms: int, max_ms: int, jitter: float = 0.2, random: Random = system_random) -> None:
        self._initial_ms = min(initial_ms, max_ms)
        self._max_ms = max_ms
        self._jitter = jitter
        self._random = random

    def backoff_ms(self, attempts: int) -> int:
        """Milliseconds to wait after this number of earlier failures (0 for the first wait)."""
        term = self._initial_ms * 2 ** min(attempts, 62)
        factor = 1 + self._jitter * (2 * self._random() - 1)
        if self._initial_ms >= self._max_ms:
            return self._initial_ms
        return int(min(self._max_ms, min(term, self._max_ms) * factor))


class NodeState:
    """The connection to one node: state, addresses, time of the last attempt, back-off, throttling and last error."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.state = ConnectionState.DISCONNECTED
        self.addresses: list[Address] = []
        self.address_index = 0
        self.last_attempt_ms = 0
        self.failed_attempts = 0
        self.failed_connects = 0
        self.backoff_ms = 0
        self.setup_timeout_ms = 0
        self.throttled_until_ms = 0
        self.session_ends_ms = FOREVER_MS
        self.error: KafkaError | None = None


_UNTRIED = NodeState("", 0)
"""The state of a node without a connection attempt; never changed."""


class ConnectionStates:
    """The connection states of all nodes of a client, by node id."""

    def __init__(
        self, reconnect: ExponentialBackoff, setup_timeout: ExponentialBackoff, resolver: Resolver | None = None
    ) -> None:
        self._resolver = resolver
        self._reconnect = reconnect
        self._setup_timeout = setup_timeout
        self._nodes: dict[int, NodeState] = {}
        self.refusal: KafkaError | None = None
        """The last authentication error; the caller of poll raises and clears it."""

    def state(self, node: int) -> ConnectionState:
        """The state of a node's connection; DISCONNECTED for a node without a connection attempt."""
        return self._nodes.get(node, _UNTRIED).state

    def error(self, node: int) -> KafkaError | None:
        """The error that ended the last connection or attempt; None without an attempt and after a connection became
        ready."""
        return self._nodes.get(node, _UNTRIED).error

    def address(self, node: int) -> str:
        """host:port of a node with a connection attempt, even after the node left the cluster; empty for any other
        node."""
        peer = self._nodes.get(node)
        return "" if peer is None else str(HostPort(peer.host, peer.port))

    def has_been_tried(self, node: int) -> bool:
        """Return whether a connection to the node was ever attempted."""
        return node in self._nodes

    def has_failed(self, node: int) -> bool:
        """Return whether the last connection to the node ended or the last attempt failed, and no new attempt has
        begun. False for a node that was not tried."""
        state = self.state(node)
        is_disconnected = state is ConnectionState.DISCONNECTED and self.has_been_tried(node)
        return is_disconnected or state is ConnectionState.AUTHENTICATION_FAILED

    def last_attempt_ms(self, node: int) -> int:
        """Time of the last connection attempt or disconnection; 0 if there was none."""
        return self._nodes.get(node, _UNTRIED).last_attempt_ms

    def can_connect(self, node: int, now_ms: int) -> bool:
        """Return whether a new connection attempt is due: the node was not tried, or it is disconnected and its
        back-off is over."""
        peer = self._nodes.get(node, _UNTRIED)
        return _is_down(peer) and now_ms - peer.last_attempt_ms >= peer.backoff_ms

    def is_blacked_out(self, node: int, now_ms: int) -> bool:
        """Return whether the node is disconnected and its reconnect back-off is not over."""
        return _is_down(self._nodes.get(node, _UNTRIED)) and not self.can_connect(node, now_ms)

    def is_setting_up(self, node: int) -> bool:
        """Return whether the connection is connecting, checking API versions or authenticating."""
        return self.state(node) in (*_SETTING_UP, ConnectionState.AUTHENTICATING)

    def connection_delay_ms(self, node: int, now_ms: int) -> int:
        """Milliseconds until the connection needs attention: the rest of the back-off, or of the setup time-out while
        connecting. FOREVER_MS for a ready or authenticating connection: its next event is a response or a
        disconnection, which ends a poll anyway."""
        peer = self._nodes.get(node, _UNTRIED)
        if peer.state in _SETTING_UP:
            return max(0, peer.last_attempt_ms + peer.setup_timeout_ms - now_ms)
        return max(0, peer.last_attempt_ms + peer.backoff_ms - now_ms) if _is_down(peer) else FOREVER_MS

    def has_address(self, node: int, host: str, port: int) -> bool:
        """Return whether `connecting` would not wait for a host name. False only with a resolver, which then looks the
        name up."""
        if self._resolver is None:
            return True
        peer = self._nodes.get(node, _UNTRIED)
        is_left = (peer.host, peer.port) == (host, port) and peer.address_index < len(peer.addresses)
        return is_left or self._resolver.is_resolved(host, port)

    def connecting(self, node: int, host: str, port: int, now_ms: int) -> Address:
        """Set the state to CONNECTING and return the address to connect to. Raises NameResolutionFailed, after counting
        it as a failed attempt."""
        peer = self._nodes.get(node)
        if peer is None or (peer.host, peer.port) != (host, port):
            peer = self._nodes[node] = NodeState(host, port)
        peer.state = ConnectionState.CONNECTING
        peer.last_attempt_ms = now_ms
        peer.setup_timeout_ms = self._setup_timeout.backoff_ms(peer.failed_connects)
        if peer.address_index >= len(peer.addresses):
            try:
                peer.addresses = (resolve if self._resolver is None else self._resolver.resolve)(host, port)
            except KafkaError as error:
                self.disconnected(node, now_ms, error)
                raise
            peer.address_index = 0
        return peer.addresses[peer.address_index]

    def connected(self, node: int) -> None:
        """Set the state to CHECKING_API_VERSIONS: the transport is connected and the ApiVersions request comes next."""
        self._nodes[node].state = ConnectionState.CHECKING_API_VERSIONS

    def authenticating(self, node: int) -> None:
        """Set the state to AUTHENTICATING, for the first authentication or a repeated one; no other requests may be
        sent."""
        peer = self._nodes[node]
        peer.state = ConnectionState.AUTHENTICATING
        peer.session_ends_ms = FOREVER_MS

    def limit_session(self, node: int, ends_ms: int) -> None:
        """Set the time after which the connection must authenticate again before the next request (KIP-368)."""
        self._nodes[node].session_ends_ms = ends_ms

    def ended_sessions(self, now_ms: int) -> list[int]:
        """The nodes whose session has expired, so that the connection must authenticate again."""
        ready = ConnectionState.READY
        return [node for node, peer in self._nodes.items() if peer.session_ends_ms <= now_ms and peer.state is ready]

    def ready(self, node: int) -> None:
        """Set the state to READY and reset the back-offs and the error."""
        peer = self._nodes[node]
        peer.state = ConnectionState.READY
        peer.failed_attempts = peer.failed_connects = peer.backoff_ms = 0
        peer.error = None
        del peer.addresses[: peer.address_index]
        peer.address_index = 0

    def disconnected(self, node: int, now_ms: int, error: KafkaError | None) -> None:
        """Set the state to DISCONNECTED and start the reconnect back-off, after a lost connection or a failed attempt.
        If the host name has another address to try, the back-off is 0."""
        peer = self._nodes[node]
        peer.last_attempt_ms = now_ms
        peer.backoff_ms = self._reconnect.backoff_ms(peer.failed_attempts)
        peer.failed_attempts += 1
        if peer.state in _SETTING_UP:
            peer.failed_connects += 1
            peer.address_index += 1
            if peer.address_index < len(peer.addresses):
                peer.backoff_ms = 0
        elif peer.state is ConnectionState.READY:
            peer.addresses, peer.address_index = [], 0
        peer.state = ConnectionState.DISCONNECTED
        peer.session_ends_ms = FOREVER_MS
        peer.error = error

    def authentication_failed(self, node: int, now_ms: int, error: KafkaError) -> None:
        """Set the state to AUTHENTICATION_FAILED, start the reconnect back-off and keep the error in `refusal`."""
        self.disconnected(node, now_ms, error)
        self._nodes[node].state = ConnectionState.AUTHENTICATION_FAILED
        self.refusal = error

    def forget(self, node: int) -> None:
        """Remove a node that is no longer part of the cluster."""
        self._nodes.pop(node, None)

    def throttle(self, node: int, until_ms: int) -> None:
        """Send no requests to the node until this time, because its response asked for that (throttle_time_ms,
        KIP-219). No effect on a node without a connection attempt."""
        peer = self._nodes.get(node)
        if peer is not None:
            peer.throttled_until_ms = max(peer.throttled_until_ms, until_ms)

    def throttle_delay_ms(self, node: int, now_ms: int) -> int:
        """Milliseconds until the throttling of a node ends; 0 when it is not throttled."""
        return max(0, self._nodes.get(node, _UNTRIED).throttled_until_ms - now_ms)

    def is_ready(self, node: int, now_ms: int) -> bool:
        """Return whether the connection is ready, not throttled, and its session has not expired."""
        peer = self._nodes.get(node, _UNTRIED)
        return peer.state is ConnectionState.READY and peer.throttled_until_ms <= now_ms < peer.session_ends_ms

    def has_ready_nodes(self, now_ms: int) -> bool:
        """Return whether the connection to any node is ready, as `is_ready` says."""
        return any(self.is_ready(node, now_ms) for node in self._nodes)

    def timed_out_connections(self, now_ms: int) -> list[int]:
        """The nodes whose connection setup takes longer than its time-out."""
        return [
            node
            for node, peer in self._nodes.items()
            if peer.state in _SETTING_UP and now_ms - peer.last_attempt_ms > peer.setup_timeout_ms
        ]

    def next_setup_timeout_ms(self, now_ms: int) -> int | None:
        """Milliseconds until the next connection setup times out; None when no connection is being set up."""
        waits = [
            peer.last_attempt_ms + peer.setup_timeout_ms + 1 - now_ms
            for peer in self._nodes.values()
            if peer.state in _SETTING_UP
        ]
        return max(0, min(waits)) if waits else None


def _is_down(peer: NodeState) -> bool:
    return peer.state in (ConnectionState.DISCONNECTED, ConnectionState.AUTHENTICATION_FAILED)
