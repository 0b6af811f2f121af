"""DescribeUserScramCredentials (key 50), version 0: mechanisms and iterations, never keys.

Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.metadata.controller.scram import describe
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One result per user; without users all that have a credential."""
    entity = request.decode()
    try:
        node.authorize_or_raise(request, DESCRIBE, CLUSTER, CLUSTER_NAME)
    except KafkaError as error:
        return request.respond({**error_fields(error), "results": []})
    users = None if entity.users is None else [each.name for each in entity.users]
    results = describe(node.image.scram, users)
    return request.respond({"error_code": 0, "error_message": "", "results": results})
