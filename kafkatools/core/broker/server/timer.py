"""The tasks of a broker by the time when they run (Kafka's SystemTimer), in a heap.

Rules: a task runs at the first `advance_to` at or after its expiration, in the order of expirations, and of `add` for
equal ones. A cancelled task forgets its function at once and leaves the heap later. The caller passes the time.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

FEWEST_CANCELLED = 100
"""So many cancelled tasks may stay in the heap, and in a large one as many as there are others."""


def _cancelled(_now_ms: int) -> None:
    """The function of a cancelled task, which does nothing."""


class TimerTask:
    """A function that a `Timer` calls at `expiration_ms`, unless it is cancelled first."""

    __slots__ = ("_timer", "expiration_ms", "run")

    def __init__(self, expiration_ms: int, run: Callable[[int], None]) -> None:
        self.expiration_ms = expiration_ms
        self.run = run
        self._timer: Timer | None = None

    def cancel(self) -> None:
        """Cancel the task; does nothing if it ran already."""
        if self._timer is not None:
            timer, self._timer, self.run = self._timer, None, _cancelled
            timer._note_cancelled()


class Timer:
    """Runs the TimerTasks of one broker (delayed requests, timers of groups, periodic work of the node), on the
    listener's thread. Workers such as Raft and replication keep deadlines of their own (`Node.run_once`)."""

    def __init__(self, start_ms: int, failed: Callable[[Exception], None] | None = None) -> None:
        """`failed` gets what a task raises; without it the exception reaches the caller."""
        self._now_ms = start_ms
        self._failed = failed
        self._heap: list[tuple[int, int, TimerTask]] = []
        self._added_count = 0
        self._cancelled_count = 0

    def add(self, task: TimerTask, now_ms: int) -> None:
        """Schedule a task; one that is due runs at once, and what it then raises reaches the caller."""
        if task.expiration_ms <= self._now_ms:
            task.run(now_ms)
            return
        task._timer = self
        self._added_count += 1
        heappush(self._heap, (task.expiration_ms, self._added_count, task))

    def schedule(self, delay_ms: int, run: Callable[[int], None], now_ms: int) -> TimerTask:
        """Schedule `run(now_ms)` once, `delay_ms` from `now_ms`; returns its task."""
        task = TimerTask(now_ms + delay_ms, run)
        self.add(task, now_ms)
        return task

    def advance_to(self, now_ms: int) -> int:
        """Run the tasks that are due at `now_ms`, without those that are cancelled meanwhile; returns their number.
        What a task raises goes to `failed`, or to the caller without it."""
        count = 0
        while (next_ms := self.next_expiration_ms()) is not None and next_ms <= now_ms:
            task = heappop(self._heap)[2]
            task._timer = None
            self._now_ms = next_ms
            self._run(task, now_ms)
            count += 1
        self._now_ms = max(self._now_ms, now_ms)
        return count

    def _run(self, task: TimerTask, now_ms: int) -> None:
        try:
            task.run(now_ms)
        except Exception as error:  # boundary: a task that fails must not end the broker
            if self._failed is None:
                raise
            self._failed(error)

    def next_expiration_ms(self) -> int | None:
        """The expiration of the next task in ms; None without tasks."""
        while self._heap and self._heap[0][2]._timer is None:
            heappop(self._heap)
            self._cancelled_count -= 1
        return self._heap[0][0] if self._heap else None

    def _note_cancelled(self) -> None:
        self._cancelled_count += 1
        if self._cancelled_count > max(FEWEST_CANCELLED, len(self._heap) // 2):
            self._heap = [entry for entry in self._heap if entry[2]._timer is not None]
            heapify(self._heap)
            self._cancelled_count = 0
