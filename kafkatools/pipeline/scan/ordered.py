"""Read many tasks on several threads and yield their batches in the order of the tasks, in bounded memory.

Threads take the tasks in order. A thread that is ahead of the consumer stops while the batches that nobody has taken
exceed the budget. The thread of the first unfinished task may always hold one batch, so the consumer never waits for a
stopped thread. Kernels, checksums, decompression and reads release the interpreter's lock, so threads use several
cores. When the consumer closes the iterator, threads end after the batch they are making.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

BUDGET_BYTES = 32 << 20
_MOST_BATCHES = 12
"""Batches that are held at most: the buffers of a small batch may be much larger than what it uses of them."""
_FIRST_BATCHES = 2
"""Batches that are held before the consumer has taken as many: it may need no more."""
_REQUESTS_BEFORE_ALL = 2
"""Before the consumer has asked for as many batches only the first task runs: a LIMIT may need no more."""

Task = Callable[[], "Iterator[pa.RecordBatch]"]
"""A part of a scan: returns an iterator over its batches, which may be a generator."""


def read_in_order(
    tasks: Sequence[Task], threads: int, budget_bytes: int = BUDGET_BYTES
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the batches of all tasks in the order of the tasks. The exception of a task is raised after its batches;
    later tasks are abandoned."""
    if threads <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield from task()
        return
    reading = _Reading(tasks, budget_bytes)
    workers = [
        threading.Thread(target=reading.work, name=f"scan-{number}", daemon=True)
        for number in range(min(threads, len(tasks)))
    ]
    for worker in workers:
        worker.start()
    try:
        yield from reading.batches()
    finally:
        reading.cancel()
        for worker in workers:
            worker.join()


class _Reading:
    """The state that the consumer and the threads share; `_changed` guards all of it."""

    def __init__(self, tasks: Sequence[Task], budget_bytes: int) -> None:
        self._tasks = tasks
        self._budget_bytes = budget_bytes
        self._changed = threading.Condition()
        self._ready: list[deque[pa.RecordBatch]] = [deque() for _ in tasks]
        self._is_done = [False] * len(tasks)
        self._errors: dict[int, BaseException] = {}
        self._next_task = 0
        self._first = 0  # the task whose batches the consumer takes
        self._held_bytes = 0
        self._held_batches = 0
        self._taken_batches = 0
        self._requests = 0
        self._is_cancelled = False

    # -- the consumer --

    def batches(self) -> Iterator[pa.RecordBatch]:
        for number in range(len(self._tasks)):
            while (batch := self._take(number)) is not None:
                yield batch
            if number in self._errors:
                raise self._errors[number]

    def _take(self, number: int) -> pa.RecordBatch | None:
        """Return the next batch of a task, None at its end; waits for it."""
        ready = self._ready[number]
        with self._changed:
            self._first = number
            self._requests += 1
            self._changed.notify_all()
            while not ready and not self._is_done[number]:
                self._changed.wait()
            if not ready:
                return None
            batch = ready.popleft()
            self._held_bytes -= batch.nbytes
            self._held_batches -= 1
            self._taken_batches += 1
            self._changed.notify_all()
            return batch

    def cancel(self) -> None:
        with self._changed:
            self._is_cancelled = True
            self._changed.notify_all()

    # -- the threads --

    def work(self) -> None:
        while (number := self._claim()) is not None:
            try:
                self._run(number)
            except BaseException as error:  # noqa: BLE001 - the consumer raises it in its own thread
                self._errors[number] = error
            with self._changed:
                self._is_done[number] = True
                self._changed.notify_all()

    def _claim(self) -> int | None:
        with self._changed:
            while self._next_task and self._requests < _REQUESTS_BEFORE_ALL and not self._is_cancelled:
                self._changed.wait()
            if self._is_cancelled or self._errors or self._next_task == len(self._tasks):
                return None
            self._next_task += 1
            return self._next_task - 1

    def _run(self, number: int) -> None:
        batches = self._tasks[number]()
        try:
            for batch in batches:
                if not self._put(number, batch):
                    return
        finally:
            if (close := getattr(batches, "close", None)) is not None:
                close()

    def _put(self, number: int, batch: pa.RecordBatch) -> bool:
        """Hand a batch to the consumer, after a wait if too many are held. Return whether to go on."""
        ready = self._ready[number]
        with self._changed:
            while not self._is_cancelled and not self._may_add(number, ready):
                self._changed.wait()
            if self._is_cancelled:
                return False
            ready.append(batch)
            self._held_bytes += batch.nbytes
            self._held_batches += 1
            self._changed.notify_all()
        return True

    def _may_add(self, number: int, ready: deque[pa.RecordBatch]) -> bool:
        most_batches = _MOST_BATCHES if self._taken_batches >= _FIRST_BATCHES else _FIRST_BATCHES
        is_within = self._held_bytes < self._budget_bytes and self._held_batches < most_batches
        return is_within or (number == self._first and not ready)
