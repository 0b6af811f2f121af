"""Delayed operations (Kafka's DelayedOperation and DelayedOperationPurgatory).

Rules:
- An operation completes exactly once: by `try_complete`, by an event on one of its keys, or by its time-out, whichever
  comes first.
- `try_complete_else_watch` checks twice: it tries, watches the operation under every key, and tries again. The second
  try covers an event between the first try and the watch, when nobody was watching yet.
- An operation with very many keys is registered key by key instead, with pauses between them: `watch` for each key,
  which the caller checks after it is watched, then `begin_timeout`.
- All code runs on the listener's thread, or on the slow lane's while that one waits, so there are no locks. An
  operation may complete while a list of watchers is traversed.
- Completed operations stay under keys without events until they are purged. Each watch purges a few keys, so that
  purging very many keys delays nobody.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kafkatools.core.broker.server.timer import Timer, TimerTask

PURGE_INTERVAL = 1000
KEYS_PURGED_PER_WATCH = 2


class DelayedOperation:
    """Base class of delayed operations. A subclass defines `try_complete` and `on_complete`."""

    __slots__ = ("_is_completed", "_timer_task", "delay_ms")

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self._is_completed = False
        self._timer_task: TimerTask | None = None

    @property
    def is_completed(self) -> bool:
        return self._is_completed

    def force_complete(self) -> bool:
        """Complete the operation now and cancel its time-out; returns whether this call completed it, False when it was
        complete before."""
        if self._is_completed:
            return False
        self._is_completed = True
        if self._timer_task is not None:
            self._timer_task.cancel()
            self._timer_task = None
        self.on_complete()
        return True

    def try_complete(self) -> bool:
        """Complete the operation if its condition holds; returns whether this call completed it. Raises RuntimeError in
        a subclass that does not define it."""
        raise RuntimeError("a delayed operation defines try_complete")

    def try_complete_for(self, key: Hashable) -> bool:
        """Try to complete the operation after an event on `key`, as `try_complete` does; an operation with many keys
        checks only what the event changed."""
        return self.try_complete()

    def on_complete(self) -> None:
        """Do the operation's work; called once, by whatever completes it."""
        raise RuntimeError("a delayed operation defines on_complete")

    def on_expiration(self) -> None:
        """Called after `on_complete` when the time-out completed the operation."""

    def _expire(self, _now_ms: int) -> None:
        if self.force_complete():
            self.on_expiration()


class Purgatory:
    """Delayed operations of one kind, found by the keys that they watch."""

    def __init__(self, name: str, timer: Timer) -> None:
        self.name = name
        self._timer = timer
        self._watchers: dict[Hashable, list[DelayedOperation]] = {}
        self._watches_since_purge = 0
        self._to_purge: list[Hashable] = []

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Sequence[Hashable], now_ms: int) -> bool:
        """Complete an operation, or let it wait for its keys and its time-out; returns whether it is complete."""
        if operation.try_complete():
            return True
        for key in keys:
            if operation.is_completed:
                return True
            self.watch(operation, key)
        if operation.try_complete():
            return True
        self.begin_timeout(operation, now_ms)
        return operation.is_completed

    def watch(self, operation: DelayedOperation, key: Hashable) -> None:
        """Try to complete an operation at each event on a key from now on."""
        self._watchers.setdefault(key, []).append(operation)
        self._watches_since_purge += 1
        if self._to_purge or self._watches_since_purge > PURGE_INTERVAL:
            self._purge_some()

    def begin_timeout(self, operation: DelayedOperation, now_ms: int) -> None:
        """Complete an operation `delay_ms` after `now_ms`, unless it completes before."""
        if not operation.is_completed:
            operation._timer_task = TimerTask(now_ms + operation.delay_ms, operation._expire)
            self._timer.add(operation._timer_task, now_ms)

    def check_and_complete(self, key: Hashable) -> int:
        """Try to complete the operations of a key after an event on it; returns how many this call completed. The
        others continue to wait."""
        watchers = self._watchers.pop(key, None)
        if watchers is None:
            return 0
        completed = 0
        remaining = []
        for operation in watchers:
            if operation.is_completed:
                continue
            if operation.try_complete_for(key):
                completed += 1
            else:
                remaining.append(operation)
        if remaining:
            self._watchers[key] = remaining + self._watchers.get(key, [])
        return completed

    def has_watchers(self, key: Hashable) -> bool:
        return key in self._watchers

    def entry_count(self) -> int:
        """The number of (operation, key) entries, including completed operations that are not purged yet."""
        return sum(map(len, self._watchers.values()))

    def _purge_some(self) -> None:
        """Drop the completed operations of the next few keys; begin a new round over all keys when none is left."""
        if not self._to_purge:
            self._to_purge = list(self._watchers)
            self._watches_since_purge = 0
        for _ in range(min(KEYS_PURGED_PER_WATCH, len(self._to_purge))):
            key = self._to_purge.pop()
            remaining = [operation for operation in self._watchers.get(key, ()) if not operation.is_completed]
            if remaining:
                self._watchers[key] = remaining
            else:
                self._watchers.pop(key, None)
