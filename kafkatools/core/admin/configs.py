"""Configuration of topics, brokers and other resources: describe, and alter by steps (KIP-339)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kafkatools.core.admin.client import AdminClient, failure
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.api_versions import ApiKey

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32

Resource = tuple[int, str]


class ConfigSource(IntEnum):
    """Where a value comes from (DescribeConfigsResponse.ConfigSource)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class AlterOperation(IntEnum):
    """What to do with one entry (AlterConfigOp.OpType)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OWN_SOURCES = {
    TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    BROKER_LOGGER: ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
    CLIENT_METRICS: ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
    GROUP: ConfigSource.DYNAMIC_GROUP_CONFIG,
}


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """One of the settings that a value could come from, the first one wins."""

    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting with its value in force; the value of a sensitive one is None."""

    name: str
    value: str | None
    source: int
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Nobody set it: the built-in default (ConfigEntry.isDefault)."""
        return self.source == ConfigSource.DEFAULT_CONFIG


@dataclass(frozen=True, slots=True)
class ResourceConfigs:
    """The settings of one resource in the broker's order, or why there are none."""

    entries: tuple[ConfigEntry, ...] = ()
    error: KafkaError | None = None


def describe_configs(
    admin: AdminClient,
    resources: Sequence[Resource],
    *,
    include_synonyms: bool = True,
    include_documentation: bool = False,
) -> dict[Resource, ResourceConfigs]:
    """The settings of each (type, name). Those of a broker and its loggers are asked of that broker itself."""
    results: dict[Resource, ResourceConfigs] = {}
    for node, group in _by_node(resources).items():
        fields = {
            "resources": [
                {"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in group
            ],
            "include_synonyms": include_synonyms,
            "include_documentation": include_documentation,
        }
        answer = admin.call(ApiKey.DESCRIBE_CONFIGS, fields, node_id=node)
        for one in answer.results:
            error = failure(one.error_code, one.error_message)
            key = (int(one.resource_type), one.resource_name)
            results[key] = ResourceConfigs(tuple(map(_entry, one.configs)), error)
    return results


def _by_node(resources: Sequence[Resource]) -> dict[int | None, list[Resource]]:
    groups: dict[int | None, list[Resource]] = {}
    for kind, name in resources:
        of_broker = kind in (BROKER, BROKER_LOGGER) and name != ""
        groups.setdefault(int(name) if of_broker else None, []).append((kind, name))
    return groups


def _entry(one: Any) -> ConfigEntry:
    synonyms = tuple(ConfigSynonym(same.name, same.value, int(same.source)) for same in one.synonyms)
    documentation = getattr(one, "documentation", None)
    source = int(one.config_source)
    return ConfigEntry(one.name, one.value, source, one.is_sensitive, one.read_only, synonyms, documentation)


def incremental_alter_configs(
    admin: AdminClient,
    changes: Mapping[Resource, Sequence[tuple[str, AlterOperation, str | None]]],
    *,
    validate_only: bool = False,
) -> dict[Resource, KafkaError | None]:
    """Changes entries of each resource: (name, operation, value); the value is None for DELETE."""
    results: dict[Resource, KafkaError | None] = {}
    for node, group in _by_node(list(changes)).items():
        fields = {
            "resources": [
                {
                    "resource_type": kind,
                    "resource_name": name,
                    "configs": [
                        {"name": entry, "config_operation": int(operation), "value": value}
                        for entry, operation, value in changes[kind, name]
                    ],
                }
                for kind, name in group
            ],
            "validate_only": validate_only,
        }
        answer = admin.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, fields, node_id=node, to_controller=node is None)
        for one in answer.responses:
            results[int(one.resource_type), one.resource_name] = failure(one.error_code, one.error_message)
    return results
