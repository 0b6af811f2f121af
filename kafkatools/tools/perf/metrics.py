"""Client metrics and figures of performance tests as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from kafkatools.core.java.text import Metric


def metric_rows(metrics: Iterable[Metric]) -> list[dict[str, object]]:
    """A JSON object for each metric, in the order of Kafka's table."""
    return [{"event": "metric", **metric._asdict()} for metric in sorted(metrics, key=lambda metric: metric.text)]


def finite(values: Mapping[str, object]) -> dict[str, object]:
    """A copy of the fields with None for NaN and infinite floats, which JSON cannot hold."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }
