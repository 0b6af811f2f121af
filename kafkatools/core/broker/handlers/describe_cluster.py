"""DescribeCluster (key 60), versions 0-2.

Not done: authorized operations; the controllers' endpoints (endpoint type 2) give MISMATCHED_ENDPOINT_TYPE, since
this is a broker listener.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import MismatchedEndpointType

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 2)
BROKER_ENDPOINTS = 1


def handle(node: Node, request: Request) -> Response:
    """Cluster id, controller and the one broker."""
    entity = request.decode()
    if request.version >= 1 and entity.endpoint_type != BROKER_ENDPOINTS:
        message = "The request was sent to an endpoint of the wrong type."
        return request.respond(
            {"error_code": MismatchedEndpointType.code, "error_message": message, "cluster_id": "", "brokers": []}
        )
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
        }
    )
