"""ListPartitionReassignments (key 46), version 0: always empty, since one broker moves nothing.

Not done: nothing of what can happen on one broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE
from kafkatools.core.broker.controller.configs import error_fields
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 0)


def handle(node: Node, request: Request) -> Response:
    """Nothing is being moved."""
    request.decode()
    try:
        node.authorize_or_raise(request, DESCRIBE, CLUSTER, CLUSTER_NAME)
    except KafkaError as error:
        return request.respond({**error_fields(error), "topics": []})
    return request.respond({"error_code": 0, "error_message": None, "topics": []})
