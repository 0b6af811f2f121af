"""What the five requests for share state have in common: topics with partitions in, a result for each out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME
from kafkatools.core.broker.delayed_produce import ProduceStatus
from kafkatools.core.broker.later_response import LaterResponse
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.broker.share_coordinator.coordinator import ShareCoordinator
from kafkatools.core.broker.share_coordinator.share_state import ShareKey
from kafkatools.core.broker.transaction_coordinator.durability import Durability
from kafkatools.core.errors import ClusterAuthorizationFailed, InvalidRequest, KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

Fields = dict[str, Any]
Outcome = tuple[Fields, ProduceStatus | None]
Do = Callable[[ShareCoordinator, ShareKey, Any], Outcome]


def answer(node: Node, request: Request, do: Do, refused: Fields) -> Response:
    """Do it for every partition; `refused` is what a partition says beside its error."""
    entity = request.decode()
    is_allowed = node.authorize(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    statuses: list[ProduceStatus | None] = []
    results = []
    for topic in entity.topics:
        partitions = []
        for partition in topic.partitions:
            try:
                if not is_allowed:
                    raise ClusterAuthorizationFailed()
                if not entity.group_id or topic.topic_id is None:
                    raise InvalidRequest()
                key = ShareKey(entity.group_id, topic.topic_id, partition.partition)
                fields, status = do(node.share_partitions.states, key, partition)
                statuses.append(status)
                outcome = {"error_code": 0, "error_message": None, **fields}
            except KafkaError as error:
                outcome = {"error_code": error.code, "error_message": str(error), **refused}
            partitions.append({"partition": partition.partition, **outcome})
        results.append({"topic_id": topic.topic_id, "partitions": partitions})
    later = LaterResponse(request)
    Durability(node).when_durable(statuses, lambda _code: later.respond({"results": results}))
    return later.returned()
