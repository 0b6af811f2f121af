"""Client metrics and figures of performance tests as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from kafkatools.core.java.text import Metric
from kafkatools.core.metrics.registry import MetricName


def metric_rows(metrics: Iterable[Metric]) -> list[dict[str, object]]:
    """A JSON object for each metric, in the order of Kafka's table."""
    return [finite({"event": "metric", **item._asdict()}) for item in sorted(metrics, key=lambda item: item.text)]


def metrics_of(values: Mapping[MetricName, float]) -> list[Metric]:
    """The metrics of a client as the table of --print-metrics shows them."""
    return [Metric(name.group, name.name, dict(name.tags), value) for name, value in values.items()]


def finite(values: Mapping[str, object]) -> dict[str, object]:
    """A copy of the fields with None for NaN and infinite floats, which JSON cannot hold."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }
