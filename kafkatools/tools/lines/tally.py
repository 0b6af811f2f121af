"""Count the outcomes of all records that a command sends, reported from any thread.

Failures of single records are reported one by one, the first MAX_REPORTED_FAILURES only. A cluster cause (a lost
broker, a missing topic) fails many records alike: they are reported together as `LostLines`, with the range of input
lines. In transactions a record counts as sent when it is committed; until then acknowledged records are open. Records
of transactions aborted for another record's failure are counted separately.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from kafkatools.core.errors import TransactionAborted

MAX_REPORTED_FAILURES = 10


class LostLines:
    """Records that were not acknowledged for one cluster cause; `first` and `last` are input line numbers. `key`
    identifies the cause, since error texts vary. `description` is that of the first record, as in a single failure's
    report. `is_unplaced`: the records were never sent."""

    def __init__(  # noqa: PLR0913 - one field each
        self,
        key: str,
        topic: str,
        description: str,
        error: Exception,
        cause: str,
        is_unplaced: bool,
        first: int,
        last: int,
        count: int,
    ) -> None:
        self.key = key
        self.topic = topic
        self.description = description
        self.error = error
        self.cause = cause
        self.is_unplaced = is_unplaced
        self.first = first
        self.last = last
        self.count = count
        self.is_over = False

    def messages(self) -> list[str]:
        """Return one message with the cause and the range of lines. For several records that were never sent, return
        Kafka's sentence and a second message with the cause."""
        if self.count == 1:
            return [f"{self.description} with error: {self.cause}"]
        messages = [f"{self.description} with error: {self.error}"]
        if self.count == self.last - self.first + 1:
            lines = f"lines {self.first}-{self.last} ({self.count} records)"
        else:
            lines = f"{self.count} records of lines {self.first}-{self.last}"
        if self.is_unplaced:
            return [*messages, f"{self.cause.rstrip('.')}: {lines} were not sent"]
        return [f"Error when sending message to topic {self.topic}: {lines} were not acknowledged: {self.cause}"]


class Tally:
    """Counts of sent, failed and aborted records, and the first failures for the report."""

    def __init__(self, is_transactional: bool = False) -> None:
        self._lock = threading.Lock()
        self._is_transactional = is_transactional
        self.sent_count = 0
        self.failed_count = 0
        self.aborted_count = 0
        self.unplaced: Exception | None = None
        self.first_failure: Exception | None = None
        self._open = 0
        self._reported_count = 0
        self._unconfirmed_count = 0
        self._messages: list[tuple[str, str]] = []
        self._reported: set[int] = set()  # ids of the errors recorded for the report
        self._lost_lines: dict[str, LostLines] = {}
        self._reported_range_count = 0
        self._in_lines = 0

    def succeeded(self, count: int) -> None:
        """Count acknowledged records; in transactions they stay open until `committed`. Ranges of failed lines so far
        become reportable."""
        with self._lock:
            for lines in self._lost_lines.values():
                lines.is_over = True
            if self._is_transactional:
                self._open += count
            else:
                self.sent_count += count

    def committed(self) -> None:
        """Count the open records as sent, because their transaction was committed."""
        with self._lock:
            self.sent_count += self._open
            self._open = 0

    def abort(self, count: int = 0) -> None:
        """Count the open records and `count` unsent ones as aborted, because their transaction was aborted."""
        with self._lock:
            self.aborted_count += self._open + count
            self._open = 0

    def lose(self) -> None:
        """Count the open records as failed, because it is unknown whether their transaction was committed."""
        with self._lock:
            self.failed_count += self._open
            self._unconfirmed_count += self._open
            self._open = 0

    def fail(self, count: int, error: Exception, describe: Callable[[int], str]) -> None:
        """Count failed records, or aborted ones if the error is TransactionAborted. The first MAX_REPORTED_FAILURES
        failures are reported, with `describe(i)` as description of the i-th record."""
        with self._lock:
            if isinstance(error, TransactionAborted):
                self.aborted_count += count
                return
            self.failed_count += count
            if self.first_failure is None:
                self.first_failure = error
            for number in range(min(count, MAX_REPORTED_FAILURES - self._reported_count)):
                self._reported_count += 1
                self._reported.add(id(error))
                self._messages.append((_kind(error), f"{describe(number)} with error: {error}"))

    def fail_lines(self, lines: LostLines) -> None:
        """Count records that were not acknowledged for a cluster cause, and merge ranges with the same `key`. For a
        TransactionAborted they count as aborted and are not reported."""
        with self._lock:
            if isinstance(lines.error, TransactionAborted):
                self.aborted_count += lines.count
                return
            self.failed_count += lines.count
            self._in_lines += lines.count
            self.first_failure = self.first_failure or lines.error
            self._reported.add(id(lines.error))
            line_range = self._lost_lines.setdefault(lines.key, lines)
            if line_range is not lines:
                line_range.first, line_range.last = min(line_range.first, lines.first), max(line_range.last, lines.last)
                line_range.count += lines.count
                line_range.is_over = False

    def take_messages(self, *, is_end: bool = True) -> list[tuple[str, str]]:
        """Return and remove the unreported failures as (error name, message). Before the end (`is_end` False), a range
        of lines is included only after later records succeeded, and at most MAX_REPORTED_FAILURES ranges in all."""
        with self._lock:
            messages, self._messages = self._messages, []
            for key, lines in list(self._lost_lines.items()):
                if is_end or (lines.is_over and self._reported_range_count < MAX_REPORTED_FAILURES):
                    del self._lost_lines[key]
                    self._reported_range_count += 1
                    messages += [(_kind(lines.error), message) for message in lines.messages()]
            return messages

    def is_reported(self, error: Exception) -> bool:
        """Return whether a failure with this error object was recorded for the report."""
        return id(error) in self._reported

    @property
    def hidden(self) -> int:
        """The number of failures that are counted but not reported one by one."""
        return self.failed_count - self._unconfirmed_count - self._reported_count - self._in_lines


def _kind(error: Exception) -> str:
    return getattr(error, "name", "FAILED")


def is_hopeless_cause(error: Exception) -> bool:
    """Return whether an error suggests that all further records fail too: a timeout, no brokers, or an invalid or
    unauthorized topic."""
    return getattr(error, "name", "") in (
        "TIMEOUT",
        "INVALID_TOPIC_EXCEPTION",
        "TOPIC_AUTHORIZATION_FAILED",
        "NO_BROKERS_AVAILABLE",
    )
