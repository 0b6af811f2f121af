"""Handlers for topics and their records: CreateTopics, DeleteTopics, CreatePartitions, DeleteRecords."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kafkatools.core.broker.apis.contexts import ChangeContext, ReplicaContext
from kafkatools.core.broker.metadata.config_entries import describe_values
from kafkatools.core.broker.metadata.controller.acls import (
    ALTER,
    CLUSTER,
    CLUSTER_NAME,
    CREATE,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    TOPIC,
)
from kafkatools.core.broker.metadata.controller.topics import METADATA_TOPIC, NewTopic
from kafkatools.core.broker.metadata.image import INTERNAL_TOPICS, TopicState
from kafkatools.core.broker.replicas.delayed_delete_records import DeleteRecordsStatus
from kafkatools.core.broker.replicas.delayed_produce import DelayedProduce
from kafkatools.core.broker.replicas.replica_manager import error_code_of
from kafkatools.core.broker.server.mutation_quotas import MutationQuota
from kafkatools.core.broker.server.requests import DELAYED, Request, Response, error_fields
from kafkatools.core.errors import (
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    TopicAuthorizationFailed,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.messages import Shared
from kafkatools.core.protocol.slices import paced

NameAndId = tuple[str | None, uuid.UUID | None]
ConfigItems = tuple[tuple[str, str], ...]
MOST_DESCRIBED = 100
CREATE_TOPICS_STRICT, DELETE_TOPICS_STRICT, CREATE_PARTITIONS_STRICT = 6, 5, 3
"""The versions from which on clients know THROTTLING_QUOTA_EXCEEDED (KIP-599)."""
_Outcome = DeleteRecordsStatus | int


def handle_create_topics(node: ChangeContext, request: Request) -> Response:
    """Answer CreateTopics: create topics, one result per distinct name; a name that is there twice has INVALID_REQUEST.

    A request may assign replicas, use defaults (-1), set configs, and validate only. From version 5 on the results have
    the configs of new topics, if the client has DESCRIBE_CONFIGS. Needs CREATE on the cluster or the topic. The quota
    controller_mutation_rate is strict from version 6 on. Not done: CreateTopicPolicy.
    """
    entity = request.decode()
    counts = Counter(topic.name for topic in entity.topics)
    may_create = node.authorize(request, CREATE, CLUSTER, CLUSTER_NAME)
    responses: dict[str, Fields] = {}
    allowed = []
    for topic in paced(entity.topics):
        if counts[topic.name] > 1:
            responses[topic.name] = _refused_topic(topic.name, InvalidRequest("Duplicate topic name."))
        elif topic.name != METADATA_TOPIC and not (may_create or node.authorize(request, CREATE, TOPIC, topic.name)):
            responses[topic.name] = _refused_topic(topic.name, TopicAuthorizationFailed("Authorization failed."))
        else:
            assignments = (
                (assignment.partition_index, tuple(assignment.broker_ids)) for assignment in topic.assignments
            )
            configs = {config.name: config.value for config in topic.configs}
            numbers = topic.num_partitions, topic.replication_factor
            allowed.append(NewTopic(topic.name, *numbers, tuple(assignments), configs))
    quota = node.mutation_quotas.of(request, CREATE_TOPICS_STRICT)
    results = node.controller.create_topics(allowed, validate_only=entity.validate_only, charge=quota.charge)
    overrides = {topic.name: topic.configs for topic in allowed}
    described: dict[ConfigItems, Shared] = {}

    def describe(name: str) -> Fields:
        return _created_topic(node, request, results[name], overrides[name], name, described)

    return _respond(request, quota, {"topics": _Described(list(responses.values()), list(results), describe)})


def _respond(request: Request, quota: MutationQuota, fields: Fields) -> Response:
    """Respond with the throttle time of a quota of changes, for which the connection is then not read."""
    request.throttle_ms = max(request.throttle_ms, quota.throttle_ms)
    return request.respond({"throttle_time": request.throttle_ms, **fields})


class _Described:
    """The topics of a CreateTopics response. Each is described when it is written: the entries of all settings of
    thousands of topics at once would take long to free, without a pause."""

    def __init__(self, refused: Sequence[Fields], names: Sequence[str], describe: Callable[[str], Fields]) -> None:
        self._refused = refused
        self._names = names
        self._describe = describe

    def __len__(self) -> int:
        return len(self._refused) + len(self._names)

    def __iter__(self) -> Iterator[Fields]:
        yield from self._refused
        yield from map(self._describe, self._names)


def _refused_topic(name: str, error: KafkaError) -> Fields:
    return {"name": name, **error_fields(error), "configs": []}


def _created_topic(
    node: ChangeContext,
    request: Request,
    result: TopicState | KafkaError,
    overrides: Mapping[str, str | None],
    name: str,
    described: dict[ConfigItems, Shared],
) -> Fields:
    """Return the response for one topic. `described` has the entries of all settings, by the topics' own settings."""
    if isinstance(result, KafkaError):
        return _refused_topic(name, result)
    response: Fields = {"name": name, "topic_id": result.topic_id}
    if not node.authorize(request, DESCRIBE_CONFIGS, TOPIC, name):
        return {**response, "configs": [], "topic_config_error_code": TopicAuthorizationFailed.code}
    configs = {key: value for key, value in overrides.items() if value is not None}
    items = tuple(configs.items())
    entries = described.get(items)
    if entries is None:
        entries = Shared(describe_values(configs, node.controller.settings, None))
        if len(described) < MOST_DESCRIBED:
            described[items] = entries
    return {
        **response,
        "num_partitions": len(result.partitions),
        "replication_factor": len(result.partitions[0].replicas),
        "configs": entries,
    }


