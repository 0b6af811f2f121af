"""The active controller of a sandbox cluster, and the number of partitions that each node leads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.quorum import describe_metadata_quorum
from kafkatools.core.errors import KafkaError
from kafkatools.sandbox.cluster import RUNNING, NodeState, SandboxCluster
from kafkatools.sandbox.security import read_client_settings

_BUDGET_MS = 3000
LEADER, VOTER = "leader", "voter"


class Roles(NamedTuple):
    """The active controller and the leader counts by node id; None for what no node reported."""

    controller: int | None
    leader_counts: Counter[int] | None

    def role(self, node: NodeState) -> str | None:
        """Return `leader` or `voter`, the node's role in the controller quorum; None when the controller is unknown."""
        if self.controller is None:
            return None
        return LEADER if node.node_id == self.controller else VOTER

    def leaders(self, node: NodeState) -> int | None:
        """Return how many partitions the node leads; None when the metadata is unknown."""
        return None if self.leader_counts is None else self.leader_counts[node.node_id]


def fetch_roles(console: Console, cluster: SandboxCluster, nodes: Sequence[NodeState]) -> Roles:
    """Ask the running nodes for controller and leaders, with request timeouts of 3 s. Never raises KafkaError."""
    if not any(node.state == RUNNING for node in nodes):
        return Roles(None, None)
    security = read_client_settings(console.home)
    limits = {**security, "request.timeout.ms": str(_BUDGET_MS), "default.api.timeout.ms": str(_BUDGET_MS)}
    try:
        with AdminClient(cluster.bootstrap, limits, console.clock) as admin:
            topics = admin.metadata_of(None, admin.deadline_ms()).topics
            counts = Counter(int(partition.leader_id) for topic in topics for partition in topic.partitions)
            try:
                return Roles(describe_metadata_quorum(admin).leader_id, counts)
            except KafkaError:
                return Roles(None, counts)
    except KafkaError:
        return Roles(None, None)
