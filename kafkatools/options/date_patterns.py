"""Format times by Java's SimpleDateFormat patterns, in English and local time."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Callable

_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+", re.DOTALL)
_MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

Moment = time.struct_time


_NUMBERS: dict[str, Callable[[Moment, int], int]] = {
    "d": lambda at, ms: at.tm_mday,
    "D": lambda at, ms: at.tm_yday,
    "F": lambda at, ms: (at.tm_mday - 1) // 7 + 1,
    "H": lambda at, ms: at.tm_hour,
    "k": lambda at, ms: at.tm_hour or 24,
    "K": lambda at, ms: at.tm_hour % 12,
    "h": lambda at, ms: at.tm_hour % 12 or 12,
    "m": lambda at, ms: at.tm_min,
    "s": lambda at, ms: at.tm_sec,
    "S": lambda at, ms: ms,
    "u": lambda at, ms: at.tm_wday + 1,
    "W": lambda at, ms: (at.tm_mday - 1 + (at.tm_wday + 1 - at.tm_mday + 1) % 7) // 7 + 1,
    "w": lambda at, ms: _week_of_year(at),
}
_LETTERS = frozenset(_NUMBERS) | frozenset("GyYMLEazZX")


def check_date_pattern(pattern: str) -> None:
    """Raise ValueError, in Java's words, for an unknown pattern letter or an unterminated quote."""
    position = 0
    for match in _TOKEN.finditer(pattern):
        if match.start() != position:
            break
        position = match.end()
        if match[2] and match[2] not in _LETTERS:
            raise ValueError(f"Illegal pattern character '{match[2]}'")
    if position != len(pattern):
        raise ValueError("Unterminated quote")


def format_date(pattern: str, wall_ms: int) -> str:
    """Format a time (ms since 1970) by a pattern that passed `check_date_pattern`."""
    at, ms = time.localtime(wall_ms // 1000), wall_ms % 1000
    return "".join(_part(match, at, ms) for match in _TOKEN.finditer(pattern))


def _part(match: re.Match[str], at: Moment, ms: int) -> str:
    text, letter = match[0], match[2]
    if letter is None:
        return "'" if text == "''" else text if match[1] is None else match[1].replace("''", "'")
    width = len(text)
    if letter in _NUMBERS:
        return str(_NUMBERS[letter](at, ms)).zfill(width)
    if letter in "yY":
        year = at.tm_year + (1 if letter == "Y" and at.tm_mon == 12 and _week_of_year(at) == 1 else 0)
        return f"{year % 100:02d}" if width == 2 else str(year).zfill(width)
    if letter in "ML":
        return str(at.tm_mon).zfill(width) if width < 3 else _name(_MONTHS[at.tm_mon - 1], width)
    if letter == "E":
        return _name(_DAYS[at.tm_wday], width)
    if letter in "ZXz":
        return _zone(letter, width, at)
    return "AD" if letter == "G" else "AM" if at.tm_hour < 12 else "PM"


def _name(name: str, width: int) -> str:
    return name if width >= 4 else name[:3]


def _week_of_year(at: Moment) -> int:
    """Return the week number: weeks start on Sunday, week 1 contains 1 January (the US calendar)."""
    from_sunday = (at.tm_wday + 1) % 7
    if at.tm_yday + 6 - from_sunday > (366 if calendar.isleap(at.tm_year) else 365):
        return 1
    return (at.tm_yday - 1 + (from_sunday - at.tm_yday + 1) % 7) // 7 + 1


def _zone(letter: str, width: int, at: Moment) -> str:
    minutes = at.tm_gmtoff // 60
    if letter == "z":
        return at.tm_zone
    if letter == "X" and minutes == 0:
        return "Z"
    sign, hours, minute = "-" if minutes < 0 else "+", abs(minutes) // 60, abs(minutes) % 60
    if letter == "X" and width == 1:
        return f"{sign}{hours:02d}"
    return f"{sign}{hours:02d}{':' if letter == 'X' and width == 3 else ''}{minute:02d}"
