"""Numbers, times and keys in the words of the page."""

from __future__ import annotations

import math
from datetime import UTC, datetime

_LARGE = (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3))
_BYTES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_SPANS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000))


def count(number: float) -> str:
    """A count, shortened: 950, 12.3k, 4.1M."""
    for unit, size in _LARGE:
        if abs(number) >= size:
            return f"{_short(number / size)}{unit}"
    return f"{number:.0f}" if number == int(number) else f"{number:.1f}"


def size(number: float) -> str:
    """Bytes: 812 B, 1.5 MiB."""
    for unit, factor in _BYTES:
        if abs(number) >= factor:
            return f"{_short(number / factor)} {unit}"
    return f"{number:.0f} B"


def exact(number: float) -> str:
    """Every digit, in groups of three."""
    return f"{number:,.0f}".replace(",", "\u202f")


def share(part: float, whole: float) -> str:
    """A part as per cent."""
    return "–" if not whole else f"{100 * part / whole:.1f} %"


def span(milliseconds: float) -> str:
    for unit, factor in _SPANS:
        if milliseconds >= factor:
            return f"{_short(milliseconds / factor)} {unit}"
    return f"{milliseconds:.0f} ms"


def moment(milliseconds: int | None, *, digits: int = 19) -> str:
    """A time in UTC as 2026-11-21 18:00:00; so many characters of it."""
    if milliseconds is None:
        return "–"
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")[:digits]
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)


def key_text(key: bytes | None) -> str:
    """A key for people: its text, or its bytes in hexadecimal."""
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


def nice_ticks(largest: float, wanted: int = 4, *, is_binary: bool = False) -> list[float]:
    """Round numbers from 0 up to at least the largest, about so many steps; powers of two for bytes."""
    if largest <= 0:
        return [0.0, 1.0]
    base, factors = (2, (1, 2)) if is_binary else (10, (1, 2, 5, 10))
    rough = largest / wanted
    power = 1.0
    while power * base <= rough:
        power *= base
    while power > rough:
        power /= base
    step = next(power * factor for factor in factors if power * factor >= rough)
    return [step * number for number in range(math.ceil(largest / step) + 1)]
