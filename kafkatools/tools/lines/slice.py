"""A part of each partition of a topic: from a place up to a place, or the newest records before it."""

from __future__ import annotations

from enum import Enum, unique
from typing import NamedTuple


@unique
class Anchor(Enum):
    """What the value of a `Place` is counted from."""

    OFFSET = "offset"
    """The value is an offset."""
    LOG_START = "log start"
    """The value is added to the log start offset."""
    LOG_END = "log end"
    """The value is subtracted from the log end offset."""
    TIME = "time"
    """The value is a timestamp in ms since 1970."""


class Place(NamedTuple):
    """A place in each partition."""

    anchor: Anchor
    value: int = 0


class Slice(NamedTuple):
    """The records to read of each partition: from `start`, up to `end`, which is excluded; without `end` the reader
    waits for more. With `last` only that many of them, the newest ones."""

    start: Place
    end: Place | None = None
    last: int | None = None

    @property
    def times(self) -> tuple[int | None, int | None]:
        """The bounds of timestamps in ms, start inclusive and end exclusive; None for no bound."""
        bounds = (place.value if place and place.anchor is Anchor.TIME else None for place in (self.start, self.end))
        return next(bounds), next(bounds)


LOG_START = Place(Anchor.LOG_START)
LOG_END = Place(Anchor.LOG_END)
