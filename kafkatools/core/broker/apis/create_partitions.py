"""CreatePartitions (key 37), versions 0-3: growing topics, with or without manual assignments, validate only. Needs
ALTER on the topic.

Not done: controller mutation quotas.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import ALTER, TOPIC
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import InvalidRequest, KafkaError, TopicAuthorizationFailed, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """Grow each; one answer per name."""
    entity = request.decode()
    counts = Counter(topic.name for topic in entity.topics)
    results: dict[str, dict[str, Any]] = {}
    for topic in entity.topics:
        answer = {"name": topic.name, "error_code": 0, "error_message": None}
        try:
            if counts[topic.name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            node.authorize_or_raise(request, ALTER, TOPIC, topic.name)
            _grow(node, topic, validate_only=entity.validate_only)
        except (UnknownTopicOrPartition, TopicAuthorizationFailed) as error:
            answer["error_code"] = error.code
        except KafkaError as error:
            answer.update(error_fields(error))
        results[topic.name] = answer
    return request.respond({"results": list(results.values())})


def _grow(node: Node, topic: Any, *, validate_only: bool) -> None:
    assignments = None if topic.assignments is None else [tuple(each.broker_ids) for each in topic.assignments]
    node.controller.create_partitions(topic.name, topic.count, assignments, validate_only=validate_only)
