"""ControllerRegistration (key 70), version 0: a controller says where it listens and what it supports (KIP-919). Needs
CLUSTER_ACTION.

Not done: nothing.
"""

from __future__ import annotations

from kafkatools.core.broker.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME
from kafkatools.core.broker.controller.configs import error_fields
from kafkatools.core.broker.handlers.controller_only import ControllerNode
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import KafkaError

VERSIONS = (0, 0)


def handle(node: ControllerNode, request: Request) -> Response:
    """Note it in the metadata log."""
    entity = request.decode()
    try:
        node.authorize_or_raise(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        node.controller.register_controller(entity)
    except KafkaError as error:
        return request.respond(error_fields(error))
    return request.respond({"error_code": 0, "error_message": None})
