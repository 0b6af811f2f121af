"""Parse the times of --to-datetime and --by-duration (Utils.getDateTime, java.time.Duration.parse); print durations."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_DATETIME = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)T(\d\d?):(\d\d?):(\d\d?)(?:\.(\d{3}|00?))?(?:(Z)|([+-])(\d\d)(?::?(\d\d))?)?", re.ASCII
)
"""`.5` is refused: it is half a second, but 5 ms to Kafka's tool."""
_DURATION = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?(T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?)(\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_MAX_MS = 2**63 - 1
DATETIME_FORM = (
    "Write a date and a time, such as 2026-01-31T13:45:00.000. Without a zone it is UTC; with one: "
    "2026-01-31T13:45:00.000+02:00."
)
"""The form of --to-datetime, for errors."""


def parse_datetime(text: str) -> int:
    """Parse `2026-01-31T13:45:00.000`, followed by `Z`, `+02`, `+0200` or `+02:00` or else in UTC, to ms since 1970.
    Raises ValueError in Kafka's words."""
    if "T" not in text:
        raise ValueError("Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError(f'Unparseable date: "{text}"')
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    ms, _, sign, zone_hours, zone_minutes = match.groups()[6:]
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise ValueError(f'Unparseable date: "{text}"') from None
    offset = timedelta(hours=int(zone_hours or 0), minutes=int(zone_minutes or 0)) // timedelta(milliseconds=1)
    since_epoch = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    return since_epoch + int(ms or 0) - (-offset if sign == "-" else offset)


def parse_duration(text: str) -> int:
    """Parse an ISO 8601 duration of days, hours, minutes and seconds to ms. Raises ValueError in Java's words."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.group(part) for part in (2, 4, 5, 7)) or match.group(3) in ("T", "t"):
        raise ValueError("Text cannot be parsed to a Duration")
    sign, days, _, hours, minutes, second_sign, seconds, fraction = match.groups()
    nanos = int(seconds or 0) * 10**9 + int((fraction or "").ljust(9, "0"))
    whole = (int(days or 0) * 86400 + int(hours or 0) * 3600 + int(minutes or 0) * 60) * 10**9
    total = whole + (-nanos if second_sign == "-" else nanos)
    ms = total // 10**6
    if abs(ms) > _MAX_MS:
        raise ValueError("Text cannot be parsed to a Duration")
    return -ms if sign == "-" else ms


def duration_text(ms: int | None) -> str:
    """Format a duration in ms: `0s`, `850ms`, `12.3s`, `4m10s`, `3h05m`, `2d04h`; `-` for None."""
    if ms is None:
        return "-"
    seconds = ms // 1000
    if ms == 0 or seconds >= 60:
        return _long_text(seconds)
    return f"{ms}ms" if ms < 1000 else f"{ms // 100 / 10:.1f}s"


def _long_text(seconds: int) -> str:
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return f"{days}d{hours % 24:02}h"
    if hours:
        return f"{hours}h{minutes % 60:02}m"
    return f"{minutes}m{seconds % 60:02}s" if minutes else f"{seconds}s"
