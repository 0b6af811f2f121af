"""Handlers for topics and brokers as clients see them: Metadata, DescribeTopicPartitions."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from kafkatools.core.broker.apis.contexts import MetadataContext
from kafkatools.core.broker.metadata.controller import topics
from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, CREATE, DESCRIBE, TOPIC
from kafkatools.core.broker.metadata.image import INTERNAL_TOPICS, TopicState
from kafkatools.core.broker.server.alive_brokers import AliveBrokers, partition_fields
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    InvalidRequest,
    InvalidTopic,
    KafkaError,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.slices import paced, pausing

NONE = 0


def handle_metadata(node: MetadataContext, request: Request) -> Response:
    """Answer Metadata: the brokers on the client's listener, and topics by name, by id (from version 10 on) or all.

    When a request has a topic id, only ids count. A missing topic is created if the request, auto.create.topics.enable
    and the client's CREATE right allow that. Its error code is then UNKNOWN_TOPIC_OR_PARTITION until the client asks
    again, as in Kafka's AutoTopicCreationManager. A topic without name and id, or with an id before version 12, fails
    the whole request. Topics that the client may not describe are left out of a list of all topics. By name they have
    TOPIC_AUTHORIZATION_FAILED, whether they exist or not. The controller id is this node's. Not done: brokers on
    listeners other than the client's.
    """
    entity = request.decode()
    version = request.version
    requested = entity.topics
    alive = AliveBrokers(node.image, request.listener_name)
    if requested is None or (version == 0 and not requested):
        topics = [
            topic_fields(topic, alive, version)
            for topic in paced(list(node.image.topics.values()))
            if node.authorize(request, DESCRIBE, TOPIC, topic.name)
        ]
    else:
        error = _invalid(requested, version)
        if error is not None:
            invalid_topics = [
                {**_missing(topic.name, error.code), "name": topic.name or "", "topic_id": topic.topic_id}
                for topic in requested
            ]
            return request.respond({"topics": invalid_topics, "error_code": error.code})
        topics = _requested_topics(node, request, requested, alive, allow_creation=entity.allow_auto_topic_creation)
    if entity.include_topic_authorized_operations:
        for topic in paced(topics):
            if topic["error_code"] != TopicAuthorizationFailed.code:
                topic["topic_authorized_operations"] = node.authorized_operations(request, TOPIC, topic["name"] or "")
    brokers = []
    for broker in alive.named_by(node.node_id):
        host, port = alive.addresses[broker.broker_id]
        brokers.append({"node_id": broker.broker_id, "host": host, "port": port, "rack": broker.rack})
    fields: Fields = {
        "brokers": brokers,
        "topics": topics if version >= 12 else [{**topic, "name": topic["name"] or ""} for topic in topics],
        "controller_id": node.node_id,
        "cluster_id": node.cluster_id,
    }
    if entity.include_cluster_authorized_operations:
        is_allowed = node.authorize(request, DESCRIBE, CLUSTER, CLUSTER_NAME)
        operations = node.authorized_operations(request, CLUSTER, CLUSTER_NAME) if is_allowed else 0
        fields["cluster_authorized_operations"] = operations
    return request.respond(fields)


def _invalid(topics: Sequence[Any], version: int) -> KafkaError | None:
    """The error that fails a whole Metadata request because of one of its topics; None for a valid request."""
    for topic in paced(topics):
        if version < 12 and (topic.name is None or topic.topic_id is not None):
            return InvalidRequest()
        if topic.name is None and topic.topic_id is None:
            return UnknownServerError()
    return None


def _requested_topics(
    node: MetadataContext, request: Request, requested: Sequence[Any], alive: AliveBrokers, *, allow_creation: bool
) -> list[Fields]:
    ids = dict.fromkeys(topic_id for topic in requested if (topic_id := topic.topic_id) is not None)
    if ids:
        return [_by_id(node, request, topic_id, alive) for topic_id in paced(ids)]
    names = dict.fromkeys(topic.name for topic in requested)
    return [_by_name(node, request, name, alive, allow_creation=allow_creation) for name in paced(names)]


def _by_id(node: MetadataContext, request: Request, topic_id: uuid.UUID, alive: AliveBrokers) -> Fields:
    topic = node.image.topics_by_id.get(topic_id)
    if topic is None:
        return {**_missing(None, UnknownTopicId.code), "topic_id": topic_id}
    if not node.authorize(request, DESCRIBE, TOPIC, topic.name):
        return {**_missing(None, TopicAuthorizationFailed.code), "topic_id": topic_id}
    return topic_fields(topic, alive, request.version)


def _by_name(
    node: MetadataContext, request: Request, name: str, alive: AliveBrokers, *, allow_creation: bool
) -> Fields:
    if not node.authorize(request, DESCRIBE, TOPIC, name):
        return {**_missing(name, TopicAuthorizationFailed.code), "is_internal": False}
    topic = node.image.topics.get(name)
    if topic is not None:
        return topic_fields(topic, alive, request.version)
    if allow_creation and node.broker_settings.effective().auto_create_topics_enable:
        may_create = node.authorize(request, CREATE, CLUSTER, CLUSTER_NAME)
        if not may_create and not node.authorize(request, CREATE, TOPIC, name):
            return {**_missing(name, TopicAuthorizationFailed.code), "is_internal": False}
        return _missing(name, auto_create(node, name))
    return _missing(name, _missing_code(name))


def _missing_code(name: str) -> int:
    """INVALID_TOPIC_EXCEPTION for a name that no topic can have, else UNKNOWN_TOPIC_OR_PARTITION."""
    try:
        topics.validate_name(name)
    except InvalidTopic as error:
        return error.code
    return UnknownTopicOrPartition.code


def auto_create(node: MetadataContext, name: str) -> int:
    """Create a topic on behalf of a client, unless it is internal. Returns the error code for the Metadata response:
    the reason why the topic cannot be created, else UNKNOWN_TOPIC_OR_PARTITION, after which clients ask again."""
    if name in INTERNAL_TOPICS or name == topics.METADATA_TOPIC:
        return UnknownTopicOrPartition.code
    with pausing(None):
        result = node.create_topic_later(topics.NewTopic(name))
    if isinstance(result, KafkaError) and not isinstance(result, TopicAlreadyExists):
        return result.code
    return UnknownTopicOrPartition.code


def topic_fields(topic: TopicState, alive: AliveBrokers, version: int, indexes: Iterable[int] | None = None) -> Fields:
    """The fields of a topic for the newest version of a Metadata response, with the partitions of `indexes`; None: all.
    `version` is the request's, by which the error of a partition without a leader is chosen."""
    partitions = topic.partitions
    return {
        "error_code": NONE,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [
            partition_fields(index, partitions[index], alive, version)
            for index in (sorted(partitions) if indexes is None else indexes)
        ],
    }


