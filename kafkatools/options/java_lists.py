"""Lists in the value of an option, split as Java's String.split does."""

from __future__ import annotations


def java_split(text: str, separator: str = ",") -> list[str]:
    """Split a text. Empty texts at the end are dropped, but an empty text alone is kept."""
    return text.rstrip(separator).split(separator) if text.strip(separator) or not text else []
