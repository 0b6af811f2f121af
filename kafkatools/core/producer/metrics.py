"""ProducerMetrics: the most used values of Kafka's producer-metrics, by Kafka's names.

Averages, maxima and rates cover one to two windows of 30 s, as Kafka's default metrics.sample.window.ms gives; totals
count from the start. The sender's thread writes them and any thread reads, so a value may be one batch old.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkatools.core.producer.producer_batch import ProducerBatch

SAMPLE_WINDOW_MS = 30_000


class Sensor:
    """Sum, count and maximum of a value over the last one to two windows of 30 s, and its total."""

    __slots__ = ("total", "_started_ms", "_current", "_previous")

    def __init__(self, now_ms: int) -> None:
        self.total = 0.0
        self._started_ms = now_ms
        self._current = [0.0, 0.0, 0.0]
        self._previous = [0.0, 0.0, 0.0]

    def record(self, value: float, now_ms: int) -> None:
        self._roll(now_ms)
        self.total += value
        current = self._current
        current[0] += value
        current[1] += 1
        if value > current[2]:
            current[2] = value

    def _roll(self, now_ms: int) -> None:
        windows = (now_ms - self._started_ms) // SAMPLE_WINDOW_MS
        if windows >= 1:
            self._previous = self._current if windows == 1 else [0.0, 0.0, 0.0]
            self._current = [0.0, 0.0, 0.0]
            self._started_ms += windows * SAMPLE_WINDOW_MS

    def average(self, now_ms: int) -> float:
        self._roll(now_ms)
        count = self._current[1] + self._previous[1]
        return (self._current[0] + self._previous[0]) / count if count else 0.0

    def maximum(self, now_ms: int) -> float:
        self._roll(now_ms)
        return max(self._current[2], self._previous[2])

    def rate(self, now_ms: int) -> float:
        """The sum per second over the last one to two windows (Kafka's Rate)."""
        self._roll(now_ms)
        elapsed_ms = now_ms - self._started_ms + SAMPLE_WINDOW_MS
        return (self._current[0] + self._previous[0]) * 1000 / elapsed_ms


_TOTALS = {
    "record-send": "records",
    "byte": "bytes",
    "record-error": "errors",
    "record-retry": "retries",
    "batch-split": "splits",
    "request": "requests",
    "response": "responses",
}
_AVERAGES = {
    "batch-size": "batch_size",
    "record-queue-time": "queue_time",
    "request-latency": "latency",
    "produce-throttle-time": "throttle",
}


class ProducerMetrics:
    """The sensors of one producer; `snapshot` returns their values by Kafka's names."""

    def __init__(self, now_ms: int) -> None:
        self._sensors = {
            name: Sensor(now_ms)
            for name in (*_TOTALS.values(), *_AVERAGES.values(), "record_size", "ratio", "per_request")
        }
        self._gauges: dict[str, Callable[[], float]] = {}

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Register a metric whose value `read` returns at each snapshot."""
        self._gauges[name] = read

    def record_batches(self, batches: list[ProducerBatch], now_ms: int) -> None:
        """Record the batches of a Produce request that is being sent."""
        sensors = self._sensors
        records = 0
        for batch in batches:
            size = batch.estimated_size_bytes
            records += batch.record_count
            sensors["batch_size"].record(size, now_ms)
            sensors["bytes"].record(size, now_ms)
            sensors["queue_time"].record(max(0, batch.drained_ms - batch.created_ms), now_ms)
            sensors["ratio"].record(batch.builder.compression_ratio, now_ms)
            sensors["record_size"].record(size / max(1, batch.record_count), now_ms)
        sensors["records"].record(records, now_ms)
        sensors["per_request"].record(records, now_ms)
        sensors["requests"].record(1, now_ms)

    def record_response(self, latency_ms: int, throttle_ms: int, now_ms: int) -> None:
        """Record the latency and throttle time of a Produce response, in ms."""
        self._sensors["responses"].record(1, now_ms)
        self._sensors["latency"].record(latency_ms, now_ms)
        self._sensors["throttle"].record(throttle_ms, now_ms)

    def record_retries(self, records: int, now_ms: int) -> None:
        """Count records whose batch is retried."""
        self._sensors["retries"].record(records, now_ms)

    def record_errors(self, records: int, now_ms: int) -> None:
        """Count records that failed."""
        self._sensors["errors"].record(records, now_ms)

    def record_split(self, now_ms: int) -> None:
        """Count a batch that was split."""
        self._sensors["splits"].record(1, now_ms)

    def snapshot(self, now_ms: int) -> dict[str, float]:
        """The values of all metrics by name."""
        figures: dict[str, float] = {}
        for name, key in _TOTALS.items():
            figures[f"{name}-total"] = self._sensors[key].total
            figures[f"{name}-rate"] = self._sensors[key].rate(now_ms)
        for name, key in _AVERAGES.items():
            figures[f"{name}-avg"] = self._sensors[key].average(now_ms)
            figures[f"{name}-max"] = self._sensors[key].maximum(now_ms)
        figures["record-size-avg"] = self._sensors["record_size"].average(now_ms)
        figures["compression-rate-avg"] = self._sensors["ratio"].average(now_ms)
        figures["records-per-request-avg"] = self._sensors["per_request"].average(now_ms)
        for name, read in self._gauges.items():
            figures[name] = read()
        return figures
