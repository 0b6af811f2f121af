"""Reports of disk failures and bugs: a failure that repeats is reported once a minute, with a count."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

from kafkatools.core.clock import Clock
from kafkatools.core.errors import KafkaError, KafkaStorageError

QUIET_MS = 60_000
MOST_LINES = 1000


class FailureReports:
    """Passes lines on to `report`, the same line at most once a minute. Above MOST_LINES different lines in a minute,
    further ones are passed on each time."""

    def __init__(self, clock: Clock, report: Callable[[str], None]) -> None:
        self._clock = clock
        self._report = report
        self._reported: dict[str, tuple[int, int]] = {}  # line -> time of its report in ms, repetitions since then

    def report(self, line: str) -> None:
        """Report the line. If it was reported less than a minute ago, count it for its next report instead."""
        now_ms = self._clock.now_ms()
        reported_ms, repeats = self._reported.get(line, (now_ms - QUIET_MS, 0))
        if now_ms - reported_ms < QUIET_MS:
            self._reported[line] = reported_ms, repeats + 1
            return
        if len(self._reported) >= MOST_LINES:
            self._reported = {text: report for text, report in self._reported.items() if now_ms - report[0] < QUIET_MS}
        if len(self._reported) < MOST_LINES:
            self._reported[line] = now_ms, 0
        self._report(f"{line} ({repeats} more times since the last report)" if repeats else line)

    def note_failure(self, error: Exception) -> None:
        """Report an error that no client caused: a bug (any exception but KafkaError) or a disk failure
        (KafkaStorageError). Other KafkaErrors are ignored."""
        if not isinstance(error, KafkaError):
            self.report(bug_text(error))
        elif isinstance(error, KafkaStorageError):
            self.report(str(error))


def bug_text(error: BaseException) -> str:
    """Return the type and message of an exception that is a bug, with the place in the code where it was raised."""
    text = f"{type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return text
    return f"{text} (in {frames[-1].name}, line {frames[-1].lineno} of {os.path.basename(frames[-1].filename)})"
