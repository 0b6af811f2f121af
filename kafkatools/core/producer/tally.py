"""Tally: what became of every record that a command sent, from whichever thread tells.

In transactions a record counts as sent when it is committed: until then the acknowledged ones are open. Records whose
transaction was aborted through no fault of their own are counted apart from those that failed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kafkatools.core.errors import TransactionAborted

SHOWN_FAILURES = 10


class Tally:
    """Counts; keeps the first failures for the report."""

    def __init__(self, is_transactional: bool = False) -> None:
        self._lock = threading.Lock()
        self._is_transactional = is_transactional
        self.sent = 0
        self.failed = 0
        self.aborted = 0
        self.unplaced: Exception | None = None
        self.first_failure: Exception | None = None
        self._open = 0
        self._shown = 0
        self._lost = 0
        self._messages: list[tuple[str, str]] = []
        self._told: set[int] = set()  # identities of the errors of which something was told

    def succeeded(self, count: int) -> None:
        """Records were acknowledged."""
        with self._lock:
            if self._is_transactional:
                self._open += count
            else:
                self.sent += count

    def committed(self) -> None:
        """The transaction of the open records was committed."""
        with self._lock:
            self.sent += self._open
            self._open = 0

    def abort(self, count: int = 0) -> None:
        """The transaction of the open records was aborted, and with it `count` that never went out."""
        with self._lock:
            self.aborted += self._open + count
            self._open = 0

    def lose(self) -> None:
        """Whether the transaction of the open records was committed is not known."""
        with self._lock:
            self.failed += self._open
            self._lost += self._open
            self._open = 0

    def fail(self, count: int, error: Exception, describe: Callable[[int], str]) -> None:
        """`describe(i)` puts the i-th of the failed records in words; asked for the first few only."""
        with self._lock:
            if isinstance(error, TransactionAborted):
                self.aborted += count
                return
            self.failed += count
            if self.first_failure is None:
                self.first_failure = error
            for number in range(min(count, SHOWN_FAILURES - self._shown)):
                self._shown += 1
                self._told.add(id(error))
                self._messages.append((getattr(error, "name", "FAILED"), f"{describe(number)} with error: {error}"))

    def take_messages(self) -> list[tuple[str, str]]:
        """The failures not told yet: kind and words."""
        with self._lock:
            messages, self._messages = self._messages, []
            return messages

    def has_told(self, error: Exception) -> bool:
        """Whether a failure with this very error was told."""
        return id(error) in self._told

    @property
    def hidden(self) -> int:
        """Failures that are counted but not told one by one."""
        return self.failed - self._lost - self._shown
