"""ControllerRegistration (key 70), version 0: a controller says where it listens and what it supports (KIP-919). Needs
CLUSTER_ACTION.

Not done: nothing.
"""

from __future__ import annotations

from typing import Any

from kafkatools.core.broker.apis.controller_only import ControllerNode, answered
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.server.requests import Request, Response


def handle(node: ControllerNode, request: Request) -> Response:
    """Note it in the metadata log."""

    def register(entity: Any) -> dict[str, Any]:
        node.controller.register_controller(entity)
        return {"error_code": 0, "error_message": None}

    return answered(node, request, register, error_fields)
