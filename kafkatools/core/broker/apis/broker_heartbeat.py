"""BrokerHeartbeat (key 63), versions 0-2: a broker lives, and wants to be unfenced or to stop. Needs CLUSTER_ACTION.

Not done: nothing.
"""

from __future__ import annotations

from kafkatools.core.broker.apis.controller_only import ControllerNode, answered
from kafkatools.core.broker.server.requests import Request, Response


def handle(node: ControllerNode, request: Request) -> Response:
    """What the broker is now."""
    now_ms = node.clock.now_ms()
    return answered(node, request, lambda entity: node.controller.heartbeat(entity, now_ms), {"is_fenced": True})
