"""AlterPartitionReassignments (key 45), versions 0-1.

One broker can hold one replica, so a reassignment is the one that is there already, done at once, or names a broker
that is not registered.
Not done: nothing of what can happen on one broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.acls import ALTER, CLUSTER, CLUSTER_NAME
from kafkatools.core.broker.controller.configs import error_fields
from kafkatools.core.broker.controller.partitions import reassign
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import KafkaError, NoReassignmentInProgress

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 1)


def handle(node: Node, request: Request) -> Response:
    """One result per partition."""
    entity = request.decode()
    allow_change = entity.allow_replication_factor_change if request.version >= 1 else True
    try:
        node.authorize_or_raise(request, ALTER, CLUSTER, CLUSTER_NAME)
    except KafkaError as error:
        refused = [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": each.partition_index, **error_fields(error)} for each in topic.partitions
                ],
            }
            for topic in entity.topics
        ]
        fields = {"allow_replication_factor_change": allow_change, **error_fields(error), "responses": refused}
        return request.respond(fields)
    responses = [
        {"name": topic.name, "partitions": [_partition(node, topic.name, each) for each in topic.partitions]}
        for topic in entity.topics
    ]
    return request.respond(
        {
            "allow_replication_factor_change": allow_change or not responses,
            "error_code": 0,
            "error_message": None if responses else "",
            "responses": responses,
        }
    )


def _partition(node: Node, topic: str, wanted: Any) -> dict[str, Any]:
    answer = {"partition_index": wanted.partition_index, "error_code": 0, "error_message": None}
    try:
        reassign(node.controller.image, topic, wanted.partition_index, wanted.replicas)
    except NoReassignmentInProgress as error:
        return {**answer, "error_code": error.code}
    except KafkaError as error:
        return {**answer, **error_fields(error)}
    return answer
