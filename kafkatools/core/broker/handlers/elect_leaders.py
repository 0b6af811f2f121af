"""ElectLeaders (key 43), versions 0-2: preferred and unclean elections.

The one broker leads what it has: the answer is ELECTION_NOT_NEEDED, or why there is no such partition. Asked for all
partitions, those that need no election are left out, as in Kafka.
Not done: nothing of what can happen on one broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.acls import ALTER, CLUSTER, CLUSTER_NAME
from kafkatools.core.broker.controller.configs import error_fields
from kafkatools.core.broker.controller.partitions import PREFERRED, UNCLEAN, elect_leader
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import ElectionNotNeeded, InvalidRequest, KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 2)


def handle(node: Node, request: Request) -> Response:
    """One result per partition that was named."""
    entity = request.decode()
    election_type = int(entity.election_type) if request.version >= 1 else PREFERRED
    image = node.controller.image
    wanted = None
    if entity.topic_partitions is not None:
        wanted = [(topic.topic, list(topic.partitions)) for topic in entity.topic_partitions]
    try:
        if election_type not in (PREFERRED, UNCLEAN):
            raise InvalidRequest(f"Unknown election type {election_type}")
        node.authorize_or_raise(request, ALTER, CLUSTER, CLUSTER_NAME)
    except KafkaError as error:
        refused = [
            _topic(name, [_partition(index, error) for index in partitions]) for name, partitions in wanted or ()
        ]
        return request.respond({"error_code": error.code, "replica_election_results": refused})
    if wanted is None:
        results = []
        for name, topic in image.topics.items():
            outcomes = [(index, elect_leader(image, election_type, name, index)) for index in topic.partitions]
            needed = [_partition(i, error) for i, error in outcomes if not isinstance(error, ElectionNotNeeded)]
            results.append(_topic(name, needed))
    else:
        results = [
            _topic(name, [_partition(i, elect_leader(image, election_type, name, i)) for i in partitions])
            for name, partitions in wanted
        ]
    return request.respond({"error_code": 0, "replica_election_results": results})


def _topic(name: str, partitions: list[dict[str, Any]]) -> dict[str, Any]:
    return {"topic": name, "partition_result": partitions}


def _partition(index: int, error: KafkaError) -> dict[str, Any]:
    return {"partition_id": index, **error_fields(error)}
