"""InitProducerId (key 22), versions 0-5, for idempotent producers.

Every request gets a new producer id with epoch 0, from a block noted in the metadata log.
Not done: transactional ids give COORDINATOR_NOT_AVAILABLE (there is no transaction coordinator yet).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import CoordinatorNotAvailable, InvalidRequest

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 5)


def handle(node: Node, request: Request) -> Response:
    """A fresh producer id."""
    entity = request.decode()
    failed = {"producer_id": -1, "producer_epoch": -1}
    if entity.transactional_id == "":
        return request.respond({"error_code": InvalidRequest.code, **failed})
    if entity.transactional_id is not None:
        return request.respond({"error_code": CoordinatorNotAvailable.code, **failed})
    producer_id = node.controller.allocate_producer_id()
    return request.respond({"error_code": 0, "producer_id": producer_id, "producer_epoch": 0})