def handle_delete_topics(node: ChangeContext, request: Request) -> Response:
    """Answer DeleteTopics: delete topics by name, or from version 6 on by id, one result per distinct topic.

    Needs DELETE on the cluster or the topic. A topic that the client may not describe either has only the name or id
    that the request contains (ControllerApis.deleteTopics). With delete.topic.enable=false the error is
    TOPIC_DELETION_DISABLED. The files are removed after file.delete.delay.ms. The quota controller_mutation_rate is
    strict from version 5 on.
    """
    entity = request.decode()
    if request.version >= 6:
        topics: list[NameAndId] = [(topic.name, topic.topic_id) for topic in entity.topics]
    else:
        topics = [(name, None) for name in entity.topic_names]
    ids = {topic_id for name, topic_id in topics if name is None and topic_id is not None}
    counts = Counter(topics)
    responses: dict[NameAndId, Fields] = {}
    quota = node.mutation_quotas.of(request, DELETE_TOPICS_STRICT)
    for topic in paced(sorted(counts, key=lambda topic: topic[0] is None)):
        response = _delete_topic(node, request, topic, counts, ids, quota)
        if not (topic[0] is None and _is_named_too(node, topic[1], counts)):
            responses[topic] = response
    return _respond(request, quota, {"responses": list(responses.values())})


def _is_named_too(node: ChangeContext, topic_id: uuid.UUID | None, counts: Mapping[NameAndId, int]) -> bool:
    """Return whether the topic with this id is in the request by name as well: one result then stands for both."""
    topic = None if topic_id is None else node.controller.image.topics_by_id.get(topic_id)
    return topic is not None and (topic.name, None) in counts


def _delete_topic(
    node: ChangeContext,
    request: Request,
    requested: NameAndId,
    counts: Mapping[NameAndId, int],
    ids: set[uuid.UUID],
    quota: MutationQuota,
) -> Fields:
    name, topic_id = requested
    try:
        if not node.controller.effective_config.delete_topic_enable:
            raise TopicDeletionDisabled()
        if name is not None and topic_id is not None:
            raise InvalidRequest("You may not specify both topic name and topic id.")
        if counts[requested] > 1:
            raise InvalidRequest("Duplicate topic name." if name is not None else "Duplicate topic id.")
        name, topic_id = _permitted(node, request, name, topic_id)
        if requested[0] is not None and topic_id in ids:
            raise InvalidRequest("The provided topic name maps to an ID that was already supplied.")
        if requested[0] is None and _is_named_too(node, topic_id, counts):
            return {}
        node.controller.delete_topic(*requested, quota.charge)
    except _Denied as denied:
        return {"name": denied.name, "topic_id": denied.topic_id, **error_fields(TopicAuthorizationFailed())}
    except KafkaError as error:
        return {"name": name, "topic_id": topic_id, **error_fields(error)}
    return {"name": name, "topic_id": topic_id}


class _Denied(Exception):
    """The client may not delete a topic. `name` and `topic_id` are what the response may reveal of it."""

    def __init__(self, name: str | None, topic_id: uuid.UUID | None) -> None:
        super().__init__()
        self.name, self.topic_id = name, topic_id


