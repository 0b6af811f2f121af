"""DescribeShareGroupOffsets (key 90), versions 0-1: where share groups begin to read, and their lag (KIP-1226)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.acls import DESCRIBE, GROUP, TOPIC
from kafkatools.core.broker.controller.metadata_image import TopicState
from kafkatools.core.broker.group_coordinator.share_group import ShareGroup
from kafkatools.core.broker.handlers.share_group_heartbeat import ensure_enabled
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.broker.share_coordinator.share_state import ShareKey
from kafkatools.core.errors import KafkaError, TopicAuthorizationFailed, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 1)
UNKNOWN = -1


def handle(node: Node, request: Request) -> Response:
    """One answer for each group."""
    entity = request.decode()
    return request.respond({"groups": [_group(node, request, group) for group in entity.groups]})


def _group(node: Node, request: Request, asked: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {"group_id": asked.group_id, "topics": [], "error_code": 0, "error_message": None}
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, DESCRIBE, GROUP, asked.group_id)
        if asked.topics is not None:
            answer["topics"] = _named(node, request, asked)
        elif asked.group_id in node.groups.groups:
            answer["topics"] = _all(node, request, node.groups.share.find(asked.group_id))
    except KafkaError as error:
        answer.update(error_code=error.code, error_message=str(error))
    return answer


def _all(node: Node, request: Request, group: ShareGroup) -> list[dict[str, Any]]:
    found = []
    for topic_id, (name, partitions) in group.states.initialized.items():
        topic = node.image.topics_by_id.get(topic_id)
        if topic is not None and node.authorize(request, DESCRIBE, TOPIC, name):
            found.append(_topic(node, group.group_id, topic, sorted(partitions)))
    return found


def _named(node: Node, request: Request, asked: Any) -> list[dict[str, Any]]:
    found = []
    for wanted in asked.topics:
        topic = node.image.topics.get(wanted.topic_name)
        if not node.authorize(request, DESCRIBE, TOPIC, wanted.topic_name):
            found.append(_refused(wanted, TopicAuthorizationFailed()))
        elif topic is None:
            found.append(_refused(wanted, UnknownTopicOrPartition()))
        else:
            found.append(_topic(node, asked.group_id, topic, wanted.partitions))
    return found


def _refused(wanted: Any, error: KafkaError) -> dict[str, Any]:
    partitions = [
        {**_partition(index), "error_code": error.code, "error_message": str(error)} for index in wanted.partitions
    ]
    return {"topic_name": wanted.topic_name, "topic_id": None, "partitions": partitions}


def _partition(index: int) -> dict[str, Any]:
    return {
        "partition_index": index,
        "start_offset": UNKNOWN,
        "leader_epoch": 0,
        "lag": UNKNOWN,
        "error_code": 0,
        "error_message": None,
    }


def _topic(node: Node, group_id: str, topic: TopicState, indexes: Any) -> dict[str, Any]:
    partitions = [_offset(node, ShareKey(group_id, topic.topic_id, index)) for index in indexes]
    return {"topic_name": topic.name, "topic_id": topic.topic_id, "partitions": partitions}


def _offset(node: Node, key: ShareKey) -> dict[str, Any]:
    answer = _partition(key.partition)
    try:
        state = node.share_partitions.states.summary(key)
        if state is None:
            return answer
        answer.update(start_offset=state.start_offset, leader_epoch=state.leader_epoch)
        if state.start_offset != UNKNOWN and state.delivery_complete_count != UNKNOWN:
            end = node.share_partitions.log_partition(key).log.high_watermark
            answer["lag"] = max(0, end - state.start_offset - state.delivery_complete_count)
    except KafkaError as error:
        answer.update(error_code=error.code, error_message=str(error))
    return answer
