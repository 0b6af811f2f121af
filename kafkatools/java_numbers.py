"""Numbers as Java parses them: ASCII digits with an optional sign, within the bits of the type."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def _java_number(text: str, bits: int) -> int:
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    number = int(text)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(text)
    return number


def java_short(text: str) -> int:
    """Parse a number like Java's Short.valueOf: optional sign, digits, 16 bits. Raises ValueError."""
    return _java_number(text, 16)


def java_int(text: str) -> int:
    """Parse a number like Java's Integer.valueOf: optional sign, digits, 32 bits. Raises ValueError."""
    return _java_number(text, 32)


def java_long(text: str) -> int:
    """Parse a number like Java's Long.valueOf: optional sign, digits, 64 bits. Raises ValueError."""
    return _java_number(text, 64)
