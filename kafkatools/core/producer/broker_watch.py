"""BrokerWatch: report when records wait and no broker has responded for some seconds, and when one responds again.

The producer itself retries and reports a record after delivery.timeout.ms, which may be minutes; this informs a user at
a terminal earlier. It is checked once in each turn of the sender and costs nothing while a connection is ready.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkatools.core.net.addresses import HostPort

if TYPE_CHECKING:
    from kafkatools.core.net.network_client import NetworkClient
    from kafkatools.core.producer.producer_metadata import ProducerMetadata

PATIENCE_MS = 3000


class BrokerWatch:
    """Reports connection outages of a producer: the sender's thread calls `report(line)` when work waited `patience_ms`
    without a ready connection. It calls it again when a connection is ready while work waits."""

    def __init__(
        self,
        client: NetworkClient,
        metadata: ProducerMetadata,
        report: Callable[[str], None],
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        self.client = client
        self.metadata = metadata
        self.report = report
        self.patience_ms = patience_ms
        self._silent_since_ms: int | None = None
        self._has_reported = False

    def check(self, now_ms: int, is_waiting: bool) -> int | None:
        """Report an outage or its end, if work waits for a broker (`is_waiting`). Returns the ms until the next check;
        None when nothing waits, a connection is ready, or the outage was reported."""
        if not is_waiting or self.client.connection_states.has_ready_nodes(now_ms):
            self._silent_since_ms = None
            if self._has_reported and is_waiting:
                self._has_reported = False
                self.report("A broker answers again")
            return None
        if self._silent_since_ms is None:
            self._silent_since_ms = now_ms
        remaining_ms = self._silent_since_ms + self.patience_ms - now_ms
        if remaining_ms > 0:
            return remaining_ms
        if not self._has_reported:
            self._has_reported = True
            self.report(f"No broker answers, still trying: {'; '.join(self._reasons())}")
        return None

    def _reasons(self) -> list[str]:
        reasons = []
        for node in self.metadata.cluster.nodes.values():
            error = self.client.connection_error(node.id)
            reasons.append(f"no answer from {HostPort(node.host, node.port)}" if error is None else str(error))
        return list(dict.fromkeys(reasons))
