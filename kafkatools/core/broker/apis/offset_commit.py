"""OffsetCommit (key 8), versions 2-10: by topic name, from version 10 on by topic id.

All partitions that may be committed are one batch of records; the others say why not. The answer
waits for the replicas, and with log.durability=fsync for the disk, at most offsets.commit.timeout.ms.
A large request is checked and its records are encoded in slices. The member is checked again before the batch is
written: it may have been fenced between two slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset, Record, committed_offsets
from kafkatools.core.broker.coordinators.groups.offsets import Place
from kafkatools.core.broker.coordinators.groups.requests import MemberIdentity
from kafkatools.core.broker.metadata.controller.acls import GROUP, READ, TOPIC
from kafkatools.core.broker.replicas.delayed_produce import DelayedProduce, ProduceStatus
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    GroupAuthorizationFailed,
    InvalidGroupId,
    KafkaError,
    OffsetMetadataTooLarge,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    error_for_code,
)
from kafkatools.core.protocol.slices import paced, pausing

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.image import TopicState
    from kafkatools.core.broker.node import Node

LONG_MAX = 2**63 - 1
LAST_VERSION_OF_RETENTION = 4
FIRST_VERSION_OF_LEADER_EPOCH = 6
FIRST_VERSION_OF_INSTANCE_ID = 7
FIRST_VERSION_OF_IDS = 10
Answers = list[tuple[Any, list[dict[str, int]]]]


def handle(node: Node, request: Request) -> Response:
    """Commit, and say of each partition how it went, at once or when the offsets are kept."""
    entity = request.decode()
    version = request.version
    instance_id = entity.group_instance_id if version >= FIRST_VERSION_OF_INSTANCE_ID else None
    identity = MemberIdentity(entity.member_id, instance_id)
    offsets: list[tuple[Place, CommittedOffset]] = []
    try:
        node.authorize_or_raise(request, READ, GROUP, entity.group_id)
        if not entity.group_id:
            raise InvalidGroupId()
        node.groups.ensure_may_commit(entity.group_id, identity, entity.generation_id_or_member_epoch, version)
        taking = _Taking(node, request, _expiry(node, entity, version), offsets)
        answers = [(topic, taking.topic(topic)) for topic in paced(entity.topics)]
        records = committed_offsets(entity.group_id, offsets)
        with pausing(None):
            status = _commit(node, entity, identity, version, offsets, records)
    except KafkaError as error:
        return _respond(request, _failed(node, version, entity, error))
    if status is None:
        return _respond(request, answers)
    with pausing(None):
        return _when_kept(node, request, entity, answers, status)


def _commit(
    node: Node,
    entity: Any,
    identity: MemberIdentity,
    version: int,
    offsets: Sequence[tuple[Place, CommittedOffset]],
    records: Sequence[Record],
) -> ProduceStatus | None:
    """Write the batch if the member may commit all of it. A partition that the member did not have in its epoch fails
    the whole request, as in Kafka."""
    check = node.groups.ensure_may_commit(entity.group_id, identity, entity.generation_id_or_member_epoch, version)
    if check is not None:
        for (_, index), committed in offsets:
            check(committed.topic_id, index)
    return node.groups.commit(entity.group_id, offsets, records) if offsets else None


def _when_kept(node: Node, request: Request, entity: Any, answers: Answers, status: ProduceStatus) -> Response:
    response, version = LaterResponse(request), request.version

    def complete(code: int) -> None:
        failed = _failed(node, version, entity, error_for_code(code)()) if code else answers
        response.give(_respond(request, failed))

    if node.coordination.is_clustered:
        node.coordination.groups.when_committed(entity.group_id, complete)
    else:
        waiting = DelayedProduce(node.config.offsets_commit_timeout_ms, [status], lambda s: complete(s[0].error_code))
        node.produce_purgatory.try_complete_else_watch(waiting, [status.partition.key], node.clock.now_ms())
    return response.returned()


def _respond(request: Request, answers: Answers) -> Response:
    topics = [
        {"name": getattr(topic, "name", ""), "topic_id": getattr(topic, "topic_id", None), "partitions": partitions}
        for topic, partitions in paced(answers)
    ]
    return request.respond({"topics": topics})


def _topic(node: Node, version: int, topic: Any) -> tuple[TopicState | None, int]:
    image = node.image
    if version >= FIRST_VERSION_OF_IDS:
        found = image.topics_by_id.get(topic.topic_id) if topic.topic_id is not None else None
        return found, UnknownTopicId.code
    return image.topics.get(topic.name), UnknownTopicOrPartition.code


def _failed(node: Node, version: int, entity: Any, error: KafkaError) -> Answers:
    """Nothing was committed: every partition says why."""
    answers = []
    for topic in paced(entity.topics):
        found, missing_code = _topic(node, version, topic)
        is_refused = isinstance(error, GroupAuthorizationFailed)  # says nothing about topics
        code = coordinator_error_code(error) if found is not None or is_refused else missing_code
        answers.append(
            (topic, [{"partition_index": each.partition_index, "error_code": code} for each in paced(topic.partitions)])
        )
    return answers


class _Taking:
    """Collects what can be committed, topic by topic."""

    def __init__(
        self,
        node: Node,
        request: Request,
        expire_ms: int | None,
        offsets: list[tuple[Place, CommittedOffset]],
    ) -> None:
        self._node = node
        self._request = request
        self._expire_ms = expire_ms
        self._offsets = offsets
        self._now_ms = node.clock.wall_ms()
        self._max_bytes = node.config.offset_metadata_max_bytes

    def topic(self, topic: Any) -> list[dict[str, int]]:
        """The answers of the topic's partitions should the commit work."""
        found, missing_code = _topic(self._node, self._request.version, topic)
        name = getattr(topic, "name", None) if found is None else found.name
        if name is not None and not self._node.authorize(self._request, READ, TOPIC, name):
            found, missing_code = None, TopicAuthorizationFailed.code
        return [
            {
                "partition_index": each.partition_index,
                "error_code": missing_code if found is None else self._partition(found, each),
            }
            for each in paced(topic.partitions)
        ]

    def _partition(self, topic: TopicState, each: Any) -> int:
        metadata = each.committed_metadata or ""
        if each.partition_index not in topic.partitions:
            return UnknownTopicOrPartition.code
        if len(metadata) > self._max_bytes:
            return OffsetMetadataTooLarge.code
        has_epoch = self._request.version >= FIRST_VERSION_OF_LEADER_EPOCH
        committed = CommittedOffset(
            each.committed_offset,
            each.committed_leader_epoch if has_epoch else -1,
            metadata,
            self._now_ms,
            self._expire_ms,
            topic.topic_id,
        )
        self._offsets.append(((topic.name, each.partition_index), committed))
        return 0


def _expiry(node: Node, entity: Any, version: int) -> int | None:
    """Old versions may name how long the offset is kept; -1 is the broker's setting."""
    if version > LAST_VERSION_OF_RETENTION:
        return None
    retention = entity.retention_time
    retention_ms = retention // timedelta(milliseconds=1) if isinstance(retention, timedelta) else int(retention)
    return None if retention_ms < 0 else min(node.clock.wall_ms() + retention_ms, LONG_MAX)
