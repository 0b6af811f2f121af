"""Handlers for configs: DescribeConfigs, IncrementalAlterConfigs, AlterConfigs, ListConfigResources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafkatools.core.broker.apis.contexts import ChangeContext
from kafkatools.core.broker.metadata import config_entries as entries
from kafkatools.core.broker.metadata.controller.acls import (
    ALTER_CONFIGS,
    CLUSTER,
    CLUSTER_NAME,
    DESCRIBE_CONFIGS,
    GROUP,
    TOPIC,
)
from kafkatools.core.broker.metadata.controller.configs import ConfigChange, is_integer
from kafkatools.core.broker.metadata.controller.topics import validate_name
from kafkatools.core.broker.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from kafkatools.core.broker.server import loggers
from kafkatools.core.broker.server.apis import decode_permitted
from kafkatools.core.broker.server.requests import CloseConnection, Request, Response, error_fields
from kafkatools.core.errors import InvalidRequest, KafkaError, UnknownTopicOrPartition, UnsupportedVersion
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.messages import Shared
from kafkatools.core.protocol.slices import paced

DESCRIBED_KINDS = (TOPIC_RESOURCE, BROKER_RESOURCE, BROKER_LOGGER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)
LISTED_KINDS = (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE, BROKER_LOGGER_RESOURCE, BROKER_RESOURCE, TOPIC_RESOURCE)


class _DescribeOptions(NamedTuple):
    """The parts of each config that a DescribeConfigs request includes, and a cache of the configs of topics."""

    synonyms: bool
    documentation: bool
    described: dict[Any, Shared]

    def trim(self, config_entries: entries.Entries) -> Shared:
        """Remove the synonyms and documentation that the request does not include."""
        for entry in config_entries:
            if not self.synonyms:
                entry["synonyms"] = []
            if not self.documentation and entry["documentation"]:
                entry["documentation"] = None
        return Shared(config_entries)


def handle_describe_configs(node: ChangeContext, request: Request) -> Response:
    """Answer DescribeConfigs: the configs of topics, this broker, its loggers, groups and client metrics subscriptions.

    Each resource has a result of its own, with its error, and needs DESCRIBE_CONFIGS on the topic, the group or the
    cluster. A resource that is named twice with the same keys has one result. The documentation of a config is
    kafkatools' own text.
    """
    entity = request.decode()
    options = _DescribeOptions(entity.include_synonyms, entity.include_documentation, {})
    # Each resource is described once, even if it is named a thousand times.
    distinct = {
        (int(resource.resource_type), resource.resource_name, resource.configuration_keys): resource
        for resource in entity.resources
    }
    results = [_describe(node, request, resource, options) for resource in paced(list(distinct.values()))]
    return request.respond({"results": results})


def _describe(node: ChangeContext, request: Request, resource: Entity, options: _DescribeOptions) -> Fields:
    kind, name = int(resource.resource_type), resource.resource_name
    result = {"resource_type": kind, "resource_name": name}
    try:
        if kind not in DESCRIBED_KINDS:
            raise InvalidRequest()
        authorize_resource(node, request, DESCRIBE_CONFIGS, (kind, name))
        keys = resource.configuration_keys or None
        if kind == TOPIC_RESOURCE:
            configs = _topic_entries(node, name, keys, options)
        else:
            configs = options.trim(_entries(node, (kind, name), keys))
    except UnknownTopicOrPartition as error:
        return {**result, "error_code": error.code, "error_message": ""}
    except KafkaError as error:
        return {**result, **error_fields(error)}
    return {**result, "error_message": "", "configs": configs}


def _topic_entries(node: ChangeContext, name: str, keys: entries.Keys, options: _DescribeOptions) -> Shared:
    """Describe a topic's configs. Topics with the same overrides share one list, encoded once per request."""
    validate_name(name)
    image = node.image
    overrides = image.topic_configs(name)
    key = (frozenset(overrides.items()), None if keys is None else tuple(keys))
    if name not in image.topics or key not in options.described:
        options.described[key] = options.trim(entries.describe_topic(image, node.broker_settings, name, keys))
    return options.described[key]


def authorize_resource(node: ChangeContext, request: Request, operation: int, resource: tuple[int, str]) -> None:
    """Check the client's right to an operation: on the topic or group itself, for other resources on the cluster.
    Raises TopicAuthorizationFailed, GroupAuthorizationFailed or ClusterAuthorizationFailed."""
    kind, name = resource
    type_and_name = {TOPIC_RESOURCE: (TOPIC, name), GROUP_RESOURCE: (GROUP, name)}.get(kind, (CLUSTER, CLUSTER_NAME))
    node.authorize_or_raise(request, operation, *type_and_name)


