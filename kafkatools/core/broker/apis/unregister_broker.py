"""UnregisterBroker (key 64), version 0: a broker that will not come back is forgotten. Needs ALTER on the cluster.

Apache Kafka also unregisters the only broker of a cluster, which then does nothing any more; here that is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.metadata.controller.acls import ALTER, CLUSTER, CLUSTER_NAME
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """Forget it, or say why not."""
    broker_id = request.decode().broker_id
    try:
        node.authorize_or_raise(request, ALTER, CLUSTER, CLUSTER_NAME)
        node.controller.unregister_broker(broker_id)
    except KafkaError as error:
        return request.respond(error_fields(error))
    return request.respond({"error_code": 0, "error_message": ""})
