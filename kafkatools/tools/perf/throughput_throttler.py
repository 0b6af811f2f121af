"""The number of records that may be sent now so that the average rate stays at its limit (Kafka's ThroughputThrottler).

Kafka checks after each record and sleeps if too many were sent. Here the check comes first, for as many records as may
be sent at once. Record n is due (n - 1) / rate seconds after the start. A negative rate means no limit. With a rate of
0 only the first record is sent. Times are parameters, nothing waits.
"""

from __future__ import annotations

UNLIMITED = 1 << 62
MIN_PAUSE_MS = 2
"""Shorter waits are joined, as in Kafka: a thousand wake-ups per second would cost more than the records."""


class ThroughputThrottler:
    """Limits the average rate to `target` records per second."""

    def __init__(self, target: float, start_ms: int) -> None:
        self._target = target
        self._start_ms = start_ms

    def allowance(self, count: int, now_ms: int) -> int:
        """Return the number of records that may still be sent at this time."""
        if self._target < 0:
            return UNLIMITED
        budget = int(self._target * (now_ms - self._start_ms) / 1000) + 1
        return max(0, budget - count)

    def pause_ms(self, count: int, now_ms: int) -> int | None:
        """The time in ms until the next record is due, at least MIN_PAUSE_MS; None (never) for a rate of 0."""
        if self._target == 0:
            return None
        due_ms = int(1000 * count / self._target) + 1
        return max(MIN_PAUSE_MS, due_ms - (now_ms - self._start_ms))