def _entries(node: ChangeContext, resource: tuple[int, str], keys: entries.Keys) -> entries.Entries:
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


def handle_incremental_alter_configs(node: ChangeContext, request: Request) -> Response:
    """Answer IncrementalAlterConfigs: SET, DELETE, APPEND and SUBTRACT configs of topics, this broker, its loggers,
    groups and client metrics subscriptions.

    Each resource changes as a whole or not at all; one that is named twice does not change and has INVALID_REQUEST.
    With `validate_only` the changes are only checked. Needs ALTER_CONFIGS on the topic, the group or the cluster. Not
    done: AlterConfigPolicy. A changed config of the broker takes effect only where the broker reads it again.
    """
    entity = request.decode()
    counts = Counter((int(resource.resource_type), resource.resource_name) for resource in entity.resources)

    def alter(key: tuple[int, str], configs: Sequence[Any], validate_only: bool) -> None:
        if counts[key] > 1:
            raise InvalidRequest("Each resource must appear at most once.")
        authorize_resource(node, request, ALTER_CONFIGS, key)
        changes = [ConfigChange(config.name, int(config.config_operation), config.value) for config in configs]
        kind, name = key
        if kind != BROKER_LOGGER_RESOURCE:
            node.controller.alter_configs(key, changes, validate_only=validate_only)
            return
        if not is_integer(name):
            raise InvalidRequest(f"Node id must be an integer, but it is: {name}")
        if int(name) != node.node_id:
            raise InvalidRequest(f"Unexpected node id. Expected {node.node_id}, but received {name}")
        loggers.alter(changes, validate_only=validate_only)

    return answer_each(request, entity, alter)


def answer_each(
    request: Request, entity: Entity, alter: Callable[[tuple[int, str], Sequence[Any], bool], None]
) -> Response:
    """Call `alter` with the (type, name), the configs and `validate_only` of each resource, and respond with one result
    per resource. A KafkaError of `alter` becomes the result of its resource."""
    responses = []
    for resource in paced(entity.resources):
        key = (int(resource.resource_type), resource.resource_name)
        fields = {"resource_type": key[0], "resource_name": key[1]}
        try:
            alter(key, resource.configs, entity.validate_only)
        except KafkaError as error:
            fields.update(error_fields(error))
        responses.append(fields)
    return request.respond({"responses": responses})


def handle_alter_configs(node: ChangeContext, request: Request) -> Response:
    """Answer AlterConfigs: replace all dynamic configs of topics, this broker, groups and client metrics subscriptions.

    Each resource changes as a whole or not at all, and has an error code of its own; with `validate_only` nothing
    changes. Needs ALTER_CONFIGS on the topic, the group or the cluster. Raises CloseConnection when a resource is named
    twice, because Kafka cannot decode such a request. Not done: AlterConfigPolicy.
    """
    entity = request.decode()
    keys = [(int(resource.resource_type), resource.resource_name) for resource in entity.resources]
    if len(set(keys)) != len(keys):
        raise CloseConnection("AlterConfigs names a resource twice")

    def replace(key: tuple[int, str], configs: Sequence[Any], validate_only: bool) -> None:
        authorize_resource(node, request, ALTER_CONFIGS, key)
        values = [(config.name, config.value) for config in configs]
        node.controller.replace_configs(key, values, validate_only=validate_only)

    return answer_each(request, entity, replace)


def handle_list_config_resources(node: ChangeContext, request: Request) -> Response:
    """Answer ListConfigResources: the names of resources of the requested types, or of all types.

    All topics and brokers are listed, broker ids also as loggers; groups and client metrics subscriptions only if they
    have configs. Version 0 lists client metrics subscriptions only. Raises ClusterAuthorizationFailed without
    DESCRIBE_CONFIGS on the cluster, and UnsupportedVersion for an unknown type.
    """
    entity = decode_permitted(node, request)
    kinds = {CLIENT_METRICS_RESOURCE}
    if request.version > 0:
        kinds = set(map(int, entity.resource_types)) or set(LISTED_KINDS)
    if not kinds.issubset(LISTED_KINDS):
        raise UnsupportedVersion()
    resources = [
        {"resource_name": name, "resource_type": kind}
        for kind in LISTED_KINDS
        if kind in kinds
        for name in _resource_names(node, kind)
    ]
    return request.respond({"config_resources": resources})


def _resource_names(node: ChangeContext, kind: int) -> list[str]:
    image = node.image
    if kind == TOPIC_RESOURCE:
        return list(image.topics)
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        return [str(broker_id) for broker_id in image.brokers]
    return [name for resource_type, name in image.configs if resource_type == kind]
