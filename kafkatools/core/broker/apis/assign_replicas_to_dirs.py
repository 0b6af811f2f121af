"""AssignReplicasToDirs (key 73), version 0: a broker says in which directories its replicas are (KIP-858). Needs
CLUSTER_ACTION.

Not done: nothing.
"""

from __future__ import annotations

from kafkatools.core.broker.apis.controller_only import ControllerNode, answered
from kafkatools.core.broker.server.requests import Request, Response


def handle(node: ControllerNode, request: Request) -> Response:
    """One result per partition."""
    return answered(node, request, node.controller.assign_directories, {"directories": []})
