"""The metrics of one client by Kafka's names: MetricName, the registry of a client's sensors, and its values.

Rules: metrics are added by the client's constructor or by the thread that records them, and read by any thread. Values
are computed when `MetricsRegistry.values` is called; between calls a metric costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.metrics.sensor import MS_PER_HOUR, Sensor, Stats, Window, count, hourly_counts, total

CLIENT_ID = "client-id"
_COUNT_GROUP = "kafka-metrics-count"

Tags = tuple[tuple[str, str], ...]


class MetricName(NamedTuple):
    """The name of a metric, as Kafka's MetricName: `record-send-total` of `producer-topic-metrics`, with tags such as
    client-id and topic, sorted by key."""

    name: str
    group: str
    tags: Tags

    @classmethod
    def of(cls, name: str, group: str, tags: Mapping[str, str]) -> MetricName:
        """Return the name with the tags of a mapping."""
        return cls(name, group, tuple(sorted(tags.items())))

    def tag(self, key: str) -> str | None:
        """Return the value of a tag, None without it."""
        return dict(self.tags).get(key)


class MetricValues(Mapping[MetricName, float]):
    """The values of a client's metrics at one time. A plain text looks up the metric of the whole client, which has no
    tag but client-id: `values["record-send-total"]`. NaN: nothing was recorded in the window."""

    def __init__(self, values: Mapping[MetricName, float]) -> None:
        self._values = values

    def __getitem__(self, name: MetricName | str) -> float:
        if isinstance(name, MetricName):
            return self._values[name]
        for metric, value in self._values.items():
            if metric.name == name and len(metric.tags) == 1:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[MetricName]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        if isinstance(name, MetricName):
            return name in self._values
        return any(metric.name == name and len(metric.tags) == 1 for metric in self._values)

    def __repr__(self) -> str:
        return f"MetricValues({len(self._values)} metrics)"


class Measurement(NamedTuple):
    """The value of a metric. `is_sum`: it adds up since the start of the client, as Kafka's CumulativeSum."""

    metric: MetricName
    value: float
    is_sum: bool


class _Source(NamedTuple):
    """A sensor with the metrics that it has. Names are made when values are read: 1,000 clients have 100,000."""

    group: str
    tags: Tags
    stats: Stats
    sensor: Sensor


class _Gauge(NamedTuple):
    """A metric whose value a function of the time in ms returns."""

    metric: MetricName
    read: Callable[[int], float]


class MetricsRegistry:
    """The sensors and gauges of one client. `_lock` guards both lists, which the threads of a client add to."""

    def __init__(self, client_id: str, window: Window, clock: Clock) -> None:
        self.clock = clock
        self.window = window
        self._lock = threading.Lock()
        self._own_tags: Tags = ((CLIENT_ID, client_id),)
        self._sources: list[_Source] = []
        self._gauges: list[_Gauge] = []
        self.gauge(_COUNT_GROUP, "count", lambda now_ms: float(self._count()))

    @classmethod
    def of(cls, config: Config, clock: Clock) -> MetricsRegistry:
        """The registry of a client with this configuration."""
        window = Window(config.metrics_num_samples, config.metrics_sample_window_ms)
        return cls(config.client_id, window, clock)

    def _tags(self, tags: Mapping[str, str] | None) -> Tags:
        return tuple(sorted((*self._own_tags, *tags.items()))) if tags else self._own_tags

    def _count(self) -> int:
        return len(self._gauges) + sum(len(source.stats) for source in self._sources)

    def sensor(self, group: str, stats: Stats, tags: Mapping[str, str] | None = None) -> Sensor:
        """Add a sensor whose metrics are `stats`. `tags`: those besides client-id."""
        sensor = Sensor(self.window)
        self.add(group, stats, sensor, tags)
        return sensor

    def hourly_sensor(self, group: str, name: str) -> Sensor:
        """Add a sensor with the metrics `NAME-rate-per-hour` and `NAME-total`. Its samples last an hour, whatever the
        settings say (Kafka's Rate with a time window of its own)."""
        sensor = Sensor(self.window._replace(sample_ms=MS_PER_HOUR))
        self.add(group, hourly_counts(name), sensor)
        return sensor

    def add(self, group: str, stats: Stats, sensor: Sensor, tags: Mapping[str, str] | None = None) -> None:
        """Add the metrics `stats` of a sensor."""
        with self._lock:
            self._sources.append(_Source(group, self._tags(tags), stats, sensor))

    def gauge(self, group: str, name: str, read: Callable[[int], float], tags: Mapping[str, str] | None = None) -> None:
        """Add a metric whose value `read` returns for the time in ms."""
        with self._lock:
            self._gauges.append(_Gauge(MetricName(name, group, self._tags(tags)), read))

    def remove(self, group: str, tags: Iterable[Mapping[str, str]]) -> None:
        """Remove the metrics of a group that have exactly these tags besides client-id."""
        removed = {(group, self._tags(each)) for each in tags}
        with self._lock:
            self._sources = [source for source in self._sources if source[:2] not in removed]
            self._gauges = [gauge for gauge in self._gauges if gauge.metric[1:] not in removed]

    def values(self) -> MetricValues:
        """Return the present values of all metrics."""
        return MetricValues({metric: value for metric, value, _ in self.measurements()})

    def measurements(self) -> Iterator[Measurement]:
        """Yield the present value of each metric."""
        now_ms = self.clock.now_ms()
        with self._lock:
            gauges, sources = list(self._gauges), list(self._sources)
        for metric, read_gauge in gauges:
            yield Measurement(metric, read_gauge(now_ms), False)
        for group, tags, stats, sensor in sources:
            for name, read in stats.items():
                yield Measurement(MetricName(name, group, tags), read(sensor, now_ms), read in (total, count))
