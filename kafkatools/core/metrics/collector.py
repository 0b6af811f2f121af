"""MetricsCollector: the metrics of a client as it pushes them to brokers (KIP-714; Kafka's KafkaMetricsCollector and
TelemetryMetricNamingConvention).

Rules: `record-send-total` of `producer-metrics` becomes `org.apache.kafka.producer.record.send.total`. The tag
client-id is left out, because the broker knows it. Totals are sums; everything else is a gauge, NaN while nothing was
recorded. With delta temporality a sum is the change since the last collection, the first one since the client began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from kafkatools.core.metrics.otlp import Point, encode_metrics
from kafkatools.core.metrics.registry import CLIENT_ID, MetricName, MetricsRegistry

_DOMAIN = "org.apache.kafka"
_MS_TO_NS = 1_000_000


@cache
def telemetry_name(group: str, name: str) -> str:
    """The name under which a metric is pushed."""
    section = group.lower().replace("-", ".").replace(".metrics", "")
    return f"{_DOMAIN}.{section}.{name.lower().replace('-', '.')}"


class MetricsCollector:
    """Collects the metrics of one client, for one thread. `resource()` returns the labels of the client."""

    def __init__(
        self, registry: MetricsRegistry, resource: Callable[[], Mapping[str, str]], started_wall_ms: int
    ) -> None:
        self._registry = registry
        self._resource = resource
        self._started_ns = started_wall_ms * _MS_TO_NS
        self._collected: dict[MetricName, tuple[int, float]] = {}

    def collect(self, is_selected: Callable[[str], bool], wall_ms: int, *, is_delta: bool) -> bytes:
        """Return the MetricsData of the metrics whose pushed name is selected. If a metric or a label raises an error,
        no sum counts as collected, so that the next delta includes the changes of this one."""
        collected: dict[MetricName, tuple[int, float]] = {}
        points = self._points(is_selected, wall_ms * _MS_TO_NS, is_delta, collected)
        data = encode_metrics(self._resource(), points, is_delta=is_delta)
        self._collected = collected
        return data

    def reset(self) -> None:
        """Forget the collected sums, when the temporality changes."""
        self._collected.clear()

    def _points(
        self,
        is_selected: Callable[[str], bool],
        now_ns: int,
        is_delta: bool,
        collected: dict[MetricName, tuple[int, float]],
    ) -> Iterator[Point]:
        """Yield the selected points and add the sums, from which the next deltas begin, to `collected`."""
        before_all = self._collected
        for metric, value, is_sum in self._registry.measurements():
            name = telemetry_name(metric.group, metric.name)
            if not is_selected(name):
                if metric in before_all:
                    collected[metric] = before_all[metric]  # its next delta begins there
                continue
            attributes = {key.replace("-", "_"): text for key, text in metric.tags if key != CLIENT_ID}
            start_ns: int | None = None
            if is_sum:
                start_ns = self._started_ns
                if is_delta:
                    collected[metric] = (now_ns, value)
                    start_ns, before = before_all.get(metric, (start_ns, 0.0))
                    value -= before
            yield Point(name, attributes, value, now_ns, start_ns)
