"""DeleteRecords (key 21), versions 0-2: moves the log start offset; -1 is the high watermark.

Not done: waiting for followers (one node has none).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.acls import DELETE, TOPIC
from kafkatools.core.broker.controller.metadata_image import INTERNAL_TOPICS
from kafkatools.core.broker.replica_manager import error_code_of
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import InvalidTopic

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 2)


def handle(node: Node, request: Request) -> Response:
    """One answer per partition: the new low watermark."""
    entity = request.decode()
    topics = [
        {"name": topic.name, "partitions": [_delete(node, request, topic.name, each) for each in topic.partitions]}
        for topic in entity.topics
    ]
    return request.respond({"topics": topics})


def _delete(node: Node, request: Request, topic: str, wanted: Any) -> dict[str, Any]:
    try:
        node.authorize_or_raise(request, DELETE, TOPIC, topic)
        partition = node.replicas.get(topic, wanted.partition_index)
        if topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"Cannot delete records of internal topic {topic}")
        low_watermark, error_code = partition.delete_records(wanted.offset), 0
        node.replicas.note_append(partition)
    except Exception as error:  # noqa: BLE001 - boundary: one partition's failure is its own answer
        node.note_failure(error)
        low_watermark, error_code = -1, error_code_of(error)
    return {"partition_index": wanted.partition_index, "low_watermark": low_watermark, "error_code": error_code}
