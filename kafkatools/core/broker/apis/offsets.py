"""Handlers for committed offsets: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from kafkatools.core.broker.apis.commit_results import TopicResults, for_all, response_topics, with_error
from kafkatools.core.broker.apis.contexts import GroupContext
from kafkatools.core.broker.apis.groups import committed_response
from kafkatools.core.broker.apis.offset_fetch_framing import GroupRows, PartitionRow, TopicRows, response_body
from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset, Record, committed_offsets
from kafkatools.core.broker.coordinators.groups.offsets import Place
from kafkatools.core.broker.coordinators.groups.requests import MemberIdentity, error_code_field
from kafkatools.core.broker.metadata.controller.acls import DELETE, DESCRIBE, GROUP, READ, TOPIC
from kafkatools.core.broker.metadata.image import TopicState
from kafkatools.core.broker.replicas.delayed_produce import DelayedProduce, ProduceStatus
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    CoordinatorNotAvailable,
    GroupSubscribedToTopic,
    InvalidGroupId,
    KafkaError,
    OffsetMetadataTooLarge,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
    error_for_code,
)
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.slices import current_pause, paced, paced_sorted, pausing

# OffsetCommit
LONG_MAX = 2**63 - 1
FIRST_OFFSET_COMMIT_VERSION_OF_IDS = 10
# OffsetFetch
FIRST_VERSION_OF_GROUP_ERRORS = 2
FIRST_VERSION_OF_BATCHES = 8
FIRST_VERSION_OF_EPOCHS = 9
FIRST_OFFSET_FETCH_VERSION_OF_IDS = 10
NO_EPOCH = -1
NO_OFFSET = -1


def handle_offset_commit(node: GroupContext, request: Request) -> Response:
    """Answer OffsetCommit: commit offsets of topics by name, or from version 10 on by id; one error code per partition.

    All valid partitions are one batch of records. The response waits until the replicas have the batch, and with
    log.durability=fsync the disk, at most offsets.commit.timeout.ms. An error of the group or the member is that of
    every partition of an existing topic that the client may read, and none is committed. A large request is checked and
    encoded in slices; the member is checked right before the write.
    """
    entity = request.decode()
    try:
        node.authorize_or_raise(request, READ, GROUP, entity.group_id)
    except KafkaError as error:  # the codes must not reveal which topics exist
        return _respond_commit(request, for_all(entity.topics, error.code))
    offsets: list[tuple[Place, CommittedOffset]] = []
    now_ms, retention_ms = node.clock.wall_ms(), entity.retention_time
    # Old clients set how long the offset is kept; otherwise the broker's setting applies.
    expire_ms = None if retention_ms < 0 else min(now_ms + retention_ms, LONG_MAX)
    times_ms = now_ms, expire_ms
    results = [TopicResults(topic, _collect(node, request, topic, times_ms, offsets)) for topic in paced(entity.topics)]
    try:
        if not entity.group_id:
            raise InvalidGroupId()
        records = committed_offsets(entity.group_id, offsets)
        if current_pause() is not None:
            ensure_not_deleted(node, {name: committed.topic_id for (name, _), committed in offsets})
        with pausing(None):
            status = _commit(node, entity, request.version, offsets, records)
    except KafkaError as error:
        return _respond_commit(request, with_error(results, coordinator_error_code(error)))
    if status is None:
        return _respond_commit(request, results)
    with pausing(None):
        return _respond_when_written(node, request, entity.group_id, results, status)


def _commit(
    node: GroupContext,
    entity: Entity,
    version: int,
    offsets: Sequence[tuple[Place, CommittedOffset]],
    records: Sequence[Record],
) -> ProduceStatus | None:
    """Write the batch if the member may commit every partition; None when there is nothing to write. Raises a
    KafkaError otherwise: as in Kafka one partition that the member did not have in its epoch fails the whole
    request."""
    identity = MemberIdentity(entity.member_id, entity.group_instance_id)
    check = node.groups.ensure_may_commit(entity.group_id, identity, entity.generation_id_or_member_epoch, version)
    if check is not None:
        for (name, index), committed in offsets:
            check(name, committed.topic_id, index)
    return node.groups.commit(entity.group_id, offsets, records) if offsets else None


def _respond_when_written(
    node: GroupContext, request: Request, group_id: str, results: Sequence[TopicResults], status: ProduceStatus
) -> Response:
    response = Deferred(request)

    def complete(code: int) -> None:
        failed = with_error(results, coordinator_error_code(error_for_code(code)())) if code else results
        response.complete(_respond_commit(request, failed))

    if node.coordination.is_clustered:
        node.coordination.groups.when_committed(group_id, complete)
    else:
        waiting = DelayedProduce(node.config.offsets_commit_timeout_ms, [status], lambda s: complete(s[0].error_code))
        node.produce_purgatory.try_complete_else_watch(waiting, [status.partition.key], node.clock.now_ms())
    return response.result()


def _respond_commit(request: Request, results: Sequence[TopicResults]) -> Response:
    return request.respond({"topics": response_topics(results)})


def _commit_topic(node: GroupContext, version: int, topic: Entity) -> tuple[TopicState | None, int]:
    image = node.image
    if version >= FIRST_OFFSET_COMMIT_VERSION_OF_IDS:
        by_id = image.topics_by_id.get(topic.topic_id) if topic.topic_id is not None else None
        return by_id, UnknownTopicId.code
    return image.topics.get(topic.name), UnknownTopicOrPartition.code


def _collect(
    node: GroupContext,
    request: Request,
    topic: Entity,
    times_ms: tuple[int, int | None],
    offsets: list[tuple[Place, CommittedOffset]],
) -> list[tuple[int, int]]:
    """Append the offsets of a topic that can be committed to `offsets`, with (commit time, expiration time or None) in
    ms. Returns its partitions with their error codes, to be sent if the commit succeeds."""
    image, missing_code = _commit_topic(node, request.version, topic)
    name = topic.name if image is None else image.name
    is_named = image is not None or request.version < FIRST_OFFSET_COMMIT_VERSION_OF_IDS
    if is_named and not node.authorize(request, READ, TOPIC, name):
        image, missing_code = None, TopicAuthorizationFailed.code
    if image is None:
        return collect_offsets(node, topic, name, missing_code, times_ms, offsets)
    return collect_offsets(node, topic, name, image, times_ms, offsets, image.topic_id)


def collect_offsets(
    node: GroupContext,
    topic: Entity,
    name: str,
    topic_state: TopicState | int,
    times_ms: tuple[int, int | None],
    offsets: list[tuple[Place, CommittedOffset]],
    topic_id: uuid.UUID | None = None,
) -> list[tuple[int, int]]:
    """Append the offsets of a topic that can be committed to `offsets`; `topic_state` may be the error code of all its
    partitions. Returns the partitions with their error codes."""
    max_bytes = node.config.offset_metadata_max_bytes
    results: list[tuple[int, int]] = []
    for partition in paced(topic.partitions):
        index, metadata, code = partition.partition_index, partition.committed_metadata or "", 0
        if isinstance(topic_state, int):
            code = topic_state
        elif index not in topic_state.partitions:
            code = UnknownTopicOrPartition.code
        elif len(metadata) > max_bytes:
            code = OffsetMetadataTooLarge.code
        else:
            offset, epoch = partition.committed_offset, partition.committed_leader_epoch
            offsets.append(((name, index), CommittedOffset(offset, epoch, metadata, *times_ms, topic_id)))
        results.append((index, code))
    return results


def ensure_not_deleted(node: GroupContext, topic_ids: Mapping[str, uuid.UUID | None]) -> None:
    """Raise CoordinatorNotAvailable, after which the client tries again, if a topic of a commit was deleted between the
    check of the request and the write. Its offsets have been deleted with it, and a new topic of that name must not
    begin with one of them."""
    for name, topic_id in topic_ids.items():
        topic = node.image.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            raise CoordinatorNotAvailable(f"Topic {name} was deleted during the request.")


def handle_offset_fetch(node: GroupContext, request: Request) -> Response:
    """Answer OffsetFetch: the committed offsets of a group, from version 8 on of several, from 10 on by topic id.

    A partition without a committed offset has offset -1. From version 7 on a client may require stable offsets:
    UNSTABLE_OFFSET_COMMIT marks partitions that an open transaction commits. In a cluster of several such a response
    waits until all records of the groups are replicated. Any other comes at once from the replicated state
    (GroupCoordinatorService.fetchOffsets). From version 9 on a member of a consumer group sends its epoch, which is
    compared with the same state.
    """
    entity = request.decode()
    version = request.version
    is_stable = entity.require_stable
    requested = [entity] if version < FIRST_VERSION_OF_BATCHES else entity.groups
    with_epoch = version >= FIRST_VERSION_OF_EPOCHS
    group_rows = [
        _Fetch(node, request, group.group_id, is_stable).rows(
            group.topics, group.member_id if with_epoch else None, group.member_epoch if with_epoch else NO_EPOCH
        )
        for group in paced(requested)
    ]
    if not (is_stable and node.coordination.is_clustered):
        return [request.frame_response(response_body(version, group_rows))]
    body = response_body(version, group_rows)
    response = Deferred(request)

    def respond(failed: dict[str, int]) -> None:
        groups = [
            GroupRows(rows.group_id, (), failed[rows.group_id]) if rows.group_id in failed else rows
            for rows in group_rows
        ]
        response.complete([request.frame_response(response_body(version, groups) if failed else body)])

    group_ids = dict.fromkeys(rows.group_id for rows in paced(group_rows) if not rows.error_code)
    node.coordination.groups.when_all_committed(group_ids, respond)
    return response.result()


class _Fetch:
    """Reads the committed offsets of one group for OffsetFetch."""

    def __init__(self, node: GroupContext, request: Request, group_id: str, is_stable: bool) -> None:
        self._node = node
        self._request = request
        self._group_id, self._is_stable = group_id, is_stable
        offsets = node.groups.offsets
        group_offsets = offsets.of_group(group_id) if is_stable else offsets.committed_of_group(group_id)
        # A commit or a marker may change the group between two slices: offsets and pending ones are of the same time.
        self._offsets: Mapping[Place, CommittedOffset] = (
            dict(group_offsets) if current_pause() is not None else group_offsets
        )
        self._unstable = frozenset(offsets.pending.of_group(group_id)) if is_stable else frozenset[Place]()

    def rows(self, requested: Any, member_id: str | None, member_epoch: int) -> GroupRows:
        """The group's part of the response for these topics, or all (None); with an error if it may not be read."""
        try:
            self._node.authorize_or_raise(self._request, DESCRIBE, GROUP, self._group_id)
            self._node.groups.ensure_may_fetch(self._group_id, member_id, member_epoch, is_stable=self._is_stable)
        except KafkaError as error:
            return self.refused(requested, coordinator_error_code(error))
        topics = self._all_topics() if requested is None else [self._topic(topic) for topic in paced(requested)]
        return GroupRows(self._group_id, topics)

    def refused(self, requested: Any, code: int) -> GroupRows:
        """The group's part of the response with an error; in version 1 every partition has it instead."""
        if self._request.version >= FIRST_VERSION_OF_GROUP_ERRORS:
            return GroupRows(self._group_id, (), code)
        return GroupRows(
            self._group_id,
            [
                TopicRows(topic.name, None, [_row_without_offset(index, code) for index in topic.partition_indexes])
                for topic in requested
            ],
        )

    def _topic(self, topic: Entity) -> TopicRows:
        name, topic_id = getattr(topic, "name", None), getattr(topic, "topic_id", None)
        if self._request.version >= FIRST_OFFSET_FETCH_VERSION_OF_IDS:
            name = self._node.replicas.topic_name(topic_id)
        if name is None:
            return TopicRows(
                "", topic_id, [_row_without_offset(index, UnknownTopicId.code) for index in topic.partition_indexes]
            )
        if not self._node.authorize(self._request, DESCRIBE, TOPIC, name):
            code = TopicAuthorizationFailed.code
            return TopicRows(name, topic_id, [_row_without_offset(index, code) for index in topic.partition_indexes])
        return TopicRows(name, topic_id, [self._row(name, index, topic_id) for index in paced(topic.partition_indexes)])

    def _row(self, name: str, index: int, topic_id: uuid.UUID | None = None) -> PartitionRow:
        """The row of a partition; without an offset if the stored one is of another topic id, that of a deleted
        topic."""
        place = (name, index)
        if place in self._unstable:
            return _row_without_offset(index, UnstableOffsetCommit.code)
        committed = self._offsets.get(place)
        if committed is None or (topic_id is not None and committed.topic_id not in (None, topic_id)):
            return _row_without_offset(index)
        return index, committed.offset, committed.leader_epoch, committed.metadata, 0

    def _all_topics(self) -> list[TopicRows]:
        """The committed offsets of the group in all topics that the client may describe; from version 10 on without
        deleted topics, which have no id."""
        rows_by_topic: dict[str, list[PartitionRow]] = {}
        for name, index in paced(list(self._offsets)):
            rows_by_topic.setdefault(name, []).append(self._row(name, index))
        image = self._node.image
        topics = []
        for name in paced_sorted(list(rows_by_topic)):
            rows = list(paced_sorted(rows_by_topic[name]))
            topic = image.topics.get(name)
            is_shown = topic is not None or self._request.version < FIRST_OFFSET_FETCH_VERSION_OF_IDS
            if is_shown and self._node.authorize(self._request, DESCRIBE, TOPIC, name):
                topics.append(TopicRows(name, topic.topic_id if topic is not None else None, rows))
        return topics


def _row_without_offset(index: int, error_code: int = 0) -> PartitionRow:
    return index, NO_OFFSET, -1, "", error_code


def handle_offset_delete(node: GroupContext, request: Request) -> Response:
    """Answer OffsetDelete: delete a group's offsets, one error code per partition (KIP-496).

    Topics that the group is subscribed to have GROUP_SUBSCRIBED_TO_TOPIC and keep their offsets. An error of the group
    fails the whole request. The response is sent when the deletion is committed.
    """
    entity = request.decode()
    try:
        node.authorize_or_raise(request, DELETE, GROUP, entity.group_id)
        group = node.groups.group(entity.group_id)
        group.ensure_may_delete_offsets()
        topics = [(topic, _deletion_refusal(node, request, group, topic.name)) for topic in entity.topics]
        places = [
            (topic.name, partition.partition_index)
            for topic, code in topics
            if not code
            for partition in topic.partitions
        ]
        node.groups.delete_offsets(entity.group_id, places)
    except KafkaError as error:
        return request.respond(error_code_field(coordinator_error_code(error)))
    fields = {"error_code": 0, "topics": [_answer_deletion(node, topic, code) for topic, code in topics]}
    return committed_response(node, request, entity.group_id, fields, error_code_field)


def _deletion_refusal(node: GroupContext, request: Request, group: AnyGroup, topic: str) -> int:
    if not node.authorize(request, READ, TOPIC, topic):
        return TopicAuthorizationFailed.code
    if topic not in node.image.topics:
        return UnknownTopicOrPartition.code
    return GroupSubscribedToTopic.code if group.is_subscribed_to(topic) else 0


def _answer_deletion(node: GroupContext, topic: Entity, code: int) -> Fields:
    image = node.image.topics.get(topic.name)
    existing = image.partitions if image is not None else {}
    partitions = [
        {
            "partition_index": partition.partition_index,
            "error_code": code or (0 if partition.partition_index in existing else UnknownTopicOrPartition.code),
        }
        for partition in topic.partitions
    ]
    return {"name": topic.name, "partitions": partitions}
