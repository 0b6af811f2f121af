"""Tells while Spark's jobs wait for executors: Spark itself says so only in its log.

A thread looks every second whether a stage is active of which no task runs. It belongs to one SparkContext and ends
with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.clock import SystemClock

if TYPE_CHECKING:
    from pyspark import SparkContext

_POLL_MS = 1000
_FIRST_S = 4.0
_AGAIN_S = 60.0


class Waiting(NamedTuple):
    """What a job waits for: `executors` is the number of registered ones, the others are what the application asks of
    each executor, None if the cluster decides."""

    executors: int
    cores: str | None
    memory: str | None

    def text(self, seconds: float) -> str:
        """Return the line for a job that has waited this long."""
        waited = f"Waiting for executors for {seconds:.0f} s"
        if self.executors:
            return f"{waited}: {self.executors} registered, but none has a free core; other jobs may use them"
        size = f"{self.memory or '1g'} of memory and {self.cores or 'at least 1'} free core(s)"
        return (
            f"{waited}: none has registered; no worker of the cluster may have {size}, or other applications hold them "
            "(spark.executor.memory and spark.executor.cores ask for less)"
        )


class WaitingTimes:
    """Decides when to tell that a job waits: after 4 s, and again each minute."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._next_s = _FIRST_S

    def waited_s(self, is_waiting: bool, now_s: float) -> float | None:
        """Return how long the job has waited if that is to be told now, else None."""
        if not is_waiting:
            self._since, self._next_s = None, _FIRST_S
            return None
        if self._since is None:
            self._since = now_s
        waited = now_s - self._since
        if waited < self._next_s:
            return None
        self._next_s = waited + _AGAIN_S
        return waited


def tell_of_waiting(context: SparkContext, tell: Callable[[str], object]) -> None:
    """Start the thread that calls `tell` with a line while jobs wait for executors."""
    threading.Thread(target=_watch, args=(context, tell), name="spark-waiting", daemon=True).start()


def _watch(context: SparkContext, tell: Callable[[str], object]) -> None:
    times, clock = WaitingTimes(), SystemClock()
    while True:
        clock.sleep_ms(_POLL_MS)
        try:
            if context._jsc is None:  # stopped
                return
            waited = times.waited_s(_is_waiting(context), clock.now_ms() / 1000)
            if waited is not None:
                tell(_waiting(context).text(waited))
        except Exception:  # noqa: BLE001 - boundary of the thread: the JVM ends while it is asked
            return


def _is_waiting(context: SparkContext) -> bool:
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    active = [stage for stage in stages if stage is not None]
    return bool(active) and all(stage.numActiveTasks == 0 for stage in active)


def _waiting(context: SparkContext) -> Waiting:
    conf = context.getConf()
    registered = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # the driver is one of them
    return Waiting(max(registered, 0), conf.get("spark.executor.cores"), conf.get("spark.executor.memory"))
