"""Runs the delayed tasks of the logs, such as the removal of deleted files, a few in each turn of the broker.

The partitions of a deleted topic are due together, file.delete.delay.ms after the deletion. To remove the files of one
takes about 0.1 ms.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.core.clock import Clock
from kafkatools.core.log.delayed_tasks import DelayedTasks

TASKS_AT_ONCE = 20
CHECK_MS = 1000


class LogTasks:
    """The worker of a node for the delayed tasks of its logs. `note_failure` is called with the error of a task."""

    def __init__(self, tasks: DelayedTasks, clock: Clock, note_failure: Callable[[Exception], None]) -> None:
        self._tasks = tasks
        self._clock = clock
        self._note_failure = note_failure
        self._next_ms = 0

    @property
    def next_deadline_ms(self) -> int | None:
        """Time in ms at which `tick` looks for due tasks; None without tasks."""
        return self._next_ms if len(self._tasks) else None

    def tick(self, now_ms: int) -> None:
        """Run at most `TASKS_AT_ONCE` due tasks, then the others in the next turns. Looks for due tasks every
        `CHECK_MS`. A task that fails is reported and not repeated; the tasks after it run `CHECK_MS` later."""
        if now_ms < self._next_ms or not len(self._tasks):
            return
        self._next_ms = now_ms + CHECK_MS
        try:
            if self._tasks.run_due(self._clock.wall_ms(), TASKS_AT_ONCE) == TASKS_AT_ONCE:
                self._next_ms = now_ms
        except Exception as error:  # noqa: BLE001 - boundary: a task that fails does not end the broker
            self._note_failure(error)
