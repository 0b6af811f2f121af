"""OffsetForLeaderEpoch (key 23), versions 2-4: where a leader epoch ended, for clients that check for truncation
(KIP-320) and for followers that do not learn it from their fetches (KIP-101)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME, DESCRIBE, TOPIC
from kafkatools.core.broker.replicas.replica_manager import error_code_of
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.protocol.slices import paced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One answer per partition."""
    entity = request.decode()
    topics = [
        {
            "topic": topic.topic,
            "partitions": [_partition(node, request, topic.topic, each) for each in paced(topic.partitions)],
        }
        for topic in paced(entity.topics)
    ]
    return request.respond({"topics": topics})


def _partition(node: Node, request: Request, topic: str, wanted: Any) -> dict[str, Any]:
    answer = {"partition": wanted.partition, "error_code": 0, "leader_epoch": -1, "end_offset": -1}
    try:
        if not node.authorize(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME):
            node.authorize_or_raise(request, DESCRIBE, TOPIC, topic)
        partition = node.replicas.get(topic, wanted.partition)
        partition.check_leader_epoch(wanted.current_leader_epoch)
        end = partition.epoch_end(wanted.leader_epoch)
    except Exception as error:  # noqa: BLE001 - boundary: one partition's failure is its own answer
        node.note_failure(error)
        return {**answer, "error_code": error_code_of(error)}
    return {**answer, "leader_epoch": end.leader_epoch, "end_offset": end.end_offset}
