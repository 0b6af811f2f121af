"""IncrementalAlterConfigs (key 44), versions 0-1: SET, DELETE, APPEND, SUBTRACT for topics and this broker, validate
only.

Not done: broker loggers, client metrics and groups give INVALID_REQUEST; AlterConfigPolicy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.configs import ConfigChange, error_fields
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import InvalidRequest, KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 1)


def handle(node: Node, request: Request) -> Response:
    """Each resource changes as a whole or not at all."""

    def alter(key: tuple[int, str], configs: Sequence[Any], validate_only: bool) -> None:
        changes = [ConfigChange(config.name, config.config_operation, config.value) for config in configs]
        node.controller.alter_configs(key, changes, validate_only=validate_only)

    return answer_each(request, alter)


def answer_each(request: Request, alter: Callable[[tuple[int, str], Sequence[Any], bool], None]) -> Response:
    """Have `alter` change one resource after the other; each has an answer of its own. A resource that is named twice
    is not changed at all."""
    entity = request.decode()
    seen = [(int(resource.resource_type), resource.resource_name) for resource in entity.resources]
    responses = []
    for key, resource in zip(seen, entity.resources, strict=True):
        answer: dict[str, Any] = {"resource_type": key[0], "resource_name": key[1]}
        try:
            if seen.count(key) > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            alter(key, resource.configs, entity.validate_only)
        except KafkaError as error:
            responses.append({**answer, **error_fields(error)})
        else:
            responses.append({**answer, "error_code": 0, "error_message": None})
    return request.respond({"responses": responses})
