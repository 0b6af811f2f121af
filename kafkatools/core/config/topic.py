"""Which broker settings are the defaults of topic settings, as of Apache Kafka 4.3."""

from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.config import TOPIC, Config
from kafkatools.core.config.setting import Required, Value


class Synonym(NamedTuple):
    """A broker setting that a topic setting falls back to, and what its number is multiplied by."""

    name: str
    unit_ms: int = 1


# In order of precedence (ServerTopicConfigSynonyms). A topic setting without an entry has no broker default.
TOPIC_SYNONYMS: dict[str, tuple[Synonym, ...]] = {
    "cleanup.policy": (Synonym("log.cleanup.policy"),),
    "compression.gzip.level": (Synonym("compression.gzip.level"),),
    "compression.lz4.level": (Synonym("compression.lz4.level"),),
    "compression.type": (Synonym("compression.type"),),
    "compression.zstd.level": (Synonym("compression.zstd.level"),),
    "delete.retention.ms": (Synonym("log.cleaner.delete.retention.ms"),),
    "file.delete.delay.ms": (Synonym("log.segment.delete.delay.ms"),),
    "flush.messages": (Synonym("log.flush.interval.messages"),),
    "flush.ms": (
        Synonym("log.flush.interval.ms"),
        Synonym("log.flush.scheduler.interval.ms"),
    ),
    "index.interval.bytes": (Synonym("log.index.interval.bytes"),),
    "local.retention.bytes": (Synonym("log.local.retention.bytes"),),
    "local.retention.ms": (Synonym("log.local.retention.ms"),),
    "max.compaction.lag.ms": (Synonym("log.cleaner.max.compaction.lag.ms"),),
    "max.decompressed.message.bytes": (Synonym("max.decompressed.message.bytes"),),
    "max.message.bytes": (Synonym("message.max.bytes"),),
    "message.timestamp.after.max.ms": (Synonym("log.message.timestamp.after.max.ms"),),
    "message.timestamp.before.max.ms": (Synonym("log.message.timestamp.before.max.ms"),),
    "message.timestamp.type": (Synonym("log.message.timestamp.type"),),
    "min.cleanable.dirty.ratio": (Synonym("log.cleaner.min.cleanable.ratio"),),
    "min.compaction.lag.ms": (Synonym("log.cleaner.min.compaction.lag.ms"),),
    "min.insync.replicas": (Synonym("min.insync.replicas"),),
    "preallocate": (Synonym("log.preallocate"),),
    "retention.bytes": (Synonym("log.retention.bytes"),),
    "retention.ms": (
        Synonym("log.retention.ms"),
        Synonym("log.retention.minutes", 60_000),
        Synonym("log.retention.hours", 3_600_000),
    ),
    "segment.bytes": (Synonym("log.segment.bytes"),),
    "segment.index.bytes": (Synonym("log.index.size.max.bytes"),),
    "segment.jitter.ms": (
        Synonym("log.roll.jitter.ms"),
        Synonym("log.roll.jitter.hours", 3_600_000),
    ),
    "segment.ms": (
        Synonym("log.roll.ms"),
        Synonym("log.roll.hours", 3_600_000),
    ),
    "unclean.leader.election.enable": (Synonym("unclean.leader.election.enable"),),
}


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
    return Config(TOPIC, overrides, defaults={name: broker_default(name, broker) for name in TOPIC.settings})
