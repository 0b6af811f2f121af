"""Report when a consumer's brokers or coordinator stop responding for some seconds, and when they respond again.

The consumer itself retries endlessly. Without this message a user could not tell an idle topic from lost brokers.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.core.errors import CoordinatorNotAvailable, LeaderNotAvailable, NotCoordinator

PATIENCE_MS = 3000


class Silence:
    """Watches a consumer after each poll. In each outage it calls `note(line)` twice: when brokers have not responded
    for `patience_ms`, and when they respond again."""

    def __init__(self, note: Callable[[str], None], patience_ms: int = PATIENCE_MS) -> None:
        self._note = note
        self._patience_ms = patience_ms
        self._since_ms: int | None = None
        self._reported: str | None = None

    def update(self, now_ms: int, problem: Exception | None, *, has_broker: bool = False) -> None:
        """Process the error of an unreachable broker, None if all respond, and call `note` if a message is due.
        `has_broker`: some other broker responds."""
        if problem is None:
            self._since_ms = None
            if self._reported is not None:
                self._note(f"A {self._reported} answers again")
                self._reported = None
        elif self._since_ms is None:
            self._since_ms = now_ms
        elif self._reported is None and now_ms - self._since_ms >= self._patience_ms:
            self._reported = _kind(problem)
            is_one = has_broker and self._reported == "broker"
            silent = "A broker does not answer" if is_one else f"No {self._reported} answers"
            self._note(f"{silent}, still trying: {problem}")


def _kind(problem: Exception) -> str:
    if isinstance(problem, (CoordinatorNotAvailable, NotCoordinator)):
        return "coordinator"
    return "leader" if isinstance(problem, LeaderNotAvailable) else "broker"
