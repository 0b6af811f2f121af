"""Topics: list, describe, create, delete, more partitions, delete records (KafkaAdminClient).

Every function gives one result per topic (or partition) that was asked for, each with an error of its own or None.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.leaders import LeaderRequest, ask_leaders
from kafkatools.core.admin.results import filled
from kafkatools.core.errors import (
    KafkaError,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.uuids import uuid_from_text, uuid_text
from kafkatools.core.topic_partition import topic_fields

TopicPartition = tuple[str, int]

DEFAULT_PARTITION_LIMIT = 2000
FIRST_VERSION_WITH_TOPIC_IDS = 12
_FIRST_DELETE_VERSION_WITH_IDS = 6


class TopicListing(NamedTuple):
    """A topic in a list; the id in Kafka's text form, None from old brokers."""

    name: str
    topic_id: str | None
    is_internal: bool


class PartitionDescription(NamedTuple):
    """A partition; leader -1 when there is none, `elr` None when the broker does not tell eligible leader replicas."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


# From a partition of the response, in the order of PartitionDescription.
_DESCRIBED = itemgetter(1, 2, 3, 4, 5, 8, 6, 7)
_NUMBER = itemgetter(0)


class TopicDescription(NamedTuple):
    """A topic, or the error in its place."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    error: KafkaError | None = None


class NewTopic(NamedTuple):
    """A topic to create; -1 takes the broker's default. With `replicas_assignments` both numbers are -1."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replicas_assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str] | None = None


class CreatedTopic(NamedTuple):
    """What became of a new topic; the numbers are -1 where the broker did not tell."""

    name: str
    error: KafkaError | None
    topic_id: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1


class NewPartitions(NamedTuple):
    """How many partitions a topic shall have in all, and optionally the replicas of each new one."""

    name: str
    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None


class Outcome(NamedTuple):
    """Success when `error` is None."""

    error: KafkaError | None


class DeletedRecords(NamedTuple):
    """The log start offset after records were deleted."""

    low_watermark: int
    error: KafkaError | None


def topic_id_text(topic_id: uuid.UUID | None) -> str | None:
    """An id as Kafka prints it; None where a version has none."""
    return None if topic_id is None else uuid_text(topic_id)


def list_topics(admin: AdminClient) -> list[TopicListing]:
    """All topics, internal ones too, in the broker's order. Raises KafkaError."""
    response = admin.metadata_of(None, admin.deadline_ms())
    return [
        TopicListing(topic.name, topic_id_text(getattr(topic, "topic_id", None)), getattr(topic, "is_internal", False))
        for topic in response.topics
        if topic.name is not None
    ]


def describe_topics(
    admin: AdminClient,
    names: Sequence[str] = (),
    ids: Sequence[str] = (),
    partition_limit: int = DEFAULT_PARTITION_LIMIT,
) -> dict[str, TopicDescription]:
    """Topics by name, or by id (keys are then the ids). Raises KafkaError when nobody answers."""
    found: dict[str, TopicDescription] = {}
    if names:
        found.update(_describe_by_name(admin, list(dict.fromkeys(names)), partition_limit))
    if ids:
        found.update(_describe_by_id(admin, ids))
    return found


def _describe_by_name(admin: AdminClient, names: list[str], partition_limit: int) -> dict[str, TopicDescription]:
    try:
        found = _describe_in_pages(admin, names, partition_limit)
        return {name: found.get(name) or _unanswered(name) for name in names}
    except UnsupportedVersion:
        results = _describe_by_metadata(admin, names, admin.deadline_ms())
        return _described({name: results.get(name, UnknownTopicOrPartition()) for name in names})


def describe_all_topics(
    admin: AdminClient, partition_limit: int = DEFAULT_PARTITION_LIMIT
) -> dict[str, TopicDescription]:
    """Every topic, internal ones too, without asking for their names first. Raises KafkaError."""
    try:
        return _describe_in_pages(admin, None, partition_limit)
    except UnsupportedVersion:
        return _described(_describe_by_metadata(admin, None, admin.deadline_ms()))


def _described(results: Mapping[str, TopicDescription | KafkaError]) -> dict[str, TopicDescription]:
    return {
        name: TopicDescription(name, None, False, (), result) if isinstance(result, KafkaError) else result
        for name, result in results.items()
    }


def _describe_by_metadata(
    admin: AdminClient, names: list[str] | None, deadline_ms: int
) -> dict[str, TopicDescription | KafkaError]:
    response = admin.metadata_of(names, deadline_ms)
    return {topic.name: error_in(topic) or from_metadata(topic) for topic in response.topics}


