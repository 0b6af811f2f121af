"""WriteTxnMarkers (key 27), versions 1-2: from other brokers, and from tools that end hanging transactions.

Needs CLUSTER_ACTION or ALTER on the cluster. Version 2 says how strictly the marker's epoch is checked (KIP-1228).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.transactions.markers import Marker
from kafkatools.core.broker.metadata.controller.acls import ALTER, CLUSTER, CLUSTER_ACTION, CLUSTER_NAME
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.replicas.replica_manager import error_code_of
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import ClusterAuthorizationFailed, KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_TRANSACTION_VERSION = 2
Waiting = list[tuple[dict[str, int], ProduceStatus]]


def handle(node: Node, request: Request) -> Response:
    """One error code per partition of each marker, when they are durable."""
    entity = request.decode()
    is_allowed = node.authorize(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME) or node.authorize(
        request, ALTER, CLUSTER, CLUSTER_NAME
    )
    response = LaterResponse(request)
    waiting: Waiting = []
    markers = [_marker_result(node, request, each, waiting, is_allowed=is_allowed) for each in entity.markers]

    def done(_code: int) -> None:
        for partition, status in waiting:
            partition["error_code"] = status.error_code
        response.respond({"markers": markers})

    node.coordination.durability.when_durable([status for _, status in waiting], done)
    return response.returned()


def _marker_result(node: Node, request: Request, entity: Any, waiting: Waiting, *, is_allowed: bool) -> dict[str, Any]:
    version = entity.transaction_version if request.version >= FIRST_VERSION_OF_TRANSACTION_VERSION else 0
    marker = Marker(
        entity.producer_id, entity.producer_epoch, entity.coordinator_epoch, entity.transaction_result, version
    )
    topics = []
    for topic in entity.topics:
        partitions = []
        for index in topic.partition_indexes:
            result = {"partition_index": index, "error_code": ClusterAuthorizationFailed.code}
            if is_allowed:
                _write(node, (topic.name, index), marker, result, waiting)
            partitions.append(result)
        topics.append({"name": topic.name, "partitions": partitions})
    return {"producer_id": entity.producer_id, "topics": topics}


def _write(node: Node, place: tuple[str, int], marker: Marker, result: dict[str, int], waiting: Waiting) -> None:
    try:
        status = node.coordination.marker_writer.write(place, marker)
    except (KafkaError, OSError) as error:
        node.note_failure(error)
        result["error_code"] = error_code_of(error)
        return
    result["error_code"] = 0
    if status is not None:
        waiting.append((result, status))
