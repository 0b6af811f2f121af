"""ElectLeaders (key 43), versions 0-2: preferred and unclean elections.

Asked for all partitions, those that need no election are left out, as in Kafka.
Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import ALTER, CLUSTER, CLUSTER_NAME
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.metadata.controller.partitions import PREFERRED
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One result per partition that was named."""
    entity = request.decode()
    election_type = int(entity.election_type) if request.version >= 1 else PREFERRED
    wanted = None
    if entity.topic_partitions is not None:
        wanted = [(topic.topic, list(topic.partitions)) for topic in entity.topic_partitions]
    try:
        node.authorize_or_raise(request, ALTER, CLUSTER, CLUSTER_NAME)
        outcomes = node.controller.elect_leaders(election_type, wanted)
    except KafkaError as error:
        refused = [
            _topic(name, [_partition(index, error) for index in partitions]) for name, partitions in wanted or ()
        ]
        return request.respond({"error_code": error.code, "replica_election_results": refused})
    results = [_topic(name, [_partition(index, error) for index, error in each]) for name, each in outcomes]
    return request.respond({"error_code": 0, "replica_election_results": results})


def _topic(name: str, partitions: list[dict[str, Any]]) -> dict[str, Any]:
    return {"topic": name, "partition_result": partitions}


def _partition(index: int, error: KafkaError | None) -> dict[str, Any]:
    if error is None:
        return {"partition_id": index, "error_code": 0, "error_message": None}
    return {"partition_id": index, **error_fields(error)}
