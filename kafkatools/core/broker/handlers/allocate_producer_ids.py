"""AllocateProducerIds (key 67), version 0: a block of producer ids for a broker. Needs CLUSTER_ACTION.

Not done: nothing.
"""

from __future__ import annotations

from kafkatools.core.broker.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME
from kafkatools.core.broker.handlers.controller_only import ControllerNode
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import KafkaError

VERSIONS = (0, 0)


def handle(node: ControllerNode, request: Request) -> Response:
    """The next block."""
    entity = request.decode()
    try:
        node.authorize_or_raise(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
        block = node.controller.take_producer_ids(entity.broker_id, entity.broker_epoch)
    except KafkaError as error:
        return request.respond({"error_code": error.code, "producer_id_start": 0, "producer_id_len": 0})
    return request.respond({"error_code": 0, "producer_id_start": block.start, "producer_id_len": len(block)})