def from_metadata(topic: Entity) -> TopicDescription:
    """A topic of a Metadata answer that has no error."""
    partitions = tuple(
        PartitionDescription(
            part.partition_index,
            part.leader_id,
            getattr(part, "leader_epoch", -1),
            tuple(part.replica_nodes),
            tuple(part.isr_nodes),
            tuple(getattr(part, "offline_replicas", ())),
        )
        for part in sorted(topic.partitions, key=lambda part: part.partition_index)
    )
    topic_id = topic_id_text(getattr(topic, "topic_id", None))
    return TopicDescription(topic.name, topic_id, bool(getattr(topic, "is_internal", False)), partitions)


def _describe_in_pages(
    admin: AdminClient, names: Sequence[str] | None, partition_limit: int
) -> dict[str, TopicDescription]:
    """DescribeTopicPartitions (KIP-966) of these topics or all (None): pages, in the order of the topics' names, until
    there is no cursor left."""
    deadline_ms = admin.deadline_ms()
    left = sorted(names or ())
    cursor: Fields | None = None
    found: dict[str, TopicDescription] = {}
    while left or names is None:
        fields = {
            "topics": [{"name": name} for name in left],
            "response_partition_limit": partition_limit,
            "cursor": cursor,
        }
        response = admin.ask(ApiKey.DESCRIBE_TOPIC_PARTITIONS, fields, timeout_ms=admin.left_ms(deadline_ms))
        for topic in response.topics:
            add_page(found, topic)
        if response.next_cursor is None:
            break
        name = response.next_cursor.topic_name
        cursor = {"topic_name": name, "partition_index": response.next_cursor.partition_index}
        left = [each for each in left if each >= name]
    return found


def _unanswered(name: str) -> TopicDescription:
    return TopicDescription(name, None, False, (), RequestTimedOut(f"The answer says nothing of topic {name}"))


def add_page(found: dict[str, TopicDescription], topic: Entity) -> None:
    """Takes in a topic of a DescribeTopicPartitions answer; what a page before had of it stays."""
    error = error_in(topic)
    partitions = list(map(PartitionDescription._make, map(_DESCRIBED, topic.partitions)))
    before = found.get(topic.name)
    if before is not None:
        partitions += before.partitions
    partitions.sort(key=_NUMBER)
    found[topic.name] = TopicDescription(
        topic.name, topic_id_text(topic.topic_id), bool(topic.is_internal), tuple(partitions), error
    )


def _describe_by_id(admin: AdminClient, ids: Sequence[str]) -> dict[str, TopicDescription]:
    topics = [{"topic_id": uuid_from_text(text), "name": None} for text in ids]
    response = admin.ask(
        ApiKey.METADATA,
        {"topics": topics, "allow_auto_topic_creation": False},
        min_version=FIRST_VERSION_WITH_TOPIC_IDS,
    )
    found = {topic_id_text(topic.topic_id): topic for topic in response.topics}
    described = {}
    for text in ids:
        topic = found.get(text)
        error = UnknownTopicId() if topic is None else error_in(topic)
        if topic is None or error is not None:
            described[text] = TopicDescription("", text, False, (), error)
        else:
            described[text] = from_metadata(topic)
    return described


def create_topics(
    admin: AdminClient,
    topics: Sequence[NewTopic],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
    retry_on_quota_violation: bool = True,
) -> dict[str, CreatedTopic]:
    """Create topics; with `validate_only` only check whether they could be."""
    by_name = {topic.name: topic for topic in topics}

    def once(names: list[str], deadline_ms: int) -> dict[str, CreatedTopic | KafkaError]:
        topics = [_creatable(by_name[name]) for name in names]
        response = _ask_for(admin, ApiKey.CREATE_TOPICS, topics, deadline_ms, validate_only=validate_only)
        return {topic.name: _failure(topic, retry_on_quota_violation) or _created(topic) for topic in response.topics}

    results = admin.retry_items(by_name, once, timeout_ms)
    return {
        name: CreatedTopic(name, result) if isinstance(result, KafkaError) else result
        for name, result in results.items()
    }


def _ask_for(
    admin: AdminClient, api_key: ApiKey, topics: list[Fields], deadline_ms: int, *, validate_only: bool
) -> Entity:
    """The controller's response to a change of topics, or with `validate_only` to the question whether it could be."""
    timeout_ms = _request_timeout_ms(admin, deadline_ms)
    fields = {"topics": topics, "validate_only": validate_only, "timeout": timeout_ms}
    return admin.ask_controller(api_key, fields, deadline_ms)


