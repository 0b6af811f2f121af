"""ListConfigResources (key 74), versions 0-1: which resources have settings. Version 0 lists client metrics
subscriptions; needs DESCRIBE_CONFIGS on the cluster.

Not done: nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE_CONFIGS
from kafkatools.core.broker.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import ClusterAuthorizationFailed, UnsupportedVersion

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

KINDS = (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE, BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE)


def handle(node: Node, request: Request) -> Response:
    """All kinds, or those that were asked for."""
    entity = request.decode()
    if not node.authorize(request, DESCRIBE_CONFIGS, CLUSTER, CLUSTER_NAME):
        return request.respond({"error_code": ClusterAuthorizationFailed.code, "config_resources": []})
    if request.version == 0:
        wanted = [CLIENT_METRICS_RESOURCE]
    else:
        wanted = [int(kind) for kind in entity.resource_types] or list(KINDS)
    if any(kind not in KINDS for kind in wanted):
        return request.respond({"error_code": UnsupportedVersion.code, "config_resources": []})
    found = [
        {"resource_name": name, "resource_type": kind}
        for kind in KINDS
        if kind in wanted
        for name in _names(node, kind)
    ]
    return request.respond({"error_code": 0, "config_resources": found})


def _names(node: Node, kind: int) -> list[str]:
    image = node.image
    if kind == TOPIC_RESOURCE:
        return list(image.topics)
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        return [str(broker_id) for broker_id in image.brokers]
    return [name for each, name in image.configs if each == kind]
