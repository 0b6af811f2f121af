"""The only module that reads the time or sleeps. State objects take `now_ms`; threads and drivers hold a `Clock`."""

import time
from collections.abc import Callable
from typing import Protocol

# Monotonic time and CPU time of the calling thread, to limit the work of one turn; never for timers.
monotonic_ns = time.monotonic_ns
thread_time_ns = time.thread_time_ns


class Clock(Protocol):
    """A source of time (Kafka's Time): monotonic time for timers, wall clock time for record timestamps."""

    def now_ms(self) -> int:
        """Monotonic time in milliseconds for timers; only differences have a meaning."""

    def now_ns(self) -> int:
        """Monotonic time in nanoseconds, for measuring durations."""

    def wall_ms(self) -> int:
        """Wall clock time in milliseconds since 1970 UTC, for record timestamps."""

    def sleep_ms(self, duration_ms: int) -> None:
        """Sleep for this many milliseconds; return at once for zero or less."""


def wall_ns_of(clock: Clock) -> Callable[[], int]:
    """Return the function that reads a clock's wall time in nanoseconds since 1970; without a Python call for the
    system's clock, since every record that is sent needs it."""
    return time.time_ns if type(clock) is SystemClock else lambda: clock.wall_ms() * 1_000_000


class SystemClock:
    """The operating system's clocks."""

    def now_ms(self) -> int:
        """Monotonic time in milliseconds."""
        return time.monotonic_ns() // 1_000_000

    def now_ns(self) -> int:
        """Monotonic time in nanoseconds."""
        return time.monotonic_ns()

    def wall_ms(self) -> int:
        """Wall clock time in milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def sleep_ms(self, duration_ms: int) -> None:
        """Block the calling thread; zero or less returns at once."""
        if duration_ms > 0:
            time.sleep(duration_ms / 1000)
