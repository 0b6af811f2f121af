"""Who leads the controllers, and how many partitions each node leads: asked of the nodes that run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.quorum import describe_metadata_quorum
from kafkatools.core.errors import KafkaError
from kafkatools.sandbox.cluster import RUNNING, NodeState, SandboxCluster

_BUDGET_MS = 3000
LEADER, VOTER = "leader", "voter"


class Roles(NamedTuple):
    """What the nodes said; None where nobody answered. A leader that is down is not one any more."""

    controller: int | None
    leader_counts: Counter[int] | None

    def role(self, node: NodeState) -> str | None:
        """The node's part in the quorum of controllers."""
        if self.controller is None:
            return None
        return LEADER if node.node_id == self.controller else VOTER

    def leaders(self, node: NodeState) -> int | None:
        """How many partitions it leads."""
        return None if self.leader_counts is None else self.leader_counts[node.node_id]


def ask_roles(console: Console, cluster: SandboxCluster, nodes: Sequence[NodeState]) -> Roles:
    """Asks the nodes that run; a few seconds at most."""
    if not any(node.state == RUNNING for node in nodes):
        return Roles(None, None)
    limits = {"request.timeout.ms": str(_BUDGET_MS), "default.api.timeout.ms": str(_BUDGET_MS)}
    try:
        with AdminClient(cluster.bootstrap, limits, console.clock) as admin:
            counts = _leader_counts(admin)
            return Roles(_controller(admin), counts)
    except KafkaError:
        return Roles(None, None)


def _leader_counts(admin: AdminClient) -> Counter[int]:
    response = admin.metadata_of(None, admin.deadline_ms())
    return Counter(int(partition.leader_id) for topic in response.topics for partition in topic.partitions)


def _controller(admin: AdminClient) -> int | None:
    try:
        return describe_metadata_quorum(admin).leader_id
    except KafkaError:
        return None
