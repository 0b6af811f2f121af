"""Delayed and periodic work on a node's timer."""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.core.broker.server.timer import Timer, TimerTask
from kafkatools.core.clock import Clock


class Scheduler:
    """Schedules work on a timer by the time of a clock; `note_failure` gets the errors of periodic work."""

    def __init__(self, timer: Timer, clock: Clock, note_failure: Callable[[Exception], None]) -> None:
        self._timer = timer
        self._clock = clock
        self._note_failure = note_failure

    def schedule(self, delay_ms: int, run: Callable[[int], None]) -> TimerTask:
        """Call `run` once, with the time in ms, after a delay; returns the task, which can be cancelled."""
        return self._timer.schedule(delay_ms, run, self._clock.now_ms())

    def every(self, interval_ms: int, work: Callable[[], object], first_ms: int | None = None) -> None:
        """Call `work` every `interval_ms`, the first time after `first_ms` (None: `interval_ms`); errors are
        reported."""

        def run(now_ms: int) -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - boundary: a turn that fails is not the last one
                self._note_failure(error)
            self._timer.schedule(interval_ms, run, now_ms)

        self.schedule(interval_ms if first_ms is None else first_ms, run)
