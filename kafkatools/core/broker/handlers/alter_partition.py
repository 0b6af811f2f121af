"""AlterPartition (key 56), versions 2-3: a leader changes the ISR of its partitions. Needs CLUSTER_ACTION.

Not done: nothing.
"""

from __future__ import annotations

from kafkatools.core.broker.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME
from kafkatools.core.broker.handlers.controller_only import ControllerNode
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import KafkaError

VERSIONS = (2, 3)


def handle(node: ControllerNode, request: Request) -> Response:
    """One result per partition."""
    entity = request.decode()
    try:
        node.authorize_or_raise(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        return request.respond(node.controller.alter_partitions(entity))
    except KafkaError as error:
        return request.respond({"error_code": error.code, "topics": []})
