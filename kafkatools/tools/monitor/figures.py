"""Format sizes, rates, counts and times for people."""

from __future__ import annotations

from collections.abc import Sequence

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_NONE = "-"
UNKNOWN = "?"


def size(number: float | None) -> str:
    """Format a byte count with a binary unit; `?` for None or a negative number."""
    if number is None or number < 0:
        return UNKNOWN
    unit = 0
    while number >= 1024 and unit < len(_SIZES) - 1:
        number /= 1024
        unit += 1
    return f"{number:.0f} {_SIZES[unit]}" if unit == 0 or number >= 100 else f"{number:.1f} {_SIZES[unit]}"


def rate(number: float | None, *, is_unknown: bool = False) -> str:
    """Format a rate per second. None is `-` (before the second snapshot), or `?` if `is_unknown`."""
    if number is None:
        return UNKNOWN if is_unknown else _NONE
    return f"{number:,.0f}" if number >= 100 or number == 0 else f"{number:.1f}"


def count(number: int | None) -> str:
    """Format a count, `?` for None."""
    return UNKNOWN if number is None else f"{number:,}"


def at_least(number: int | None, least: int) -> str:
    """Format a sum; if it is unknown, its known part as `>=N`, or `?` when that is 0."""
    if number is not None:
        return f"{number:,}"
    return f">={least:,}" if least else UNKNOWN


def ids(brokers: Sequence[int] | None) -> str:
    """Format broker ids separated by commas, `-` for None, an empty text for none."""
    return _NONE if brokers is None else ",".join(map(str, brokers))


def span(seconds: float | None) -> str:
    """Format a duration in seconds in its two largest units, such as `3 h 5 min`; `-` for None."""
    if seconds is None:
        return _NONE
    whole_seconds = round(seconds)
    parts = [
        (whole_seconds // 86_400, "d"),
        (whole_seconds // 3600 % 24, "h"),
        (whole_seconds // 60 % 60, "min"),
        (whole_seconds % 60, "s"),
    ]
    texts = [f"{number} {unit}" for number, unit in parts if number][:2]
    return " ".join(texts) or "0 s"


def local_time(time_ms: int) -> str:
    """Format a time (ms since 1970) as local HH:MM:SS."""
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(time_ms / 1000, UTC).astimezone():%H:%M:%S}"


def stamp(time_ms: int) -> str:
    """Format a time (ms since 1970) as a local ISO 8601 timestamp."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone().isoformat(timespec="seconds")
