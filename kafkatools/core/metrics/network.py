"""The metrics of a client's connections and requests (Kafka's SelectorMetrics): of the whole client and of each node.

Requests are counted when they are handed to the connection, responses when they are complete. A node's latency is that
of Produce, Fetch and ShareFetch requests, as in Kafka. A node's metrics remain until the client is closed: Kafka
removes them after an hour without a request.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.metrics.sensor import Sensor, averages, counts, sums

_WITH_LATENCY = frozenset({0, 1, 78})  # Produce, Fetch, ShareFetch
_SENT = {**sums("outgoing-byte"), **counts("request"), **averages("request-size")}
_RECEIVED = {**sums("incoming-byte"), **counts("response")}


class NetworkCounter:
    """Counts nothing: for clients without metrics, such as the connections between brokers."""

    def sent(self, node: int, size: int, now_ms: int) -> None:
        """Count a request of `size` bytes to a node."""

    def received(self, node: int, api_key: int, size: int, latency_ms: int, now_ms: int) -> None:
        """Count a response of `size` bytes from a node, `latency_ms` after its request."""

    def connected(self, now_ms: int) -> None:
        """Count a connection that was made."""

    def closed(self, now_ms: int) -> None:
        """Count a connection that ended."""

    def authenticated(self, now_ms: int) -> None:
        """Count a successful authentication."""

    def refused(self, now_ms: int) -> None:
        """Count a failed authentication."""


class _NodeSensors(NamedTuple):
    sent: Sensor
    received: Sensor
    latency: Sensor


class NetworkMetrics(NetworkCounter):
    """The connection and request metrics of a client, in the groups `PREFIX-metrics` and `PREFIX-node-metrics`."""

    def __init__(self, registry: MetricsRegistry, prefix: str) -> None:
        """`prefix`: producer, consumer or admin-client."""
        self._registry = registry
        self._prefix = prefix
        group = f"{prefix}-metrics"
        self._connections = 0
        self._sent = registry.sensor(group, _SENT)
        self._received = registry.sensor(group, _RECEIVED)
        self._transfers = registry.sensor(group, counts("network-io"))
        self._connected = registry.sensor(group, counts("connection-creation"))
        self._closed = registry.sensor(group, counts("connection-close"))
        self._authenticated = registry.sensor(group, counts("successful-authentication"))
        self._refused = registry.sensor(group, counts("failed-authentication"))
        registry.gauge(group, "connection-count", lambda now_ms: float(self._connections))
        self._nodes: dict[int, _NodeSensors] = {}

    def _of_node(self, node: int) -> _NodeSensors:
        sensors = self._nodes.get(node)
        if sensors is None:
            group, tags = f"{self._prefix}-node-metrics", {"node-id": f"node-{node}"}
            tables = (_SENT, _RECEIVED, averages("request-latency"))
            sensors = _NodeSensors(*(self._registry.sensor(group, stats, tags) for stats in tables))
            self._nodes[node] = sensors
        return sensors

    def sent(self, node: int, size: int, now_ms: int) -> None:
        """Count a request of `size` bytes to a node."""
        self._sent.record(size, now_ms)
        self._transfers.record(size, now_ms)
        self._of_node(node).sent.record(size, now_ms)

    def received(self, node: int, api_key: int, size: int, latency_ms: int, now_ms: int) -> None:
        """Count a response of `size` bytes from a node, `latency_ms` after its request."""
        self._received.record(size, now_ms)
        self._transfers.record(size, now_ms)
        sensors = self._of_node(node)
        sensors.received.record(size, now_ms)
        if api_key in _WITH_LATENCY:
            sensors.latency.record(latency_ms, now_ms)

    def connected(self, now_ms: int) -> None:
        """Count a connection that was made."""
        self._connections += 1
        self._connected.record(1, now_ms)

    def closed(self, now_ms: int) -> None:
        """Count a connection that ended."""
        self._connections -= 1
        self._closed.record(1, now_ms)

    def authenticated(self, now_ms: int) -> None:
        """Count a successful authentication."""
        self._authenticated.record(1, now_ms)

    def refused(self, now_ms: int) -> None:
        """Count a failed authentication."""
        self._refused.record(1, now_ms)
