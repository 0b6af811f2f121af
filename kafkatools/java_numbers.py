"""Numbers as Java parses them: integers of ASCII digits within the bits of their type, and decimal fractions."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_FRACTION = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?", re.ASCII)


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


def java_double(text: str) -> float:
    """Parse a decimal number like Java's Double.valueOf: with an optional exponent and the suffix of a literal, as in
    `2e-1f`. Raises ValueError for other text, also for NaN, Infinity and hexadecimal numbers."""
    match = _FRACTION.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return float(match[1])
