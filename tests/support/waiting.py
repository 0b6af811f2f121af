"""Waiting for what another thread or process does: metadata, dynamic settings, elections, files."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 300
"""How long to wait for a process to end, or for a condition to hold, on a busy machine."""


def eventually(condition: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Asks until the condition holds; fails when it does not within the time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"did not become true within {seconds} s"
        time.sleep(0.02)
