"""Metadata (key 3), versions 0-13.

Topics by name, by id (from version 10), or all. A missing topic is created when the request and
auto.create.topics.enable allow it: the answer is then LEADER_NOT_AVAILABLE or the reason, as in Kafka's
AutoTopicCreationManager; the client asks again.
Not done: authorized operations (no authorizer here: the field keeps its default), listeners other than the one asked
on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller import topics
from kafkatools.core.broker.controller.metadata_image import INTERNAL_TOPICS, TopicState
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import (
    InvalidReplicationFactor,
    InvalidTopic,
    KafkaError,
    LeaderNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 13)
NONE = 0


def handle(node: Node, request: Request) -> Response:
    """Brokers and topics."""
    entity = request.decode()
    version = request.version
    image = node.controller.image
    wanted = entity.topics
    if wanted is None or (version == 0 and not wanted):
        found = [topic_fields(topic, NONE) for topic in image.topics.values()]
    else:
        allow = version < 4 or entity.allow_auto_topic_creation
        found = [_topic(node, each, allow) for each in wanted]
    broker = {"node_id": node.node_id, "host": node.advertised_host, "port": node.advertised_port, "rack": None}
    if version < 12:
        found = [{**each, "name": each["name"] or ""} for each in found]
    return request.respond(
        {"brokers": [broker], "topics": found, "controller_id": node.node_id, "cluster_id": node.cluster_id}
    )


def _topic(node: Node, wanted: Any, allow_creation: bool) -> dict[str, Any]:
    image = node.controller.image
    topic_id = getattr(wanted, "topic_id", None)
    if wanted.name is None or (topic_id is not None and not wanted.name):
        found = image.topics_by_id.get(topic_id) if topic_id is not None else None
        return topic_fields(found, NONE) if found else _missing(None, topic_id, UnknownTopicId.code)
    name = wanted.name
    topic = image.topics.get(name)
    if topic is not None:
        return topic_fields(topic, NONE)
    if allow_creation and node.controller.effective_config.auto_create_topics_enable:
        return _missing(name, None, auto_create(node, name))
    try:
        topics.validate_name(name)
    except InvalidTopic as error:
        return _missing(name, None, error.code)
    return _missing(name, None, UnknownTopicOrPartition.code)


def auto_create(node: Node, name: str) -> int:
    """Create a topic a client asked for; the error code to answer now."""
    if name in INTERNAL_TOPICS:
        return UnknownTopicOrPartition.code
    result = node.controller.create_topics([topics.NewTopic(name)])[name]
    if isinstance(result, InvalidReplicationFactor):
        return InvalidReplicationFactor.code
    return result.code if isinstance(result, KafkaError) else LeaderNotAvailable.code


def topic_fields(topic: TopicState, error_code: int) -> dict[str, Any]:
    """A topic with all fields of the newest version."""
    return {
        "error_code": error_code,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [
            {
                "error_code": NONE if partition.leader >= 0 else LeaderNotAvailable.code,
                "partition_index": index,
                "leader_id": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replica_nodes": partition.replicas,
                "isr_nodes": partition.isr,
                "offline_replicas": [],
            }
            for index, partition in sorted(topic.partitions.items())
        ],
    }


def _missing(name: str | None, topic_id: Any, error_code: int) -> dict[str, Any]:
    return {
        "error_code": error_code,
        "name": name,
        "topic_id": topic_id,
        "is_internal": name in INTERNAL_TOPICS,
        "partitions": [],
    }
