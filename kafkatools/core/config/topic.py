"""Defaults of topic settings that come from broker settings (ServerTopicConfigSynonyms of Apache Kafka 4.3)."""

from collections.abc import Mapping
from functools import lru_cache

from kafkatools.core.config import TOPIC, Config
from kafkatools.core.config.setting import Required, Value

TOPIC_SYNONYMS = {setting.name: setting.synonyms for setting in TOPIC.settings.values() if setting.synonyms}
"""The broker settings that a topic setting falls back to, in order of precedence (ServerTopicConfigSynonyms)."""


def broker_default(name: str, broker: Config) -> Value:
    """The value that a topic without an override has on a broker: the first non-null broker synonym, scaled to ms if
    needed, else the table's default. None for null or a required setting."""
    for synonym in TOPIC_SYNONYMS.get(name, ()):
        value = broker[synonym.name]
        if value is not None:
            return _scaled(value, synonym.unit_ms)
    default = TOPIC[name].default
    return None if isinstance(default, Required) else default


def _scaled(value: Value, unit_ms: int) -> Value:
    if unit_ms == 1 or not isinstance(value, int):
        return value
    return -1 if value < 0 else value * unit_ms


def topic_config(broker: Config, overrides: Mapping[str, object] | None = None) -> Config:
    """The configuration of a topic: its overrides over the broker's defaults. Raises ConfigError for an unknown name or
    invalid value."""
    return Config(TOPIC, overrides, defaults=_defaults(broker))


@lru_cache(maxsize=8)
def _defaults(broker: Config) -> dict[str, Value]:
    """The defaults of all topic settings on a broker. Cached, because they take 0.3 ms to compute; a Config never
    changes."""
    return {name: broker_default(name, broker) for name in TOPIC.settings}
