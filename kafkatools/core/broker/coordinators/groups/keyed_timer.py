"""Timers by key (Kafka's CoordinatorTimer): scheduling a key again replaces its work.

Work that raises a KafkaError, such as a write without enough in-sync replicas, runs again after RETRY_MS until it
succeeds or is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from kafkatools.core.broker.server.timer import Timer, TimerTask
from kafkatools.core.clock import Clock, thread_time_ns
from kafkatools.core.errors import KafkaError

RETRY_MS = 500
SLICE_NS = 5_000_000


@dataclass(eq=False, repr=False)
class KeyedTimer:
    """The timers of the group coordinator. `send_responses` runs after each piece of work, also a failed one, to send
    the responses it caused. `note_failure` gets the error of failed work."""

    timer: Timer
    clock: Clock
    send_responses: Callable[[], None]
    note_failure: Callable[[Exception], None]
    _tasks: dict[Hashable, TimerTask] = field(default_factory=dict, init=False)

    def schedule(self, key: Hashable, delay_ms: int, work: Callable[[], None]) -> None:
        """Run `work` after `delay_ms`, instead of any work scheduled for this key. If it raises a KafkaError, it runs
        again after RETRY_MS until it succeeds or is cancelled."""
        self.cancel(key)
        now_ms = self.clock.now_ms()

        def run(_now_ms: int) -> None:
            if self._tasks.get(key) is task:
                del self._tasks[key]
                try:
                    work()
                except KafkaError as error:
                    self.note_failure(error)
                    self.schedule(key, RETRY_MS, work)
                self.send_responses()

        task = TimerTask(now_ms + max(delay_ms, 1), run)
        self._tasks[key] = task
        self.timer.add(task, now_ms)

    def run_in_slices(self, key: Hashable, steps: Iterator[None], on_end: Callable[[], None] = lambda: None) -> None:
        """Run steps for SLICE_NS now, schedule the rest behind the requests that arrived meanwhile, and call `on_end`
        after the last one. Raises the KafkaError of `on_end` in the first slice; in a later one `on_end` is called
        again, as in `schedule`."""
        end_ns = thread_time_ns() + SLICE_NS
        for _ in steps:
            if thread_time_ns() > end_ns:
                self.schedule(key, 0, lambda: self.run_in_slices(key, steps, on_end))
                return
        on_end()

    def cancel(self, key: Hashable) -> None:
        """Cancel the key's work, if any."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    def is_scheduled(self, key: Hashable) -> bool:
        """Return whether the key has work that has not run."""
        return key in self._tasks
