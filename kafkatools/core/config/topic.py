"""Which broker settings are the defaults of topic settings, as of Apache Kafka 4.3."""

from collections.abc import Mapping
from functools import lru_cache

from kafkatools.core.config import TOPIC, Config
from kafkatools.core.config.setting import Required, Synonym, Value

TOPIC_SYNONYMS = {setting.name: setting.synonyms for setting in TOPIC.settings.values() if setting.synonyms}
"""The broker settings that a topic setting falls back to, in order of precedence (ServerTopicConfigSynonyms)."""


def broker_default(name: str, broker: Config) -> Value:
    """What a topic without a value of its own takes: the broker's through the synonyms, else the table's."""
    for synonym in TOPIC_SYNONYMS.get(name, ()):
        value = broker[synonym.name]
        if value is not None:
            return _converted(name, value, synonym)
    default = TOPIC[name].default
    return None if isinstance(default, Required) else default


def _converted(name: str, value: Value, synonym: Synonym) -> Value:
    if synonym.unit_ms == 1 or not isinstance(value, int):
        return value
    if value < 0:
        return -1
    return value * synonym.unit_ms


def topic_config(broker: Config, overrides: Mapping[str, object] | None = None) -> Config:
    """The settings of a topic on a broker: its overrides over the broker's defaults. Raises ConfigError."""
    return Config(TOPIC, overrides, defaults=_defaults(broker))


@lru_cache(maxsize=8)
def _defaults(broker: Config) -> dict[str, Value]:
    """The defaults on a broker, which take 0.3 ms to find; a Config does not change."""
    return {name: broker_default(name, broker) for name in TOPIC.settings}
