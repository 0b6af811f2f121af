"""Handlers for offsets of share groups (KIP-932): DescribeShareGroupOffsets and those that alter and delete them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kafkatools.core.broker.apis.contexts import ShareContext
from kafkatools.core.broker.apis.share.groups import ensure_enabled
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.share.group import ShareGroup
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey, ShareState
from kafkatools.core.broker.metadata.controller.acls import DELETE, DESCRIBE, GROUP, READ, TOPIC
from kafkatools.core.broker.metadata.image import NO_LEADER, TopicState
from kafkatools.core.broker.replicas.partition import LATEST_TIMESTAMP
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.requests import Request, Response, error_fields, outcome_fields
from kafkatools.core.errors import KafkaError, TopicAuthorizationFailed, UnknownTopicOrPartition, error_for_code
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields, result_of

UNKNOWN = -1
NOTHING_KEPT = "There is no offset information to delete."


def handle_describe_share_group_offsets(node: ShareContext, request: Request) -> Response:
    """Answer DescribeShareGroupOffsets: start offset and lag of the named share partitions, or of all that are
    initialized, by group (KIP-1226).

    An unknown start offset is -1, and the lag is then unknown too. Groups and partitions have error codes of their own.
    """
    entity = request.decode()
    later = Deferred(request)
    places: Places = []
    groups = [_group(node, request, group, places) for group in entity.groups]
    _fill(node, places, lambda: later.respond({"groups": groups}))
    return later.result()


Places = list[tuple[ShareKey, Fields]]
"""The share partitions, each with the fields of its result, which are not complete yet."""


def _group(node: ShareContext, request: Request, requested: Entity, places: Places) -> Fields:
    group_id = requested.group_id
    description: Fields = {"group_id": group_id}
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, DESCRIBE, GROUP, group_id)
        node.groups.ensure_active(group_id)
        if requested.topics is not None:
            description["topics"] = _requested_topics(node, request, requested, places)
        elif group_id in node.groups.groups:
            description["topics"] = _all(node, request, node.groups.share.find(group_id), places)
    except KafkaError as error:
        description.update(error_code=error.code, error_message=str(error))
    return description


def _all(node: ShareContext, request: Request, group: ShareGroup, places: Places) -> list[Fields]:
    return [
        _described_topic(group.group_id, topic, sorted(partitions), places)
        for topic_id, (name, partitions) in group.states.initialized.items()
        if (topic := node.image.topics_by_id.get(topic_id)) is not None
        and node.authorize(request, DESCRIBE, TOPIC, name)
    ]


def _requested_topics(node: ShareContext, request: Request, requested: Entity, places: Places) -> list[Fields]:
    topics = []
    for name, indexes in ((topic.topic_name, topic.partitions) for topic in requested.topics):
        topic = node.image.topics.get(name)
        is_allowed = node.authorize(request, DESCRIBE, TOPIC, name)
        if topic is not None and is_allowed:
            topics.append(_described_topic(requested.group_id, topic, indexes, places))
            continue
        fields = error_fields(UnknownTopicOrPartition() if is_allowed else TopicAuthorizationFailed())
        partitions = [{"partition_index": index, "start_offset": UNKNOWN, **fields} for index in indexes]
        topics.append({"topic_name": name, "partitions": partitions})
    return topics


def _described_topic(group_id: str, topic: TopicState, indexes: Iterable[int], places: Places) -> Fields:
    partitions = [{"partition_index": index, "start_offset": UNKNOWN} for index in indexes]
    places += [(ShareKey(group_id, topic.topic_id, fields["partition_index"]), fields) for fields in partitions]
    return {"topic_name": topic.name, "topic_id": topic.topic_id, "partitions": partitions}


def _fill(node: ShareContext, places: Places, on_filled: Callable[[], None]) -> None:
    """Fill the results in `places` with the state of their share partitions, then call `on_filled`."""
    pending_count = [len(places) + 1]

    def filled() -> None:
        pending_count[0] -= 1
        if not pending_count[0]:
            on_filled()

    for key, description in places:
        node.coordination.persister.summary(key, partial(_take, node, key, description, filled))
    filled()


def _take(
    node: ShareContext,
    key: ShareKey,
    description: Fields,
    filled: Callable[[], None],
    error: KafkaError | None,
    state: ShareState | None,
) -> None:
    if error is not None:
        description.update(error_code=error.code, error_message=str(error))
    elif state is not None:
        description.update(start_offset=state.start_offset, leader_epoch=state.leader_epoch)
        if state.start_offset != UNKNOWN and state.delivery_complete_count != UNKNOWN:
            delivered = state.start_offset + state.delivery_complete_count

            def take_end(end: int | None) -> None:
                if end is not None:
                    description["lag"] = max(0, end - delivered)
                filled()

            _latest(node, key, take_end)
            return
    filled()


def _latest(node: ShareContext, key: ShareKey, on_offset: Callable[[int | None], None]) -> None:
    """Call `on_offset` with the high watermark of a partition from its leader, now or later; with None without a leader
    or a response, or after an error."""
    topic = node.image.topics_by_id.get(key.topic_id)
    state = None if topic is None else topic.partitions.get(key.partition)
    if topic is None or state is None or state.leader == NO_LEADER:
        on_offset(None)
        return
    channel = node.coordination.host.channel
    if state.leader == node.node_id or channel is None:
        try:
            on_offset(node.share_partitions.log_partition(key).log.high_watermark)
        except KafkaError:
            on_offset(None)
        return
    partition = {"partition_index": key.partition, "current_leader_epoch": -1, "timestamp": LATEST_TIMESTAMP}
    fields = {
        "replica_id": -1,
        "topics": [{"name": topic.name, "partitions": [partition]}],
        "timeout": node.config.request_timeout_ms,
    }

    def on_response(response: Any | None) -> None:
        result = None if response is None else result_of(response.topics, (topic.name, key.partition))
        on_offset(None if result is None or result.error_code else result.offset)

    channel.send(state.leader, ApiKey.LIST_OFFSETS, fields, on_response)


def handle_alter_share_group_offsets(node: ShareContext, request: Request) -> Response:
    """Answer AlterShareGroupOffsets: set start offsets of an empty share group, one result per partition (KIP-932). An
    error of the group, such as NON_EMPTY_GROUP, fails the whole request. Responds when the group's records are
    committed."""
    entity = request.decode()
    later = Deferred(request)
    try:
        _ensure_may_change(node, request, READ, entity.group_id)
        offsets, refused = _requested_offsets(node, request, entity)

        def respond(error: KafkaError | None) -> None:
            if error is not None:
                later.respond(failed(error))
                return
            responses = [_altered_topic(node, topic, refused) for topic in entity.topics]
            respond_when_committed(node, entity.group_id, later, responses)

        node.groups.share_offsets.alter(entity.group_id, offsets, respond)
    except KafkaError as error:
        later.respond(failed(error))
    return later.result()


def _ensure_may_change(node: ShareContext, request: Request, operation: int, group_id: str) -> None:
    """Raise UnsupportedVersion without share groups, GroupAuthorizationFailed, or a coordinator error if the group is
    not active here."""
    ensure_enabled(node)
    node.authorize_or_raise(request, operation, GROUP, group_id)
    node.groups.ensure_active(group_id)


def failed(error: KafkaError) -> Fields:
    """The fields of a response with an error for the whole request; the code is one that clients of a coordinator
    know."""
    return {"error_code": coordinator_error_code(error), "error_message": str(error)}


def respond_when_committed(node: ShareContext, group_id: str, later: Deferred, responses: list[Fields]) -> None:
    """Respond with these results when all records of the group are committed, or with an error if that fails."""

    def committed(code: int) -> None:
        if code:
            later.respond(failed(error_for_code(code)()))
        else:
            later.respond({"responses": responses})

    node.coordination.groups.when_committed(group_id, committed)


def _requested_offsets(
    node: ShareContext, request: Request, entity: Entity
) -> tuple[dict[str, dict[int, int]], dict[tuple[str, int], KafkaError]]:
    """The requested start offsets by topic and partition, and the errors of the partitions that cannot be set."""
    offsets: dict[str, dict[int, int]] = {}
    refused: dict[tuple[str, int], KafkaError] = {}
    for topic in entity.topics:
        image = node.image.topics.get(topic.topic_name)
        is_allowed = node.authorize(request, READ, TOPIC, topic.topic_name)
        for partition in topic.partitions:
            place = (topic.topic_name, partition.partition_index)
            if not is_allowed:
                refused[place] = TopicAuthorizationFailed()
            elif image is None or partition.partition_index not in image.partitions:
                refused[place] = UnknownTopicOrPartition()
            else:
                offsets.setdefault(topic.topic_name, {})[partition.partition_index] = partition.start_offset
    return offsets, refused


def _altered_topic(node: ShareContext, topic: Entity, refused: dict[tuple[str, int], KafkaError]) -> Fields:
    name = topic.topic_name
    image = node.image.topics.get(name)
    partitions = [
        {"partition_index": index, **outcome_fields(refused.get((name, index)))}
        for index in (partition.partition_index for partition in topic.partitions)
    ]
    return {"topic_name": name, "topic_id": None if image is None else image.topic_id, "partitions": partitions}


def handle_delete_share_group_offsets(node: ShareContext, request: Request) -> Response:
    """Answer DeleteShareGroupOffsets: delete topics' offsets in an empty share group, one result per topic (KIP-932).

    A topic without offsets has UNKNOWN_TOPIC_OR_PARTITION. An error of the group fails the whole request. Responds when
    the group's records are committed.
    """
    entity = request.decode()
    later = Deferred(request)
    try:
        _ensure_may_change(node, request, DELETE, entity.group_id)
        names = [topic.topic_name for topic in entity.topics]
        refused: dict[str, KafkaError] = {}
        for name in names:
            if not node.authorize(request, READ, TOPIC, name):
                refused[name] = TopicAuthorizationFailed()
            elif name not in node.image.topics:
                refused[name] = UnknownTopicOrPartition()

        def respond(error: KafkaError | None, missing: list[str]) -> None:
            if error is not None:
                later.respond(failed(error))
                return
            refused.update({name: UnknownTopicOrPartition(NOTHING_KEPT) for name in missing})
            responses = []
            for name in names:
                topic = None if name in refused else node.image.topics.get(name)
                topic_id = None if topic is None else topic.topic_id
                responses.append({"topic_name": name, "topic_id": topic_id, **outcome_fields(refused.get(name))})
            respond_when_committed(node, entity.group_id, later, responses)

        allowed = [name for name in names if name not in refused]
        node.groups.share_offsets.delete(entity.group_id, allowed, respond)
    except KafkaError as error:
        later.respond(failed(error))
    return later.result()