def _permitted(
    node: ChangeContext, request: Request, name: str | None, topic_id: uuid.UUID | None
) -> tuple[str | None, uuid.UUID | None]:
    """Name and id of a topic that the client may delete. Raises InvalidRequest, UnknownTopicId, UnknownTopicOrPartition
    or _Denied."""
    image = node.controller.image
    if name is None and topic_id is None:
        raise InvalidRequest("Neither topic name nor id were specified.")
    topic = image.topics.get(name) if name is not None else image.topics_by_id.get(topic_id)  # type: ignore[arg-type]
    if topic is None and name is None:
        raise UnknownTopicId()
    real_name = name if topic is None else topic.name
    assert real_name is not None
    if not node.authorize(request, DELETE, CLUSTER, CLUSTER_NAME):
        if not node.authorize(request, DESCRIBE, TOPIC, real_name):
            raise _Denied(name, topic_id)
        if not node.authorize(request, DELETE, TOPIC, real_name):
            raise _Denied(real_name, None if topic is None else topic.topic_id)
    if topic is None:
        raise UnknownTopicOrPartition()
    return topic.name, topic.topic_id


def handle_create_partitions(node: ChangeContext, request: Request) -> Response:
    """Answer CreatePartitions: add partitions to topics, or with `validate_only` check that; one result per distinct
    topic. A topic that is named twice has INVALID_REQUEST. Needs ALTER on the topic. The quota controller_mutation_rate
    is strict from version 3 on."""
    entity = request.decode()
    counts = Counter(topic.name for topic in entity.topics)
    results: dict[str, dict[str, Any]] = {}
    quota = node.mutation_quotas.of(request, CREATE_PARTITIONS_STRICT)
    for topic in paced(entity.topics):
        response = {"name": topic.name}
        try:
            if counts[topic.name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            node.authorize_or_raise(request, ALTER, TOPIC, topic.name)
            assignments = topic.assignments
            if assignments is not None:
                assignments = [tuple(assignment.broker_ids) for assignment in assignments]
            node.controller.create_partitions(
                topic.name, topic.count, assignments, validate_only=entity.validate_only, charge=quota.charge
            )
        except (UnknownTopicOrPartition, TopicAuthorizationFailed) as error:
            response["error_code"] = error.code
        except KafkaError as error:
            response.update(error_fields(error))
        results[topic.name] = response
    return _respond(request, quota, {"results": list(results.values())})


def handle_delete_records(node: ReplicaContext, request: Request) -> Response:
    """Answer DeleteRecords: advance the log start offset of partitions to an offset, or to the high watermark for -1.

    The response has the new low watermark of each partition, -1 with an error. It is sent when the log of every alive
    replica begins there, or when the request's time-out has passed. Needs DELETE on the topic; internal topics have
    INVALID_TOPIC_EXCEPTION.
    """
    entity = request.decode()
    outcomes = [
        (
            topic.name,
            [(part.partition_index, _delete_before(node, request, topic.name, part)) for part in topic.partitions],
        )
        for topic in entity.topics
    ]
    statuses = [
        status for _, partitions in outcomes for _, status in partitions if isinstance(status, DeleteRecordsStatus)
    ]
    if all([status.update() for status in statuses]):
        return _answer_deletions(request, outcomes)
    timeout_ms: int = entity.timeout
    operation = DelayedProduce(timeout_ms, statuses, lambda _: request.complete(_answer_deletions(request, outcomes)))
    deletes = node.replicas.deletes
    assert deletes is not None, "only a follower can be waited for"
    deletes.try_complete_else_watch(operation, [status.partition.key for status in statuses], node.clock.now_ms())
    return DELAYED


def _delete_before(node: ReplicaContext, request: Request, topic: str, requested: Any) -> _Outcome:
    """Advance a partition's log start offset; returns the state to wait for, or an error code."""
    try:
        node.authorize_or_raise(request, DELETE, TOPIC, topic)
        partition = node.replicas.get(topic, requested.partition_index)
        if topic in INTERNAL_TOPICS:
            raise InvalidTopic(f"Cannot delete records of internal topic {topic}")
        required = partition.log.high_watermark if requested.offset == -1 else requested.offset
        partition.delete_records(requested.offset)
        node.replicas.note_high_watermark(partition)
    except Exception as error:  # noqa: BLE001 - boundary: one partition's failure is its own answer
        node.note_failure(error)
        return error_code_of(error)
    return DeleteRecordsStatus(partition, required)


def _answer_deletions(request: Request, outcomes: list[tuple[str, list[tuple[int, _Outcome]]]]) -> Response:
    topics = [
        {"name": name, "partitions": [_deletion_result(index, outcome) for index, outcome in partitions]}
        for name, partitions in outcomes
    ]
    return request.respond({"topics": topics})


def _deletion_result(index: int, outcome: _Outcome) -> Fields:
    if isinstance(outcome, int):
        return {"partition_index": index, "low_watermark": -1, "error_code": outcome}
    return {"partition_index": index, "low_watermark": outcome.low_watermark, "error_code": outcome.error_code}
