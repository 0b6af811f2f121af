"""Configurations of topics, brokers, groups and client metrics (KafkaAdminClient.describeConfigs,
incrementalAlterConfigs).

Requests about one broker's configuration go to that broker; all others, also those about the cluster-wide broker
default, go to any broker. If the client is connected to controllers, all go to the active one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkatools.core.admin.client import LOST_CONNECTION, AdminClient, error_in, is_about_controller
from kafkatools.core.admin.results import filled, refusals
from kafkatools.core.errors import Disconnected, KafkaError
from kafkatools.core.net.requests import BrokerRequest
from kafkatools.core.protocol.api_versions import ApiKey

if TYPE_CHECKING:
    from kafkatools.core.protocol.config_messages import Config
    from kafkatools.core.protocol.entities import Entity, Fields

V = TypeVar("V")

# Resource types (ConfigResource.Type).
TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32

# Sources of a value (DescribeConfigsResponse.ConfigSource).
UNKNOWN_SOURCE = 0
TOPIC_CONFIG = 1
DYNAMIC_BROKER_CONFIG = 2
DYNAMIC_DEFAULT_BROKER_CONFIG = 3
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5
DYNAMIC_BROKER_LOGGER_CONFIG = 6
CLIENT_METRICS_CONFIG = 7
GROUP_CONFIG = 8

SOURCE_NAMES = {
    UNKNOWN_SOURCE: "UNKNOWN",
    TOPIC_CONFIG: "DYNAMIC_TOPIC_CONFIG",
    DYNAMIC_BROKER_CONFIG: "DYNAMIC_BROKER_CONFIG",
    DYNAMIC_DEFAULT_BROKER_CONFIG: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    STATIC_BROKER_CONFIG: "STATIC_BROKER_CONFIG",
    DEFAULT_CONFIG: "DEFAULT_CONFIG",
    DYNAMIC_BROKER_LOGGER_CONFIG: "DYNAMIC_BROKER_LOGGER_CONFIG",
    CLIENT_METRICS_CONFIG: "DYNAMIC_CLIENT_METRICS_CONFIG",
    GROUP_CONFIG: "DYNAMIC_GROUP_CONFIG",
}

# Operations on a value (AlterConfigOp.OpType).
SET = 0
DELETE = 1
APPEND = 2
SUBTRACT = 3

Resource = tuple[int, str]


class ConfigSynonym(NamedTuple):
    """A source of a setting's value, in order of precedence."""

    name: str
    value: str | None
    source: int

    @property
    def source_name(self) -> str:
        """The source's name in Kafka, such as DYNAMIC_BROKER_CONFIG."""
        return SOURCE_NAMES.get(self.source, "UNKNOWN")


class ConfigEntry(NamedTuple):
    """One setting with its effective value (None if sensitive) and the value's source."""

    name: str
    value: str | None
    source: int
    is_sensitive: bool = False
    is_read_only: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Return whether the value is a default, comes from a broker's settings, or has an unknown source."""
        return self.source in (DEFAULT_CONFIG, UNKNOWN_SOURCE) or self.source in _BROKER_SOURCES

    @property
    def source_name(self) -> str:
        """The source's name in Kafka, such as DYNAMIC_BROKER_CONFIG."""
        return SOURCE_NAMES.get(self.source, "UNKNOWN")


_BROKER_SOURCES = (STATIC_BROKER_CONFIG, DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG)


class ResourceConfig(NamedTuple):
    """A resource's settings in the broker's order, or its error."""

    entries: tuple[ConfigEntry, ...]
    error: KafkaError | None = None


class ConfigChange(NamedTuple):
    """A change of one setting: SET, DELETE (restore the default), or APPEND to and SUBTRACT from a list."""

    name: str
    value: str | None
    operation: int = SET


def describe_configs(
    admin: AdminClient,
    resources: Sequence[Resource],
    *,
    names: Sequence[str] | None = None,
    include_synonyms: bool = False,
    include_documentation: bool = False,
    node: int | None = None,
) -> dict[Resource, ResourceConfig]:
    """Return the settings of each resource, all or those in `names`, or its error. `node`: the broker to ask (None: a
    broker about itself, any broker about other resources). Raises KafkaError when the brokers cannot be listed, and
    ValueError for a broker id that is not a number."""
    options = {"include_synonyms": include_synonyms, "include_documentation": include_documentation}

    def once(items: list[Resource], deadline_ms: int) -> dict[Resource, ResourceConfig | KafkaError]:
        def fields(group: list[Resource]) -> Fields:
            keys = None if names is None else tuple(names)
            return {
                "resources": [
                    {"resource_type": kind, "resource_name": name, "configuration_keys": keys} for kind, name in group
                ],
                **options,
            }

        return _send(admin, ApiKey.DESCRIBE_CONFIGS, items, fields, _read_described, deadline_ms, node)

    results = admin.retry_items(resources, once, may_retry=_may_retry(admin))
    return filled(results, lambda error: ResourceConfig((), error))


