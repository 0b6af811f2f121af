"""Settings of topics and brokers: validation, changes, and how they are described.

Source: ConfigurationControlManager, ControllerConfigurationValidator, ConfigAdminManager and ConfigHelper of Apache
Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkatools.core import config as tables
from kafkatools.core.broker.controller.metadata_image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from kafkatools.core.config import Config, Setting, to_text
from kafkatools.core.config.setting import LIST, PASSWORD
from kafkatools.core.config.topic import TOPIC_SYNONYMS, topic_config
from kafkatools.core.errors import ConfigError, InvalidConfig, InvalidRequest, KafkaError, UnknownTopicOrPartition

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = range(1, 6)
CONFIG_TYPES = {
    "BOOLEAN": 1,
    "STRING": 2,
    "INT": 3,
    "SHORT": 4,
    "LONG": 5,
    "DOUBLE": 6,
    "LIST": 7,
    "CLASS": 8,
    "PASSWORD": 9,
}
DYNAMIC_ONLY_FOR_TOPICS = frozenset(synonyms[0].name for synonyms in TOPIC_SYNONYMS.values())
DYNAMIC_BROKER_SETTINGS = DYNAMIC_ONLY_FOR_TOPICS | {
    "background.threads",
    "log.retention.minutes",
    "log.retention.hours",
    "log.cleaner.threads",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.backoff.ms",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "max.connection.creation.rate",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "producer.id.expiration.ms",
    "transaction.partition.verification.enable",
    "unclean.leader.election.enable",
    "message.max.bytes",
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One line of IncrementalAlterConfigs."""

    name: str
    operation: int
    value: str | None


class BrokerSettings:
    """The broker's settings in their layers: of this broker, of all brokers, of its file, and the defaults."""

    def __init__(self, static: Config, image: MetadataImage, node_id: int) -> None:
        self.static = static
        self.node_id = node_id
        self._image = image

    def dynamic(self) -> dict[str, str]:
        """What was set through the API for this broker."""
        return self._known(self._image.configs.get((BROKER_RESOURCE, str(self.node_id)), {}))

    def dynamic_default(self) -> dict[str, str]:
        """What was set through the API for all brokers."""
        return self._known(self._image.configs.get((BROKER_RESOURCE, ""), {}))

    def _known(self, values: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in values.items() if name in self.static.table}

    def effective(self) -> Config:
        """All layers together."""
        return self.static.replace({**self.dynamic_default(), **self.dynamic()})

    def layers(self, name: str) -> list[tuple[int, str | None]]:
        """(source, value) of every layer that has the setting, the strongest first."""
        found: list[tuple[int, str | None]] = []
        if name in (mine := self.dynamic()):
            found.append((DYNAMIC_BROKER_CONFIG, mine[name]))
        if name in (all_brokers := self.dynamic_default()):
            found.append((DYNAMIC_DEFAULT_BROKER_CONFIG, all_brokers[name]))
        if self.static.is_given(name):
            found.append((STATIC_BROKER_CONFIG, to_text(self.static[name])))
        default = to_text(self.static.table[name].default)
        if default is not None:
            found.append((DEFAULT_CONFIG, default))
        return found


def validate_topic_configs(values: Mapping[str, str | None], broker: Config) -> Config:
    """The topic's settings; raises InvalidConfig with Kafka's message."""
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
    """LogConfig.validateTopicLogConfigValues: values that contradict each other or this broker."""
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
    image: MetadataImage, settings: BrokerSettings, resource: tuple[int, str], changes: Sequence[ConfigChange]
) -> list[Any]:
    """The records of an incremental change; raises a KafkaError and changes nothing."""
    _check_resource(image, settings, resource)
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise InvalidRequest("Error due to duplicate config keys")
    nulls = [change.name for change in changes if change.operation != DELETE and change.value is None]
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {', '.join(nulls)}")
    current = image.configs.get(resource, {})
    wanted: dict[str, str | None] = {
        change.name: _changed(resource[0], current.get(change.name), change, settings) for change in changes
    }
    return _records(image, settings, resource, wanted)


def replace_configs(
    image: MetadataImage, settings: BrokerSettings, resource: tuple[int, str], values: Mapping[str, str | None]
) -> list[Any]:
    """The records of AlterConfigs, which replaces everything; raises a KafkaError and changes nothing."""
    _check_resource(image, settings, resource)
    nulls = [name for name, value in values.items() if value is None]
    if nulls:
        raise InvalidRequest(f"Null value not supported for : {', '.join(nulls)}")
    gone: dict[str, str | None] = {name: None for name in image.configs.get(resource, {}) if name not in values}
    return _records(image, settings, resource, {**values, **gone})


def _check_resource(image: MetadataImage, settings: BrokerSettings, resource: tuple[int, str]) -> None:
    kind, name = resource
    if kind == TOPIC_RESOURCE:
        if name not in image.topics:
            raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
    elif kind == BROKER_RESOURCE:
        if name and name != str(settings.node_id):
            raise InvalidRequest(f"Unexpected broker id, expected {settings.node_id}, but received {name}")
    else:
        raise InvalidRequest(f"Unexpected resource type {kind}.")


