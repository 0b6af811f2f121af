"""Plain data classes for the figures of a profile page, independent of Spark so that tests can build a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkatools.pipeline.charts.figures import key_text

SIZE_OF_BATCHES = "batches"
SIZE_OF_RECORDS = "records"


@dataclass(frozen=True)
class PartitionFigures:
    """Record, batch and byte counts of one partition, its offset range and its timestamps in epoch ms (None if
    unknown). `size_basis` says what `size_bytes` counts: SIZE_OF_BATCHES as stored, compressed, or of a live topic
    SIZE_OF_RECORDS, keys and values before compression. `stored_bytes` is the size of the stored batches, None if
    unknown; of a live topic it is that of the leader's log.
    `late_batches` counts batches whose largest timestamp is below that of an earlier batch in the log.
    `largest_delay_ms` is the largest such difference, 0 if there is none."""

    topic: str
    partition: int
    records: int
    batches: int
    size_bytes: int
    first_offset: int
    last_offset: int
    first_timestamp: int | None = None
    last_timestamp: int | None = None
    late_batches: int = 0
    largest_delay_ms: int = 0
    size_basis: str = SIZE_OF_BATCHES
    stored_bytes: int | None = None

    @property
    def name(self) -> str:
        """The partition as TOPIC-PARTITION."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class RatePoint:
    """Number of records and bytes (as in PartitionFigures) in one time interval that begins at `start_ms` (epoch
    ms)."""

    start_ms: int
    records: int
    size_bytes: int


@dataclass(frozen=True)
class KeyFigures:
    """Number of records with one key, and their bytes of keys and values. `topic` is empty if the profile has one
    topic."""

    key: bytes | None
    records: int
    size_bytes: int
    topic: str = ""

    @property
    def name(self) -> str:
        """The key as printable text, preceded by its topic if `topic` is set."""
        return f"{self.topic} · {key_text(self.key)}" if self.topic else key_text(self.key)


@dataclass(frozen=True)
class KeySkew:
    """Distribution of records over keys: the most frequent keys, number of distinct keys, median and 99th percentile.
    `gini` is 0 if all keys have equally many records and approaches 1 if one key has all."""

    top: Sequence[KeyFigures]
    distinct_keys: int
    records: int
    without_key: int
    gini: float
    median_records: float
    p99_records: float


@dataclass(frozen=True)
class CodecFigures:
    """Number of batches and records, and stored bytes, for one compression codec."""

    codec: str
    batches: int
    records: int
    size_bytes: int


@dataclass(frozen=True)
class SizeBucket:
    """Number of batches whose size (in bytes or in records) is at least `low` and below `high`."""

    low: int
    high: int
    batches: int


@dataclass(frozen=True)
class GroupLag:
    """Lag in records of a consumer group in one partition; None if the group has no committed offset there."""

    group: str
    topic: str
    partition: int
    lag: int | None


@dataclass(frozen=True)
class Profile:
    """All data of a profile page: partitions, rates over time, keys, codecs, batch sizes and group lags. `lags` or
    `keys` is None if lags or keys were not read. `rates` is empty if no batch has a timestamp, `codecs` if no codec is
    known. `made_ms` is the creation time in epoch ms, `rate_width_ms` the length of an interval of `rates`; `damages`
    is the number of damaged ranges."""

    source: str
    made_ms: int
    partitions: Sequence[PartitionFigures]
    rate_width_ms: int = 0
    rates: Sequence[RatePoint] = ()
    keys: KeySkew | None = None
    codecs: Sequence[CodecFigures] = ()
    batch_sizes: Sequence[SizeBucket] = ()
    batch_counts: Sequence[SizeBucket] = ()
    lags: Sequence[GroupLag] | None = None
    damages: int = 0

    @property
    def counts_records(self) -> bool:
        """Return whether sizes are those of keys and values before compression, not of stored batches."""
        return any(part.size_basis == SIZE_OF_RECORDS for part in self.partitions)
