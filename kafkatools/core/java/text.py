"""Numbers and figures as Java's tools print them: String.format's %.Nf, and the table of ToolsUtils.printMetrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Metric(NamedTuple):
    """A figure of a client: Kafka's MetricName and its value."""

    group: str
    name: str
    tags: Mapping[str, str]
    value: float | str

    @property
    def text(self) -> str:
        """The name as the table shows it: `group:name:{tag=value, ...}`."""
        tags = ", ".join(f"{key}={value}" for key, value in sorted(self.tags.items()))
        return f"{self.group}:{self.name}:{{{tags}}}"


def java_fixed(value: float, digits: int) -> str:
    """A number with so many digits behind the point; NaN and Infinity by their Java names."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:.{digits}f}"


def ratio(count: float, by: float) -> float:
    """A division as Java does it with doubles: by zero it is infinite, or no number."""
    if by:
        return count / by
    return math.copysign(math.inf, count) if count else math.nan


def metric_lines(metrics: Iterable[Metric]) -> list[str]:
    """The lines of the table, an empty one first; sorted by name."""
    rows: Sequence[tuple[str, float | str]] = sorted((metric.text, metric.value) for metric in metrics)
    width = max((len(name) for name, _ in rows), default=0)
    lines = ["", f"{'Metric Name':<{width}}   Value"]
    return lines + [f"{name:<{width}} : {_value(value)}" for name, value in rows]


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else java_fixed(value, 3)
