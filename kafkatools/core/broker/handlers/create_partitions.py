"""CreatePartitions (key 37), versions 0-3: growing topics, with or without manual assignments, validate only.

Not done: controller mutation quotas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.configs import error_fields
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import InvalidRequest, KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 3)


def handle(node: Node, request: Request) -> Response:
    """Grow each."""
    entity = request.decode()
    names = [topic.name for topic in entity.topics]
    results = [_grow(node, topic, names.count(topic.name) > 1, entity.validate_only) for topic in entity.topics]
    return request.respond({"results": results})


def _grow(node: Node, topic: Any, is_duplicate: bool, validate_only: bool) -> dict[str, Any]:
    assignments = None if topic.assignments is None else [tuple(each.broker_ids) for each in topic.assignments]
    try:
        if is_duplicate:
            raise InvalidRequest("Duplicate topic name.")
        node.controller.create_partitions(topic.name, topic.count, assignments, validate_only=validate_only)
    except KafkaError as error:
        return {"name": topic.name, **error_fields(error)}
    return {"name": topic.name, "error_code": 0, "error_message": None}
