"""Times of bearer tokens: seconds in JSON, as claims have them and the answers of token endpoints."""

from __future__ import annotations

# Up to here a double has each whole second, and the milliseconds fit in 64 bits.
_MAX_S = 1 << 53


def milliseconds(seconds: object) -> int | None:
    """Convert seconds from JSON; None for anything that is no number, NaN, Infinity and numbers from 2**53 on."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not abs(seconds) < _MAX_S:
        return None
    return int(seconds * 1000)
