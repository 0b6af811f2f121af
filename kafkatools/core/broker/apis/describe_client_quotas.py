"""DescribeClientQuotas (key 48), versions 0-1: the quotas of the entities that a filter fits.

Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE_CONFIGS
from kafkatools.core.broker.metadata.controller.client_quotas import Component, Entity, describe
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import ClusterAuthorizationFailed, KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One entry per entity."""
    entity = request.decode()
    components = [Component(each.entity_type, int(each.match_type), each.match) for each in entity.components]
    if not node.authorize(request, DESCRIBE_CONFIGS, CLUSTER, CLUSTER_NAME):
        return request.respond({"error_code": ClusterAuthorizationFailed.code, "error_message": None, "entries": None})
    try:
        found = describe(node.image.client_quotas, components, strict=entity.strict)
    except KafkaError as error:
        return request.respond({**error_fields(error), "entries": None})
    entries = [
        {"entity": entity_fields(each), "values": [{"key": key, "value": value} for key, value in values.items()]}
        for each, values in found.items()
    ]
    return request.respond({"error_code": 0, "error_message": "", "entries": entries})


def entity_fields(entity: Entity) -> list[dict[str, Any]]:
    """An entity in an answer."""
    return [{"entity_type": kind, "entity_name": name} for kind, name in entity]
