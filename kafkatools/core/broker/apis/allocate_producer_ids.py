"""AllocateProducerIds (key 67), version 0: a block of producer ids for a broker. Needs CLUSTER_ACTION.

Not done: nothing.
"""

from __future__ import annotations

from typing import Any

from kafkatools.core.broker.apis.controller_only import ControllerNode, answered
from kafkatools.core.broker.server.requests import Request, Response


def handle(node: ControllerNode, request: Request) -> Response:
    """The next block."""

    def allocate(entity: Any) -> dict[str, Any]:
        block = node.controller.take_producer_ids(entity.broker_id, entity.broker_epoch)
        return {"error_code": 0, "producer_id_start": block.start, "producer_id_len": len(block)}

    return answered(node, request, allocate, {"producer_id_start": 0, "producer_id_len": 0})
