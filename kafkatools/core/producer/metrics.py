"""ProducerMetrics: the most used values of Kafka's producer-metrics, by Kafka's names.

Averages, maxima and rates cover one to two windows of 30 s, as Kafka's default metrics.sample.window.ms gives; totals
count from the start. The sender's thread writes most of them; threads that send count records that fail before a batch.
Any thread reads, so a value may be one batch old.
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
        """The sum per second over the last one to two windows (Kafka's Rate). The first window counts as preceded by an
        empty one."""
        self._roll(now_ms)
        elapsed_ms = now_ms - self._started_ms + SAMPLE_WINDOW_MS
        return (self._current[0] + self._previous[0]) * 1000 / elapsed_ms


_TOTALS = ("record-send", "byte", "record-error", "record-retry", "batch-split", "request", "response")
"""Metrics with a total and a rate."""
_AVERAGES_AND_MAXIMA = ("batch-size", "record-queue-time", "request-latency", "produce-throttle-time")
_AVERAGES = ("record-size", "compression-rate", "records-per-request")


class ProducerMetrics:
    """The sensors of one producer; `snapshot` returns their values by Kafka's names."""

    def __init__(self, now_ms: int) -> None:
        self._sensors = {name: Sensor(now_ms) for name in (*_TOTALS, *_AVERAGES_AND_MAXIMA, *_AVERAGES)}
        self._gauges: dict[str, Callable[[], float]] = {}

    def gauge(self, name: str, read: Callable[[], float]) -> None:
        """Register a metric whose value `read` returns at each snapshot."""
        self._gauges[name] = read

    def record(self, name: str, value: float, now_ms: int) -> None:
        """Add a value to the metric with this name, such as `record-error`; without the suffix `-total` or `-avg`."""
        self._sensors[name].record(value, now_ms)

    def record_batches(self, batches: list[ProducerBatch], now_ms: int) -> None:
        """Record the batches of a Produce request that is being sent."""
        records = 0
        for batch in batches:
            size = batch.estimated_size_bytes
            records += batch.record_count
            self.record("batch-size", size, now_ms)
            self.record("byte", size, now_ms)
            self.record("record-queue-time", max(0, batch.drained_ms - batch.created_ms), now_ms)
            self.record("compression-rate", batch.builder.compression_ratio, now_ms)
            self.record("record-size", size / max(1, batch.record_count), now_ms)
        self.record("record-send", records, now_ms)
        self.record("records-per-request", records, now_ms)
        self.record("request", 1, now_ms)

    def record_response(self, latency_ms: int, throttle_ms: int, now_ms: int) -> None:
        """Record the latency and throttle time of a Produce response, in ms."""
        self.record("response", 1, now_ms)
        self.record("request-latency", latency_ms, now_ms)
        self.record("produce-throttle-time", throttle_ms, now_ms)

    def snapshot(self, now_ms: int) -> dict[str, float]:
        """The current values of all producer metrics by name."""
        values: dict[str, float] = {}
        for name in _TOTALS:
            values[f"{name}-total"] = self._sensors[name].total
            values[f"{name}-rate"] = self._sensors[name].rate(now_ms)
        for name in _AVERAGES_AND_MAXIMA:
            values[f"{name}-avg"] = self._sensors[name].average(now_ms)
            values[f"{name}-max"] = self._sensors[name].maximum(now_ms)
        for name in _AVERAGES:
            values[f"{name}-avg"] = self._sensors[name].average(now_ms)
        return values | {name: read() for name, read in self._gauges.items()}
