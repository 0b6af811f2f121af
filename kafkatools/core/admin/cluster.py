"""The cluster: its id, controller and brokers."""

from __future__ import annotations

from dataclasses import dataclass

from kafkatools.core.admin.client import AdminClient, failure
from kafkatools.core.errors import UnsupportedVersion
from kafkatools.core.protocol.api_versions import ApiKey


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as it advertises itself."""

    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """Brokers in order of their ids; the controller is -1 when the broker does not say."""

    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]


def describe_cluster(admin: AdminClient, *, include_fenced_brokers: bool = False) -> ClusterDescription:
    """The cluster as DescribeCluster shows it (KIP-700), or Metadata with brokers older than that."""
    fields = {"include_cluster_authorized_operations": False, "include_fenced_brokers": include_fenced_brokers}
    try:
        answer = admin.call(ApiKey.DESCRIBE_CLUSTER, fields)
    except UnsupportedVersion:
        old = admin.call(ApiKey.METADATA, {"topics": (), "allow_auto_topic_creation": False})
        nodes = [Node(one.node_id, one.host, one.port, getattr(one, "rack", None)) for one in old.brokers]
        return ClusterDescription(getattr(old, "cluster_id", None), old.controller_id, _sorted(nodes))
    error = failure(answer.error_code, answer.error_message)
    if error is not None:
        raise error
    nodes = [
        Node(one.broker_id, one.host, one.port, one.rack, getattr(one, "is_fenced", False)) for one in answer.brokers
    ]
    return ClusterDescription(answer.cluster_id, answer.controller_id, _sorted(nodes))


def _sorted(nodes: list[Node]) -> tuple[Node, ...]:
    return tuple(sorted(nodes, key=lambda node: node.id))
