"""DescribeConfigs (key 32), versions 1-4: settings of topics, this broker, its loggers, groups and client metrics
subscriptions, with synonyms and documentation. Needs DESCRIBE_CONFIGS on the topic, the group or the cluster.

Not done: nothing; documentation is in this project's words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker import loggers
from kafkatools.core.broker.controller import config_entries as entries
from kafkatools.core.broker.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE_CONFIGS, GROUP, TOPIC
from kafkatools.core.broker.controller.configs import error_fields
from kafkatools.core.broker.controller.metadata_image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from kafkatools.core.broker.controller.topics import validate_name
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (1, 4)
KINDS = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


def handle(node: Node, request: Request) -> Response:
    """One result per resource."""
    entity = request.decode()
    with_documentation = request.version >= 3 and entity.include_documentation
    results = []
    for resource in entity.resources:
        result = _describe(node, request, resource)
        for entry in result["configs"]:
            if not entity.include_synonyms:
                entry["synonyms"] = []
            if not with_documentation and entry["documentation"]:
                entry["documentation"] = None
        results.append(result)
    return request.respond({"results": results})


def _describe(node: Node, request: Request, resource: Any) -> dict[str, Any]:
    kind, name = int(resource.resource_type), resource.resource_name
    result = {"resource_type": kind, "resource_name": name}
    try:
        if kind not in KINDS:
            raise InvalidRequest()
        authorize_resource(node, request, DESCRIBE_CONFIGS, (kind, name))
        found = _entries(node, (kind, name), resource.configuration_keys or None)
    except UnknownTopicOrPartition as error:
        return {**result, "error_code": error.code, "error_message": "", "configs": []}
    except KafkaError as error:
        return {**result, **error_fields(error), "configs": []}
    return {**result, "error_code": 0, "error_message": "", "configs": found}


def authorize_resource(node: Node, request: Request, operation: int, resource: tuple[int, str]) -> None:
    """Topics and groups by themselves, everything else by the cluster; raises the authorization error."""
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        node.authorize_or_raise(request, operation, TOPIC, name)
    elif kind == GROUP_RESOURCE:
        node.authorize_or_raise(request, operation, GROUP, name)
    else:
        node.authorize_or_raise(request, operation, CLUSTER, CLUSTER_NAME)


def _entries(node: Node, resource: tuple[int, str], keys: entries.Keys) -> entries.Entries:
    kind, name = resource
    controller = node.controller
    if kind == TOPIC_RESOURCE:
        validate_name(name)
        return entries.describe_topic(controller.image, controller.settings, name, keys)
    if kind == BROKER_RESOURCE:
        return entries.describe_broker(controller.settings, name, keys)
    if kind == GROUP_RESOURCE:
        return entries.describe_group(controller.image, controller.settings, name, keys)
    if kind == CLIENT_METRICS_RESOURCE:
        return entries.describe_client_metrics(controller.image, name, keys)
    if not name:
        raise InvalidRequest("Broker id must not be empty")
    entries.check_broker_id(controller.settings, name, " but")
    return entries.describe_loggers(loggers.levels(), keys)
