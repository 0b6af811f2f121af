"""A queue of tasks with due times, such as the removal of segment files after file.delete.delay.ms."""

import heapq
import sys
from collections.abc import Callable
from itertools import count


class DelayedTasks:
    """A queue of tasks ordered by due time. The owner's loop calls `run_due`; there is no thread."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = count()

    def __len__(self) -> int:
        return len(self._heap)

    def schedule(self, due_ms: int, task: Callable[[], None]) -> None:
        """Queue a task for the first `run_due` call at or after `due_ms`."""
        heapq.heappush(self._heap, (due_ms, next(self._sequence), task))

    def run_due(self, now_ms: int, limit: int = sys.maxsize) -> int:
        """Run the tasks due at `now_ms` or earlier, at most `limit` of them, and remove them. Return how many ran. A
        task's exception passes through; the tasks after it stay queued."""
        count = 0
        while count < limit and self._heap and self._heap[0][0] <= now_ms:
            heapq.heappop(self._heap)[2]()
            count += 1
        return count
