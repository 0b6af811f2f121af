"""DescribeCluster (key 60), versions 0-2.

Not done: the controllers' endpoints (endpoint type 2) give MISMATCHED_ENDPOINT_TYPE, since this is a broker listener.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE
from kafkatools.core.broker.controller.configs import error_fields
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import KafkaError, MismatchedEndpointType, UnsupportedEndpointType

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 2)
BROKER_ENDPOINTS, CONTROLLER_ENDPOINTS = 1, 2
NOT_ASKED = -(2**31)


def handle(node: Node, request: Request) -> Response:
    """Cluster id, controller and the one broker."""
    entity = request.decode()
    endpoint_type = entity.endpoint_type if request.version >= 1 else BROKER_ENDPOINTS
    if endpoint_type != BROKER_ENDPOINTS:
        return request.respond({**error_fields(_wrong_type(endpoint_type)), "brokers": [], "cluster_id": ""})
    operations = NOT_ASKED
    if entity.include_cluster_authorized_operations:
        is_allowed = node.authorize(request, DESCRIBE, CLUSTER, CLUSTER_NAME)
        operations = node.authorized_operations(request, CLUSTER, CLUSTER_NAME) if is_allowed else 0
    broker = {
        "broker_id": node.node_id,
        "host": node.advertised_host,
        "port": node.advertised_port,
        "rack": None,
        "is_fenced": False,
    }
    return request.respond(
        {
            "error_code": 0,
            "error_message": None,
            "endpoint_type": BROKER_ENDPOINTS,
            "cluster_id": node.cluster_id,
            "controller_id": node.node_id,
            "brokers": [broker],
            "cluster_authorized_operations": operations,
        }
    )


def _wrong_type(endpoint_type: int) -> KafkaError:
    if endpoint_type != CONTROLLER_ENDPOINTS:
        return UnsupportedEndpointType(f"Unsupported endpoint type {endpoint_type}")
    return MismatchedEndpointType(
        "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
    )
