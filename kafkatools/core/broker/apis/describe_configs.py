"""DescribeConfigs (key 32), versions 1-4: settings of topics, this broker, its loggers, groups and client metrics
subscriptions, with synonyms and documentation. Needs DESCRIBE_CONFIGS on the topic, the group or the cluster.

Not done: nothing; documentation is in this project's words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafkatools.core.broker.metadata import config_entries as entries
from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE_CONFIGS, GROUP, TOPIC
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.metadata.controller.topics import validate_name
from kafkatools.core.broker.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from kafkatools.core.broker.server import loggers
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition
from kafkatools.core.protocol.entity_writer import Shared
from kafkatools.core.protocol.slices import paced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

KINDS = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


class _Wanted(NamedTuple):
    """What a request wants to know of each entry, and the entries of topics made so far, by what they depend on."""

    synonyms: bool
    documentation: bool
    alike: dict[Any, Shared]

    def only(self, found: entries.Entries) -> Shared:
        """The entries without what is not wanted."""
        for entry in found:
            if not self.synonyms:
                entry["synonyms"] = []
            if not self.documentation and entry["documentation"]:
                entry["documentation"] = None
        return Shared(found)


def handle(node: Node, request: Request) -> Response:
    """One result per resource."""
    entity = request.decode()
    wanted = _Wanted(entity.include_synonyms, request.version >= 3 and entity.include_documentation, {})
    return request.respond({"results": [_describe(node, request, each, wanted) for each in paced(_distinct(entity))]})


def _distinct(entity: Any) -> list[Any]:
    """The resources without repetitions: one that is named a thousand times is described once."""
    by_name = {
        (int(each.resource_type), each.resource_name, each.configuration_keys): each for each in entity.resources
    }
    return list(by_name.values())


def _describe(node: Node, request: Request, resource: Any, wanted: _Wanted) -> dict[str, Any]:
    kind, name = int(resource.resource_type), resource.resource_name
    result = {"resource_type": kind, "resource_name": name}
    try:
        if kind not in KINDS:
            raise InvalidRequest()
        authorize_resource(node, request, DESCRIBE_CONFIGS, (kind, name))
        keys = resource.configuration_keys or None
        if kind == TOPIC_RESOURCE:
            found = _topic_entries(node, name, keys, wanted)
        else:
            found = wanted.only(_entries(node, (kind, name), keys))
    except UnknownTopicOrPartition as error:
        return {**result, "error_code": error.code, "error_message": "", "configs": []}
    except KafkaError as error:
        return {**result, **error_fields(error), "configs": []}
    return {**result, "error_code": 0, "error_message": "", "configs": found}


def _topic_entries(node: Node, name: str, keys: entries.Keys, wanted: _Wanted) -> Shared:
    """Topics with the same settings of their own have the same entries, made and written once a request."""
    validate_name(name)
    image = node.image
    overrides = image.topic_configs(name)
    key = (frozenset(overrides.items()), None if keys is None else tuple(keys))
    if name not in image.topics or key not in wanted.alike:
        wanted.alike[key] = wanted.only(entries.describe_topic(image, node.broker_settings, name, keys))
    return wanted.alike[key]


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
    if kind == BROKER_RESOURCE:
        return entries.describe_broker(node.broker_settings, name, keys)
    if kind == GROUP_RESOURCE:
        return entries.describe_group(node.image, node.broker_settings, name, keys)
    if kind == CLIENT_METRICS_RESOURCE:
        return entries.describe_client_metrics(node.image, name, keys)
    if not name:
        raise InvalidRequest("Broker id must not be empty")
    entries.check_broker_id(node.broker_settings, name, " but")
    return entries.describe_loggers(loggers.levels(), keys)
