"""Work for later, when whoever drives the log says that it is time: files that wait out file.delete.delay.ms."""

import heapq
from collections.abc import Callable
from itertools import count


class DelayedTasks:
    """Tasks by due time. `run_due` is called by the owner's loop; nothing runs by itself."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = count()

    def __len__(self) -> int:
        return len(self._heap)

    def schedule(self, due_ms: int, task: Callable[[], None]) -> None:
        """Run a task once `run_due` is called at or after `due_ms`."""
        heapq.heappush(self._heap, (due_ms, next(self._sequence), task))

    def run_due(self, now_ms: int) -> int:
        """Run what is due; gives how many tasks ran."""
        ran = 0
        while self._heap and self._heap[0][0] <= now_ms:
            heapq.heappop(self._heap)[2]()
            ran += 1
        return ran
