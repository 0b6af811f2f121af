"""Topics: list, describe, create, delete, add partitions, delete records.

Every function takes an AdminClient and returns one result an item asked for; an item's error is in its result, never raised, so that one
bad topic hides nothing of the others. Ids of topics are texts in Kafka's form (URL-safe base64 of 16 bytes, no padding).
Source: KafkaAdminClient and the handlers in org.apache.kafka.clients.admin.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkatools.core.admin.client import AdminClient, failure
from kafkatools.core.admin.leaders import call_leaders
from kafkatools.core.errors import KafkaError, UnknownTopicId, UnknownTopicOrPartition, UnsupportedVersion
from kafkatools.core.protocol.api_versions import ApiKey

PARTITIONS_PER_RESPONSE = 2000
_ZERO_ID = base64.urlsafe_b64encode(bytes(16)).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True)
class TopicListing:
    """A topic as the list shows it."""

    name: str
    topic_id: str
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition; `leader` is -1 when there is none, `elr` and `last_known_elr` are None when the broker does not say."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions in order of their numbers; `error` when it could not be described."""

    name: str
    topic_id: str = _ZERO_ID
    is_internal: bool = False
    partitions: tuple[PartitionDescription, ...] = ()
    error: KafkaError | None = None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 asks for the broker's default, `replicas_assignments` goes instead of both numbers."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replicas_assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The number of partitions that a topic is to have; `assignments` are the brokers of each added one."""

    topic: str
    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicResult:
    """What became of one topic; `error` is None when it was done."""

    name: str
    error: KafkaError | None = None
    topic_id: str = _ZERO_ID
    num_partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class DeletedRecords:
    """The new first offset of a partition after its records were deleted."""

    low_watermark: int = -1
    error: KafkaError | None = None


def id_text(topic_id: uuid.UUID | None) -> str:
    """An id in Kafka's form (Uuid.toString); none is the id of zeros."""
    return _ZERO_ID if topic_id is None else base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def id_of(text: str) -> uuid.UUID:
    """The id of a text in Kafka's form (Uuid.fromString); ValueError when it is not one."""
    return uuid.UUID(bytes=base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))


def list_topics(admin: AdminClient) -> list[TopicListing]:
    """Every topic of the cluster, internal ones included."""
    answer = admin.call(ApiKey.METADATA, {"topics": None, "allow_auto_topic_creation": False})
    return [
        TopicListing(topic.name, id_text(getattr(topic, "topic_id", None)), topic.is_internal)
        for topic in answer.topics
        if not topic.error_code
    ]


def describe_topics(
    admin: AdminClient,
    *,
    names: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    partition_limit: int = PARTITIONS_PER_RESPONSE,
) -> dict[str, TopicDescription]:
    """Descriptions by name, or by id when ids were given; a topic that is not there has an error.

    By name it uses DescribeTopicPartitions, page by page (KIP-966), and Metadata with brokers that do not have it.
    """
    if ids is not None:
        return _describe_ids(admin, ids)
    wanted = list(names or ())
    try:
        return _describe_by_pages(admin, wanted, partition_limit)
    except UnsupportedVersion:
        topics = [{"name": name} for name in wanted]
        answer = admin.call(ApiKey.METADATA, {"topics": topics, "allow_auto_topic_creation": False})
        return _complete(wanted, {topic.name: _from_metadata(topic) for topic in answer.topics})


def _complete(wanted: Iterable[str], found: Mapping[str, TopicDescription]) -> dict[str, TopicDescription]:
    return {name: found.get(name) or TopicDescription(name, error=UnknownTopicOrPartition()) for name in wanted}


def _describe_by_pages(admin: AdminClient, names: Sequence[str], partition_limit: int) -> dict[str, TopicDescription]:
    found: dict[str, TopicDescription] = {}
    cursor: dict[str, Any] | None = None
    left = sorted(set(names))
    while left:
        fields = {
            "topics": [{"name": name} for name in left],
            "response_partition_limit": partition_limit,
            "cursor": cursor,
        }
        answer = admin.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, fields)
        for topic in answer.topics:
            earlier = found.get(topic.name)
            found[topic.name] = _from_page(topic, earlier.partitions if earlier else ())
        if answer.next_cursor is None:
            break
        at = answer.next_cursor
        cursor = {"topic_name": at.topic_name, "partition_index": at.partition_index}
        left = [name for name in left if name >= at.topic_name]
    return _complete(names, found)


def _from_page(topic: Any, earlier: tuple[PartitionDescription, ...]) -> TopicDescription:
    partitions = earlier + tuple(
        PartitionDescription(
            one.partition_index,
            one.leader_id,
            one.leader_epoch,
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
            tuple(one.offline_replicas),
            tuple(one.eligible_leader_replicas or ()),
            tuple(one.last_known_elr or ()),
        )
        for one in topic.partitions
    )
    return TopicDescription(
        topic.name,
        id_text(topic.topic_id),
        topic.is_internal,
        tuple(sorted(partitions, key=lambda one: one.partition)),
        failure(topic.error_code),
    )


