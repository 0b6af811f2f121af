"""The topic settings that a partition's log uses, as plain values. Names and defaults are those of Kafka's
LogConfig."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

MAX_LONG = 2**63 - 1
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
DECOMPRESSED_RATIO = 10
LEAST_DECOMPRESSED_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of one log. Sizes in bytes, times in ms. -1 means what it means in Kafka: no limit, or a codec's
    default level."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    follower_replication_throttled_replicas: frozenset[str] = frozenset()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: frozenset[str] = frozenset()
    max_compaction_lag_ms: int = MAX_LONG
    max_decompressed_message_bytes: int = -1
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = HOUR_MS
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    producer_id_expiration_ms: int = DAY_MS
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    segment_bytes: int = 1024**3
    segment_index_bytes: int = 10 * 1024**2
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * DAY_MS
    transaction_partition_verification_enable: bool = True
    max_segment_ms: int = field(init=False)

    def __post_init__(self) -> None:
        """Set `max_segment_ms`: segment.ms, or max.compaction.lag.ms if that is lower in a compacted log
        (LogConfig.maxSegmentMs)."""
        lag_ms = self.max_compaction_lag_ms if self.is_compacted and self.max_compaction_lag_ms > 0 else self.segment_ms
        object.__setattr__(self, "max_segment_ms", min(lag_ms, self.segment_ms))

    @property
    def max_decompressed_bytes(self) -> int:
        """The limit on the decompressed size of one batch's records, in bytes: the setting if it is positive, else ten
        times max.message.bytes, at least 16 MiB."""
        if self.max_decompressed_message_bytes > 0:
            return self.max_decompressed_message_bytes
        return max(LEAST_DECOMPRESSED_BYTES, DECOMPRESSED_RATIO * self.max_message_bytes)

    @property
    def is_compacted(self) -> bool:
        """Return whether cleanup.policy contains compact."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Return whether cleanup.policy contains delete."""
        return "delete" in self.cleanup_policy

    @property
    def has_log_append_time(self) -> bool:
        """Return whether message.timestamp.type is LogAppendTime: the broker's time replaces the producer's."""
        return self.message_timestamp_type == "LogAppendTime"

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> "LogConfig":
        """Build a LogConfig from settings by their dotted names; values may be text. Other settings and None values are
        ignored. `internal.segment.bytes` replaces segment.bytes, without its lower limit, as in Kafka's own tests.
        Raises ValueError for text that is no number."""
        types = {setting.name: setting.type for setting in fields(cls) if setting.init}
        settings: dict[str, Any] = {}
        for name, value in values.items():
            attribute = name.removeprefix("internal.").replace(".", "_")
            if attribute in types and value is not None:
                settings[attribute] = _typed(types[attribute], value)
        if "internal.segment.bytes" in values:
            settings["segment_bytes"] = int(str(values["internal.segment.bytes"]))
        return cls(**settings)


def _typed(kind: Any, value: Any) -> object:
    if kind == frozenset[str]:
        parts = value.split(",") if isinstance(value, str) else value
        return frozenset(part.strip() for part in parts if part.strip())
    if kind is bool:
        return value if isinstance(value, bool) else str(value).lower() == "true"
    return kind(value)
