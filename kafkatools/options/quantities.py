"""Parse durations and sizes with units: `1h`, `7d`, `1h30m`, `512MiB`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kafkatools.exit_status import CommandError
from kafkatools.java_numbers import java_long

_DURATIONS = {
    "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000,
}  # fmt: skip
_SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_NUMBER = r"(\d+(?:\.\d+)?)\s*"
_DURATION = re.compile(rf"{_NUMBER}(ms|[smhdw])\s*", re.ASCII)
_SIZE = re.compile(rf"{_NUMBER}([KMGT]iB|B)", re.ASCII)
_WITH_UNIT = re.compile(r"(-?)\d+(?:\.\d+)?\s*(?![eE]\d)[A-Za-z]\w*", re.ASCII)
"""A number followed by letters that are no exponent: quotas are Doubles such as 9e9."""
_SIZE_SUFFIXES = (".bytes", ".rate", "_byte_rate", ".buffer.size", "batch.size", "buffer.memory", "max.request.size")
DURATION_FORM = "a number with ms, s, m, h, d or w, like 90m or 1d12h"
SIZE_FORM = "a number of bytes, or one with KiB, MiB, GiB or TiB, like 512MiB"


def duration_ms(text: str) -> int | None:
    """Parse `90m` or `1d12h` to milliseconds; None for any other text, also a number without a unit, and for a fraction
    of a millisecond."""
    from fractions import Fraction  # a tenth of the start of a command, and few commands are given a quantity

    total, at = Fraction(0), 0
    text = text.strip()
    for match in _DURATION.finditer(text):
        if match.start() != at:
            return None
        total += Fraction(match[1]) * _DURATIONS[match[2]]
        at = match.end()
    return int(total) if text and at == len(text) and total.denominator == 1 else None


def size_bytes(text: str) -> int | None:
    """Parse `512MiB` to bytes; None for any other text, also a number without a unit, and for a fraction of a byte."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    from fractions import Fraction

    size = Fraction(match[1]) * _SIZES[match[2]]
    return int(size) if size.denominator == 1 else None


def milliseconds(text: str) -> int:
    """Parse an option in ms: `7d`, or a Long without a unit as in Kafka. Raises ValueError."""
    number = duration_ms(text)
    return java_long(text) if number is None else number


def byte_count(text: str) -> int:
    """Parse an option in bytes: `512MiB`, or a Long without a unit as in Kafka. Raises ValueError."""
    number = size_bytes(text)
    return java_long(text) if number is None else number


def positive_seconds(text: str) -> float:
    """Parse seconds above 0 and below 10^9, as a number with an optional fraction or with a unit: `500ms`, `5m`. Raises
    ValueError."""
    seconds = (duration_ms(text) or 0) / 1000 if text[-1:].isalpha() else float(text)
    if not 0 < seconds < 1e9:
        raise ValueError(text)
    return seconds


def plain_settings(settings: Mapping[str, str], note: Callable[[str], None] | None = None) -> dict[str, str]:
    """Return the settings with units converted to plain numbers: `1h` in `*.ms` settings, `512MiB` in those in bytes.
    Other values stay. Calls `note` with a line for each conversion. Raises CommandError for an unknown unit, and for a
    negative number with a unit."""
    plain = dict(settings)
    for name, text in settings.items():
        number = duration_ms(text) if name.endswith(".ms") else None
        if name.endswith(_SIZE_SUFFIXES):
            number = size_bytes(text)
        wrong = _WITH_UNIT.fullmatch(text)
        if number is None and wrong and name.endswith((".ms", *_SIZE_SUFFIXES)):
            form = DURATION_FORM if name.endswith(".ms") else SIZE_FORM
            reason = "negative with a unit" if wrong[1] else "unknown unit"
            raise CommandError(f"Invalid value {text} for configuration {name}: {reason}", hint=f"Write {form}.")
        if number is not None:
            if note is not None:
                note(f"{name}={text} is sent as {name}={number}")
            plain[name] = str(number)
    return plain
