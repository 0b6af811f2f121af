"""Changes of topic, broker, group and client metrics settings: validation and the resulting records.

Source: ConfigurationControlManager, ControllerConfigurationValidator and ConfigAdminManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkatools.core import config as tables
from kafkatools.core.broker.metadata.broker_settings import (
    ELIGIBLE_LEADER_REPLICAS,
    MIN_ISR,
    BrokerSettings,
    check_min_isr,
)
from kafkatools.core.broker.metadata.cluster_settings import listeners_of
from kafkatools.core.broker.metadata.controller.partition_change import record_version
from kafkatools.core.broker.metadata.dynamic_checks import base_name, check_broker_configs
from kafkatools.core.broker.metadata.feature_levels import METADATA_VERSION
from kafkatools.core.broker.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from kafkatools.core.config import Config, Table, to_text
from kafkatools.core.config.setting import LIST
from kafkatools.core.config.topic import topic_config
from kafkatools.core.errors import (
    BrokerIdNotRegistered,
    ConfigError,
    InvalidConfig,
    InvalidRequest,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.metadata import ClearElrRecord, ConfigRecord, PartitionChangeRecord

SET, DELETE, APPEND, SUBTRACT = range(4)
NEEDS_NAME = {
    TOPIC_RESOURCE: "Default topic resources are not allowed.",
    GROUP_RESOURCE: "Default group resources are not allowed.",
    CLIENT_METRICS_RESOURCE: "Subscription name can't be empty",
}
Resource = tuple[int, str]


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One operation of IncrementalAlterConfigs: SET, DELETE, APPEND or SUBTRACT."""

    name: str
    operation: int
    value: str | None


def validate_topic_configs(values: Mapping[str, str | None], broker: Config) -> Config:
    """Validate a topic's settings and return its effective configuration. Raises InvalidConfig with Kafka's message."""
    nulls = [name for name, value in values.items() if value is None]
    if nulls:
        raise InvalidConfig(f"Null value not supported for topic configs: {','.join(nulls)}")
    try:
        for name in values:
            if name not in tables.TOPIC:
                raise InvalidConfig(f"Unknown topic config name: {name}")
        config = topic_config(broker, values)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from None
    _check_together(config)
    return config


def _check_together(config: Config) -> None:
    """Check settings that contradict each other or this broker (LogConfig.validateTopicLogConfigValues)."""
    lowest, highest = config.min_compaction_lag_ms, config.max_compaction_lag_ms
    if lowest > highest:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({lowest}) > max.compaction.lag.ms ({highest})"
        )
    if config.remote_storage_enable:
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )


def alter_configs(
    image: MetadataImage, settings: BrokerSettings, resource: Resource, changes: Sequence[ConfigChange]
) -> list[Entity]:
    """Return the records of IncrementalAlterConfigs for one resource, without values that stay the same. Raises
    InvalidRequest, InvalidConfig, UnknownTopicOrPartition, BrokerIdNotRegistered, and UnknownServerError for an unknown
    operation."""
    nulls = [change.name for change in changes if change.operation != DELETE and change.value is None]
    _check_request(image, settings, resource, [change.name for change in changes], nulls)
    current = image.configs.get(resource, {})
    kind, own = resource[0], _settings_of(image, settings, resource)
    changed = {change.name: _changed(kind, current.get(change.name), change, own) for change in changes}
    return _records(image, settings, resource, changed)


def replace_configs(
    image: MetadataImage, settings: BrokerSettings, resource: Resource, configs: Sequence[tuple[str, str | None]]
) -> list[Entity]:
    """Return the records of AlterConfigs, which replaces all settings of a resource, without values that stay the same.
    Raises InvalidRequest, InvalidConfig, UnknownTopicOrPartition, BrokerIdNotRegistered."""
    nulls = [name for name, value in configs if value is None]
    _check_request(image, settings, resource, [name for name, _ in configs], nulls)
    values = dict(configs)
    deleted = dict.fromkeys(name for name in image.configs.get(resource, {}) if name not in values)
    return _records(image, settings, resource, {**values, **deleted})


def _check_request(
    image: MetadataImage, settings: BrokerSettings, resource: Resource, names: Sequence[str], nulls: Sequence[str]
) -> None:
    _check_resource(image, settings, resource)
    if len(set(names)) != len(names):
        raise InvalidRequest("Error due to duplicate config keys")
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {', '.join(nulls)}")


