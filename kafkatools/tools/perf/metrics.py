"""The figures of a run as JSON: one object a metric, and no number that JSON does not have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from kafkatools.core.java.text import Metric


def metric_rows(metrics: Iterable[Metric]) -> list[dict[str, Any]]:
    """The metrics in the order of Kafka's table."""
    return [{"event": "metric", **metric._asdict()} for metric in sorted(metrics, key=lambda metric: metric.text)]


def finite(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same with null for infinite numbers and for those that are none."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }
