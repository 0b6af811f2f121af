"""Report that Spark's jobs wait for executors, that executors are lost and that tasks fail: Spark itself writes that
only to its log.

A thread looks every second whether a stage is active of which no task runs, which executors are registered, and how
many tasks of each stage have failed. It belongs to one SparkContext and ends with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.clock import SystemClock
from kafkatools.pipeline.run.wait_notices import WaitTimer

if TYPE_CHECKING:
    from pyspark import SparkContext

_POLL_MS = 1000
_FIRST_MS, _AGAIN_MS = 4000, 60_000
_EXECUTORS = "executors"


class Waiting(NamedTuple):
    """The reason of a wait: `executors` is the number of registered ones; `cores` and `memory` are requested for each
    executor, None if the cluster decides."""

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


class Losses:
    """Finds lost executors and failed tasks by comparing what Spark reports now with what it reported before."""

    def __init__(self) -> None:
        self._executors: frozenset[str] = frozenset()
        self._failed: dict[int, int] = {}

    @property
    def stages(self) -> list[int]:
        """Return the stages that were active before."""
        return [*self._failed]

    def lines(self, executors: frozenset[str], failed_tasks: Mapping[int, int], active: Collection[int]) -> list[str]:
        """Return the lines to report. `failed_tasks` has the number of failed tasks of each stage that is or was
        active. An executor that leaves while no stage is active has no tasks, so it is not reported."""
        lost = sorted(self._executors - executors) if active else []
        lines = [f"Lost executor {address}: Spark repeats its tasks on another" for address in lost]
        count = sum(max(failed - self._failed.get(stage, 0), 0) for stage, failed in failed_tasks.items())
        if count:
            lines.append(
                "A task failed: Spark repeats it" if count == 1 else f"{count} tasks failed: Spark repeats them"
            )
        self._executors = executors
        self._failed = {stage: failed for stage, failed in failed_tasks.items() if stage in active}
        return lines


def tell_of_waiting(context: SparkContext, tell: Callable[[str], object]) -> None:
    """Start the thread that calls `tell` with a line while jobs wait for executors, and for lost executors and failed
    tasks."""
    threading.Thread(target=_watch, args=(context, tell), name="spark-waiting", daemon=True).start()


def _watch(context: SparkContext, tell: Callable[[str], object]) -> None:
    timer, losses, clock = WaitTimer(_FIRST_MS, _AGAIN_MS), Losses(), SystemClock()
    while True:
        clock.sleep_ms(_POLL_MS)
        try:
            if context._jsc is None:  # stopped
                return
            waits = (_EXECUTORS,) if _is_waiting(context) else ()
            for waited_ms in timer.notices(waits, clock.now_ms()).ongoing.values():
                tell(_waiting(context).text(waited_ms / 1000))
            for line in _losses(context, losses):
                tell(line)
        except Exception:  # noqa: BLE001 - boundary of the thread: the JVM ends while it is asked
            return


def _is_waiting(context: SparkContext) -> bool:
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    active = [stage for stage in stages if stage is not None]
    return bool(active) and all(stage.numActiveTasks == 0 for stage in active)


def _losses(context: SparkContext, losses: Losses) -> list[str]:
    tracker = context.statusTracker()
    active = tracker.getActiveStageIds()
    stages = {stage: tracker.getStageInfo(stage) for stage in (*losses.stages, *active)}
    failed = {stage: info.numFailedTasks for stage, info in stages.items() if info is not None}
    registered: frozenset[str] = frozenset()
    if context.getConf().get("spark.dynamicAllocation.enabled") != "true":  # else executors leave when they are idle
        registered = frozenset(context._jsc.sc().getExecutorMemoryStatus().keys().mkString(",").split(","))
    lines = losses.lines(registered, failed, active)
    return [] if context._jsc.sc().isStopped() else lines


def _waiting(context: SparkContext) -> Waiting:
    conf = context.getConf()
    registered = int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1  # the driver is one of them
    return Waiting(max(registered, 0), conf.get("spark.executor.cores"), conf.get("spark.executor.memory"))