def _request_timeout_ms(admin: AdminClient, deadline_ms: int) -> int:
    """How long the controller may take."""
    left_ms: int = min(admin.left_ms(deadline_ms), admin.config.request_timeout_ms)
    return left_ms


def _creatable(topic: NewTopic) -> Fields:
    assignments = [
        {"partition_index": partition, "broker_ids": tuple(brokers)}
        for partition, brokers in (topic.replicas_assignments or {}).items()
    ]
    return {
        "name": topic.name,
        "num_partitions": -1 if assignments else topic.num_partitions,
        "replication_factor": -1 if assignments else topic.replication_factor,
        "assignments": assignments,
        "configs": [{"name": name, "value": value} for name, value in (topic.configs or {}).items()],
    }


def _created(topic: Entity) -> CreatedTopic:
    return CreatedTopic(
        topic.name,
        None,
        topic_id_text(getattr(topic, "topic_id", None)),
        getattr(topic, "num_partitions", -1),
        getattr(topic, "replication_factor", -1),
    )


def _failure(result: Entity, retry_on_quota_violation: bool = True) -> KafkaError | None:
    """The error of an item; one that is not to be tried again is wrapped up as final by its class."""
    error = error_in(result)
    if isinstance(error, ThrottlingQuotaExceeded) and not retry_on_quota_violation:
        return QuotaExceeded(str(error))
    return error


class QuotaExceeded(ThrottlingQuotaExceeded):
    """The throttling quota has been exceeded, and the caller does not want to wait."""

    retriable = False


def delete_topics(admin: AdminClient, names: Sequence[str], *, timeout_ms: int | None = None) -> dict[str, Outcome]:
    """Delete topics by name."""

    def once(items: list[str], deadline_ms: int) -> dict[str, Outcome | KafkaError]:
        def fields(version: int) -> Fields:
            timeout = _request_timeout_ms(admin, deadline_ms)
            if version >= _FIRST_DELETE_VERSION_WITH_IDS:
                return {"topics": [{"name": name, "topic_id": None} for name in items], "timeout": timeout}
            return {"topic_names": tuple(items), "timeout": timeout}

        response = admin.ask_controller(ApiKey.DELETE_TOPICS, fields, deadline_ms)
        return {result.name: _failure(result) or Outcome(None) for result in response.responses}

    return filled(admin.retry_items(names, once, timeout_ms), Outcome)


def create_partitions(
    admin: AdminClient,
    partitions: Sequence[NewPartitions],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> dict[str, Outcome]:
    """Give topics more partitions."""
    by_name = {each.name: each for each in partitions}

    def once(names: list[str], deadline_ms: int) -> dict[str, Outcome | KafkaError]:
        topics = [_more_partitions(by_name[name]) for name in names]
        response = _ask_for(admin, ApiKey.CREATE_PARTITIONS, topics, deadline_ms, validate_only=validate_only)
        return {result.name: _failure(result) or Outcome(None) for result in response.results}

    return filled(admin.retry_items(by_name, once, timeout_ms), Outcome)


def _more_partitions(wanted: NewPartitions) -> Fields:
    assignments = None
    if wanted.new_assignments is not None:
        assignments = [{"broker_ids": tuple(brokers)} for brokers in wanted.new_assignments]
    return {"name": wanted.name, "count": wanted.total_count, "assignments": assignments}


def delete_records(
    admin: AdminClient,
    offsets: Mapping[TopicPartition, int],
    *,
    timeout_ms: int | None = None,
    leaderless_ms: int | None = None,
) -> dict[TopicPartition, DeletedRecords]:
    """Delete the records before an offset (-1: the high watermark) of each partition, on their leaders.
    `leaderless_ms` as for `ask_leaders`."""

    def build(partitions: list[TopicPartition], left_ms: int) -> Fields:
        return {
            "topics": topic_fields((key, {"partition_index": key[1], "offset": offsets[key]}) for key in partitions),
            "timeout": min(left_ms, admin.config.request_timeout_ms),
        }

    def read(entity: Entity) -> dict[TopicPartition, DeletedRecords | KafkaError]:
        return {
            (topic.name, part.partition_index): error_in(part) or DeletedRecords(part.low_watermark, None)
            for topic in entity.topics
            for part in topic.partitions
        }

    request = LeaderRequest(ApiKey.DELETE_RECORDS, build, read)
    results = ask_leaders(admin, offsets, request, timeout_ms, leaderless_ms)
    return filled(results, lambda error: DeletedRecords(-1, error))
