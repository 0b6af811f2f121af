"""The end of a node whose disk failed (KafkaStorageError): other brokers take over its leaderships at once.

Its clients are disconnected first, as if the process had ended. Then the quorum elects another leader, and the new
controller fences the broker without waiting for its session (Apache Kafka's node just halts, and its partitions wait
for broker.session.timeout.ms). Nothing is written meanwhile.
"""

from __future__ import annotations

from typing import Protocol

from kafkatools.core.broker.metadata.lifecycle import BrokerLifecycle
from kafkatools.core.broker.metadata.quorum import failed_member
from kafkatools.core.broker.node_parts import HasClock, HasRaft
from kafkatools.core.broker.server.listener import Listener

FAREWELL_MS = 4000


class Leaving(HasClock, HasRaft, Protocol):
    """The node that ends."""

    @property
    def lifecycle(self) -> BrokerLifecycle | None: ...

    @property
    def listener(self) -> Listener: ...

    def is_controller_listener(self, name: str) -> bool: ...

    def has_no_majority(self) -> bool: ...


class Farewell:
    """Starts with its construction; the node checks `is_over` between its turns."""

    def __init__(self, node: Leaving) -> None:
        self._node = node
        self._ends_ms = node.clock.now_ms() + FAREWELL_MS
        self._disconnect_clients()
        node.raft.shut_down(node.clock.now_ms())
        if node.lifecycle is not None:
            node.lifecycle.begin_farewell(FAREWELL_MS)

    def _disconnect_clients(self) -> None:
        """Close all listeners but the controller's, where the new leader announces its election (BeginQuorumEpoch)."""
        listener = self._node.listener
        for acceptor in listener.acceptors:
            if acceptor.is_open and not self._node.is_controller_listener(acceptor.name):
                listener.unwatch(acceptor.socket)
                acceptor.socket.close()
                acceptor.is_open = False
        for connection in list(listener.connections):
            if not connection.acceptor.is_open:
                connection.close()

    @property
    def is_over(self) -> bool:
        """Whether the broker is fenced and the quorum knows, or there is no majority, or FAREWELL_MS have passed."""
        node = self._node
        if node.clock.now_ms() >= self._ends_ms or node.has_no_majority():
            return True
        is_fenced = node.lifecycle is None or node.lifecycle.is_gone
        return is_fenced and failed_member.has_resigned(node.raft)
