"""A rebalance whose listener may be a coroutine: the next poll continues it where a cancelled one left it.

Rules: a listener's coroutine runs as a task of its own. A cancelled poll does not cancel it, because the listener may
be in the middle of storing offsets, and a half-revoked assignment must be completed before anything is fetched. A call
that waits for the rebalance would wait for itself inside of the listener, so it is refused there.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

from kafkatools.core.consumer.network import Steps
from kafkatools.core.consumer.single_thread import IN_LISTENER
from kafkatools.core.errors import IllegalState, KafkaError

_running: ContextVar[Rebalance | None] = ContextVar("kafkatools_rebalance", default=None)
"""The rebalance whose listener the present task runs, or the task that started it."""


class Rebalance:
    """The group's part of one poll (`GroupConsumer.advance`), which later polls may continue."""

    def __init__(self, steps: Steps[None]) -> None:
        self._steps = steps
        self._listener: asyncio.Future[object] | None = None
        self.is_over = False

    def ensure_outside_listener(self) -> None:
        """Raise IllegalState in the listener's coroutine, and in tasks that it has started."""
        if _running.get() is self and not self.is_over:
            raise IllegalState(IN_LISTENER)

    def resume(self) -> Steps[None]:
        """Continue until the end; waits for a listener's task. May be closed while it waits, and called again."""
        while not self.is_over:
            listener = self._listener
            if listener is not None and not listener.done():
                yield listener
            else:
                self._listener = None
                self._advance(listener)

    def _advance(self, listener: asyncio.Future[object] | None) -> None:
        """Run to the next listener's coroutine, or to the end. Raises what the rebalance raises."""
        error = None if listener is None else _error_of(listener)
        try:
            pause = next(self._steps) if error is None else self._steps.throw(error)
        except StopIteration:
            self.is_over = True
            return
        except BaseException:
            self.is_over = True
            raise
        assert not isinstance(pause, int), "a group's part of a poll waits for listeners only"
        former = _running.set(self)
        try:
            self._listener = asyncio.ensure_future(pause)  # its task copies the context
        finally:
            _running.reset(former)

    def cancel(self) -> None:
        """Cancel the listener's task and drop the rebalance, because the consumer closes."""
        self.is_over = True
        self._steps.close()
        if self._listener is not None:
            self._listener.cancel()


def _error_of(listener: asyncio.Future[object]) -> BaseException | None:
    if listener.cancelled():
        return KafkaError("The rebalance listener was cancelled")
    return listener.exception()
