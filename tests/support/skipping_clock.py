"""The machine's clock, which a test can set forward: a time-out of minutes is over without a wait, and no sooner."""

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
