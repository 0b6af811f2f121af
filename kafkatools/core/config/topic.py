"""Settings of a topic, and which broker settings are their defaults, as of Apache Kafka 4.3."""

from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.config import Config, Table
from kafkatools.core.config.setting import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    Required,
    Setting,
    Value,
    at_least,
    between,
    one_of,
    throttled_replicas,
    words_of,
)
from kafkatools.core.config.shared import COMPRESSION, UNCLEAN_ELECTION

TOPIC_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "cleanup.policy",
        LIST,
        ("delete",),
        "What happens to old segments: delete, compact, both, or neither when empty.",
        words_of("compact", "delete"),
    ),
    *COMPRESSION,
    Setting(
        "delete.retention.ms", LONG, 86_400_000, "How long a tombstone stays readable after compaction.", at_least(0)
    ),
    Setting("file.delete.delay.ms", LONG, 60_000, "How long a removed segment's files stay on disk.", at_least(0)),
    Setting("flush.messages", LONG, LONG_MAX, "Records after which the log is forced to disk.", at_least(1)),
    Setting("flush.ms", LONG, LONG_MAX, "Time after which the log is forced to disk.", at_least(0)),
    Setting(
        "follower.replication.throttled.replicas",
        LIST,
        (),
        "Replicas (partition:broker) whose fetching is throttled, or * for all.",
        throttled_replicas("follower.replication.throttled.replicas"),
    ),
    Setting("index.interval.bytes", INT, 4096, "Bytes of log between two entries of the offset index.", at_least(0)),
    Setting(
        "internal.segment.bytes", INT, None, "Size of a segment without the lower bound, for tests.", internal=True
    ),
    Setting(
        "leader.replication.throttled.replicas",
        LIST,
        (),
        "Replicas (partition:broker) to which the leader's traffic is throttled, or * for all.",
        throttled_replicas("leader.replication.throttled.replicas"),
    ),
    Setting(
        "local.retention.bytes",
        LONG,
        -2,
        "Bytes kept on the broker of a tiered partition; -2 takes retention.bytes.",
        at_least(-2),
    ),
    Setting(
        "local.retention.ms",
        LONG,
        -2,
        "Time segments of a tiered partition are kept on the broker; -2 takes retention.ms.",
        at_least(-2),
    ),
    Setting("max.compaction.lag.ms", LONG, LONG_MAX, "Longest time a record may stay out of compaction.", at_least(1)),
    Setting(
        "max.decompressed.message.bytes",
        INT,
        None,
        "Maximum decompressed size of a batch on the broker in bytes. Unset, the limit is 10 times max.message.bytes, "
        "at least 16 MiB.",
        at_least(1),
        internal=True,
        is_ours=True,
    ),
    Setting("max.message.bytes", INT, 1_048_588, "Bytes of the largest batch, as it is stored.", at_least(0)),
    Setting(
        "message.timestamp.after.max.ms",
        LONG,
        3_600_000,
        "How far a record's timestamp may be ahead of the broker's clock.",
        at_least(0),
    ),
    Setting(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "How far a record's timestamp may be behind the broker's clock.",
        at_least(0),
    ),
    Setting(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "CreateTime keeps the producer's timestamp; LogAppendTime sets the broker's.",
        one_of("CreateTime", "LogAppendTime"),
    ),
    Setting(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        "Part of the log that must be dirty before it is compacted.",
        between(0, 1),
    ),
    Setting("min.compaction.lag.ms", LONG, 0, "Least time a record stays out of compaction.", at_least(0)),
    Setting("min.insync.replicas", INT, 1, "In-sync replicas that a write with acks=all needs.", at_least(1)),
    Setting("preallocate", BOOLEAN, False, "Whether the file of a new segment gets its full size at once."),
    Setting("remote.log.copy.disable", BOOLEAN, False, "Whether copying to remote storage is stopped."),
    Setting(
        "remote.log.delete.on.disable", BOOLEAN, False, "Whether remote data is deleted when tiering is turned off."
    ),
    Setting("remote.storage.enable", BOOLEAN, False, "Whether the topic is tiered."),
    Setting("retention.bytes", LONG, -1, "Bytes of a partition beyond which its oldest segments go; -1 no limit."),
    Setting("retention.ms", LONG, 604_800_000, "Age beyond which segments go; -1 no limit.", at_least(-1)),
    Setting("segment.bytes", INT, 1_073_741_824, "Bytes of a segment.", at_least(1_048_576)),
    Setting("segment.index.bytes", INT, 10_485_760, "Bytes of a segment's offset index.", at_least(4)),
    Setting("segment.jitter.ms", LONG, 0, "Random part taken off segment.ms.", at_least(0)),
    Setting("segment.ms", LONG, 604_800_000, "Time after which a segment that is not full is rolled.", at_least(1)),
    UNCLEAN_ELECTION,
)

TOPIC = Table("topic", TOPIC_SETTINGS)


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