def _check_resource(image: MetadataImage, settings: BrokerSettings, resource: Resource) -> None:
    kind, name = resource
    if kind not in (TOPIC_RESOURCE, BROKER_RESOURCE, GROUP_RESOURCE, CLIENT_METRICS_RESOURCE):
        raise InvalidRequest(f"Unknown resource type {kind}")
    if not name and kind in NEEDS_NAME:
        raise InvalidRequest(NEEDS_NAME[kind])
    if kind == TOPIC_RESOURCE and name not in image.topics:
        raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
    if kind == BROKER_RESOURCE and name:
        if not is_integer(name):
            raise InvalidRequest(f"Node id must be an integer, but it is: {name}")
        _check_broker_id(image, settings.node_id, int(name))


def _check_broker_id(image: MetadataImage, node_id: int, broker_id: int) -> None:
    """Check that a broker or controller with this id is registered; in a cluster of one it is this node
    (ConfigAdminManager)."""
    if broker_id in image.brokers or broker_id in image.controllers or broker_id == node_id:
        return
    if image.brokers.keys() <= {node_id}:
        raise InvalidRequest(f"Unexpected broker id, expected {node_id}, but received {broker_id}")
    raise BrokerIdNotRegistered(f"No node with id {broker_id} found.")


def _settings_of(image: MetadataImage, settings: BrokerSettings, resource: Resource) -> BrokerSettings:
    """Return the settings of another broker for a change of its own ones: those of this node's properties file with the
    dynamic ones of that broker."""
    kind, name = resource
    is_other = kind == BROKER_RESOURCE and name and int(name) != settings.node_id
    return BrokerSettings(settings.static, image, int(name)) if is_other else settings


def is_integer(text: str) -> bool:
    """Return whether Java parses a text as an integer."""
    digits = text[1:] if text[:1] in "+-" else text
    return digits.isascii() and digits.isdigit()


def _table_of(kind: int) -> Table:
    from kafkatools.core.config.resources import GROUP

    return {TOPIC_RESOURCE: tables.TOPIC, BROKER_RESOURCE: tables.BROKER, GROUP_RESOURCE: GROUP}[kind]


def _changed(kind: int, current: str | None, change: ConfigChange, settings: BrokerSettings) -> str | None:
    if change.operation == DELETE:
        return None
    if change.operation == SET:
        return change.value
    if change.operation not in (APPEND, SUBTRACT):
        raise UnknownServerError()
    word = "APPEND" if change.operation == APPEND else "SUBTRACT"
    table = None if kind == CLIENT_METRICS_RESOURCE else _table_of(kind)
    if table is None or change.name not in table or table[change.name].type != LIST:
        raise InvalidConfig(f"Can't {word} to key {change.name} because its type is not LIST.")
    if current is None and kind != GROUP_RESOURCE:
        effective = settings.effective()
        current = to_text((topic_config(effective) if kind == TOPIC_RESOURCE else effective)[change.name])
    items = _items(current)
    operands = _items(change.value)
    if change.operation == APPEND:
        return ",".join(items + [item for item in operands if item not in items])
    return ",".join(item for item in items if item not in operands)


def _items(text: str | None) -> list[str]:
    return [item.strip() for item in (text or "").split(",") if item.strip()]


def _records(
    image: MetadataImage, settings: BrokerSettings, resource: Resource, changes: Mapping[str, str | None]
) -> list[Entity]:
    kind, name = resource
    current = image.configs.get(resource, {})
    new_configs = {**current, **changes}
    remaining = {key: value for key, value in new_configs.items() if value is not None}
    if kind == TOPIC_RESOURCE:
        validate_topic_configs(remaining, settings.effective())
    elif kind == GROUP_RESOURCE:
        _validate_group_configs(remaining, settings)
    elif kind == CLIENT_METRICS_RESOURCE:
        _validate_client_metrics(remaining)
    else:
        check_broker_configs(remaining, _settings_of(image, settings, resource), is_default=not name)
        if name == str(settings.node_id) and any(base_name(key) for key in changes):
            _check_listeners(remaining, settings)
        check_min_isr(changes, name, image.features)
    records = [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        for key, value in changes.items()
        if current.get(key) != value or kind == BROKER_RESOURCE  # a broker then reads its key stores again
    ]
    return records + _clear_elr(image, resource, [record.name for record in records])


