"""DescribeTopicPartitions (key 75), version 0: topics in name order, in pages of at most
max.request.partition.size.limit partitions (KIP-966).

Not done: authorized operations; eligible leader replicas are empty (one node has none).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.topics import validate_name
from kafkatools.core.broker.handlers.metadata import topic_fields
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import InvalidTopic, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 0)
PARTITION_LIMIT = 2000


def handle(node: Node, request: Request) -> Response:
    """One page, and where the next one begins."""
    entity = request.decode()
    image = node.controller.image
    names = sorted({topic.name for topic in entity.topics} or image.topics)
    first_partition = 0
    if entity.cursor is not None:
        names = [name for name in names if name >= entity.cursor.topic_name]
        if names and names[0] == entity.cursor.topic_name:
            first_partition = entity.cursor.partition_index
    left = max(1, min(entity.response_partition_limit, PARTITION_LIMIT))
    topics: list[dict[str, Any]] = []
    cursor = None
    for name in names:
        if left == 0:
            cursor = {"topic_name": name, "partition_index": 0}
            break
        topic, following = _topic(node, name, first_partition, left)
        left -= len(topic["partitions"])
        topics.append(topic)
        first_partition = 0
        if following is not None:
            cursor = {"topic_name": name, "partition_index": following}
            break
    return request.respond({"topics": topics, "next_cursor": cursor})


def _topic(node: Node, name: str, first: int, limit: int) -> tuple[dict[str, Any], int | None]:
    topic = node.controller.image.topics.get(name)
    if topic is None:
        return _missing(name), None
    fields = topic_fields(topic, 0)
    rest = [partition for partition in fields["partitions"] if partition["partition_index"] >= first]
    fields["partitions"] = [
        {**partition, "eligible_leader_replicas": [], "last_known_elr": []} for partition in rest[:limit]
    ]
    return fields, rest[limit]["partition_index"] if len(rest) > limit else None


def _missing(name: str) -> dict[str, Any]:
    try:
        validate_name(name)
        error_code = UnknownTopicOrPartition.code
    except InvalidTopic as error:
        error_code = error.code
    return {"error_code": error_code, "name": name, "topic_id": None, "is_internal": False, "partitions": []}
