"""ListPartitionReassignments (key 46), version 0: the partitions whose replicas are being added or removed.

Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.metadata.image import PartitionState
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.slices import paced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """What is being moved, of the partitions that are named or of all."""
    entity = request.decode()
    wanted = None
    if entity.topics is not None:
        wanted = [(topic.name, list(topic.partition_indexes)) for topic in paced(entity.topics)]
    try:
        node.authorize_or_raise(request, DESCRIBE, CLUSTER, CLUSTER_NAME)
        ongoing = node.controller.list_reassignments(wanted)
    except KafkaError as error:
        return request.respond({**error_fields(error), "topics": []})
    topics = [{"name": name, "partitions": [_ongoing(each) for each in partitions]} for name, partitions in ongoing]
    return request.respond({"error_code": 0, "error_message": None, "topics": topics})


def _ongoing(partition: PartitionState) -> dict[str, Any]:
    return {
        "partition_index": partition.partition_id,
        "replicas": partition.replicas,
        "adding_replicas": partition.adding_replicas,
        "removing_replicas": partition.removing_replicas,
    }
