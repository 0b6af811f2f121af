"""DescribeTopicPartitions (key 75), version 0: topics in name order, in pages of at most
max.request.partition.size.limit partitions (KIP-966; DescribeTopicPartitionsRequestHandler)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import DESCRIBE, TOPIC
from kafkatools.core.broker.metadata.controller.topics import validate_name
from kafkatools.core.broker.server.alive_brokers import AliveBrokers, partition_fields
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import InvalidRequest, InvalidTopic, TopicAuthorizationFailed, UnknownTopicOrPartition
from kafkatools.core.protocol.slices import paced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

NEWEST_METADATA = 13


def handle(node: Node, request: Request) -> Response:
    """One page, and where the next one begins; topics that the client may not describe come last."""
    entity = request.decode()
    image = node.image
    wanted = {topic.name for topic in entity.topics}
    names = sorted(wanted or image.topics)
    cursor = entity.cursor
    first_partition = 0
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        if cursor.partition_index < 0 or (wanted and cursor.topic_name not in names):
            return request.respond({"topics": [_failed(topic.name, InvalidRequest.code) for topic in entity.topics]})
        if names and names[0] == cursor.topic_name:
            first_partition = cursor.partition_index
    allowed = dict.fromkeys(name for name in paced(names) if node.authorize(request, DESCRIBE, TOPIC, name))
    limit = max(1, min(entity.response_partition_limit, node.config.max_request_partition_size_limit))
    topics, next_cursor = _page(node, list(allowed), first_partition, limit, AliveBrokers(image, request.listener_name))
    for topic in topics:
        topic["topic_authorized_operations"] = node.authorized_operations(request, TOPIC, topic["name"])
    if wanted:
        topics += [_failed(name, TopicAuthorizationFailed.code) for name in names if name not in allowed]
    return request.respond({"topics": topics, "next_cursor": next_cursor})


def _page(
    node: Node, names: list[str], first: int, limit: int, alive: AliveBrokers
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    topics: list[dict[str, Any]] = []
    left = limit
    for name in paced(names):
        if left == 0:
            return topics, {"topic_name": name, "partition_index": 0}
        topic, following = _topic(node, name, first, left, alive)
        left -= len(topic["partitions"])
        topics.append(topic)
        first = 0
        if following is not None:
            return topics, {"topic_name": name, "partition_index": following}
    return topics, None


def _topic(node: Node, name: str, first: int, limit: int, alive: AliveBrokers) -> tuple[dict[str, Any], int | None]:
    topic = node.image.topics.get(name)
    if topic is None:
        return _missing(name), None
    indexes = sorted(topic.partitions)
    if first:
        indexes = [index for index in indexes if index >= first]
    fields = {
        "error_code": 0,
        "name": name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [
            partition_fields(index, topic.partitions[index], alive, NEWEST_METADATA) for index in indexes[:limit]
        ],
    }
    return fields, indexes[limit] if len(indexes) > limit else None


def _missing(name: str) -> dict[str, Any]:
    try:
        validate_name(name)
    except InvalidTopic as error:
        return _failed(name, error.code)
    return _failed(name, UnknownTopicOrPartition.code)


def _failed(name: str, error_code: int) -> dict[str, Any]:
    return {"error_code": error_code, "name": name, "topic_id": None, "is_internal": False, "partitions": []}
