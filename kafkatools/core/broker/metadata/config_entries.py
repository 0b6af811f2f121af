"""Entries of DescribeConfigs: value, source, synonyms, read-only and sensitive flags (ConfigHelper of Apache Kafka
4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkatools.core import config as tables
from kafkatools.core.broker.metadata.broker_settings import (
    CLIENT_METRICS_CONFIG,
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_LOGGER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    GROUP_CONFIG,
    TOPIC_CONFIG,
    BrokerSettings,
)
from kafkatools.core.broker.metadata.controller.configs import is_integer
from kafkatools.core.broker.metadata.dynamic_checks import setting_of_listener
from kafkatools.core.broker.metadata.image import CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, MetadataImage
from kafkatools.core.config import Config, Setting, to_text
from kafkatools.core.config.setting import PASSWORD, READ_ONLY
from kafkatools.core.config.topic import TOPIC_SYNONYMS, topic_config
from kafkatools.core.errors import InvalidRequest, UnknownTopicOrPartition
from kafkatools.core.protocol.entities import Fields

UNKNOWN_TYPE = 0
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
Entries = list[Fields]
Keys = Sequence[str] | None


def describe_topic(image: MetadataImage, settings: BrokerSettings, name: str, keys: Keys) -> Entries:
    """Return the entries of a topic, only those named in `keys` unless None. Raises UnknownTopicOrPartition."""
    if name not in image.topics:
        raise UnknownTopicOrPartition()
    return describe_values(image.topic_configs(name), settings, keys)


def describe_values(overrides: Mapping[str, str], settings: BrokerSettings, keys: Keys) -> Entries:
    """Return the entries of a topic that has the settings `overrides`, only those named in `keys` unless None."""
    effective = topic_config(settings.effective(), overrides)
    return [
        _topic_entry(setting, overrides, effective, settings)
        for setting in tables.TOPIC
        if (not setting.internal or setting.name in overrides) and (keys is None or setting.name in keys)
    ]


def _topic_entry(setting: Setting, overrides: Mapping[str, str], effective: Config, settings: BrokerSettings) -> Fields:
    synonyms = _override_synonym(setting, overrides, TOPIC_CONFIG)
    for synonym in TOPIC_SYNONYMS.get(setting.name, ())[:1]:
        synonyms += [_synonym(*layer) for layer in settings.layers(synonym.name)]
    return _entry(setting, to_text(effective[setting.name]), synonyms)


def describe_broker(settings: BrokerSettings, name: str, keys: Keys) -> Entries:
    """Return the entries of this broker; with an empty name the cluster-wide dynamic ones. Only those named in `keys`,
    unless None. Raises InvalidRequest."""
    if name:
        check_broker_id(settings, name, " or empty string, but")
    is_default = not name
    values = settings.dynamic_default()
    entries = []
    for setting in settings.static.table:
        if (
            setting.internal
            or not (keys is None or setting.name in keys)
            or (is_default and setting.name not in values)
        ):
            continue
        layers = [
            layer
            for layer in settings.layers(setting.name)
            if not is_default or layer[2] == DYNAMIC_DEFAULT_BROKER_CONFIG
        ]
        value = next((value for layer_name, value, _ in layers if layer_name == setting.name), None)
        entries.append(
            _entry(setting, value, [_synonym(*layer) for layer in layers], read_only=setting.update_mode == READ_ONLY)
        )
    names = values if is_default else settings.unknown()
    for unknown in names:
        if unknown not in settings.static.table and (keys is None or unknown in keys):
            entries.append(_listener_entry(settings, unknown, is_default) or _unknown_entry(settings, unknown))
    return entries


_THROTTLES = frozenset(
    (
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    )
)


def check_broker_id(settings: BrokerSettings, name: str, words: str) -> None:
    """Check that a resource name is this broker's id; `words` extends the message. Raises InvalidRequest."""
    if not is_integer(name):
        raise InvalidRequest(f"Broker id must be an integer, but it is: {name}")
    if int(name) != settings.node_id:
        raise InvalidRequest(f"Unexpected broker id, expected {settings.node_id}{words} received {name}")


def _listener_entry(settings: BrokerSettings, name: str, is_default: bool) -> Fields | None:
    """Return the entry of a setting with a listener's prefix, whose synonym is the setting itself; None for another
    name."""
    base = setting_of_listener(settings.static.table, name)
    if base is None:
        return None
    layers = [*settings.layers(name), *settings.layers(base)]
    if is_default:
        layers = [layer for layer in layers if layer[2] == DYNAMIC_DEFAULT_BROKER_CONFIG]
    synonyms = [_synonym(*layer) for layer in layers]
    setting = settings.static.table[base]._replace(name=name)
    return _entry(setting, synonyms[0]["value"], synonyms, read_only=True)


def _unknown_entry(settings: BrokerSettings, name: str) -> Fields:
    """Return the entry of an unknown setting; only a throttle shows its value (QuotaConfig.brokerQuotaConfigs)."""
    synonyms = [_synonym(*layer) for layer in settings.layers(name)]
    value, source = synonyms[0]["value"], synonyms[0]["source"]
    if name in _THROTTLES:
        return _fields(name, value, source, synonyms, config_type=CONFIG_TYPES["LONG"])
    return _fields(name, None, source, _hidden(synonyms), read_only=True, is_sensitive=True)


def describe_group(image: MetadataImage, settings: BrokerSettings, name: str, keys: Keys) -> Entries:
    """Return the entries of a group, which need not exist; only those named in `keys`, unless None. Raises
    InvalidRequest for an empty name."""
    from kafkatools.core.config.resources import GROUP, GROUP_SYNONYMS, group_config

    if not name:
        raise InvalidRequest("Group name must not be empty")
    overrides = image.configs.get((GROUP_RESOURCE, name), {})
    effective = group_config(settings.effective(), overrides)

    def inherited(setting: Setting) -> list[Fields]:
        if setting.name in GROUP_SYNONYMS:
            return [_synonym(*layer) for layer in settings.layers(GROUP_SYNONYMS[setting.name])]
        return [_synonym(setting.name, to_text(setting.default), DEFAULT_CONFIG)]

    return [
        _entry(
            setting,
            to_text(effective[setting.name]),
            _override_synonym(setting, overrides, GROUP_CONFIG) + inherited(setting),
        )
        for setting in GROUP
        if keys is None or setting.name in keys
    ]


def describe_client_metrics(image: MetadataImage, name: str, keys: Keys) -> Entries:
    """Return the entries of a client metrics subscription, existing or not; only those named in `keys`, unless None.
    Raises InvalidRequest for an empty name."""
    from kafkatools.core.config.resources import CLIENT_METRICS

    if not name:
        raise InvalidRequest("Client metrics subscription name must not be empty")
    overrides = image.configs.get((CLIENT_METRICS_RESOURCE, name), {})
    effective = Config(CLIENT_METRICS, overrides)
    return [
        _entry(setting, to_text(effective[setting.name]), _override_synonym(setting, overrides, CLIENT_METRICS_CONFIG))
        for setting in CLIENT_METRICS
        if keys is None or setting.name in keys
    ]


def describe_loggers(levels: Mapping[str, str], keys: Keys) -> Entries:
    """Return the entries of the broker's loggers, only of those named in `keys` unless None. `levels` has the level of
    each logger."""
    return [
        _fields(name, level, DYNAMIC_BROKER_LOGGER_CONFIG, [], documentation="")
        for name, level in levels.items()
        if keys is None or name in keys
    ]


def _override_synonym(setting: Setting, overrides: Mapping[str, str], source: int) -> list[Fields]:
    """Return the value that a resource sets itself as a list of synonyms, empty if it sets none."""
    if setting.name not in overrides:
        return []
    return [_synonym(setting.name, to_text(setting.parse(overrides[setting.name])), source)]


def _synonym(name: str, value: str | None, source: int) -> Fields:
    return {"name": name, "value": value, "source": source}


def _entry(setting: Setting, value: str | None, synonyms: list[Fields], *, read_only: bool = False) -> Fields:
    is_sensitive = setting.type == PASSWORD
    return _fields(
        setting.name,
        None if is_sensitive else value,
        synonyms[0]["source"] if synonyms else DEFAULT_CONFIG,
        _hidden(synonyms) if is_sensitive else synonyms,
        read_only=read_only,
        is_sensitive=is_sensitive,
        config_type=CONFIG_TYPES[setting.type],
        documentation=setting.doc,
    )


def _hidden(synonyms: list[Fields]) -> list[Fields]:
    return [{**synonym, "value": None} for synonym in synonyms]


def _fields(name: str, value: str | None, source: int, synonyms: list[Fields], **others: object) -> Fields:
    fields: Fields = {"name": name, "value": value, "read_only": False, "config_source": source, "is_sensitive": False}
    return {**fields, "synonyms": synonyms, "config_type": UNKNOWN_TYPE, "documentation": None, **others}
