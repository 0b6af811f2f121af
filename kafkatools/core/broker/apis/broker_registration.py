"""BrokerRegistration (key 62), versions 0-4: a broker tells the active controller that it starts, and gets its epoch.
Needs CLUSTER_ACTION.

Not done: nothing.
"""

from __future__ import annotations

from typing import Any

from kafkatools.core.broker.apis.controller_only import ControllerNode, answered
from kafkatools.core.broker.server.requests import Request, Response


def handle(node: ControllerNode, request: Request) -> Response:
    """Register it, or say why not."""

    def register(entity: Any) -> dict[str, Any]:
        return {"error_code": 0, "broker_epoch": node.controller.register_broker(entity, node.clock.now_ms())}

    return answered(node, request, register, {"broker_epoch": -1})
