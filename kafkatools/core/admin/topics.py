"""List, describe, create and delete topics, add partitions, delete records (KafkaAdminClient).

Each requested topic or partition has one result with its own error or None.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.leaders import LeaderRequest, send_to_leaders
from kafkatools.core.admin.results import by_partition, filled
from kafkatools.core.errors import (
    KafkaError,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
    UnknownServerError,
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


class Cursor(NamedTuple):
    """The first partition of a page of DescribeTopicPartitions."""

    topic_name: str
    partition_index: int


class TopicListing(NamedTuple):
    """A listed topic; the id in Kafka's text form, None from old brokers."""

    name: str
    topic_id: str | None
    is_internal: bool


class PartitionDescription(NamedTuple):
    """A described partition. `leader` is -1 without a leader; `elr` (eligible leaders) is None if not reported."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


# The fields of a response's partition, in the order of PartitionDescription.
_DESCRIBED = itemgetter(1, 2, 3, 4, 5, 8, 6, 7)
_NUMBER = itemgetter(0)


class TopicDescription(NamedTuple):
    """A described topic, or its error."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    error: KafkaError | None = None

    def _repr_html_(self) -> str:
        """The partitions as a table, for Jupyter."""
        from kafkatools.core.html_tables import html_table

        if self.error is not None:
            return html_table(self.name, (), (), str(self.error))
        rows = [
            (part.partition, part.leader, *(", ".join(map(str, nodes)) for nodes in (part.replicas, part.isr)))
            for part in self.partitions
        ]
        return html_table(self.name, ("partition", "leader", "replicas", "in sync"), rows)


class _NewTopicFields(NamedTuple):
    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replicas_assignments: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str] | None = None


