"""The only place that reads the time or waits. State objects take `now_ms`; whatever drives them holds a `Clock`."""

import threading
import time
from typing import Protocol

# For bounds on work within one turn, never for timers: the time, and the processor time of the calling thread.
monotonic_ns = time.monotonic_ns
thread_time_ns = time.thread_time_ns


class Clock(Protocol):
    """Where time comes from (Kafka's Time)."""

    def now_ms(self) -> int:
        """A time that never goes back, for timers; its zero means nothing."""

    def now_ns(self) -> int:
        """The same in nanoseconds, for how long something took."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 in UTC, for record timestamps."""

    def sleep_ms(self, duration_ms: int) -> None:
        """Wait; a duration of zero or less returns at once."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def now_ns(self) -> int:
        """Monotonic nanoseconds."""
        return time.monotonic_ns()

    def wall_ms(self) -> int:
        """Wall clock milliseconds."""
        return time.time_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        """Sleep the thread."""
        if duration_ms > 0:
            time.sleep(duration_ms / 1000)


class ManualClock:
    """A clock that moves only when told (Kafka's MockTime). `sleep_ms` advances it at once, so nothing ever waits."""

    def __init__(self, now_ms: int = 1_000_000, wall_ms: int = 1_700_000_000_000) -> None:
        self._lock = threading.Lock()
        self._now_ms = now_ms
        self._wall_ms = wall_ms

    def now_ms(self) -> int:
        """The timer's time."""
        with self._lock:
            return self._now_ms

    def now_ns(self) -> int:
        """The timer's time in nanoseconds."""
        return self.now_ms() * 1_000_000

    def wall_ms(self) -> int:
        """The wall clock."""
        with self._lock:
            return self._wall_ms

    def advance_ms(self, duration_ms: int) -> None:
        """Move both clocks on by so much."""
        with self._lock:
            self._now_ms += duration_ms
            self._wall_ms += duration_ms

    def set_wall_ms(self, wall_ms: int) -> None:
        """Set the wall clock alone: an operator or NTP may, in either direction."""
        with self._lock:
            self._wall_ms = wall_ms

    def sleep_ms(self, duration_ms: int) -> None:
        """Advance instead of waiting."""
        if duration_ms > 0:
            self.advance_ms(duration_ms)