def _changed(kind: int, current: str | None, change: ConfigChange, settings: BrokerSettings) -> str | None:
    if change.operation == DELETE:
        return None
    if change.operation == SET:
        return change.value
    table = tables.TOPIC if kind == TOPIC_RESOURCE else tables.BROKER
    word = "APPEND" if change.operation == APPEND else "SUBTRACT"
    if change.operation not in (APPEND, SUBTRACT):
        raise InvalidRequest(f"Unknown operation type {change.operation}")
    if change.name not in table or table[change.name].type != LIST:
        raise InvalidConfig(f"Can't {word} to key {change.name} because its type is not LIST.")
    if current is None and kind == TOPIC_RESOURCE:
        current = to_text(topic_config(settings.effective())[change.name])
    items = [item for item in (current or "").split(",") if item]
    given = [item.strip() for item in (change.value or "").split(",") if item.strip()]
    if change.operation == APPEND:
        return ",".join(items + [item for item in given if item not in items])
    return ",".join(item for item in items if item not in given)


def _records(
    image: MetadataImage, settings: BrokerSettings, resource: tuple[int, str], wanted: Mapping[str, str | None]
) -> list[Any]:
    from kafkatools.core.protocol.schemas.metadata import ConfigRecord

    kind, name = resource
    current = image.configs.get(resource, {})
    after = {**current, **wanted}
    remaining = {key: value for key, value in after.items() if value is not None}
    if kind == TOPIC_RESOURCE:
        validate_topic_configs(remaining, settings.effective())
    else:
        _validate_broker_configs(remaining, wanted, settings)
    return [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        for key, value in wanted.items()
        if current.get(key) != value
    ]


def _validate_broker_configs(
    remaining: Mapping[str, str], wanted: Mapping[str, str | None], settings: BrokerSettings
) -> None:
    table = settings.static.table
    fixed = [name for name in wanted if name in table and name not in DYNAMIC_BROKER_SETTINGS]
    if fixed:
        raise InvalidRequest(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    try:
        settings.static.replace({name: value for name, value in remaining.items() if name in table})
    except ConfigError as error:
        raise InvalidRequest(f"Invalid config value for resource: {error}") from None


def describe_topic(
    image: MetadataImage, settings: BrokerSettings, name: str, keys: Sequence[str] | None
) -> list[dict[str, Any]]:
    """The entries of a topic as DescribeConfigs gives them; raises a KafkaError."""
    if name not in image.topics:
        raise UnknownTopicOrPartition()
    return describe_values(image.topic_configs(name), settings, keys)


def describe_values(
    overrides: Mapping[str, str], settings: BrokerSettings, keys: Sequence[str] | None
) -> list[dict[str, Any]]:
    """The entries of a topic with these settings of its own."""
    effective = topic_config(settings.effective(), overrides)
    return [
        _topic_entry(setting, overrides, effective, settings)
        for setting in tables.TOPIC
        if (not setting.internal or setting.name in overrides) and (keys is None or setting.name in keys)
    ]


def _topic_entry(
    setting: Setting, overrides: Mapping[str, str], effective: Config, settings: BrokerSettings
) -> dict[str, Any]:
    synonyms = []
    if setting.name in overrides:
        synonyms.append(_synonym(setting.name, overrides[setting.name], TOPIC_CONFIG))
    names = [synonym.name for synonym in TOPIC_SYNONYMS.get(setting.name, ())]
    for broker_name in names if setting.name == "retention.ms" else names[:1]:
        synonyms += [_synonym(broker_name, value, source) for source, value in settings.layers(broker_name)]
    source = synonyms[0]["source"] if synonyms else DEFAULT_CONFIG
    return _entry(setting, to_text(effective[setting.name]), source, synonyms, read_only=False)


def describe_broker(settings: BrokerSettings, name: str, keys: Sequence[str] | None) -> list[dict[str, Any]]:
    """The entries of a broker; with an empty name only what was set for all brokers."""
    if name and name != str(settings.node_id):
        raise InvalidRequest(f"Unexpected broker id, expected {settings.node_id} or empty string, but received {name}")
    if not name:
        defaults = settings.dynamic_default()
        return [
            _entry(
                setting,
                defaults[setting.name],
                DYNAMIC_DEFAULT_BROKER_CONFIG,
                [_synonym(setting.name, defaults[setting.name], DYNAMIC_DEFAULT_BROKER_CONFIG)],
                read_only=False,
            )
            for setting in settings.static.table
            if setting.name in defaults and (keys is None or setting.name in keys)
        ]
    entries = []
    for setting in settings.static.table:
        if setting.internal or (keys is not None and setting.name not in keys):
            continue
        layers = settings.layers(setting.name)
        synonyms = [_synonym(setting.name, value, source) for source, value in layers]
        source, value = layers[0] if layers else (DEFAULT_CONFIG, None)
        entries.append(_entry(setting, value, source, synonyms, read_only=setting.name not in DYNAMIC_BROKER_SETTINGS))
    return entries


def _synonym(name: str, value: str | None, source: int) -> dict[str, Any]:
    return {"name": name, "value": value, "source": source}


def _entry(
    setting: Setting, value: str | None, source: int, synonyms: list[dict[str, Any]], *, read_only: bool
) -> dict[str, Any]:
    is_sensitive = setting.type == PASSWORD
    if is_sensitive:
        value, synonyms = None, [{**synonym, "value": None} for synonym in synonyms]
    return {
        "name": setting.name,
        "value": value,
        "read_only": read_only,
        "config_source": source,
        "is_sensitive": is_sensitive,
        "synonyms": synonyms,
        "config_type": CONFIG_TYPES[setting.type],
        "documentation": setting.doc,
    }


def error_fields(error: KafkaError) -> dict[str, Any]:
    """`error_code` and `error_message` of a result."""
    return {"error_code": error.code, "error_message": str(error)}