def _send(
    admin: AdminClient,
    api_key: int,
    resources: list[Resource],
    fields: Callable[[list[Resource]], Fields],
    read: Callable[[Entity], Mapping[Resource, V | KafkaError]],
    deadline_ms: int,
    node: int | None = None,
) -> dict[Resource, V | KafkaError]:
    """Send requests for resources to all their brokers in parallel, or to `node`. A broker's error is that of all its
    resources."""
    default = admin.controller_node(deadline_ms) if node is None and admin.through_controllers else node
    nodes: dict[Resource, int | None] = dict.fromkeys(resources, default)
    if node is None and not admin.through_controllers:
        nodes |= {(kind, name): int(name) for kind, name in resources if kind in (BROKER, BROKER_LOGGER) and name}
        if any(broker_id is not None for broker_id in nodes.values()):
            admin.refresh_cluster()
    return admin.send_by_node(
        nodes,
        lambda broker, group: BrokerRequest(broker, api_key, fields(group)),
        lambda response, _: read(response.entity),
        deadline_ms,
    )


def _read_described(entity: Entity) -> dict[Resource, ResourceConfig | KafkaError]:
    configs: dict[Resource, ResourceConfig | KafkaError] = {}
    configs_by_id: dict[int, ResourceConfig] = {}  # id of the decoded list, shared by equal resources
    for result in entity.results:
        error = error_in(result)
        key = id(result.configs)
        if key not in configs_by_id:
            configs_by_id[key] = ResourceConfig(tuple(_entry(config) for config in result.configs))
        configs[int(result.resource_type), result.resource_name] = error or configs_by_id[key]
    return configs


def _entry(config: Config) -> ConfigEntry:
    synonyms = tuple(ConfigSynonym(synonym.name, synonym.value, int(synonym.source)) for synonym in config.synonyms)
    return ConfigEntry(
        config.name,
        config.value,
        int(config.config_source),
        bool(config.is_sensitive),
        bool(config.read_only),
        synonyms,
        getattr(config, "documentation", None),
    )


def incremental_alter_configs(
    admin: AdminClient,
    changes: Mapping[Resource, Sequence[ConfigChange]],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> dict[Resource, KafkaError | None]:
    """Change settings of resources; return None for each changed resource, or the error that left it unchanged. With
    `validate_only`, nothing is changed. Raises KafkaError when the brokers cannot be listed, and ValueError for a
    broker id that is not a number."""

    def once(items: list[Resource], deadline_ms: int) -> dict[Resource, KafkaError | bool]:
        def fields(group: list[Resource]) -> Fields:
            return {"resources": [_alterable(key, changes[key]) for key in group], "validate_only": validate_only}

        return _send(admin, ApiKey.INCREMENTAL_ALTER_CONFIGS, items, fields, _read_altered, deadline_ms)

    return refusals(admin.retry_items(changes, once, timeout_ms, _may_retry(admin)))


def _may_retry(admin: AdminClient) -> Callable[[KafkaError], bool]:
    """Return the retry rule of requests about configs: when the controller moved, a quota is used up or the
    connection is lost; with controllers also when it cannot be made, since another one may have become active."""
    may_move = admin.may_move()
    lost = LOST_CONNECTION if admin.through_controllers else Disconnected
    return lambda error: is_about_controller(error) or isinstance(error, lost) and may_move(error)


def _alterable(resource: Resource, changes: Sequence[ConfigChange]) -> Fields:
    return {
        "resource_type": resource[0],
        "resource_name": resource[1],
        "configs": [
            {"name": change.name, "config_operation": change.operation, "value": change.value} for change in changes
        ],
    }


def _read_altered(entity: Entity) -> dict[Resource, KafkaError | bool]:
    return {(int(result.resource_type), result.resource_name): error_in(result) or True for result in entity.responses}


def list_config_resources(admin: AdminClient, kind: int) -> list[str]:
    """Return the names of the resources of a kind that have a configuration. Raises KafkaError. Brokers before 4.1 list
    client metrics only; other kinds raise UnsupportedVersion."""
    fields = {"resource_types": (kind,)}
    oldest = 0 if kind == CLIENT_METRICS else 1
    response = admin.send(ApiKey.LIST_CONFIG_RESOURCES, fields, min_version=oldest, check=error_in)
    return [resource.resource_name for resource in response.config_resources]
