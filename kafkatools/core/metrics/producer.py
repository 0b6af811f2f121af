"""ProducerMetrics: the groups producer-metrics and producer-topic-metrics (Kafka's SenderMetricsRegistry).

The sender's thread writes most of them, once for each batch or request; threads that send count records that fail
before a batch, and the time of their calls. Any thread reads, so a value may be one batch old.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.metrics.sensor import Sensor, Stats, averages, counts, durations, sums

GROUP = "producer-metrics"
TOPIC_GROUP = "producer-topic-metrics"
_CALLS = (
    "flush", "metadata-wait", "txn-init", "txn-begin", "txn-send-offsets", "txn-prepare", "txn-commit", "txn-abort",
)  # fmt: skip


_COMPRESSION: Stats = {"compression-rate-avg": Sensor.average}
_RECORDS: Stats = {**sums("record-send"), "records-per-request-avg": Sensor.average}
_TOPIC_COMPRESSION: Stats = {"compression-rate": Sensor.average}


class SentBatch(NamedTuple):
    """The figures of a batch that a Produce request carries."""

    topic: str
    records: int
    size_bytes: int
    max_record_bytes: int
    compression_ratio: float
    queue_time_ms: int


class _TopicSensors(NamedTuple):
    records: Sensor
    size: Sensor
    compression: Sensor
    retries: Sensor
    errors: Sensor


class ProducerMetrics:
    """The sensors of one producer's batches, requests and calls. `_lock` guards what several threads record: errors,
    the times of calls, and the table of topics."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._lock = threading.Lock()
        self.registry = registry
        self._clock = registry.clock
        sensor = self._sensor
        self._batch_size = sensor(averages("batch-size"))
        self._queue_time = sensor(averages("record-queue-time"))
        self._record_size = sensor(averages("record-size"))
        self._compression = sensor(_COMPRESSION)
        self._records = sensor(_RECORDS)
        self._latency = sensor(averages("request-latency"))
        self._throttle_time = sensor(averages("produce-throttle-time"))
        self._retries = sensor(sums("record-retry"))
        self._errors = sensor(sums("record-error"))
        self._splits = sensor(counts("batch-split"))
        self._calls = {name: sensor(durations(name)) for name in _CALLS}
        self._topics: dict[str, _TopicSensors] = {}

    def _sensor(self, stats: Stats) -> Sensor:
        return self.registry.sensor(GROUP, stats)

    def gauge(self, name: str, read: Callable[[int], float]) -> None:
        """Add a metric of the whole producer whose value `read` returns for the time in ms."""
        self.registry.gauge(GROUP, name, read)

    def _of_topic(self, topic: str) -> _TopicSensors:
        sensors = self._topics.get(topic)
        return sensors or self._add_topic(topic)

    def _add_topic(self, topic: str) -> _TopicSensors:
        with self._lock:
            if topic in self._topics:  # another thread added it since
                return self._topics[topic]
            tables: tuple[Stats, ...] = (
                sums("record-send"),
                sums("byte"),
                _TOPIC_COMPRESSION,
                sums("record-retry"),
                sums("record-error"),
            )
            tags = {"topic": topic}
            sensors = _TopicSensors(*(self.registry.sensor(TOPIC_GROUP, stats, tags) for stats in tables))
            self._topics[topic] = sensors
        return sensors

    def sent(self, batches: Sequence[SentBatch], now_ms: int) -> None:
        """Record the batches of a Produce request that is being sent."""
        records = 0
        for batch in batches:
            size, count, ratio = batch.size_bytes, batch.records, batch.compression_ratio
            records += count
            self._batch_size.record(size, now_ms)
            self._queue_time.record(batch.queue_time_ms, now_ms)
            self._compression.record(ratio, now_ms)
            self._record_size.record(batch.max_record_bytes, now_ms)
            topic = self._of_topic(batch.topic)
            topic.records.record(count, now_ms)
            topic.size.record(size, now_ms)
            topic.compression.record(ratio, now_ms)
        self._records.record(records, now_ms)

    def answered(self, latency_ms: int, throttle_ms: int, now_ms: int) -> None:
        """Record the latency and throttle time of a Produce response, in ms."""
        self._latency.record(latency_ms, now_ms)
        self._throttle_time.record(throttle_ms, now_ms)

    def failed(self, topic: str, records: int, now_ms: int) -> None:
        """Count records that failed."""
        sensors = self._of_topic(topic)
        with self._lock:
            self._errors.record(records, now_ms)
            sensors.errors.record(records, now_ms)

    def retried(self, topic: str, records: int, now_ms: int) -> None:
        """Count records that are sent again."""
        self._retries.record(records, now_ms)
        self._of_topic(topic).retries.record(records, now_ms)

    def split(self, now_ms: int) -> None:
        """Count a batch that was too large and is sent as several."""
        self._splits.record(1, now_ms)

    @contextmanager
    def time(self, call: str) -> Iterator[None]:
        """Add the duration of a block to `CALL-time-ns-total`, also if it raises; `call` as `flush`, `txn-commit`."""
        started_ns = self._clock.now_ns()
        try:
            yield
        finally:
            elapsed_ns = self._clock.now_ns() - started_ns
            with self._lock:
                self._calls[call].record(elapsed_ns, self._clock.now_ms())
