"""IncrementalAlterConfigs (key 44), versions 0-1: SET, DELETE, APPEND, SUBTRACT for topics and this broker, validate
only.

Not done: broker loggers, client metrics and groups give INVALID_REQUEST; AlterConfigPolicy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.configs import ConfigChange, error_fields
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import InvalidRequest, KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 1)


def handle(node: Node, request: Request) -> Response:
    """Each resource changes as a whole or not at all."""
    entity = request.decode()
    seen = [(resource.resource_type, resource.resource_name) for resource in entity.resources]
    return request.respond(
        {"responses": [_alter(node, resource, seen, entity.validate_only) for resource in entity.resources]}
    )


def _alter(node: Node, resource: Any, seen: list[tuple[int, str]], validate_only: bool) -> dict[str, Any]:
    key = (int(resource.resource_type), resource.resource_name)
    changes = [ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs]
    answer = {"resource_type": key[0], "resource_name": key[1]}
    try:
        if seen.count(key) > 1:
            raise InvalidRequest("Each resource must appear at most once.")
        node.controller.alter_configs(key, changes, validate_only=validate_only)
    except KafkaError as error:
        return {**answer, **error_fields(error)}
    return {**answer, "error_code": 0, "error_message": None}
