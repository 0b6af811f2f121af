"""OffsetFetch (key 9), versions 1-10: one group, from version 8 on several; from version 10 on by topic id.

A partition without a commit has offset -1. From version 7 on a client may ask for stable offsets: a partition that an
open transaction commits then answers UNSTABLE_OFFSET_COMMIT. From version 9 on a member of a consumer group says which
epoch it is in. The answer is framed by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.offset_fetch_framing import (
    GroupRows,
    PartitionRow,
    TopicRows,
    response_body,
)
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset
from kafkatools.core.broker.coordinators.groups.offsets import Place
from kafkatools.core.broker.metadata.controller.acls import DESCRIBE, GROUP, TOPIC
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError, TopicAuthorizationFailed, UnknownTopicId, UnstableOffsetCommit
from kafkatools.core.protocol.slices import is_paced, paced, paced_sorted

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

FIRST_VERSION_OF_GROUP_ERRORS = 2
FIRST_VERSION_OF_STABLE = 7
FIRST_VERSION_OF_BATCHES = 8
FIRST_VERSION_OF_EPOCHS = 9
FIRST_VERSION_OF_IDS = 10
NO_EPOCH = -1
NO_OFFSET = -1


def handle(node: Node, request: Request) -> Response:
    """Answer what each group committed: at once from the replicated state, or, for stable offsets, when everything that
    was written of the groups is replicated (GroupCoordinatorService.fetchOffsets)."""
    entity = request.decode()
    version = request.version
    is_stable = version >= FIRST_VERSION_OF_STABLE and entity.require_stable
    asked = [entity] if version < FIRST_VERSION_OF_BATCHES else entity.groups
    with_epoch = version >= FIRST_VERSION_OF_EPOCHS
    found = [
        _Fetch(node, request, group.group_id, is_stable).rows(
            group.topics,
            group.member_id if with_epoch else None,
            group.member_epoch if with_epoch else NO_EPOCH,
        )
        for group in paced(asked)
    ]
    if not (is_stable and node.coordination.is_clustered):
        return [request.frame_response(response_body(version, found))]
    body = response_body(version, found)
    response = LaterResponse(request)

    def done(failed: dict[str, int]) -> None:
        groups = [
            GroupRows(rows.group_id, (), failed[rows.group_id]) if rows.group_id in failed else rows for rows in found
        ]
        response.give([request.frame_response(response_body(version, groups) if failed else body)])

    told = dict.fromkeys(rows.group_id for rows in paced(found) if not rows.error_code)
    node.coordination.groups.when_all_committed(told, done)
    return response.returned()


class _Fetch:
    """The offsets of one group."""

    def __init__(self, node: Node, request: Request, group_id: str, is_stable: bool) -> None:
        self._node = node
        self._request = request
        self._group_id = group_id
        offsets = node.groups.offsets
        found = offsets.of_group(group_id) if is_stable else offsets.committed_of_group(group_id)
        # A commit may change the group between two slices.
        self._offsets: Mapping[Place, CommittedOffset] = dict(found) if is_paced() else found
        self._unstable = offsets.pending if is_stable and offsets.pending.has_group(group_id) else None

    def rows(self, wanted: Any, member_id: str | None, member_epoch: int) -> GroupRows:
        """The answer of the group."""
        try:
            self._node.authorize_or_raise(self._request, DESCRIBE, GROUP, self._group_id)
            self._node.groups.ensure_may_fetch(self._group_id, member_id, member_epoch)
        except KafkaError as error:
            return self.refused(wanted, coordinator_error_code(error))
        topics = self._all_topics() if wanted is None else [self._topic(topic) for topic in paced(wanted)]
        return GroupRows(self._group_id, topics)

    def refused(self, wanted: Any, code: int) -> GroupRows:
        """Version 1 has no place for a group's error but its partitions."""
        if self._request.version >= FIRST_VERSION_OF_GROUP_ERRORS:
            return GroupRows(self._group_id, (), code)
        return GroupRows(
            self._group_id,
            [
                TopicRows(topic.name, None, [_nothing(index, code) for index in topic.partition_indexes])
                for topic in wanted
            ],
        )

    def _topic(self, topic: Any) -> TopicRows:
        name, topic_id = getattr(topic, "name", None), getattr(topic, "topic_id", None)
        if self._request.version >= FIRST_VERSION_OF_IDS:
            name = self._node.replicas.topic_name(topic_id)
        if name is None:
            return TopicRows("", topic_id, [_nothing(index, UnknownTopicId.code) for index in topic.partition_indexes])
        if not self._node.authorize(self._request, DESCRIBE, TOPIC, name):
            code = TopicAuthorizationFailed.code
            return TopicRows(name, topic_id, [_nothing(index, code) for index in topic.partition_indexes])
        return TopicRows(name, topic_id, [self._row(name, index) for index in paced(topic.partition_indexes)])

    def _row(self, name: str, index: int) -> PartitionRow:
        place = (name, index)
        if self._unstable is not None and self._unstable.is_pending(self._group_id, place):
            return _nothing(index, UnstableOffsetCommit.code)
        committed = self._offsets.get(place)
        if committed is None:
            return _nothing(index)
        return index, committed.offset, committed.leader_epoch, committed.metadata, 0

    def _all_topics(self) -> list[TopicRows]:
        """Everything the group committed; asked by id, without topics that are gone."""
        found: dict[str, list[PartitionRow]] = {}
        for name, index in paced(list(self._offsets)):
            found.setdefault(name, []).append(self._row(name, index))
        image = self._node.image
        topics = []
        for name in paced_sorted(list(found)):
            rows = list(paced_sorted(found[name]))
            topic = image.topics.get(name)
            is_shown = topic is not None or self._request.version < FIRST_VERSION_OF_IDS
            if is_shown and self._node.authorize(self._request, DESCRIBE, TOPIC, name):
                topics.append(TopicRows(name, topic.topic_id if topic is not None else None, rows))
        return topics


def _nothing(index: int, error_code: int = 0) -> PartitionRow:
    return index, NO_OFFSET, -1, "", error_code
