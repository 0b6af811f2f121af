"""Silence: says so when no broker has answered the consumer for some seconds, and when one does again.

The consumer itself keeps trying for as long as it takes; whoever sits before a terminal should not have to guess
whether the topic is quiet or the brokers are gone.
"""

from __future__ import annotations

from collections.abc import Callable

PATIENCE_MS = 3000


class Silence:
    """`look` is called whenever a poll has ended; `tell(line)` is called once for each change."""

    def __init__(self, tell: Callable[[str], None], patience_ms: int = PATIENCE_MS) -> None:
        self._tell = tell
        self._patience_ms = patience_ms
        self._since_ms: int | None = None
        self._has_told = False

    def look(self, now_ms: int, problem: Exception | None) -> None:
        """Notes why no broker can be reached, None when one can."""
        if problem is None:
            self._since_ms = None
            if self._has_told:
                self._has_told = False
                self._tell("A broker answers again")
        elif self._since_ms is None:
            self._since_ms = now_ms
        elif not self._has_told and now_ms - self._since_ms >= self._patience_ms:
            self._has_told = True
            self._tell(f"No broker answers, still trying: {problem}")
