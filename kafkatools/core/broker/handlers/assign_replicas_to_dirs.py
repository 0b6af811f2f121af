"""AssignReplicasToDirs (key 73), version 0: a broker says in which directories its replicas are (KIP-858). Needs
CLUSTER_ACTION.

Not done: nothing.
"""

from __future__ import annotations

from kafkatools.core.broker.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME
from kafkatools.core.broker.handlers.controller_only import ControllerNode
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import KafkaError

VERSIONS = (0, 0)


def handle(node: ControllerNode, request: Request) -> Response:
    """One result per partition."""
    entity = request.decode()
    try:
        node.authorize_or_raise(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        return request.respond(node.controller.assign_directories(entity))
    except KafkaError as error:
        return request.respond({"error_code": error.code, "directories": []})
