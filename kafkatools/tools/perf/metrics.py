"""The figures of a run as JSON: one object a metric, and no number that JSON does not have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from kafkatools.core.java.text import Metric


def metric_rows(metrics: Iterable[Metric]) -> list[dict[str, object]]:
    """The metrics in the order of Kafka's table."""
    return [{"event": "metric", **metric._asdict()} for metric in sorted(metrics, key=lambda metric: metric.text)]


def finite(values: Mapping[str, object]) -> dict[str, object]:
    """The same with null for infinite numbers and for those that are none."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }
