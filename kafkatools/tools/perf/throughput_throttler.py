"""ThroughputThrottler: how many records may go out now, so that their average is not above a rate (Kafka's class).

Kafka asks after each record and sleeps when too many went out; here the question is asked before, for as many records
as may go at once. The first record is free, the n-th one is due (n - 1) / rate seconds after the start. A rate below
zero is none at all; with zero nothing goes out behind the first record. Takes the time as a parameter, waits nowhere.
"""

from __future__ import annotations

UNLIMITED = 1 << 62
MIN_PAUSE_MS = 2
"""Shorter waits are collected, as Kafka does: a thousand wake-ups a second would cost more than the records."""


class ThroughputThrottler:
    """`target`: records (or whatever is counted) a second."""

    def __init__(self, target: float, start_ms: int) -> None:
        self._target = target
        self._start_ms = start_ms

    def allowance(self, sent: int, now_ms: int) -> int:
        """How many more may go out at this moment."""
        if self._target < 0:
            return UNLIMITED
        due = int(self._target * (now_ms - self._start_ms) / 1000) + 1
        return max(0, due - sent)

    def pause_ms(self, sent: int, now_ms: int) -> int | None:
        """How long to wait for the next one when there is no allowance; None: for ever."""
        if self._target == 0:
            return None
        due_ms = int(1000 * sent / self._target) + 1
        return max(MIN_PAUSE_MS, due_ms - (now_ms - self._start_ms))
