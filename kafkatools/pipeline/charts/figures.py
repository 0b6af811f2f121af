"""Formatting of counts, byte sizes, durations, timestamps and keys for the profile page, and the ticks of its axes."""

from __future__ import annotations

import math
from datetime import UTC, datetime

_LARGE = (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3))
_BYTES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_SPANS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))
_INTERVALS = 4


def count(number: float) -> str:
    """Format a count with at most one decimal, and from 1000 on with a suffix k, M, G or T: 950, 12.3k, 4.1M."""
    for unit, size in _LARGE:
        if abs(number) >= size:
            return f"{_short(number / size)}{unit}"
    return f"{number:.0f}" if number == int(number) else f"{number:.1f}"


def size(number: float) -> str:
    """Format a number of bytes with a binary unit: 812 B, 1.5 MiB."""
    for unit, factor in _BYTES:
        if abs(number) >= factor:
            return f"{_short(number / factor)} {unit}"
    return f"{number:.0f} B"


def exact(number: float) -> str:
    """Format a number rounded to an integer, its digits in groups of three separated by narrow spaces."""
    return f"{number:,.0f}".replace(",", "\u202f")


def share(part: float, whole: float) -> str:
    """Format `part` of `whole` as a percentage with one decimal; a dash if `whole` is 0."""
    return "–" if not whole else f"{100 * part / whole:.1f} %"


def span(milliseconds: float) -> str:
    """Format a duration in milliseconds with its largest fitting unit: 250 ms, 1.5 s, 3 min, 2 h, 4 d."""
    for unit, factor in _SPANS:
        if milliseconds >= factor:
            return f"{_short(milliseconds / factor)} {unit}"
    return f"{milliseconds:.0f} ms"


def moment(milliseconds: int | None, *, digits: int = 19) -> str:
    """Format epoch milliseconds as UTC, such as 2026-11-21 18:00:00, cut to the first `digits` characters. None becomes
    a dash; a time outside Python's range becomes its plain number."""
    if milliseconds is None:
        return "–"
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")[:digits]
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)


def key_text(key: bytes | None) -> str:
    """Format a record key: its UTF-8 text, `0x` and hexadecimal bytes if not UTF-8, "(no key)" for null, "(empty)" for
    b""."""
    if key is None:
        return "(no key)"
    if not key:
        return "(empty)"
    try:
        text = key.decode("utf-8")
    except UnicodeDecodeError:
        return "0x" + key.hex()
    return text if text.isprintable() else repr(text)[1:-1]


def _short(number: float) -> str:
    text = f"{number:.1f}" if abs(number) < 100 else f"{number:.0f}"
    return text.removesuffix(".0")


def nice_ticks(largest: float, *, is_binary: bool = False) -> list[float]:
    """Return 0 and at most four evenly spaced round axis values above it, the last at least `largest`; 0 and 1 if
    `largest` is not positive. The step is 1, 2, 5 or 10 times a power of ten, or a power of two if `is_binary` (for
    bytes)."""
    if largest <= 0:
        return [0.0, 1.0]
    base, factors = (2, (1, 2)) if is_binary else (10, (1, 2, 5, 10))
    rough = largest / _INTERVALS
    power = 1.0
    while power * base <= rough:
        power *= base
    while power > rough:
        power /= base
    step = next(power * factor for factor in factors if power * factor >= rough)
    return [step * number for number in range(math.ceil(largest / step) + 1)]
