"""BrokerHeartbeat (key 63), versions 0-2: a broker lives, and wants to be unfenced or to stop. Needs CLUSTER_ACTION.

Not done: nothing.
"""

from __future__ import annotations

from kafkatools.core.broker.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME
from kafkatools.core.broker.handlers.controller_only import ControllerNode
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import KafkaError

VERSIONS = (0, 2)


def handle(node: ControllerNode, request: Request) -> Response:
    """What the broker is now."""
    entity = request.decode()
    try:
        node.authorize_or_raise(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        return request.respond(node.controller.heartbeat(entity, node.clock.now_ms()))
    except KafkaError as error:
        return request.respond({"error_code": error.code, "is_fenced": True})
