"""DescribeConfigs (key 32), versions 1-4: settings of topics and of this broker, with synonyms and documentation.

Not done: broker loggers, client metrics and groups give INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.configs import describe_broker, describe_topic, error_fields
from kafkatools.core.broker.controller.metadata_image import BROKER_RESOURCE, TOPIC_RESOURCE
from kafkatools.core.broker.controller.topics import validate_name
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import InvalidRequest, KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (1, 4)


def handle(node: Node, request: Request) -> Response:
    """One result per resource."""
    entity = request.decode()
    with_documentation = request.version >= 3 and entity.include_documentation
    results = []
    for resource in entity.resources:
        result = _describe(node, resource)
        for entry in result["configs"]:
            if not entity.include_synonyms:
                entry["synonyms"] = []
            if not with_documentation:
                entry["documentation"] = None
        results.append(result)
    return request.respond({"results": results})


def _describe(node: Node, resource: Any) -> dict[str, Any]:
    result = {"resource_type": resource.resource_type, "resource_name": resource.resource_name}
    controller = node.controller
    keys = resource.configuration_keys or None
    try:
        if resource.resource_type == TOPIC_RESOURCE:
            validate_name(resource.resource_name)
            entries = describe_topic(controller.image, controller.settings, resource.resource_name, keys)
        elif resource.resource_type == BROKER_RESOURCE:
            entries = describe_broker(controller.settings, resource.resource_name, keys)
        else:
            raise InvalidRequest(f"Unsupported resource type: {resource.resource_type}")
    except KafkaError as error:
        return {**result, **error_fields(error), "configs": []}
    return {**result, "error_code": 0, "error_message": None, "configs": entries}
