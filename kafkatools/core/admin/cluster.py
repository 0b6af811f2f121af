"""The cluster itself: its id, its brokers, its controller (KafkaAdminClient.describeCluster)."""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkatools.core.admin.client import AdminClient, error_of
from kafkatools.core.errors import UnsupportedVersion
from kafkatools.core.net.metadata import Node
from kafkatools.core.protocol.api_versions import ApiKey

_BROKERS = 1


class ClusterDescription(NamedTuple):
    """`controller_id` is -1 when there is none; `fenced`: the ids of fenced brokers, if they were asked for."""

    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]
    fenced: frozenset[int] = frozenset()


def describe_cluster(admin: AdminClient, *, include_fenced_brokers: bool = False) -> ClusterDescription:
    """The cluster as a broker sees it; through Metadata where the broker lacks DescribeCluster. Raises KafkaError."""
    fields = {"endpoint_type": _BROKERS, "include_fenced_brokers": include_fenced_brokers}
    try:
        response = admin.ask(ApiKey.DESCRIBE_CLUSTER, fields, check=_error)
    except UnsupportedVersion:
        return _by_metadata(admin)
    brokers = sorted(response.brokers, key=lambda broker: broker.broker_id)
    return ClusterDescription(
        response.cluster_id,
        response.controller_id,
        tuple(Node(broker.broker_id, broker.host, broker.port, broker.rack) for broker in brokers),
        frozenset(broker.broker_id for broker in brokers if getattr(broker, "is_fenced", False)),
    )


def _error(response: Any) -> Any:
    return error_of(response.error_code, response.error_message)


def _by_metadata(admin: AdminClient) -> ClusterDescription:
    response = admin.metadata_of((), admin.deadline_ms())
    brokers = sorted(response.brokers, key=lambda broker: broker.node_id)
    nodes = tuple(Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in brokers)
    return ClusterDescription(getattr(response, "cluster_id", None), response.controller_id, nodes)
