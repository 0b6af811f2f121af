"""A hierarchical timing wheel (Kafka's TimingWheel and SystemTimer).

Rules: adding and cancelling a task take constant time. A task runs at the first `advance_to` at or after its
expiration, rounded down to the tick of the wheel that held it. The caller passes the time. A task is in one bucket at
most.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

WHEEL_SIZE = 20
TICK_MS = 1


class TimerTask:
    """A function that a `Timer` calls at `expiration_ms`, unless it is cancelled first."""

    __slots__ = ("_bucket", "expiration_ms", "run")

    def __init__(self, expiration_ms: int, run: Callable[[int], None]) -> None:
        self.expiration_ms = expiration_ms
        self.run = run
        self._bucket: _Bucket | None = None

    def cancel(self) -> None:
        """Cancel the task; does nothing if it ran already."""
        if self._bucket is not None:
            self._bucket.tasks.pop(self, None)
            self._bucket = None


class _Bucket:
    __slots__ = ("expiration_ms", "tasks")

    def __init__(self) -> None:
        self.expiration_ms = -1
        self.tasks: dict[TimerTask, None] = {}

    def add(self, task: TimerTask) -> None:
        task._bucket = self
        self.tasks[task] = None


class _TimingWheel:
    """One level of the wheel: `WHEEL_SIZE` buckets of `tick_ms`. Later tasks go to the next level."""

    def __init__(self, tick_ms: int, start_ms: int, queue: list[tuple[int, int, _Bucket]]) -> None:
        self.tick_ms = tick_ms
        self.interval_ms = tick_ms * WHEEL_SIZE
        self.current_ms = start_ms - start_ms % tick_ms
        self._queue = queue
        self._buckets = [_Bucket() for _ in range(WHEEL_SIZE)]
        self._overflow: _TimingWheel | None = None

    def add(self, task: TimerTask) -> bool:
        """Put a task into a bucket; False when it has already expired."""
        expiration = task.expiration_ms
        if expiration < self.current_ms + self.tick_ms:
            return False
        if expiration < self.current_ms + self.interval_ms:
            tick = expiration // self.tick_ms
            bucket = self._buckets[tick % WHEEL_SIZE]
            bucket.add(task)
            if bucket.expiration_ms != tick * self.tick_ms:
                bucket.expiration_ms = tick * self.tick_ms
                heappush(self._queue, (bucket.expiration_ms, id(bucket), bucket))
            return True
        if self._overflow is None:
            self._overflow = _TimingWheel(self.interval_ms, self.current_ms, self._queue)
        return self._overflow.add(task)

    def advance_clock(self, now_ms: int) -> None:
        if now_ms >= self.current_ms + self.tick_ms:
            self.current_ms = now_ms - now_ms % self.tick_ms
            if self._overflow is not None:
                self._overflow.advance_clock(self.current_ms)


class Timer:
    """Runs the TimerTasks of one broker (delayed requests, timers of groups, periodic work of the node), on the
    listener's thread. Workers such as Raft and replication keep deadlines of their own (`Node.run_once`)."""

    def __init__(self, start_ms: int, failed: Callable[[Exception], None] | None = None) -> None:
        """`failed` gets what a task raises; without it the exception reaches the caller."""
        self._queue: list[tuple[int, int, _Bucket]] = []
        self._wheel = _TimingWheel(TICK_MS, start_ms, self._queue)
        self._failed = failed

    def add(self, task: TimerTask, now_ms: int) -> None:
        """Schedule a task; one that is due runs at once, and what it then raises reaches the caller."""
        if not self._wheel.add(task):
            task.run(now_ms)

    def schedule(self, delay_ms: int, run: Callable[[int], None], now_ms: int) -> TimerTask:
        """Schedule `run(now_ms)` once, `delay_ms` from `now_ms`; returns its task."""
        task = TimerTask(now_ms + delay_ms, run)
        self.add(task, now_ms)
        return task

    def advance_to(self, now_ms: int) -> int:
        """Run the tasks that are due at `now_ms`, without those that are cancelled meanwhile; returns their number.
        What a task raises goes to `failed`, or to the caller without it."""
        count = 0
        queue = self._queue
        while queue and queue[0][0] <= now_ms:
            expiration, _, bucket = heappop(queue)
            self._wheel.advance_clock(expiration)
            bucket.expiration_ms = -1
            tasks, bucket.tasks = bucket.tasks, {}
            for task in tasks:
                if task._bucket is not bucket:
                    continue  # cancelled by a task that ran just before it
                task._bucket = None
                if not self._wheel.add(task):
                    self._run(task, now_ms)
                    count += 1
        self._wheel.advance_clock(now_ms)
        return count

    def _run(self, task: TimerTask, now_ms: int) -> None:
        try:
            task.run(now_ms)
        except Exception as error:  # boundary: a task that fails must not end the broker
            if self._failed is None:
                raise
            self._failed(error)

    def next_expiration_ms(self) -> int | None:
        """A lower bound of the next task's expiration in ms; None without tasks."""
        queue = self._queue
        while queue and not queue[0][2].tasks:
            bucket = heappop(queue)[2]
            bucket.expiration_ms = -1
        return queue[0][0] if queue else None
