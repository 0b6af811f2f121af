"""AlterPartitionReassignments (key 45), versions 0-1: begins reassignments, and takes them back where no replicas are
given. One to the replicas that are there is done at once.

Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import ALTER, CLUSTER, CLUSTER_NAME
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError, NoReassignmentInProgress

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One result per partition."""
    entity = request.decode()
    allow_change = entity.allow_replication_factor_change if request.version >= 1 else True
    wanted = [(topic.name, each.partition_index, each.replicas) for topic in entity.topics for each in topic.partitions]
    try:
        node.authorize_or_raise(request, ALTER, CLUSTER, CLUSTER_NAME)
        outcomes = iter(node.controller.alter_reassignments(wanted, may_change_factor=allow_change))
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
        {
            "name": topic.name,
            "partitions": [_partition(each.partition_index, next(outcomes)) for each in topic.partitions],
        }
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


def _partition(index: int, error: KafkaError | None) -> dict[str, Any]:
    answer = {"partition_index": index, "error_code": 0, "error_message": None}
    if isinstance(error, NoReassignmentInProgress):
        return {**answer, "error_code": error.code}
    return answer if error is None else {**answer, **error_fields(error)}
