"""The machine's clock for time-outs that a test does not want to wait for: set forward by a test, or too fast."""

from __future__ import annotations

from kafkatools.core.clock import SystemClock


class SkippingClock(SystemClock):
    """A SystemClock whose monotonic time `skip_ms` sets forward; any thread may call it."""

    def __init__(self) -> None:
        self._skipped_ms = 0

    def skip_ms(self, duration_ms: int) -> None:
        """Set the monotonic time forward. A thread that waits on a socket notices when something arrives there."""
        self._skipped_ms += duration_ms

    def now_ms(self) -> int:
        """Monotonic milliseconds, with what was skipped."""
        return super().now_ms() + self._skipped_ms

    def now_ns(self) -> int:
        """The same in nanoseconds."""
        return super().now_ns() + self._skipped_ms * 1_000_000


class FastClock(SystemClock):
    """A SystemClock whose monotonic time goes 20 times as fast, for runs that try to reach a broker until a time-out
    ends them. `sleep_ms` sleeps by the machine's clock, so such a run makes fewer tries."""

    _FACTOR = 20

    def now_ms(self) -> int:
        """Monotonic milliseconds of the fast clock."""
        return self.now_ns() // 1_000_000

    def now_ns(self) -> int:
        """The same in nanoseconds."""
        return super().now_ns() * self._FACTOR
