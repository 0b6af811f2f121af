"""OffsetCommit and OffsetFetch of a consumer: build request fields and read responses, without I/O.

OffsetCommit versions 2 to 10 and OffsetFetch versions 1 to 10. Version 10 names topics by id and is used when the ids
of all topics are known, by consumers of the protocol `consumer` only, as in Kafka 4.3.1 (CommitRequestManager). Errors
are interpreted as in ConsumerCoordinator's OffsetCommitResponseHandler and OffsetFetchResponseHandler.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import (
    NONE,
    CommitFailed,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    NotCoordinator,
    RebalanceInProgress,
    RequestTimedOut,
    StaleMemberEpoch,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
    error_for_code,
    unauthorized_topics,
    with_group,
)
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata, commit_topics
from kafkatools.core.topic_partition import topic_fields

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity

_NEWEST_WITH_NAMES = 9
_NEWEST_WITH_IDS = 10
_COMMIT_WITH_INSTANCE = 7
_COMMIT_WITH_EPOCH = 6
_FETCH_IN_GROUPS = 8
_FETCH_WITH_MEMBER = 9
_FETCH_WITH_STABLE = 7

MOVED = (NotCoordinator, CoordinatorNotAvailable, RequestTimedOut)

NOT_A_MEMBER = (
    "Offset commit cannot be completed since the consumer is not part of an active group for auto partition assignment;"
    " it is likely that the consumer was kicked out of the group."
)
UNDERGOING_REBALANCE = (
    "Offset commit cannot be completed since the consumer is undergoing a rebalance for auto partition assignment. You "
    "can try completing the rebalance by calling poll() and then retry the operation."
)
EXECUTING_REBALANCE = (
    "Offset commit cannot be completed since the consumer group is executing a rebalance at the moment. You can try "
    "completing the rebalance by calling poll() and then retry commit again"
)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class TopicIds:
    """The ids of the topics in one request, empty when they are sent by name."""

    def __init__(self, ids: Mapping[str, uuid.UUID]) -> None:
        self._ids = ids
        self._names = {topic_id: name for name, topic_id in ids.items()}

    @classmethod
    def of(cls, parts: Iterable[TopicPartition], topic_id: Callable[[str], uuid.UUID | None]) -> TopicIds:
        """The ids of the topics of these partitions if all are known, else none. `topic_id` returns None for a topic
        without one."""
        ids = {topic: topic_id(topic) for topic in {part.topic for part in parts}}
        known = {topic: found for topic, found in ids.items() if found is not None}
        return cls(known if len(known) == len(ids) else {})

    @property
    def newest_version(self) -> int:
        """The newest version of OffsetCommit and OffsetFetch that can be sent."""
        return _NEWEST_WITH_IDS if self._ids else _NEWEST_WITH_NAMES

    def identify(self, topics: list[dict[str, object]], version: int) -> list[dict[str, object]]:
        """Return the topics of a request with ids instead of names if the version has ids."""
        if version < _NEWEST_WITH_IDS:
            return topics
        return [{**topic, "name": None, "topic_id": self._ids[str(topic["name"])]} for topic in topics]

    def name_of(self, topic: Entity) -> str:
        """Return the name of a topic in the response. Raises KafkaError for an id that was not sent."""
        topic_id = getattr(topic, "topic_id", None)
        if topic_id is None:
            return str(topic.name)
        if topic_id not in self._names:
            raise UnknownServerError(f"The response has the topic id {topic_id}, which was not requested")
        return self._names[topic_id]


BY_NAME = TopicIds({})


class Fetched(NamedTuple):
    """The committed offsets in an OffsetFetch response (None = none committed), or its error."""

    offsets: dict[TopicPartition, OffsetAndMetadata | None]
    error: KafkaError | None = None


def commit_fields(
    member: ConsumerGroupMetadata, offsets: Offsets, topic_ids: TopicIds, version: int
) -> dict[str, object]:
    """Return the fields of an OffsetCommit request; versions before 6 omit leader epochs, those before 7 the instance
    id."""
    fields: dict[str, object] = {
        "group_id": member.group_id,
        "generation_id_or_member_epoch": member.generation_id,
        "member_id": member.member_id,
        "topics": topic_ids.identify(commit_topics(offsets.items(), has_epochs=version >= _COMMIT_WITH_EPOCH), version),
    }
    if version >= _COMMIT_WITH_INSTANCE:
        fields["group_instance_id"] = member.group_instance_id
    return fields


def commit_error(entity: Entity, group_id: str, topic_ids: TopicIds = BY_NAME) -> KafkaError | None:
    """Return an OffsetCommit response's first partition error, or one for all unauthorized topics, or None. Raises
    KafkaError for a topic id that was not sent."""
    unauthorized: list[str] = []
    for topic in entity.topics:
        for data in topic.partitions:
            code = int(data.error_code)
            if code == NONE:
                continue
            error = error_for_code(code)
            if error is not TopicAuthorizationFailed:
                return with_group(error(), group_id)
            unauthorized.append(topic_ids.name_of(topic))
    return unauthorized_topics(unauthorized) if unauthorized else None


def is_retriable_commit(error: KafkaError) -> bool:
    """Return whether the same commit may be retried; False for RebalanceInProgress and CommitFailed."""
    return error.retriable and not isinstance(error, (RebalanceInProgress, CommitFailed))


def fetch_fields(
    member: ConsumerGroupMetadata | None,
    group_id: str,
    parts: Iterable[TopicPartition],
    topic_ids: TopicIds = BY_NAME,
) -> Callable[[int], dict[str, object]]:
    """Return a function from version to OffsetFetch fields. `member`: the sender's identity in KIP-848 groups."""
    topics = topic_fields(((part, part.partition) for part in parts), partitions="partition_indexes")

    def fields(version: int) -> dict[str, object]:
        stable = {"require_stable": True} if version >= _FETCH_WITH_STABLE else {}
        if version < _FETCH_IN_GROUPS:
            return {"group_id": group_id, "topics": topics, **stable}
        group: dict[str, object] = {"group_id": group_id, "topics": topic_ids.identify(topics, version)}
        if version >= _FETCH_WITH_MEMBER and member is not None and member.member_id:
            group |= {"member_id": member.member_id, "member_epoch": member.generation_id}
        return {"groups": [group], **stable}

    return fields


