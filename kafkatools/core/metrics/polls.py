"""PollMetrics: how often and how long a consumer polls (KafkaConsumerMetrics, KafkaShareConsumerMetrics)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.metrics.sensor import Sensor, Stats, averages, durations

GROUP = "consumer-metrics"
SHARE_GROUP = "consumer-share-metrics"
_IDLE: Stats = {"poll-idle-ratio-avg": Sensor.average}


class PollMetrics:
    """The metrics of a consumer's polls."""

    def __init__(self, registry: MetricsRegistry, group: str) -> None:
        self._clock = registry.clock
        self._between = registry.sensor(group, averages("time-between-poll"))
        self._idle = registry.sensor(group, _IDLE)
        self._started_ms: int | None = None
        self._since_last_ms = 0
        registry.gauge(group, "last-poll-seconds-ago", self._seconds_ago)

    def _seconds_ago(self, now_ms: int) -> float:
        """Whole seconds since the last poll; NaN before the first, where Kafka has -1."""
        return math.nan if self._started_ms is None else (now_ms - self._started_ms) // 1000

    @contextmanager
    def time(self) -> Iterator[None]:
        """Record a poll: the time since the last one, and the part of it that polls waited."""
        started_ms = self._clock.now_ms()
        if self._started_ms is not None:
            self._since_last_ms = started_ms - self._started_ms
            self._between.record(self._since_last_ms, started_ms)
        self._started_ms = started_ms
        try:
            yield
        finally:
            now_ms = self._clock.now_ms()
            polled_ms = now_ms - started_ms
            whole_ms = polled_ms + self._since_last_ms
            if whole_ms:
                self._idle.record(polled_ms / whole_ms, now_ms)


class CommitTimes:
    """The time spent in `commit_sync` and `committed` calls."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._clock = registry.clock
        self._calls = {name: registry.sensor(GROUP, durations(name)) for name in ("commit-sync", "committed")}

    @contextmanager
    def time(self, call: str) -> Iterator[None]:
        """Add the duration of a block to `CALL-time-ns-total`, also if it raises; `call`: commit-sync, committed."""
        started_ns = self._clock.now_ns()
        try:
            yield
        finally:
            self._calls[call].record(self._clock.now_ns() - started_ns, self._clock.now_ms())
