"""OffsetFetch (key 9), versions 1-10: one group, from version 8 on several; from version 10 on by topic id.

A partition without a commit has offset -1. No offset is ever unstable here: there are no transactions yet.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.group_coordinator.offset_records import CommittedOffset
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import UnknownTopicId

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (1, 10)
FIRST_VERSION_OF_BATCHES = 8
FIRST_VERSION_OF_IDS = 10
NOTHING = CommittedOffset(-1)
Fields = dict[str, Any]


def handle(node: Node, request: Request) -> Response:
    """What each group committed."""
    entity = request.decode()
    version = request.version
    if version < FIRST_VERSION_OF_BATCHES:
        return request.respond({"error_code": 0, "topics": _topics(node, version, entity.group_id, entity.topics)})
    groups = [
        {
            "group_id": group.group_id,
            "error_code": 0,
            "topics": _topics(node, version, group.group_id, group.topics),
        }
        for group in entity.groups
    ]
    return request.respond({"groups": groups})


def _topics(node: Node, version: int, group_id: str, wanted: Any) -> list[Fields]:
    if wanted is None:
        return _all_topics(node, version, group_id)
    answers = []
    for topic in wanted:
        name, topic_id = getattr(topic, "name", None), getattr(topic, "topic_id", None)
        if version >= FIRST_VERSION_OF_IDS:
            name = node.replicas.topic_name(topic_id)
        if name is None:
            partitions = [_partition(index, NOTHING, UnknownTopicId.code) for index in topic.partition_indexes]
        else:
            partitions = [
                _partition(index, node.groups.offsets.get(group_id, (name, index)) or NOTHING)
                for index in topic.partition_indexes
            ]
        answers.append(_answer(name, topic_id, partitions))
    return answers


def _all_topics(node: Node, version: int, group_id: str) -> list[Fields]:
    """Everything the group committed; asked by id, without topics that are gone."""
    found: dict[str, list[Fields]] = {}
    for (name, index), committed in sorted(node.groups.offsets.of_group(group_id).items()):
        found.setdefault(name, []).append(_partition(index, committed))
    image = node.controller.image
    answers = []
    for name, partitions in found.items():
        topic = image.topics.get(name)
        if topic is not None or version < FIRST_VERSION_OF_IDS:
            answers.append(_answer(name, topic.topic_id if topic is not None else None, partitions))
    return answers


def _answer(name: str | None, topic_id: uuid.UUID | None, partitions: list[Fields]) -> Fields:
    return {"name": name or "", "topic_id": topic_id, "partitions": partitions}


def _partition(index: int, committed: CommittedOffset, error_code: int = 0) -> Fields:
    return {
        "partition_index": index,
        "committed_offset": committed.offset,
        "committed_leader_epoch": committed.leader_epoch,
        "metadata": committed.metadata,
        "error_code": error_code,
    }
