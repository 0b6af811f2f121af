"""What senders report to the thread that collects, since only that thread prints."""

from __future__ import annotations

from typing import NamedTuple


class Report(NamedTuple):
    """A change of a server that gets alerts or metrics: it fails, or it works again."""

    is_working: bool
    message: str
