"""The cluster's id, brokers and controller (KafkaAdminClient.describeCluster), and each broker's API versions."""

from __future__ import annotations

from typing import NamedTuple

from kafkatools.core.admin.client import BROKERS, CONTROLLERS, AdminClient, error_in
from kafkatools.core.errors import KafkaError, UnsupportedVersion
from kafkatools.core.net.metadata import Node
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields


class ClusterDescription(NamedTuple):
    """A described cluster. `controller_id` is -1 without a controller; `fenced`: ids of fenced brokers if requested."""

    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]
    fenced: frozenset[int] = frozenset()


def describe_cluster(admin: AdminClient, *, include_fenced_brokers: bool = False) -> ClusterDescription:
    """Return the cluster's id, controller and brokers, or the controllers when connected to controllers. Brokers
    without DescribeCluster get a Metadata request. Raises KafkaError; UnsupportedVersion for `include_fenced_brokers`
    at old brokers."""
    endpoint_type = CONTROLLERS if admin.through_controllers else BROKERS
    fields = {"endpoint_type": endpoint_type, "include_fenced_brokers": include_fenced_brokers}
    oldest = 2 if include_fenced_brokers else int(admin.through_controllers)
    try:
        response = admin.send(ApiKey.DESCRIBE_CLUSTER, fields, min_version=oldest, check=error_in)
    except UnsupportedVersion:
        if oldest:
            raise
        return _by_metadata(admin)
    brokers = sorted(response.brokers, key=lambda broker: broker.broker_id)
    return ClusterDescription(
        response.cluster_id,
        response.controller_id,
        tuple(Node(broker.broker_id, broker.host, broker.port, broker.rack) for broker in brokers),
        frozenset(broker.broker_id for broker in brokers if getattr(broker, "is_fenced", False)),
    )


def _by_metadata(admin: AdminClient) -> ClusterDescription:
    response = admin.metadata_of((), admin.deadline_ms())
    brokers = sorted(response.brokers, key=lambda broker: broker.node_id)
    nodes = tuple(Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in brokers)
    return ClusterDescription(getattr(response, "cluster_id", None), response.controller_id, nodes)


def unregister_broker(admin: AdminClient, broker_id: int) -> None:
    """Remove a broker that is permanently gone from the cluster metadata (KRaft). Raises KafkaError."""
    admin.change(ApiKey.UNREGISTER_BROKER, {"broker_id": broker_id})


class ApiRange(NamedTuple):
    """The versions of one API that a broker supports."""

    api_key: int
    min_version: int
    max_version: int


def describe_api_versions(admin: AdminClient) -> dict[Node, tuple[ApiRange, ...] | KafkaError]:
    """Return the API versions of each broker, sorted by API key, or the broker's error; of the controllers when
    connected through one. Raises KafkaError when the nodes cannot be listed."""
    if admin.through_controllers:
        admin.refresh_cluster()
        cluster = describe_cluster(admin)
    else:
        cluster = _by_metadata(admin)
    nodes = {node.id: node for node in cluster.nodes}
    ranges = admin.send_to_brokers(nodes, ApiKey.API_VERSIONS, _software, lambda response: _ranges(response.entity))
    return {nodes[broker]: result for broker, result in ranges.items()}


def _software(version: int) -> Fields:
    return {} if version < 3 else {"client_software_name": "kafkatools", "client_software_version": "1"}


def _ranges(response: Entity) -> tuple[ApiRange, ...] | KafkaError:
    ranges = (ApiRange(int(api.api_key), api.min_version, api.max_version) for api in response.api_keys)
    return error_in(response) or tuple(sorted(ranges))
