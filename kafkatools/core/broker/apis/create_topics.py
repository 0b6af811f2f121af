"""CreateTopics (key 19), versions 2-7.

Manual assignments, defaults (-1), settings, validate only; the settings of the new topic from version 5 on. Needs
CREATE on the cluster or on the topic; without DESCRIBE_CONFIGS the answer says nothing about the new topic.
Not done: CreateTopicPolicy, controller mutation quotas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.config_entries import describe_values
from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, CREATE, DESCRIBE_CONFIGS, TOPIC
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.metadata.controller.topics import METADATA_TOPIC, NewTopic
from kafkatools.core.broker.metadata.image import TopicState
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import InvalidRequest, KafkaError, TopicAuthorizationFailed

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

_NOTHING = {"num_partitions": -1, "replication_factor": -1}


def handle(node: Node, request: Request) -> Response:
    """Create, and say of each topic how it went."""
    entity = request.decode()
    counts = Counter(topic.name for topic in entity.topics)
    may_create = node.authorize(request, CREATE, CLUSTER, CLUSTER_NAME)
    answers: dict[str, dict[str, Any]] = {}
    wanted = []
    for topic in entity.topics:
        if counts[topic.name] > 1:
            answers[topic.name] = _refused(topic.name, InvalidRequest("Duplicate topic name."))
        elif topic.name != METADATA_TOPIC and not (may_create or node.authorize(request, CREATE, TOPIC, topic.name)):
            answers[topic.name] = _refused(topic.name, TopicAuthorizationFailed("Authorization failed."))
        else:
            wanted.append(_new_topic(topic))
    results = node.controller.create_topics(wanted, validate_only=entity.validate_only)
    overrides = {topic.name: topic.configs for topic in wanted}
    for name, result in results.items():
        answers[name] = _result(node, request, result, overrides[name], name)
    return request.respond({"topics": list(answers.values())})


def _new_topic(topic: Any) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((each.partition_index, tuple(each.broker_ids)) for each in topic.assignments),
        {config.name: config.value for config in topic.configs},
    )


def _refused(name: str, error: KafkaError) -> dict[str, Any]:
    return {"name": name, **error_fields(error), "configs": [], **_NOTHING}


def _result(
    node: Node, request: Request, result: TopicState | KafkaError, overrides: Mapping[str, str | None], name: str
) -> dict[str, Any]:
    if isinstance(result, KafkaError):
        return _refused(name, result)
    answer: dict[str, Any] = {"name": name, "topic_id": result.topic_id, "error_code": 0, "error_message": None}
    if not node.authorize(request, DESCRIBE_CONFIGS, TOPIC, name):
        return {**answer, **_NOTHING, "configs": [], "topic_config_error_code": TopicAuthorizationFailed.code}
    given = {key: value for key, value in overrides.items() if value is not None}
    return {
        **answer,
        "num_partitions": len(result.partitions),
        "replication_factor": len(result.partitions[0].replicas),
        "configs": describe_values(given, node.controller.settings, None),
    }