def _describe_ids(admin: AdminClient, ids: Sequence[str]) -> dict[str, TopicDescription]:
    topics = [{"topic_id": id_of(one), "name": None} for one in ids]
    answer = admin.call(ApiKey.METADATA, {"topics": topics, "allow_auto_topic_creation": False}, minimum_version=12)
    found = {id_text(topic.topic_id): _from_metadata(topic) for topic in answer.topics}
    return {one: found.get(one) or TopicDescription("", one, error=UnknownTopicId()) for one in ids}


def _from_metadata(topic: Any) -> TopicDescription:
    partitions = tuple(
        PartitionDescription(
            one.partition_index,
            one.leader_id,
            getattr(one, "leader_epoch", -1),
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
            tuple(getattr(one, "offline_replicas", ())),
        )
        for one in sorted(topic.partitions, key=lambda one: one.partition_index)
    )
    topic_id = id_text(getattr(topic, "topic_id", None))
    return TopicDescription(topic.name or "", topic_id, topic.is_internal, partitions, failure(topic.error_code))


def create_topics(
    admin: AdminClient, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> dict[str, TopicResult]:
    """Creates topics; with validate_only the broker only says whether it would."""
    fields = {
        "topics": [_creatable(topic) for topic in topics],
        "timeout": admin.request_timeout_ms,
        "validate_only": validate_only,
    }
    answer = admin.call(ApiKey.CREATE_TOPICS, fields, to_controller=True)
    return {
        topic.name: TopicResult(
            topic.name,
            failure(topic.error_code, topic.error_message),
            id_text(getattr(topic, "topic_id", None)),
            getattr(topic, "num_partitions", -1),
            getattr(topic, "replication_factor", -1),
        )
        for topic in answer.topics
    }


def _creatable(topic: NewTopic) -> dict[str, Any]:
    assigned = topic.replicas_assignments
    return {
        "name": topic.name,
        "num_partitions": -1 if assigned else topic.num_partitions,
        "replication_factor": -1 if assigned else topic.replication_factor,
        "assignments": [
            {"partition_index": index, "broker_ids": list(brokers)} for index, brokers in (assigned or {}).items()
        ],
        "configs": [{"name": name, "value": value} for name, value in topic.configs.items()],
    }


def delete_topics(admin: AdminClient, names: Sequence[str]) -> dict[str, TopicResult]:
    """Deletes topics by name."""

    def fields(version: int) -> dict[str, Any]:
        wanted: dict[str, Any] = {"topic_names": list(names)}
        if version >= 6:
            wanted = {"topics": [{"name": name, "topic_id": None} for name in names]}
        return {**wanted, "timeout": admin.request_timeout_ms}

    answer = admin.call(ApiKey.DELETE_TOPICS, fields, to_controller=True)
    return {
        topic.name: TopicResult(topic.name, failure(topic.error_code, getattr(topic, "error_message", None)))
        for topic in answer.responses
    }


def create_partitions(
    admin: AdminClient, wanted: Sequence[NewPartitions], *, validate_only: bool = False
) -> dict[str, TopicResult]:
    """Raises the number of partitions of topics."""
    topics = [
        {
            "name": one.topic,
            "count": one.total_count,
            "assignments": None
            if one.assignments is None
            else [{"broker_ids": list(brokers)} for brokers in one.assignments],
        }
        for one in wanted
    ]
    fields = {"topics": topics, "timeout": admin.request_timeout_ms, "validate_only": validate_only}
    answer = admin.call(ApiKey.CREATE_PARTITIONS, fields, to_controller=True)
    return {one.name: TopicResult(one.name, failure(one.error_code, one.error_message)) for one in answer.results}


def delete_records(
    admin: AdminClient, before: Mapping[tuple[str, int], int]
) -> dict[tuple[str, int], DeletedRecords]:
    """Deletes the records before an offset of each partition (-1: all up to the high watermark), at the leaders."""

    def fields(partitions: Sequence[tuple[str, int]], _version: int) -> dict[str, Any]:
        by_topic: dict[str, list[dict[str, int]]] = {}
        for topic, partition in partitions:
            one = {"partition_index": partition, "offset": before[topic, partition]}
            by_topic.setdefault(topic, []).append(one)
        topics = [{"name": name, "partitions": ones} for name, ones in by_topic.items()]
        return {"topics": topics, "timeout": admin.request_timeout_ms}

    results: dict[tuple[str, int], DeletedRecords] = {}
    for key, one in call_leaders(admin, ApiKey.DELETE_RECORDS, list(before), fields).items():
        if isinstance(one, KafkaError):
            results[key] = DeletedRecords(error=one)
        else:
            results[key] = DeletedRecords(one.low_watermark)
    return results
