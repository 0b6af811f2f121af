"""DescribeShareGroupOffsets (key 90), versions 0-1: where share groups begin to read, and their lag (KIP-1226)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.share_group_heartbeat import ensure_enabled
from kafkatools.core.broker.coordinators.groups.share.group import ShareGroup
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey, ShareState
from kafkatools.core.broker.metadata.controller.acls import DESCRIBE, GROUP, TOPIC
from kafkatools.core.broker.metadata.image import NO_LEADER, TopicState
from kafkatools.core.broker.replicas.partition import LATEST_TIMESTAMP
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError, TopicAuthorizationFailed, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

UNKNOWN = -1
LIST_OFFSETS = 2


def handle(node: Node, request: Request) -> Response:
    """One answer for each group."""
    entity = request.decode()
    later = LaterResponse(request)
    places: Places = []
    groups = [_group(node, request, group, places) for group in entity.groups]
    _fill(node, places, lambda: later.respond({"groups": groups}))
    return later.returned()


Places = list[tuple[ShareKey, dict[str, Any]]]
"""Answers of partitions that are to be filled in."""


def _group(node: Node, request: Request, asked: Any, places: Places) -> dict[str, Any]:
    answer: dict[str, Any] = {"group_id": asked.group_id, "topics": [], "error_code": 0, "error_message": None}
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, DESCRIBE, GROUP, asked.group_id)
        node.groups.ensure_active(asked.group_id)
        if asked.topics is not None:
            answer["topics"] = _named(node, request, asked, places)
        elif asked.group_id in node.groups.groups:
            answer["topics"] = _all(node, request, node.groups.share.find(asked.group_id), places)
    except KafkaError as error:
        answer.update(error_code=error.code, error_message=str(error))
    return answer


def _all(node: Node, request: Request, group: ShareGroup, places: Places) -> list[dict[str, Any]]:
    found = []
    for topic_id, (name, partitions) in group.states.initialized.items():
        topic = node.image.topics_by_id.get(topic_id)
        if topic is not None and node.authorize(request, DESCRIBE, TOPIC, name):
            found.append(_topic(group.group_id, topic, sorted(partitions), places))
    return found


def _named(node: Node, request: Request, asked: Any, places: Places) -> list[dict[str, Any]]:
    found = []
    for wanted in asked.topics:
        topic = node.image.topics.get(wanted.topic_name)
        if not node.authorize(request, DESCRIBE, TOPIC, wanted.topic_name):
            found.append(_refused(wanted, TopicAuthorizationFailed()))
        elif topic is None:
            found.append(_refused(wanted, UnknownTopicOrPartition()))
        else:
            found.append(_topic(asked.group_id, topic, wanted.partitions, places))
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


def _topic(group_id: str, topic: TopicState, indexes: Any, places: Places) -> dict[str, Any]:
    partitions = [_partition(index) for index in indexes]
    places += [(ShareKey(group_id, topic.topic_id, each["partition_index"]), each) for each in partitions]
    return {"topic_name": topic.name, "topic_id": topic.topic_id, "partitions": partitions}


def _fill(node: Node, places: Places, done: Callable[[], None]) -> None:
    """Ask about every place, and call back when all are filled in."""
    left = [len(places) + 1]

    def filled() -> None:
        left[0] -= 1
        if not left[0]:
            done()

    for key, answer in places:
        node.coordination.persister.summary(key, partial(_take, node, key, answer, filled))
    filled()


def _take(
    node: Node,
    key: ShareKey,
    answer: dict[str, Any],
    filled: Callable[[], None],
    error: KafkaError | None,
    state: ShareState | None,
) -> None:
    if error is not None:
        answer.update(error_code=error.code, error_message=str(error))
    elif state is not None:
        answer.update(start_offset=state.start_offset, leader_epoch=state.leader_epoch)
        if state.start_offset != UNKNOWN and state.delivery_complete_count != UNKNOWN:
            done = state.start_offset + state.delivery_complete_count
            _latest(node, key, partial(_take_end, answer, done, filled))
            return
    filled()


def _take_end(answer: dict[str, Any], done: int, filled: Callable[[], None], end: int | None) -> None:
    if end is not None:
        answer["lag"] = max(0, end - done)
    filled()


def _latest(node: Node, key: ShareKey, answer: Callable[[int | None], None]) -> None:
    """The end of a partition for readers, from its leader; None when nobody says."""
    topic = node.image.topics_by_id.get(key.topic_id)
    state = None if topic is None else topic.partitions.get(key.partition)
    if topic is None or state is None or state.leader == NO_LEADER:
        answer(None)
        return
    channel = node.coordination.host.channel
    if state.leader == node.node_id or channel is None:
        try:
            answer(node.share_partitions.log_partition(key).log.high_watermark)
        except KafkaError:
            answer(None)
        return
    partition = {"partition_index": key.partition, "current_leader_epoch": -1, "timestamp": LATEST_TIMESTAMP}
    fields = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": topic.name, "partitions": [partition]}],
        "timeout": node.config.request_timeout_ms,
    }

    def told(response: Any | None) -> None:
        found = None if response is None else response.topics[0].partitions[0]
        answer(None if found is None or found.error_code else found.offset)

    channel.send(state.leader, LIST_OFFSETS, fields, told)
