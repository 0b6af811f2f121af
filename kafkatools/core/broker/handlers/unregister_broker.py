"""UnregisterBroker (key 64), version 0: other brokers are not registered, and this one stays.

Apache Kafka unregisters a broker that lives, which then does nothing any more; here that is refused. Needs ALTER on the
cluster.
Not done: unregistering the only broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.controller.acls import ALTER, CLUSTER, CLUSTER_NAME
from kafkatools.core.broker.controller.configs import error_fields
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import BrokerIdNotRegistered, InvalidRequest, KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 0)


def handle(node: Node, request: Request) -> Response:
    """Always a refusal."""
    broker_id = request.decode().broker_id
    try:
        node.authorize_or_raise(request, ALTER, CLUSTER, CLUSTER_NAME)
        if broker_id != node.node_id:
            raise BrokerIdNotRegistered(f"Broker ID {broker_id} is not currently registered")
        raise InvalidRequest("The only broker of a cluster cannot be unregistered.")
    except KafkaError as error:
        return request.respond(error_fields(error))
