"""SVG charts: horizontal bars, a histogram, an area over time. Colours come from the page's CSS variables.

Each mark has a `title` element, which browsers show as a tooltip. This module escapes all texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from kafkatools.pipeline.charts.figures import count, moment, nice_ticks

WIDTH = 720
_NAME_WIDTH = 200
_NAME_LETTERS = 28
_VALUE_WIDTH = 128
_ROW = 24
_BAR = 14
_HEIGHT = 200
_LEFT = 64
_BOTTOM = 28
_TOP = 8
_DAYS_WITHOUT_TIMES = 4 * 86_400_000


class Bar(NamedTuple):
    """One row of a bar chart: the name on the left, the bar's value, the label to its right, the tooltip."""

    name: str
    value: float
    label: str
    title: str


class Column(NamedTuple):
    """One column of a histogram: the name below the column, its value, the tooltip."""

    name: str
    value: float
    title: str


def _svg(height: int, label: str, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
    return "\n".join([head, *parts, "</svg>"])


def shorten(name: str) -> str:
    """Shorten a name to the width beside a bar by replacing its middle with an ellipsis."""
    if len(name) <= _NAME_LETTERS:
        return name
    half = (_NAME_LETTERS - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def bars(label: str, rows: Sequence[Bar]) -> str:
    """Draw a horizontal bar chart with one row for each Bar, in the order of `rows`. `label` is the accessible name."""
    largest = max((row.value for row in rows), default=0) or 1
    room = WIDTH - _NAME_WIDTH - _VALUE_WIDTH
    parts = []
    for number, row in enumerate(rows):
        top = number * _ROW
        length = max(room * row.value / largest, 1.5 if row.value else 0)
        middle = top + _ROW / 2
        parts.append(
            f'<g><title>{escape(row.title)}</title><rect class="hit" x="0" y="{top}" width="{WIDTH}" height="{_ROW}"/>'
            f'<text class="name" x="{_NAME_WIDTH - 10}" y="{middle:.1f}">{escape(shorten(row.name))}</text>'
            f'<path class="mark" d="{_bar_path(_NAME_WIDTH, middle - _BAR / 2, length)}"/>'
            f'<text class="value" x="{_NAME_WIDTH + length + 8:.1f}" y="{middle:.1f}">{escape(row.label)}</text></g>'
        )
    parts.append(f'<line class="axis" x1="{_NAME_WIDTH}" y1="0" x2="{_NAME_WIDTH}" y2="{len(rows) * _ROW}"/>')
    return _svg(len(rows) * _ROW, label, parts)


def _bar_path(left: float, top: float, length: float) -> str:
    radius = min(4.0, length)
    straight = length - radius
    return (
        f"M{left:.1f} {top:.1f}h{straight:.1f}q{radius:.1f} 0 {radius:.1f} {radius:.1f}"
        f"v{_BAR - 2 * radius:.1f}q0 {radius:.1f} -{radius:.1f} {radius:.1f}h-{straight:.1f}z"
    )


def _grid(ticks: Sequence[float], format_value: Callable[[float], str]) -> list[str]:
    parts = []
    for tick in ticks:
        y = _y(tick, ticks[-1])
        kind = "axis" if tick == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick end" x="{_LEFT - 8}" y="{y:.1f}">{escape(format_value(tick))}</text>')
    return parts


def _y(value: float, largest: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / largest)


def columns(label: str, buckets: Sequence[Column]) -> str:
    """Draw a histogram with one vertical column for each Column. Its name is below; names that would overlap others are
    left out. `label` is the accessible name."""
    ticks = nice_ticks(max((bucket.value for bucket in buckets), default=0))
    parts = _grid(ticks, count)
    step = (WIDTH - _LEFT) / max(len(buckets), 1)
    width = min(step - 2, 48)
    label_interval = max(1, -(-len(buckets) * 52 // (WIDTH - _LEFT)))  # so that names 52 units wide do not overlap
    for number, bucket in enumerate(buckets):
        middle = _LEFT + (number + 0.5) * step
        top = _y(bucket.value, ticks[-1])
        height = _HEIGHT - _BOTTOM - top
        parts.append(
            f"<g><title>{escape(bucket.title)}</title>"
            f'<rect class="hit" x="{middle - step / 2:.1f}" y="0" width="{step:.1f}" height="{_HEIGHT - _BOTTOM}"/>'
            f'<rect class="mark" x="{middle - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="{min(2.0, height / 2):.1f}"/></g>'
        )
        if number % label_interval == 0:
            parts.append(f'<text class="tick middle" x="{middle:.1f}" y="{_HEIGHT - 12}">{escape(bucket.name)}</text>')
    return _svg(_HEIGHT, label, parts)


class TimePoint(NamedTuple):
    """The value of a time chart for the interval that begins at `start_ms` (epoch ms), and its tooltip."""

    start_ms: int
    value: float
    title: str


def area(
    label: str,
    points: Sequence[TimePoint],
    width_ms: int,
    format_value: Callable[[float], str],
    *,
    is_binary: bool = False,
) -> str:
    """Draw a step chart over time from intervals of `width_ms` each; intervals without a point are drawn as 0.
    `format_value` makes the axis labels; `is_binary` puts them at powers of two. `points` must not be empty."""
    first, last = points[0].start_ms, points[-1].start_ms + width_ms
    ticks = nice_ticks(max(point.value for point in points), is_binary=is_binary)
    base = _y(0, ticks[-1])
    parts = _grid(ticks, format_value)

    def x(moment_ms: float) -> float:
        return _LEFT + (WIDTH - _LEFT) * (moment_ms - first) / (last - first)

    path = [f"M{x(first):.1f} {base:.1f}"]
    end = first
    for point in points:
        if point.start_ms > end:
            path.append(f"V{base:.1f}H{x(point.start_ms):.1f}")
        end = point.start_ms + width_ms
        path.append(f"V{_y(point.value, ticks[-1]):.1f}H{x(end):.1f}")
    outline = "".join([*path, f"V{base:.1f}"])
    parts.append(f'<path class="area" d="{outline}z"/><path class="line" d="{outline}"/>')
    for point in points:
        left, right = x(point.start_ms), x(point.start_ms + width_ms)
        parts.append(
            f'<rect class="hit" x="{left:.1f}" y="0" width="{right - left:.2f}" height="{base:.1f}">'
            f"<title>{escape(point.title)}</title></rect>"
        )
    parts += _time_axis(first, last, x)
    return _svg(_HEIGHT, label, parts)


def _time_axis(first: int, last: int, x: Callable[[float], float]) -> list[str]:
    """Draw four times below the axis; `first` and `last` (epoch ms) decide whether dates, times or both are shown."""
    is_one_day = moment(first, digits=10) == moment(last, digits=10)
    begin, digits = (11, 19) if is_one_day else (0, 10) if last - first > _DAYS_WITHOUT_TIMES else (5, 16)
    parts = []
    for number in range(4):
        at = first + (last - first) * number // 3
        anchor = ("start", "middle", "middle", "end")[number]
        parts.append(
            f'<text class="tick {anchor}" x="{x(at):.1f}" y="{_HEIGHT - 12}">{moment(at, digits=digits)[begin:]}</text>'
        )
    return parts
