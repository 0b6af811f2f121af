"""The figures that a profile shows, as plain data: whoever has them (a Spark job, a test) can have the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkatools.pipeline.charts.figures import key_text


@dataclass(frozen=True)
class PartitionFigures:
    """One partition; times in ms, None where nothing has one.

    `late_batches`: batches whose newest timestamp is older than one before them in the log; `largest_delay_ms`: by how
    much at most. `size_bytes` is what the batches take, compressed as they are.
    """

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

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True)
class RatePoint:
    """What was written in a span of time that begins at `start_ms`."""

    start_ms: int
    records: int
    size_bytes: int


@dataclass(frozen=True)
class KeyFigures:
    """One key: how many records, and how many bytes of keys and values; `topic` where there are several."""

    key: bytes | None
    records: int
    size_bytes: int
    topic: str = ""

    @property
    def name(self) -> str:
        return f"{self.topic} · {key_text(self.key)}" if self.topic else key_text(self.key)


@dataclass(frozen=True)
class KeySkew:
    """How unevenly records are spread over keys; `gini` is 0 for evenly, near 1 when one key has all."""

    top: Sequence[KeyFigures]
    distinct_keys: int
    records: int
    without_key: int
    gini: float
    median_records: float
    p99_records: float


@dataclass(frozen=True)
class CodecFigures:
    """What is compressed in one way."""

    codec: str
    batches: int
    records: int
    size_bytes: int


@dataclass(frozen=True)
class SizeBucket:
    """How many batches are of `low` up to `high` (exclusive)."""

    low: int
    high: int
    batches: int


@dataclass(frozen=True)
class GroupLag:
    """How far a group is behind in a partition; None when it never committed there."""

    group: str
    topic: str
    partition: int
    lag: int | None


@dataclass(frozen=True)
class Profile:
    """Everything on the page.

    `lags` is None where the source is not a live cluster, `keys` where keys were not read.
    """

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
