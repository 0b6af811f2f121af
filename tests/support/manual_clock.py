"""A clock that only moves when a test advances it."""

from __future__ import annotations

import threading


class ManualClock:
    """A clock for tests that only moves when a test advances it (Kafka's MockTime). `sleep_ms` advances it and returns
    at once."""

    def __init__(self, now_ms: int = 1_000_000, wall_ms: int = 1_700_000_000_000) -> None:
        self._lock = threading.Lock()
        self._now_ms = now_ms
        self._wall_ms = wall_ms

    def now_ms(self) -> int:
        """Monotonic time in milliseconds."""
        with self._lock:
            return self._now_ms

    def now_ns(self) -> int:
        """Monotonic time in nanoseconds."""
        return self.now_ms() * 1_000_000

    def wall_ms(self) -> int:
        """Wall clock time in milliseconds since 1970 UTC."""
        with self._lock:
            return self._wall_ms

    def advance_ms(self, duration_ms: int) -> None:
        """Advance the monotonic and the wall clock by this many milliseconds."""
        with self._lock:
            self._now_ms += duration_ms
            self._wall_ms += duration_ms

    def set_wall_ms(self, wall_ms: int) -> None:
        """Set only the wall clock, forwards or backwards, as NTP or an operator may."""
        with self._lock:
            self._wall_ms = wall_ms

    def sleep_ms(self, duration_ms: int) -> None:
        """Advance both clocks by this duration instead of sleeping."""
        if duration_ms > 0:
            self.advance_ms(duration_ms)
