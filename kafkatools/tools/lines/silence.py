"""Silence: says so when no broker, a broker that is needed, or no coordinator of its group has answered the consumer
for some seconds, and when one does again.

The consumer itself keeps trying for as long as it takes; whoever sits before a terminal should not have to guess
whether the topic is quiet or the brokers are gone.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.core.errors import CoordinatorNotAvailable, LeaderNotAvailable, NotCoordinator

PATIENCE_MS = 3000


class Silence:
    """`look` is called whenever a poll has ended; `tell(line)` is called once for each change."""

    def __init__(self, tell: Callable[[str], None], patience_ms: int = PATIENCE_MS) -> None:
        self._tell = tell
        self._patience_ms = patience_ms
        self._since_ms: int | None = None
        self._told: str | None = None

    def look(self, now_ms: int, problem: Exception | None, *, has_broker: bool = False) -> None:
        """Notes why a broker that is needed cannot be reached, None when all can; `has_broker`: others can."""
        if problem is None:
            self._since_ms = None
            if self._told is not None:
                self._tell(f"A {self._told} answers again")
                self._told = None
        elif self._since_ms is None:
            self._since_ms = now_ms
        elif self._told is None and now_ms - self._since_ms >= self._patience_ms:
            self._told = _kind(problem)
            is_one = has_broker and self._told == "broker"
            silent = "A broker does not answer" if is_one else f"No {self._told} answers"
            self._tell(f"{silent}, still trying: {problem}")


def _kind(problem: Exception) -> str:
    """Who is missed."""
    if isinstance(problem, (CoordinatorNotAvailable, NotCoordinator)):
        return "coordinator"
    return "leader" if isinstance(problem, LeaderNotAvailable) else "broker"
