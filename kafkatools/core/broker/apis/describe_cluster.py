"""DescribeCluster (key 60), versions 0-2: the brokers on a broker's listener, the controllers on a controller's.

Controllers are the voters, which are fixed; the active one is named there, and any broker to clients of brokers, since
each finds the active one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.server.alive_brokers import AliveBrokers
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError, MismatchedEndpointType, UnsupportedEndpointType

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS = 1, 2
NAMES = {BROKER_ENDPOINTS: "BROKER", CONTROLLER_ENDPOINTS: "CONTROLLER"}
FIRST_VERSION_OF_FENCED = 2
NOT_ASKED = -(2**31)


def handle(node: Node, request: Request) -> Response:
    """Cluster id, controller and nodes."""
    entity = request.decode()
    endpoint_type = entity.endpoint_type if request.version >= 1 else BROKER_ENDPOINTS
    here = CONTROLLER_ENDPOINTS if node.is_controller_listener(request.listener_name) else BROKER_ENDPOINTS
    if endpoint_type != here:
        return request.respond({**error_fields(_wrong_type(endpoint_type, here)), "brokers": [], "cluster_id": ""})
    operations = NOT_ASKED
    if entity.include_cluster_authorized_operations:
        is_allowed = node.authorize(request, DESCRIBE, CLUSTER, CLUSTER_NAME)
        operations = node.authorized_operations(request, CLUSTER, CLUSTER_NAME) if is_allowed else 0
    if here == CONTROLLER_ENDPOINTS:
        controller_id, nodes = node.controller_id, _controllers(node)
    else:
        controller_id, nodes = node.node_id, _brokers(node, request, entity)
    return request.respond(
        {
            "error_code": 0,
            "error_message": None,
            "endpoint_type": here,
            "cluster_id": node.cluster_id,
            "controller_id": controller_id,
            "brokers": nodes,
            "cluster_authorized_operations": operations,
        }
    )


def _brokers(node: Node, request: Request, entity: Any) -> list[dict[str, Any]]:
    alive = AliveBrokers(node.image, request.listener_name)
    with_fenced = request.version >= FIRST_VERSION_OF_FENCED and entity.include_fenced_brokers
    found = []
    for broker in alive.nodes(with_fenced=with_fenced):
        host, port = alive.addresses[broker.broker_id]
        fields = {"broker_id": broker.broker_id, "host": host, "port": port, "rack": broker.rack}
        found.append({**fields, "is_fenced": broker.is_fenced})
    return found


def _controllers(node: Node) -> list[dict[str, Any]]:
    return [
        {"broker_id": voter, "host": host, "port": port, "rack": None, "is_fenced": False}
        for voter, (host, port) in sorted(node.controllers.items())
    ]


def _wrong_type(endpoint_type: int, here: int) -> KafkaError:
    if endpoint_type not in NAMES:
        return UnsupportedEndpointType(f"Unsupported endpoint type {endpoint_type}")
    return MismatchedEndpointType(
        f"The request was sent to an endpoint of type {NAMES[here]}, but we wanted an endpoint of type "
        f"{NAMES[endpoint_type]}"
    )
