"""Latency statistics of the producer performance test (Kafka's ProducerPerformance.Stats).

Records are counted in runs that were sent and acknowledged together, so they share one latency in ms. Percentiles are
exact, from a histogram of all latencies, where Kafka keeps at most 500,000 samples. One thread calls `record`, another
takes the windows.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from kafkatools.core.java.text import java_fixed, ratio

PERCENTILES = (0.5, 0.95, 0.99, 0.999)
_MIB = 1024 * 1024


class Figures(NamedTuple):
    """Counts and latencies of a time span. `percentiles` are in ms, in the order of PERCENTILES, and only in totals."""

    records: int
    size_bytes: int
    elapsed_ms: int
    latency_sum_ms: int
    max_latency_ms: int
    percentiles: tuple[int, ...] = ()
    is_steady_state: bool = False
    is_first: bool = False

    @property
    def records_per_sec(self) -> float:
        """Average records per second."""
        return ratio(1000.0 * self.records, self.elapsed_ms)

    @property
    def mb_per_sec(self) -> float:
        """Average throughput in units of 2^20 bytes per second."""
        return ratio(1000.0 * self.size_bytes, self.elapsed_ms) / _MIB

    @property
    def avg_latency_ms(self) -> float:
        """Average latency in ms."""
        return ratio(float(self.latency_sum_ms), self.records)

    def window_line(self) -> str:
        """The line of Kafka's tool for a reporting interval."""
        return (
            f"{self.records} records sent, {java_fixed(self.records_per_sec, 1)} records/sec "
            f"({java_fixed(self.mb_per_sec, 2)} MB/sec), {java_fixed(self.avg_latency_ms, 1)} ms avg latency, "
            f"{self.max_latency_ms:.1f} ms max latency."
        )

    def total_line(self) -> str:
        """The line of Kafka's tool for the whole run."""
        steady = " steady state" if self.is_steady_state else ""
        median, p95, p99, p999 = self.percentiles
        return (
            f"{self.records}{steady} records sent, {java_fixed(self.records_per_sec, 6)} records/sec "
            f"({java_fixed(self.mb_per_sec, 2)} MB/sec), {java_fixed(self.avg_latency_ms, 2)} ms avg latency, "
            f"{self.max_latency_ms:.2f} ms max latency, {median} ms 50th, {p95} ms 95th, {p99} ms 99th, "
            f"{p999} ms 99.9th."
        )


class LatencyStats:
    """Counts and latencies since the start and in the present reporting interval. `windows` are the finished intervals
    that were not reported yet, oldest first; none is added while `is_silent`."""

    def __init__(self, now_ms: int, reporting_interval_ms: int, is_steady_state: bool = False) -> None:
        self._start_ms = now_ms
        self._interval_ms = reporting_interval_ms
        self._is_steady_state = is_steady_state
        self._records = self._bytes = self._latency_sum = 0
        self._histogram: dict[int, int] = {}
        self._is_first = True
        self._window_start_ms = now_ms
        self._window = [0, 0, 0, 0]  # records, bytes, sum and maximum of latencies
        self.is_silent = False
        self.windows: deque[Figures] = deque()

    @property
    def records(self) -> int:
        """The number of records counted so far."""
        return self._records

    def record(self, count: int, size_bytes: int, latency_ms: int, now_ms: int) -> None:
        """Count records that were acknowledged now. Ends the reporting interval if it is over."""
        latencies = latency_ms * count
        self._records += count
        self._bytes += size_bytes
        self._latency_sum += latencies
        self._histogram[latency_ms] = self._histogram.get(latency_ms, 0) + count
        window = self._window
        window[0] += count
        window[1] += size_bytes
        window[2] += latencies
        if latency_ms > window[3]:
            window[3] = latency_ms
        if now_ms - self._window_start_ms >= self._interval_ms:
            self._roll(now_ms)

    def _roll(self, now_ms: int) -> None:
        records, size, total, largest = self._window
        elapsed_ms = now_ms - self._window_start_ms
        if not self.is_silent:
            self.windows.append(
                Figures(records, size, elapsed_ms, total, largest, (), self._is_steady_state, self._is_first)
            )
        self._is_first = False
        self._window_start_ms = now_ms
        self._window = [0, 0, 0, 0]

    def total(self, now_ms: int) -> Figures:
        """The figures of all records so far, with percentiles."""
        return Figures(
            self._records,
            self._bytes,
            now_ms - self._start_ms,
            self._latency_sum,
            max(self._histogram, default=0),
            self._percentiles(),
            self._is_steady_state,
        )

    def _percentiles(self) -> tuple[int, ...]:
        """The latencies in ms at the positions `fraction * count` of all latencies in order; zeros without records."""
        percentiles: list[int] = []
        cumulative_count = 0
        for latency, count in sorted(self._histogram.items()):
            cumulative_count += count
            while (
                len(percentiles) < len(PERCENTILES)
                and int(PERCENTILES[len(percentiles)] * self._records) < cumulative_count
            ):
                percentiles.append(latency)
        return (*percentiles, *([0] * (len(PERCENTILES) - len(percentiles))))
