"""Timed work by name: scheduling a name again replaces what it was to do (Kafka's CoordinatorTimer). Work that fails
with a KafkaError, as when too few replicas take its records, is tried again until it succeeds or nobody wants it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from kafkatools.core.broker.server.timer import Timer, TimerTask
from kafkatools.core.clock import Clock
from kafkatools.core.errors import KafkaError

RETRY_MS = 500


@dataclass(eq=False, repr=False)
class KeyedTimer:
    """The coordinator's timers. `after` runs when one has run: answers that it gave are sent then. `note_failure` is
    told of work that failed."""

    timer: Timer
    clock: Clock
    after: Callable[[], None]
    note_failure: Callable[[Exception], None]
    _tasks: dict[Hashable, TimerTask] = field(default_factory=dict, init=False)

    def schedule(self, key: Hashable, delay_ms: int, work: Callable[[], None]) -> None:
        """Do the work once, `delay_ms` from now, unless the key is scheduled again or cancelled before."""
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
                self.after()

        task = TimerTask(now_ms + max(delay_ms, 1), run)
        self._tasks[key] = task
        self.timer.add(task, now_ms)

    def cancel(self, key: Hashable) -> None:
        """Forget what the key was to do."""
        task = self._tasks.pop(key, None)
        if task is not None:
            task.cancel()

    def is_scheduled(self, key: Hashable) -> bool:
        """Whether there is something to do."""
        return key in self._tasks
