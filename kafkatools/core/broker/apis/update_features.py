"""UpdateFeatures (key 57), versions 0-2: all updates of a request or none.

As in Apache Kafka, `allow_downgrade` of version 0 is not acted on.
Not done: an upgrade of kraft.version (the quorum here is static).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import ALTER, CLUSTER, CLUSTER_NAME
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.metadata.controller.features import UPGRADE, FeatureUpdate
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """Change feature levels."""
    entity = request.decode()
    updates = [
        FeatureUpdate(each.feature, each.max_version_level, each.upgrade_type if request.version >= 1 else UPGRADE)
        for each in entity.feature_updates
    ]
    validate_only = request.version >= 1 and entity.validate_only
    try:
        node.authorize_or_raise(request, ALTER, CLUSTER, CLUSTER_NAME)
        node.controller.update_features(updates, validate_only=validate_only)
    except KafkaError as error:
        return request.respond({**error_fields(error), "results": []})
    results: list[dict[str, Any]] = []
    if request.version < 2:
        results = [{"feature": each.name, "error_code": 0, "error_message": "NONE"} for each in updates]
    return request.respond({"error_code": 0, "error_message": None, "results": results})
