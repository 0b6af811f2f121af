"""IncrementalAlterConfigs (key 44), versions 0-1: SET, DELETE, APPEND, SUBTRACT for topics, this broker, its loggers,
groups and client metrics subscriptions; validate only. Needs ALTER_CONFIGS on the topic, the group or the cluster.

Not done: AlterConfigPolicy; a changed setting of the broker works where it is asked for anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.describe_configs import authorize_resource
from kafkatools.core.broker.metadata.controller.acls import ALTER_CONFIGS
from kafkatools.core.broker.metadata.controller.configs import ConfigChange, error_fields, is_integer
from kafkatools.core.broker.metadata.image import BROKER_LOGGER_RESOURCE
from kafkatools.core.broker.server import loggers
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import InvalidRequest, KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """Each resource changes as a whole or not at all; one that is named twice is not changed."""
    entity = request.decode()
    counts = Counter((int(resource.resource_type), resource.resource_name) for resource in entity.resources)

    def alter(key: tuple[int, str], configs: Sequence[Any], validate_only: bool) -> None:
        if counts[key] > 1:
            raise InvalidRequest("Each resource must appear at most once.")
        authorize_resource(node, request, ALTER_CONFIGS, key)
        changes = [ConfigChange(config.name, int(config.config_operation), config.value) for config in configs]
        if key[0] == BROKER_LOGGER_RESOURCE:
            _check_node_id(node, key[1])
            loggers.alter(changes, validate_only=validate_only)
        else:
            node.controller.alter_configs(key, changes, validate_only=validate_only)

    return answer_each(request, entity, alter)


def _check_node_id(node: Node, name: str) -> None:
    if not is_integer(name):
        raise InvalidRequest(f"Node id must be an integer, but it is: {name}")
    if int(name) != node.node_id:
        raise InvalidRequest(f"Unexpected node id. Expected {node.node_id}, but received {name}")


def answer_each(
    request: Request, entity: Any, alter: Callable[[tuple[int, str], Sequence[Any], bool], None]
) -> Response:
    """Have `alter` change one resource after the other; each has an answer of its own."""
    responses = []
    for resource in entity.resources:
        key = (int(resource.resource_type), resource.resource_name)
        answer: dict[str, Any] = {"resource_type": key[0], "resource_name": key[1]}
        try:
            alter(key, resource.configs, entity.validate_only)
        except KafkaError as error:
            responses.append({**answer, **error_fields(error)})
        else:
            responses.append({**answer, "error_code": 0, "error_message": None})
    return request.respond({"responses": responses})
