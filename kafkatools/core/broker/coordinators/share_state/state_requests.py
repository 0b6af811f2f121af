"""What the five requests for share state have in common: topics with partitions in, a result for each out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey, name_of
from kafkatools.core.broker.coordinators.transactions.durability import Durability
from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response
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
    outcomes: dict[str, Fields] = {}
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
                outcomes[name_of(key)] = outcome
            except KafkaError as error:
                outcome = {"error_code": error.code, "error_message": str(error), **refused}
            outcome["partition"] = partition.partition
            partitions.append(outcome)
        results.append({"topic_id": topic.topic_id, "partitions": partitions})
    later = LaterResponse(request)

    def committed(failed: dict[str, int]) -> None:
        for name, code in failed.items():
            outcomes[name].update(error_code=code, error_message=None, **refused)
        later.respond({"results": results})

    if node.coordination.is_clustered:
        node.coordination.share.when_all_committed(outcomes, committed)
    else:
        Durability(node).when_durable(statuses, lambda _code: committed({}))
    return later.returned()
