"""Names in Spark SQL."""

from __future__ import annotations


def quoted(name: str) -> str:
    """Return a name as an identifier in backticks."""
    return f"`{name.replace('`', '``')}`"
