"""Sensor: a recorded quantity, with its statistics over a window of time and since the start
(org.apache.kafka.common.metrics).

Rules: one writer at a time; any thread reads, and reading changes nothing. A sensor keeps metrics.num.samples samples
of metrics.sample.window.ms each. Averages, maxima and minima are NaN when nothing was recorded in these samples, as in
Kafka. `Stats` tables name the statistics of a sensor that are metrics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple

_START, _LAST, _SUM, _COUNT, _MAX, _MIN = range(6)
_SECONDS_PER_HOUR = 3600
MS_PER_HOUR = 3_600_000


class Window(NamedTuple):
    """The settings metrics.num.samples and metrics.sample.window.ms."""

    samples: int = 2
    sample_ms: int = 30_000


DEFAULT_WINDOW = Window()


class Sensor:
    """A quantity that is recorded batch by batch or request by request. `total` and `count`: since the start; `last`:
    the last recorded value."""

    __slots__ = ("count", "last", "total", "_samples", "_window")

    def __init__(self, window: Window) -> None:
        self.total = 0.0
        self.count = 0
        self.last = math.nan
        self._window = window
        self._samples: list[list[float]] = []

    def record(self, value: float, now_ms: int) -> None:
        """Add a value."""
        samples = self._samples
        if not samples or now_ms - samples[-1][_START] >= self._window.sample_ms:
            # A reader may look between any two statements, so a new sample has its first value when it is published.
            kept = samples[1 - self._window.samples :] if self._window.samples > 1 else []
            self._samples = [*kept, [now_ms, now_ms, value, 1, value, value]]
            self.total += value
            self.count += 1
            self.last = value
            return
        sample = samples[-1]
        sample[_LAST] = now_ms
        sample[_SUM] += value
        sample[_COUNT] += 1
        if value > sample[_MAX]:
            sample[_MAX] = value
        if value < sample[_MIN]:
            sample[_MIN] = value
        self.total += value
        self.count += 1
        self.last = value

    def _recent(self, now_ms: int) -> list[list[float]]:
        """The samples that have not expired (SampledStat.purgeObsoleteSamples)."""
        lifetime_ms = self._window.samples * self._window.sample_ms
        return [sample for sample in self._samples if now_ms - sample[_LAST] < lifetime_ms]

    def _per_second(self, amount: float, recent: list[list[float]], now_ms: int) -> float:
        """Divide by the time since the oldest sample, at least all full samples but one (Rate.windowSize): the first
        records do not give a high rate."""
        sample_ms = self._window.sample_ms
        elapsed_ms = now_ms - recent[0][_START] if recent else 0
        missing = max(0, self._window.samples - 1 - elapsed_ms // sample_ms)
        return amount * 1000 / max(1, elapsed_ms + missing * sample_ms)

    def rate(self, now_ms: int) -> float:
        """The sum of the values per second."""
        recent = self._recent(now_ms)
        return self._per_second(sum(sample[_SUM] for sample in recent), recent, now_ms)

    def count_rate(self, now_ms: int) -> float:
        """The number of values per second."""
        recent = self._recent(now_ms)
        return self._per_second(sum(sample[_COUNT] for sample in recent), recent, now_ms)

    def average(self, now_ms: int) -> float:
        """The average of the recent values; NaN without any."""
        recent = self._recent(now_ms)
        count = sum(sample[_COUNT] for sample in recent)
        return sum(sample[_SUM] for sample in recent) / count if count else math.nan

    def maximum(self, now_ms: int) -> float:
        """The largest recent value; NaN without any."""
        return max((sample[_MAX] for sample in self._recent(now_ms)), default=math.nan)

    def minimum(self, now_ms: int) -> float:
        """The smallest recent value; NaN without any."""
        return min((sample[_MIN] for sample in self._recent(now_ms)), default=math.nan)


Stats = Mapping[str, Callable[[Sensor, int], float]]
"""The metrics of a sensor: name to a function of the sensor and the time."""


@cache
def sums(name: str) -> Stats:
    """The metrics `NAME-rate` and `NAME-total` of the recorded values (Kafka's Meter)."""
    return {f"{name}-rate": Sensor.rate, f"{name}-total": total}


@cache
def counts(name: str) -> Stats:
    """The metrics `NAME-rate` and `NAME-total` of the number of values."""
    return {f"{name}-rate": Sensor.count_rate, f"{name}-total": count}


@cache
def hourly_counts(name: str) -> Stats:
    """The metrics `NAME-rate-per-hour` and `NAME-total` of the number of values; for a sensor with samples of an
    hour."""
    return {
        f"{name}-rate-per-hour": lambda sensor, now_ms: sensor.count_rate(now_ms) * _SECONDS_PER_HOUR,
        f"{name}-total": count,
    }


@cache
def durations(name: str) -> Stats:
    """The metric `NAME-time-ns-total` of the recorded times."""
    return {f"{name}-time-ns-total": total}


@cache
def averages(name: str) -> Stats:
    """The metrics `NAME-avg` and `NAME-max`."""
    return {f"{name}-avg": Sensor.average, f"{name}-max": Sensor.maximum}


def total(sensor: Sensor, now_ms: int) -> float:
    """The sum of all values since the start."""
    return sensor.total


def count(sensor: Sensor, now_ms: int) -> float:
    """The number of values since the start."""
    return float(sensor.count)


def last(sensor: Sensor, now_ms: int) -> float:
    """The last value; NaN before the first."""
    return sensor.last
