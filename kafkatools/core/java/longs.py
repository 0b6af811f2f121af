"""Arithmetic of a Java long."""

from __future__ import annotations


def wrapped(value: int) -> int:
    """The value with the overflow of a signed 64-bit number."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
