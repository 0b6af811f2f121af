"""Delayed operations (Kafka's DelayedOperation and DelayedOperationPurgatory).

Rules:
- An operation completes exactly once: by `try_complete`, by an event on one of its keys, or by its time-out,
  whichever comes first.
- `try_complete_else_watch` is the two-stage check: try; if not complete watch it under every key; try again. The
  second try closes the gap in which the awaited event came after the first try and before the watch, when nobody was
  watching yet.
- Everything runs on the listener's thread, so no locks; an operation may be completed while a list of watchers is
  being walked.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kafkatools.core.broker.server.timer import Timer, TimerTask

PURGE_INTERVAL = 1000


class DelayedOperation:
    """Base of delayed work. Subclasses say when it is complete and what to do then."""

    __slots__ = ("_is_completed", "_timer_task", "delay_ms")

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self._is_completed = False
        self._timer_task: TimerTask | None = None

    @property
    def is_completed(self) -> bool:
        return self._is_completed

    def force_complete(self) -> bool:
        """Complete now; False when somebody did before."""
        if self._is_completed:
            return False
        self._is_completed = True
        if self._timer_task is not None:
            self._timer_task.cancel()
            self._timer_task = None
        self.on_complete()
        return True

    def try_complete(self) -> bool:
        """Check the condition and `force_complete` when it holds."""
        raise RuntimeError("a delayed operation defines try_complete")

    def on_complete(self) -> None:
        """The work; runs exactly once."""
        raise RuntimeError("a delayed operation defines on_complete")

    def on_expiration(self) -> None:
        """Runs after `on_complete` when the time-out was the reason."""

    def _expire(self, _now_ms: int) -> None:
        if self.force_complete():
            self.on_expiration()


class Purgatory:
    """Operations that wait, found by the keys they watch."""

    def __init__(self, name: str, timer: Timer) -> None:
        self.name = name
        self._timer = timer
        self._watchers: dict[Hashable, list[DelayedOperation]] = {}
        self._watches_since_purge = 0

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Sequence[Hashable], now_ms: int) -> bool:
        """True when the operation is complete by now; else it waits for its keys or its time-out."""
        if operation.try_complete():
            return True
        for key in keys:
            if operation.is_completed:
                return True
            self._watchers.setdefault(key, []).append(operation)
        self._watches_since_purge += len(keys)
        if operation.try_complete():
            return True
        if not operation.is_completed:
            operation._timer_task = TimerTask(now_ms + operation.delay_ms, operation._expire)
            self._timer.add(operation._timer_task, now_ms)
        if self._watches_since_purge > PURGE_INTERVAL:
            self.purge_completed()
        return operation.is_completed

    def check_and_complete(self, key: Hashable) -> int:
        """An event on `key`: try every watcher; gives how many were completed by it."""
        watchers = self._watchers.pop(key, None)
        if watchers is None:
            return 0
        completed = 0
        remaining = []
        for operation in watchers:
            if operation.is_completed:
                continue
            if operation.try_complete():
                completed += 1
            else:
                remaining.append(operation)
        if remaining:
            self._watchers[key] = remaining + self._watchers.get(key, [])
        return completed

    def has_watchers(self, key: Hashable) -> bool:
        return key in self._watchers

    def watched(self) -> int:
        """Number of watch entries, completed operations included until the next purge."""
        return sum(map(len, self._watchers.values()))

    def purge_completed(self) -> None:
        """Drop completed operations from the lists of keys that see no events."""
        self._watches_since_purge = 0
        for key, watchers in list(self._watchers.items()):
            remaining = [operation for operation in watchers if not operation.is_completed]
            if remaining:
                self._watchers[key] = remaining
            else:
                del self._watchers[key]
