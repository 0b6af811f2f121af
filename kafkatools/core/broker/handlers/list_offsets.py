"""ListOffsets (key 2), versions 1-11.

Timestamps -1 latest, -2 earliest, -3 the newest record (version 7 on), -4 earliest local (8), -5 latest tiered (9),
-6 earliest pending upload (11); without tiered storage -4 is the log start and -5, -6 have no answer. Both isolation
levels, current leader epoch.
Not done: requests of followers are answered as a consumer's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.replica_manager import error_code_of
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import UnsupportedVersion

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (1, 11)
NEEDED_VERSION = {-3: 7, -4: 8, -5: 9, -6: 11}


def handle(node: Node, request: Request) -> Response:
    """One answer per partition."""
    entity = request.decode()
    isolation_level = entity.isolation_level if request.version >= 2 else 0
    topics = [
        {
            "name": topic.name,
            "partitions": [_partition(node, request, topic.name, each, isolation_level) for each in topic.partitions],
        }
        for topic in entity.topics
    ]
    return request.respond({"topics": topics})


def _partition(node: Node, request: Request, topic: str, wanted: Any, isolation_level: int) -> dict[str, Any]:
    answer = {
        "partition_index": wanted.partition_index,
        "error_code": 0,
        "timestamp": -1,
        "offset": -1,
        "leader_epoch": -1,
    }
    try:
        if wanted.timestamp < -6 or request.version < NEEDED_VERSION.get(wanted.timestamp, 0):
            raise UnsupportedVersion()
        partition = node.replicas.get(topic, wanted.partition_index)
        if request.version >= 4:
            partition.check_leader_epoch(wanted.current_leader_epoch)
        found = partition.offset_for_timestamp(wanted.timestamp, isolation_level)
    except Exception as error:  # noqa: BLE001 - boundary: one partition's failure is its own answer
        node.note_failure(error)
        return {**answer, "error_code": error_code_of(error)}
    return {**answer, "timestamp": found.timestamp, "offset": found.offset, "leader_epoch": found.leader_epoch}