def read_fetch(entity: Entity, group_id: str, topic_ids: TopicIds = BY_NAME) -> Fetched:
    """Read an OffsetFetch response. An error of the group or of any partition replaces all offsets. Raises KafkaError
    for a topic id that was not sent."""
    groups = getattr(entity, "groups", None)
    group = entity if groups is None else next((entry for entry in groups if entry.group_id == group_id), None)
    if group is None:
        return Fetched({}, UnknownServerError(f"The response has no result for group {group_id}"))
    code = int(getattr(group, "error_code", NONE))
    if code != NONE:
        return Fetched({}, with_group(error_for_code(code)(), group_id))
    offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
    unauthorized: list[str] = []
    for topic in group.topics:
        name = topic_ids.name_of(topic)
        for data in topic.partitions:
            part = TopicPartition(name, int(data.partition_index))
            code = int(data.error_code)
            if code == NONE:
                offsets[part] = _committed(data)
            elif error_for_code(code) is TopicAuthorizationFailed:
                unauthorized.append(name)
            else:
                return Fetched({}, _partition_error(part, code))
    if unauthorized:
        return Fetched({}, unauthorized_topics(unauthorized))
    return Fetched(offsets)


def _committed(data: Entity) -> OffsetAndMetadata | None:
    if data.committed_offset < 0:
        return None
    epoch = int(getattr(data, "committed_leader_epoch", -1))
    return OffsetAndMetadata(int(data.committed_offset), epoch, data.metadata or "")


def _partition_error(part: TopicPartition, code: int) -> KafkaError:
    error = error_for_code(code)
    if error is UnstableOffsetCommit:
        return error(f"The offset of {part} waits for the end of a transaction")
    if error is UnknownTopicId:
        return error(f"The topic of {part} was deleted, or deleted and created again")
    if error is UnknownTopicOrPartition:
        return KafkaError(f"Topic or Partition {part} does not exist")
    return KafkaError(f"Unexpected error in fetch offset response for partition {part}: {error.default_message()}")


def is_retriable_fetch(error: KafkaError) -> bool:
    """Return whether an OffsetFetch request may be retried after this error."""
    return error.retriable or isinstance(error, (CoordinatorLoadInProgress, StaleMemberEpoch, UnknownMemberId))
