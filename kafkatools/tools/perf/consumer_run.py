"""A run of `kt consumer-perf-test`: a group member that reads and counts records as columns.

The cost is per fetch, not per record. The run counts at most the requested number of records; records of the last fetch
beyond it are not committed. The time until the first assignment, and of rebalances that revoke all partitions, is
measured apart from the fetch time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.group_subscription import RebalanceListener
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition
from kafkatools.core.java.text import ratio
from kafkatools.core.metrics.registry import MetricValues

_POLL_MS = 100
_MIB = 1024 * 1024


class ConsumerLoad(NamedTuple):
    """The load of the consumer performance test: `topics` are names, or a predicate made from `pattern`.
    `reporting_interval_ms` is None without interval reports."""

    topics: list[str] | Callable[[str], bool]
    pattern: str | None
    records: int
    timeout_ms: int
    reporting_interval_ms: int | None


class Reading(NamedTuple):
    """Counts of the consumer performance test: records, bytes, wall clock time and time spent joining in ms."""

    records: int
    size_bytes: int
    wall_ms: int
    join_ms: int


class Interval(NamedTuple):
    """A reporting interval of the consumer performance test from `last` to `now`, and the reading at the start."""

    start: Reading
    last: Reading
    now: Reading


class ConsumerEnd(NamedTuple):
    """The result of the consumer performance test. `problem` is why too few records came."""

    start: Reading
    end: Reading
    metrics: MetricValues
    problem: Exception | None
    is_interrupted: bool


class Figures(NamedTuple):
    """Throughput figures of a time span. `mb` is in units of 2^20 bytes."""

    records: int
    bytes: int
    elapsed_ms: int
    mb: float
    mb_per_sec: float
    records_per_sec: float
    rebalance_ms: int
    fetch_ms: int
    fetch_mb_per_sec: float
    fetch_records_per_sec: float


def figures_between(start: Reading, end: Reading) -> Figures:
    """The throughput figures between two readings."""
    records, size = end.records - start.records, end.size_bytes - start.size_bytes
    elapsed_ms, join_ms = end.wall_ms - start.wall_ms, end.join_ms - start.join_ms
    fetch_ms, mb = elapsed_ms - join_ms, size / _MIB
    return Figures(
        records,
        size,
        elapsed_ms,
        mb,
        ratio(mb, elapsed_ms / 1000),
        ratio(records, elapsed_ms / 1000),
        join_ms,
        fetch_ms,
        ratio(mb, fetch_ms / 1000),
        ratio(records, fetch_ms / 1000),
    )


class ConsumerRun:
    """One run of the consumer performance test. `on_interval` is called for each reporting interval with records."""

    def __init__(
        self, load: ConsumerLoad, config: Config, clock: Clock, on_interval: Callable[[Interval], None]
    ) -> None:
        self._load = load
        self._config = config
        self._clock = clock
        self._on_interval = on_interval
        self._records = self._bytes = 0
        self._join_ms = 0
        self._start = self._last = self._now()
        self._problem: Exception | None = None

    def run(self) -> ConsumerEnd:
        """Read until the requested number of records, `timeout_ms` without a record, or Ctrl-C; return the result in
        each case. Raises KafkaError."""
        is_interrupted = False
        consumer = Consumer(self._config, self._clock)
        try:
            try:
                self._read(consumer)
            except KeyboardInterrupt:
                is_interrupted = True
            end = self._now()
            metrics = consumer.metrics()
        except BaseException:
            consumer.close(0)
            raise
        consumer.close()
        return ConsumerEnd(self._start, end, metrics, self._problem, is_interrupted)

    def next_interval(self) -> Interval:
        """End the present reporting interval, start the next one, and return the ended one."""
        interval = Interval(self._start, self._last, self._now())
        self._last = interval.now
        return interval

    @property
    def has_unreported(self) -> bool:
        """Return whether records came since the last reporting interval, or no interval has ended yet."""
        return self._records > self._last.records or self._last is self._start

    def _now(self) -> Reading:
        return Reading(self._records, self._bytes, self._clock.wall_ms(), self._join_ms)

    def _read(self, consumer: Consumer) -> None:
        consumer.subscribe(self._load.topics, _JoinTimer(self._clock, self._add_join_time))
        clock, timeout_ms = self._clock, self._load.timeout_ms
        interval_ms = self._load.reporting_interval_ms
        now_ms = last_arrival_ms = last_report_ms = clock.now_ms()
        while self._records < self._load.records and now_ms - last_arrival_ms <= timeout_ms:
            fetched = self._poll(consumer)
            now_ms = clock.now_ms()
            if fetched:
                last_arrival_ms = now_ms
                self._take(consumer, fetched)
            if interval_ms is not None and fetched and now_ms - last_report_ms >= interval_ms:
                self._on_interval(self.next_interval())
                last_report_ms = now_ms
        if self._records < self._load.records:
            self._problem = consumer.connection_problem() or self._missing_topic(consumer)

    def _poll(self, consumer: Consumer) -> list[FetchedColumns]:
        """Poll records. Before the first metadata, a retriable error counts as no records, as in Kafka's tool; other
        errors are raised."""
        try:
            return consumer.poll_columns(_POLL_MS)
        except KafkaError as error:
            if consumer.metadata_version or not error.retriable:
                raise
            return []

    def _missing_topic(self, consumer: Consumer) -> Exception | None:
        """The error for a run whose topics do not exist; None if one exists or no metadata has arrived."""
        existing = consumer.known_partitions()
        topics = self._load.topics
        exists = any(map(topics, existing)) if callable(topics) else any(topic in existing for topic in topics)
        if exists or not consumer.metadata_version:
            return None
        if callable(topics):
            return UnknownTopicOrPartition(f"No topic matches {self._load.pattern}")
        return UnknownTopicOrPartition(f"Topic {', '.join(topics)} does not exist")

    def _take(self, consumer: Consumer, fetched: Sequence[FetchedColumns]) -> None:
        """Count fetched records up to the requested number, and seek each partition back to its first record that is
        not counted."""
        left_at: dict[TopicPartition, int] = {}
        for item in fetched:
            columns, remaining = item.columns, self._load.records - self._records
            if columns.count > remaining:
                left_at.setdefault(item.topic_partition, columns.offsets[remaining])
                columns = columns.slice(0, remaining)
            self._records += columns.count
            for lengths in (columns.key_lengths, columns.value_lengths):
                self._bytes += sum(lengths) + lengths.count(-1)
        for part, offset in left_at.items():
            consumer.seek(part, offset)

    def _add_join_time(self, elapsed_ms: int) -> None:
        self._join_ms += elapsed_ms


class _JoinTimer(RebalanceListener):
    """Measures the time in ms from start, or from the revocation of all partitions, to the next assignment
    (ConsumerPerfRebListener). `joined` is called with each."""

    def __init__(self, clock: Clock, add_join_time: Callable[[int], None]) -> None:
        self._clock = clock
        self._add_join_time = add_join_time
        self._start_ms = clock.now_ms()
        self._assigned: set[TopicPartition] = set()

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._assigned.difference_update(partitions)
        if not self._assigned:
            self._start_ms = self._clock.now_ms()

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if not self._assigned:
            self._add_join_time(self._clock.now_ms() - self._start_ms)
        self._assigned.update(partitions)
