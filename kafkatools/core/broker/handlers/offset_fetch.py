"""OffsetFetch (key 9), versions 1-10: one group, from version 8 on several; from version 10 on by topic id.

A partition without a commit has offset -1. From version 7 on who wants stable offsets is told of open transactions that
commit a partition (UNSTABLE_OFFSET_COMMIT, KIP-447).
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.group_coordinator.offset_records import CommittedOffset
from kafkatools.core.broker.group_coordinator.offsets import Place
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import UnknownTopicId, UnstableOffsetCommit

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (1, 10)
FIRST_VERSION_OF_STABLE = 7
FIRST_VERSION_OF_BATCHES = 8
FIRST_VERSION_OF_IDS = 10
NOTHING = CommittedOffset(-1)
Fields = dict[str, Any]


def handle(node: Node, request: Request) -> Response:
    """What each group committed."""
    entity = request.decode()
    version = request.version
    is_stable = version >= FIRST_VERSION_OF_STABLE and entity.require_stable
    if version < FIRST_VERSION_OF_BATCHES:
        return request.respond({"error_code": 0, "topics": _topics(node, version, entity, is_stable=is_stable)})
    groups = [
        {
            "group_id": group.group_id,
            "error_code": 0,
            "topics": _topics(node, version, group, is_stable=is_stable),
        }
        for group in entity.groups
    ]
    return request.respond({"groups": groups})


def _topics(node: Node, version: int, group: Any, *, is_stable: bool) -> list[Fields]:
    if group.topics is None:
        return _all_topics(node, version, group.group_id, is_stable=is_stable)
    answers = []
    for topic in group.topics:
        name, topic_id = getattr(topic, "name", None), getattr(topic, "topic_id", None)
        if version >= FIRST_VERSION_OF_IDS:
            name = node.replicas.topic_name(topic_id)
        if name is None:
            partitions = [_partition(index, NOTHING, UnknownTopicId.code) for index in topic.partition_indexes]
        else:
            partitions = [
                _committed(node, group.group_id, (name, index), is_stable=is_stable)
                for index in topic.partition_indexes
            ]
        answers.append(_answer(name, topic_id, partitions))
    return answers


def _all_topics(node: Node, version: int, group_id: str, *, is_stable: bool) -> list[Fields]:
    """Everything the group committed; asked by id, without topics that are gone."""
    found: dict[str, list[Fields]] = {}
    for place in sorted(node.groups.offsets.of_group(group_id)):
        found.setdefault(place[0], []).append(_committed(node, group_id, place, is_stable=is_stable))
    image = node.controller.image
    answers = []
    for name, partitions in found.items():
        topic = image.topics.get(name)
        if topic is not None or version < FIRST_VERSION_OF_IDS:
            answers.append(_answer(name, topic.topic_id if topic is not None else None, partitions))
    return answers


def _committed(node: Node, group_id: str, place: Place, *, is_stable: bool) -> Fields:
    offsets = node.groups.offsets
    if is_stable and offsets.pending.is_pending(group_id, place):
        return _partition(place[1], NOTHING, UnstableOffsetCommit.code)
    return _partition(place[1], offsets.get(group_id, place) or NOTHING)


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
