"""OffsetDelete (key 47), version 0: offsets of topics that the group does not read (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.service import told
from kafkatools.core.broker.metadata.controller.acls import DELETE, GROUP, READ, TOPIC
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import GroupSubscribedToTopic, KafkaError, TopicAuthorizationFailed, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One answer per partition; an offset that is not there counts as deleted."""
    entity = request.decode()
    try:
        node.authorize_or_raise(request, DELETE, GROUP, entity.group_id)
        group = node.groups.group(entity.group_id)
        group.ensure_may_delete_offsets()
        topics = [(topic, _refusal(node, request, group, topic.name)) for topic in entity.topics]
        places = [(topic.name, each.partition_index) for topic, code in topics if not code for each in topic.partitions]
        node.groups.delete_offsets(entity.group_id, places)
    except KafkaError as error:
        return request.respond({"error_code": coordinator_error_code(error), "topics": []})
    fields = {"error_code": 0, "topics": [_answer(node, topic, code) for topic, code in topics]}
    return told(node.coordination, request, entity.group_id, fields, lambda code: {"error_code": code, "topics": []})


def _refusal(node: Node, request: Request, group: AnyGroup, topic: str) -> int:
    if not node.authorize(request, READ, TOPIC, topic):
        return TopicAuthorizationFailed.code
    if topic not in node.image.topics:
        return UnknownTopicOrPartition.code
    return GroupSubscribedToTopic.code if group.is_subscribed_to(topic) else 0


def _answer(node: Node, topic: Any, code: int) -> dict[str, Any]:
    image = node.image.topics.get(topic.name)
    known = image.partitions if image is not None else {}
    partitions = [
        {
            "partition_index": each.partition_index,
            "error_code": code or (0 if each.partition_index in known else UnknownTopicOrPartition.code),
        }
        for each in topic.partitions
    ]
    return {"name": topic.name, "partitions": partitions}