class NewTopic(_NewTopicFields):
    """A topic to create; -1 means the broker's default. With `replicas_assignments`, the broker ids of each partition
    by number, both numbers must be -1. Raises TypeError for arguments of other types."""

    __slots__ = ()

    def __new__(
        cls,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replicas_assignments: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> NewTopic:
        if not isinstance(name, str):
            raise TypeError(f"The name of a new topic is a str, not {name!r}")
        for text, number in (("number of partitions", num_partitions), ("replication factor", replication_factor)):
            if type(number) is not int:
                raise TypeError(f"The {text} of topic {name} is an int, not {number!r}")
        if replicas_assignments is not None and not _are_assignments(replicas_assignments):
            raise TypeError(
                f"The replica assignments of topic {name} are broker ids by partition, such as {{0: [1, 2]}}, not "
                f"{replicas_assignments!r}; settings are the argument configs"
            )
        if configs is not None and not isinstance(configs, Mapping):
            raise TypeError(f"The configs of topic {name} are a mapping, not {configs!r}")
        return super().__new__(cls, name, num_partitions, replication_factor, replicas_assignments, configs)


def _are_assignments(assignments: object) -> bool:
    return isinstance(assignments, Mapping) and all(
        type(partition) is int and isinstance(replicas, Sequence) and all(type(replica) is int for replica in replicas)
        for partition, replicas in assignments.items()
    )


class CreatedTopic(NamedTuple):
    """The outcome of creating a topic; numbers are -1 when the broker did not report them."""

    name: str
    error: KafkaError | None
    topic_id: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1


class NewPartitions(NamedTuple):
    """A topic's new total partition count, and optionally the replicas of each added partition."""

    name: str
    total_count: int
    new_assignments: Sequence[Sequence[int]] | None = None


class Outcome(NamedTuple):
    """The outcome of a change: `error` is None for success."""

    error: KafkaError | None


class DeletedRecords(NamedTuple):
    """A partition's log start offset after deleting records, or its error."""

    low_watermark: int
    error: KafkaError | None


def topic_id_text(topic_id: uuid.UUID | None) -> str | None:
    """Return a topic id in Kafka's text form, None for None."""
    return None if topic_id is None else uuid_text(topic_id)


def list_topics(admin: AdminClient) -> list[TopicListing]:
    """Return all topics, internal ones included, in the broker's order. Raises KafkaError."""
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
    """Return topics by name, or by id with ids as keys; a missing topic has its `error` set. `partition_limit`: the
    partitions in one response; further ones are fetched. Raises KafkaError when a request fails, and ValueError for a
    malformed id."""
    descriptions: dict[str, TopicDescription] = {}
    if names:
        descriptions.update(_describe_by_name(admin, list(dict.fromkeys(names)), partition_limit))
    if ids:
        descriptions.update(_describe_by_id(admin, ids))
    return descriptions


def _describe_by_name(admin: AdminClient, names: list[str], partition_limit: int) -> dict[str, TopicDescription]:
    try:
        descriptions = _describe_in_pages(admin, names, partition_limit)
        return {name: descriptions.get(name) or _unanswered(name) for name in names}
    except UnsupportedVersion:
        results = _describe_by_metadata(admin, names, admin.deadline_ms())
        return _described({name: results.get(name, UnknownTopicOrPartition()) for name in names})


def describe_all_topics(
    admin: AdminClient, partition_limit: int = DEFAULT_PARTITION_LIMIT
) -> dict[str, TopicDescription]:
    """Return descriptions of all topics, internal ones included, without listing them first. Raises KafkaError."""
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
    """Convert a topic of a Metadata response without an error."""
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
    """Describe topics (None: all) with DescribeTopicPartitions (KIP-966), page by page until no cursor is left. Raises
    KafkaError, UnsupportedVersion at old brokers."""
    deadline_ms = admin.deadline_ms()
    remaining = sorted(names or ())
    cursor: Cursor | None = None
    descriptions: dict[str, TopicDescription] = {}
    while remaining or names is None:
        fields = {
            "topics": [{"name": name} for name in remaining],
            "response_partition_limit": partition_limit,
            "cursor": None if cursor is None else cursor._asdict(),
        }
        response = admin.send(ApiKey.DESCRIBE_TOPIC_PARTITIONS, fields, timeout_ms=admin.remaining_ms(deadline_ms))
        for topic in response.topics:
            add_page(descriptions, topic)
        cursor = next_cursor(response, cursor)
        if cursor is None:
            break
        remaining = [name for name in remaining if name >= cursor.topic_name]
    return descriptions


def next_cursor(response: Entity, cursor: Cursor | None) -> Cursor | None:
    """The cursor of the page after this DescribeTopicPartitions response; None after the last page. `cursor`: that of
    the request. Raises UnknownServerError if it does not advance, since the pages would never end."""
    if response.next_cursor is None:
        return None
    following = Cursor(response.next_cursor.topic_name, response.next_cursor.partition_index)
    if cursor is not None and following <= cursor:
        raise UnknownServerError("The next page of topics begins at {}-{} again".format(*following))
    return following


def _unanswered(name: str) -> TopicDescription:
    return TopicDescription(name, None, False, (), RequestTimedOut(f"The response has no result for topic {name}"))


def add_page(descriptions: dict[str, TopicDescription], topic: Entity) -> None:
    """Add a topic of a DescribeTopicPartitions response to `descriptions`, merging partitions from earlier pages."""
    error = error_in(topic)
    partitions = list(map(PartitionDescription._make, map(_DESCRIBED, topic.partitions)))
    earlier = descriptions.get(topic.name)
    if earlier is not None:
        partitions += earlier.partitions
    partitions.sort(key=_NUMBER)
    descriptions[topic.name] = TopicDescription(
        topic.name, topic_id_text(topic.topic_id), bool(topic.is_internal), tuple(partitions), error
    )


def _describe_by_id(admin: AdminClient, ids: Sequence[str]) -> dict[str, TopicDescription]:
    topics = [{"topic_id": uuid_from_text(text), "name": None} for text in ids]
    response = admin.send(
        ApiKey.METADATA,
        {"topics": topics, "allow_auto_topic_creation": False},
        min_version=FIRST_VERSION_WITH_TOPIC_IDS,
    )
    topics_by_id = {topic_id_text(topic.topic_id): topic for topic in response.topics}
    descriptions = {}
    for text in ids:
        topic = topics_by_id.get(text)
        error = UnknownTopicId() if topic is None else error_in(topic)
        if topic is None or error is not None:
            descriptions[text] = TopicDescription("", text, False, (), error)
        else:
            descriptions[text] = from_metadata(topic)
    return descriptions


def create_topics(
    admin: AdminClient,
    topics: Sequence[NewTopic],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
    retry_on_quota_violation: bool = True,
) -> dict[str, CreatedTopic]:
    """Create topics and return each one's outcome; with `validate_only`, only check whether they could be created.
    Quota errors are retried until the timeout, or with `retry_on_quota_violation` False returned as QuotaExceeded.
    Raises KafkaError when the request itself fails."""
    by_name = {topic.name: topic for topic in topics}

    def once(names: list[str], deadline_ms: int) -> dict[str, CreatedTopic | KafkaError]:
        topics = [_creatable(by_name[name]) for name in names]
        response = _send_topics(admin, ApiKey.CREATE_TOPICS, topics, deadline_ms, validate_only=validate_only)
        return {topic.name: _failure(topic, retry_on_quota_violation) or _created(topic) for topic in response.topics}

    results = admin.retry_items(by_name, once, timeout_ms)
    return {
        name: CreatedTopic(name, result) if isinstance(result, KafkaError) else result
        for name, result in results.items()
    }


def _send_topics(
    admin: AdminClient, api_key: ApiKey, topics: list[Fields], deadline_ms: int, *, validate_only: bool
) -> Entity:
    """Send CreateTopics or CreatePartitions to the controller and return the response."""
    timeout_ms = _request_timeout_ms(admin, deadline_ms)
    fields = {"topics": topics, "validate_only": validate_only, "timeout": timeout_ms}
    return admin.send_to_controller(api_key, fields, deadline_ms)


def _request_timeout_ms(admin: AdminClient, deadline_ms: int) -> int:
    return min(admin.remaining_ms(deadline_ms), int(admin.config.request_timeout_ms))


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
    """Return an item's error or None; a quota error that must not be retried becomes QuotaExceeded."""
    error = error_in(result)
    if isinstance(error, ThrottlingQuotaExceeded) and not retry_on_quota_violation:
        return QuotaExceeded(str(error))
    return error


class QuotaExceeded(ThrottlingQuotaExceeded):
    """The throttling quota has been exceeded, and the caller disabled retries."""

    retriable = False


def delete_topics(admin: AdminClient, names: Sequence[str], *, timeout_ms: int | None = None) -> dict[str, Outcome]:
    """Delete topics by name; return each topic's outcome. Raises KafkaError when the request itself fails."""

    def once(items: list[str], deadline_ms: int) -> dict[str, Outcome | KafkaError]:
        def fields(version: int) -> Fields:
            timeout = _request_timeout_ms(admin, deadline_ms)
            if version >= _FIRST_DELETE_VERSION_WITH_IDS:
                return {"topics": [{"name": name, "topic_id": None} for name in items], "timeout": timeout}
            return {"topic_names": tuple(items), "timeout": timeout}

        response = admin.send_to_controller(ApiKey.DELETE_TOPICS, fields, deadline_ms)
        return {result.name: _failure(result) or Outcome(None) for result in response.responses}

    return filled(admin.retry_items(names, once, timeout_ms), Outcome)


def create_partitions(
    admin: AdminClient,
    partitions: Sequence[NewPartitions],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> dict[str, Outcome]:
    """Raise topics' partition counts; return each topic's outcome. With `validate_only`, only check. Raises KafkaError
    when the request itself fails."""
    by_name = {change.name: change for change in partitions}

    def once(names: list[str], deadline_ms: int) -> dict[str, Outcome | KafkaError]:
        topics = [_more_partitions(by_name[name]) for name in names]
        response = _send_topics(admin, ApiKey.CREATE_PARTITIONS, topics, deadline_ms, validate_only=validate_only)
        return {result.name: _failure(result) or Outcome(None) for result in response.results}

    return filled(admin.retry_items(by_name, once, timeout_ms), Outcome)


def _more_partitions(change: NewPartitions) -> Fields:
    assignments = None
    if change.new_assignments is not None:
        assignments = [{"broker_ids": tuple(brokers)} for brokers in change.new_assignments]
    return {"name": change.name, "count": change.total_count, "assignments": assignments}


def delete_records(
    admin: AdminClient,
    offsets: Mapping[TopicPartition, int],
    *,
    timeout_ms: int | None = None,
    leaderless_ms: int | None = None,
) -> dict[TopicPartition, DeletedRecords]:
    """Delete each partition's records before an offset (-1: the high watermark), on its leader; return the new log
    start offset or the error. `leaderless_ms`: how long to wait for a leader's election, if shorter than
    request.timeout.ms. Raises KafkaError when metadata cannot be fetched."""

    def build(partitions: list[TopicPartition], remaining_ms: int) -> Fields:
        return {
            "topics": topic_fields((key, {"partition_index": key[1], "offset": offsets[key]}) for key in partitions),
            "timeout": min(remaining_ms, admin.config.request_timeout_ms),
        }

    def read(entity: Entity) -> dict[TopicPartition, DeletedRecords | KafkaError]:
        return by_partition(entity.topics, lambda part: error_in(part) or DeletedRecords(part.low_watermark, None))

    request = LeaderRequest(ApiKey.DELETE_RECORDS, build, read)
    results = send_to_leaders(admin, offsets, request, timeout_ms, leaderless_ms)
    return filled(results, lambda error: DeletedRecords(-1, error))