def _check_listeners(remaining: Mapping[str, str], settings: BrokerSettings) -> None:
    """Check that this node, whose settings change, can read the key stores and logins of its listeners. Another broker
    reports what it cannot read. Raises InvalidRequest."""
    from kafkatools.core.broker.security.listener_reload import reloaded_security

    static = settings.static
    listeners = listeners_of(static)
    if all(listener.protocol == "PLAINTEXT" for listener in listeners):
        return
    own = {name: value for name, value in remaining.items() if base_name(name)}
    try:
        reloaded_security(static, static.replace(own), listeners)
    except ConfigError as error:
        raise InvalidRequest(f"Invalid dynamic configuration: {error}") from None


def _clear_elr(image: MetadataImage, resource: Resource, changed: Sequence[str]) -> list[Entity]:
    """Return the records that clear eligible leader replicas: none unless they are enabled and min.insync.replicas
    changes. Those of partitions without in-sync replicas are set again, or no replica could lead these any more. They
    have all acknowledged records whatever the setting is, since nothing is acknowledged without a leader."""
    if MIN_ISR not in changed or image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) < 1:
        return []
    kind, name = resource
    topics = [image.topics[name]] if kind == TOPIC_RESOURCE else image.topics.values()
    kept = [
        PartitionChangeRecord(
            version=record_version(image.features[METADATA_VERSION]),
            topic_id=topic.topic_id,
            partition_id=partition.partition_id,
            eligible_leader_replicas=partition.elr,
            last_known_elr=partition.last_known_elr,
        )
        for topic in topics
        for partition in topic.partitions.values()
        if not partition.isr
    ]
    return [ClearElrRecord(topic_name=name if kind == TOPIC_RESOURCE else ""), *kept]


def cluster_min_isr_record(static: Config) -> Entity:
    """Return the record that makes a broker's min.insync.replicas that of the cluster."""
    value = str(static.min_insync_replicas)
    return ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=MIN_ISR, value=value)


def elr_safety_records(image: MetadataImage, static: Config) -> list[Entity]:
    """Return the records that leave only a cluster-wide min.insync.replicas besides those of topics
    (maybeGenerateElrSafetyRecords)."""
    has_value = MIN_ISR in image.configs.get((BROKER_RESOURCE, ""), {})
    records = [] if has_value else [cluster_min_isr_record(static)]
    for (kind, name), values in image.configs.items():
        if kind == BROKER_RESOURCE and name and MIN_ISR in values:
            records.append(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=name, name=MIN_ISR, value=None))
    return records


def _validate_group_configs(remaining: Mapping[str, str], settings: BrokerSettings) -> None:
    from kafkatools.core.config.resources import check_group_config, group_config

    broker = settings.effective()
    try:
        check_group_config(broker, group_config(broker, dict(remaining)))
    except ConfigError as error:
        raise InvalidConfig(str(error)) from None


def _validate_client_metrics(remaining: Mapping[str, str]) -> None:
    """Validate the settings of a client metrics subscription (ClientMetricsConfigs.validateProperties)."""
    from kafkatools.core.config.resources import (
        CLIENT_METRICS,
        MAX_PUSH_INTERVAL_MS,
        MIN_PUSH_INTERVAL_MS,
        matches_clients,
    )

    for name in remaining:
        if name not in CLIENT_METRICS:
            raise InvalidRequest(f"Unknown client metrics configuration: {name}")
    try:
        config = Config(CLIENT_METRICS, remaining)
    except ConfigError as error:
        raise InvalidConfig(str(error)) from None
    interval = config["interval.ms"]
    if not MIN_PUSH_INTERVAL_MS <= interval <= MAX_PUSH_INTERVAL_MS:
        raise InvalidRequest(
            f"Invalid value {interval} for interval.ms, interval must be between {MIN_PUSH_INTERVAL_MS} and "
            f"{MAX_PUSH_INTERVAL_MS} (1 hour)"
        )
    for pattern in config["match"]:
        if not matches_clients(pattern):
            raise InvalidConfig(f"Illegal client matching pattern: {pattern}")
