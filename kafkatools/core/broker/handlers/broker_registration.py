"""BrokerRegistration (key 62), versions 0-4: a broker tells the active controller that it starts, and gets its epoch.
Needs CLUSTER_ACTION.

Not done: nothing.
"""

from __future__ import annotations

from kafkatools.core.broker.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME
from kafkatools.core.broker.handlers.controller_only import ControllerNode
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import KafkaError

VERSIONS = (0, 4)


def handle(node: ControllerNode, request: Request) -> Response:
    """Register it, or say why not."""
    entity = request.decode()
    try:
        node.authorize_or_raise(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        epoch = node.controller.register_broker(entity, node.clock.now_ms())
    except KafkaError as error:
        return request.respond({"error_code": error.code, "broker_epoch": -1})
    return request.respond({"error_code": 0, "broker_epoch": epoch})
