"""Waiting for writes of share partition states before acknowledgements are confirmed to a share group member."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkatools.core.errors import KafkaError


class PendingWrite:
    """A write requested from a share coordinator. `is_over` is set when the write has succeeded or failed. `error` is
    None until then and after success."""

    __slots__ = ("_callbacks", "error", "is_over")

    def __init__(self) -> None:
        self.is_over = False
        self.error: KafkaError | None = None
        self._callbacks: list[Callable[[], None]] = []

    def finish(self, error: KafkaError | None) -> None:
        """Record the result of the write (None: success), and call everything registered with `then`."""
        self.is_over, self.error = True, error
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def then(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the write is over, at once if it already is."""
        if self.is_over:
            callback()
        else:
            self._callbacks.append(callback)


ShareWrite = PendingWrite | None
"""A write of the state of a share partition, or None if there is nothing to wait for."""


def when_written(writes: Sequence[ShareWrite], on_written: Callable[[], None]) -> None:
    """Call `on_written` when all share-state writes have succeeded, failed or timed out; at once if there are none.
    Errors are not passed on: read `PendingWrite.error`."""
    pending = [write for write in writes if write is not None]
    remaining = [len(pending) + 1]

    def note() -> None:
        remaining[0] -= 1
        if not remaining[0]:
            on_written()

    for write in pending:
        write.then(note)
    note()