def _missing(name: str | None, error_code: int) -> Fields:
    return {"error_code": error_code, "name": name, "is_internal": name in INTERNAL_TOPICS}


def handle_describe_topic_partitions(node: MetadataContext, request: Request) -> Response:
    """Answer DescribeTopicPartitions: one page of topics in the order of their names (KIP-966).

    A page has at most as many partitions as the request and max.request.partition.size.limit allow, and a cursor where
    the next page begins. Named topics that the client may not describe come last. For an invalid cursor every named
    topic has INVALID_REQUEST.
    """
    entity = request.decode()
    image = node.image
    requested = {topic.name for topic in entity.topics}
    names = sorted(requested or image.topics)
    cursor = entity.cursor
    first_partition = 0
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
        if cursor.partition_index < 0 or (requested and cursor.topic_name not in names):
            code = InvalidRequest.code
            return request.respond({"topics": [{"error_code": code, "name": topic.name} for topic in entity.topics]})
        if names and names[0] == cursor.topic_name:
            first_partition = cursor.partition_index
    allowed = dict.fromkeys(name for name in paced(names) if node.authorize(request, DESCRIBE, TOPIC, name))
    limit = max(1, min(entity.response_partition_limit, node.config.max_request_partition_size_limit))
    topics, next_cursor = _page(node, list(allowed), first_partition, limit, AliveBrokers(image, request.listener_name))
    for topic in topics:
        topic["topic_authorized_operations"] = node.authorized_operations(request, TOPIC, topic["name"])
    if requested:
        refused = [name for name in names if name not in allowed]
        topics += [{"error_code": TopicAuthorizationFailed.code, "name": name} for name in refused]
    return request.respond({"topics": topics, "next_cursor": next_cursor})


def _page(
    node: MetadataContext, names: list[str], first: int, limit: int, alive: AliveBrokers
) -> tuple[list[Fields], Fields | None]:
    topics: list[Fields] = []
    remaining = limit
    for name in paced(names):
        if remaining == 0:
            return topics, {"topic_name": name, "partition_index": 0}
        topic, following = _topic(node, name, first, remaining, alive)
        remaining -= len(topic["partitions"])
        topics.append(topic)
        first = 0
        if following is not None:
            return topics, {"topic_name": name, "partition_index": following}
    return topics, None


def _topic(node: MetadataContext, name: str, first: int, limit: int, alive: AliveBrokers) -> tuple[Fields, int | None]:
    topic = node.image.topics.get(name)
    if topic is None:
        return {"error_code": _missing_code(name), "name": name, "partitions": []}, None
    indexes = sorted(topic.partitions)
    if first:
        indexes = [index for index in indexes if index >= first]
    fields = topic_fields(topic, alive, ApiKey.METADATA.last_version, indexes[:limit])
    return fields, indexes[limit] if len(indexes) > limit else None
