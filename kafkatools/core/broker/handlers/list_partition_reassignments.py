"""ListPartitionReassignments (key 46), version 0: always empty, one node moves nothing.

Not done: AlterPartitionReassignments is not served.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.requests import Request, Response

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 0)


def handle(node: Node, request: Request) -> Response:
    """Nothing is being moved."""
    request.decode()
    return request.respond({"error_code": 0, "error_message": None, "topics": []})
