"""The metrics of one client by Kafka's names: MetricName, the registry of a client's sensors, and its values.

Rules: metrics are added by the client's constructor or by the thread that records them, and read by any thread. Values
are computed when `MetricsRegistry.values` is called; between calls a metric costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.metrics.sensor import Sensor, Stats, Window

_CLIENT_ID = "client-id"
_COUNT_GROUP = "kafka-metrics-count"


class MetricName(NamedTuple):
    """The name of a metric, as Kafka's MetricName: `record-send-total` of `producer-topic-metrics`, with tags such as
    client-id and topic, sorted by key."""

    name: str
    group: str
    tags: tuple[tuple[str, str], ...]

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


class MetricsRegistry:
    """The sensors and gauges of one client."""

    def __init__(self, client_id: str, window: Window, clock: Clock) -> None:
        self.clock = clock
        self._client_id = client_id
        self.window = window
        self._metrics: dict[MetricName, Callable[[int], float]] = {}
        self.gauge(_COUNT_GROUP, "count", lambda now_ms: float(len(self._metrics)))

    @classmethod
    def of(cls, config: Config, clock: Clock) -> MetricsRegistry:
        """The registry of a client with this configuration."""
        window = Window(config.metrics_num_samples, config.metrics_sample_window_ms)
        return cls(config.client_id, window, clock)

    def sensor(self, group: str, stats: Stats, tags: Mapping[str, str] | None = None) -> Sensor:
        """Add a sensor whose metrics are `stats`. `tags`: those besides client-id."""
        sensor = Sensor(self.window)
        self.add(group, stats, sensor, tags)
        return sensor

    def add(self, group: str, stats: Stats, sensor: Sensor, tags: Mapping[str, str] | None = None) -> None:
        """Add the metrics `stats` of a sensor."""
        for name, read in stats.items():
            self.gauge(group, name, partial(read, sensor), tags)

    def gauge(
        self, group: str, name: str, read: Callable[[int], float], tags: Mapping[str, str] | None = None
    ) -> MetricName:
        """Add a metric whose value `read` returns for the time in ms."""
        metric = MetricName.of(name, group, {_CLIENT_ID: self._client_id, **(tags or {})})
        self._metrics[metric] = read
        return metric

    def remove(self, group: str, names: Iterable[str], tags: Mapping[str, str]) -> None:
        """Remove the metrics of these names and tags. No effect on metrics that were not added."""
        for name in names:
            self._metrics.pop(MetricName.of(name, group, {_CLIENT_ID: self._client_id, **tags}), None)

    def values(self) -> MetricValues:
        """Return the present values of all metrics."""
        now_ms = self.clock.now_ms()
        return MetricValues({metric: read(now_ms) for metric, read in list(self._metrics.items())})
