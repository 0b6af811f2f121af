"""Text as Java and Kafka's tools print it: UTF-8 decoding, Double.toString, %.Nf of String.format, and the metrics
table of ToolsUtils.printMetrics."""

from __future__ import annotations

import codecs
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


def _replace_like_java(error: UnicodeError) -> tuple[str, int]:
    """Error handler for malformed UTF-8: an encoded surrogate gives one U+FFFD as in Java, where Python gives one per
    byte."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, start = error.object, error.start
    tail = data[start : start + 3]
    if len(tail) > 1 and tail[0] == 0xED and 0xA0 <= tail[1] <= 0xBF:
        is_whole = len(tail) < 3 or 0x80 <= tail[2] <= 0xBF
        return "\ufffd", start + (len(tail) if is_whole else 2)
    return "\ufffd", error.end


codecs.register_error("java_replace", _replace_like_java)


def java_string(data: bytes | memoryview) -> str:
    """Decode UTF-8 as Java's `new String(bytes, UTF_8)` does: malformed bytes become U+FFFD."""
    return str(data, "utf-8", "java_replace")


def java_boolean(value: bool) -> str:
    """Format a Boolean as Java does: `true` or `false`."""
    return "true" if value else "false"


def optional_long(value: int | None) -> str:
    """Format a number as OptionalLong.toString does; None is an empty OptionalLong."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def java_double(value: float) -> str:
    """Format a number as Double.toString does: the shortest digits, with an exponent below 1e-3 and from 1e7 on."""
    return _java_digits(value, repr(value))


def java_float(value: float) -> str:
    """Format a number as Float.toString does: the shortest digits that give the same 32-bit number."""
    shortest = next(
        (text for text in (f"{value:.{digits}g}" for digits in range(1, 9)) if _as_float(text) == value), None
    )
    return _java_digits(value, shortest or f"{value:.9g}")


def _as_float(text: str) -> float | None:
    """Parse a text as a 32-bit float; None when it is too large."""
    try:
        result: float = struct.unpack(">f", struct.pack(">f", float(text)))[0]
    except OverflowError:
        return None
    return result


def _java_digits(value: float, text: str) -> str:
    if value != value:
        return "NaN"
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    if mantissa == "inf":
        return sign + "Infinity"
    integer, _, fraction = mantissa.partition(".")
    digits = (integer + fraction).lstrip("0")
    if not digits:
        return sign + "0.0"
    # The number is 0.<digits> * 10^point.
    point = len(integer) + int(exponent or 0) - (len(integer + fraction) - len(digits))
    digits = digits.rstrip("0")
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


class Metric(NamedTuple):
    """A metric of a client: the group, name and tags of Kafka's MetricName, and the value."""

    group: str
    name: str
    tags: Mapping[str, str]
    value: float | str

    @property
    def text(self) -> str:
        """The name as printMetrics shows it: `group:name:{tag=value, ...}`."""
        tags = ", ".join(f"{key}={value}" for key, value in sorted(self.tags.items()))
        return f"{self.group}:{self.name}:{{{tags}}}"


def java_fixed(value: float, digits: int) -> str:
    """Format a number with `digits` decimals, NaN and Infinity by their Java names."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:.{digits}f}"


def ratio(count: float, by: float) -> float:
    """Divide as Java does with doubles: a division by zero gives infinity or NaN."""
    if by:
        return count / by
    return math.copysign(math.inf, count) if count else math.nan


def metric_lines(metrics: Iterable[Metric]) -> list[str]:
    """The lines of the metrics table of ToolsUtils.printMetrics, sorted by name; the first line is empty."""
    rows: Sequence[tuple[str, float | str]] = sorted((metric.text, metric.value) for metric in metrics)
    width = max((len(name) for name, _ in rows), default=0)
    lines = ["", f"{'Metric Name':<{width}}   Value"]
    texts = ((name, value if isinstance(value, str) else java_fixed(value, 3)) for name, value in rows)
    return lines + [f"{name:<{width}} : {text}" for name, text in texts]
