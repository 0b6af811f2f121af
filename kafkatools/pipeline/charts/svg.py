"""The drawings: bars with their names, columns of a histogram, an area over time. All colours are the page's variables.

Every mark has a `title`, which browsers show under the pointer; texts are escaped here.
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
    """A row: its name, its length, what stands behind it and what is said under the pointer."""

    name: str
    value: float
    label: str
    title: str


class Column(NamedTuple):
    """A column of a histogram: what stands below it, its height, what is said under the pointer."""

    name: str
    value: float
    title: str


def _svg(height: int, label: str, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
    return "\n".join([head, *parts, "</svg>"])


def shortened(name: str) -> str:
    """A name that fits beside a bar: its middle is left out."""
    if len(name) <= _NAME_LETTERS:
        return name
    half = (_NAME_LETTERS - 1) // 2
    return f"{name[:half]}…{name[-half:]}"


def bars(label: str, rows: Sequence[Bar]) -> str:
    """Horizontal bars, one below the other, in the order given."""
    largest = max((row.value for row in rows), default=0) or 1
    room = WIDTH - _NAME_WIDTH - _VALUE_WIDTH
    parts = []
    for number, row in enumerate(rows):
        top = number * _ROW
        length = max(room * row.value / largest, 1.5 if row.value else 0)
        middle = top + _ROW / 2
        parts.append(
            f'<g><title>{escape(row.title)}</title><rect class="hit" x="0" y="{top}" width="{WIDTH}" height="{_ROW}"/>'
            f'<text class="name" x="{_NAME_WIDTH - 10}" y="{middle:.1f}">{escape(shortened(row.name))}</text>'
            f'<path class="mark" d="{_bar_path(_NAME_WIDTH, middle - _BAR / 2, length)}"/>'
            f'<text class="value" x="{_NAME_WIDTH + length + 8:.1f}" y="{middle:.1f}">{escape(row.label)}</text></g>'
        )
    parts.append(f'<line class="axis" x1="{_NAME_WIDTH}" y1="0" x2="{_NAME_WIDTH}" y2="{len(rows) * _ROW}"/>')
    return _svg(len(rows) * _ROW, label, parts)


def _bar_path(left: float, top: float, length: float) -> str:
    """A bar whose far end is rounded."""
    radius = min(4.0, length)
    straight = length - radius
    return (
        f"M{left:.1f} {top:.1f}h{straight:.1f}q{radius:.1f} 0 {radius:.1f} {radius:.1f}"
        f"v{_BAR - 2 * radius:.1f}q0 {radius:.1f} -{radius:.1f} {radius:.1f}h-{straight:.1f}z"
    )


def _grid(ticks: Sequence[float], worded: Callable[[float], str]) -> list[str]:
    parts = []
    for tick in ticks:
        y = _y(tick, ticks[-1])
        kind = "axis" if tick == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick end" x="{_LEFT - 8}" y="{y:.1f}">{escape(worded(tick))}</text>')
    return parts


def _y(value: float, largest: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / largest)


def columns(label: str, given: Sequence[Column]) -> str:
    """A histogram: columns side by side, their names below."""
    ticks = nice_ticks(max((each.value for each in given), default=0))
    parts = _grid(ticks, count)
    step = (WIDTH - _LEFT) / max(len(given), 1)
    width = min(step - 2, 48)
    every = max(1, -(-len(given) * 52 // (WIDTH - _LEFT)))
    for number, each in enumerate(given):
        middle = _LEFT + (number + 0.5) * step
        top = _y(each.value, ticks[-1])
        height = _HEIGHT - _BOTTOM - top
        parts.append(
            f"<g><title>{escape(each.title)}</title>"
            f'<rect class="hit" x="{middle - step / 2:.1f}" y="0" width="{step:.1f}" height="{_HEIGHT - _BOTTOM}"/>'
            f'<rect class="mark" x="{middle - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="{min(2.0, height / 2):.1f}"/></g>'
        )
        if number % every == 0:
            parts.append(f'<text class="tick middle" x="{middle:.1f}" y="{_HEIGHT - 12}">{escape(each.name)}</text>')
    return _svg(_HEIGHT, label, parts)


class TimePoint(NamedTuple):
    """What happened in the span that begins at `start_ms`."""

    start_ms: int
    value: float
    title: str


def area(
    label: str, points: Sequence[TimePoint], width_ms: int, worded: Callable[[float], str], *, is_binary: bool = False
) -> str:
    """Values over time in steps; where no point is, there was nothing. `is_binary`: round numbers are powers of two."""
    first, last = points[0].start_ms, points[-1].start_ms + width_ms
    ticks = nice_ticks(max(point.value for point in points), is_binary=is_binary)
    base = _y(0, ticks[-1])
    parts = _grid(ticks, worded)

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
    """Four times below the axis, as exact as the whole span asks for."""
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
