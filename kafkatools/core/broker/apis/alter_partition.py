"""AlterPartition (key 56), versions 2-3: a leader changes the ISR of its partitions. Needs CLUSTER_ACTION.

Not done: nothing.
"""

from __future__ import annotations

from kafkatools.core.broker.apis.controller_only import ControllerNode, answered
from kafkatools.core.broker.server.requests import Request, Response


def handle(node: ControllerNode, request: Request) -> Response:
    """One result per partition."""
    return answered(node, request, node.controller.alter_partitions, {"topics": []})
