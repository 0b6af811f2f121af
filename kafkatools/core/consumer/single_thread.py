"""One call at a time: what a second thread in a consumer, or a call after its close, is told."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from kafkatools.core.errors import IllegalState

P = ParamSpec("P")
R = TypeVar("R")

TWO_THREADS = "The consumer is not safe for use by several threads: another one is in a call now"
CLOSED = "This consumer has already been closed."


class Lock(Protocol):
    """A lock that its thread may take again, as threading.RLock."""

    def acquire(self, blocking: bool = True) -> bool:
        """Take it; False when another thread has it and `blocking` is off."""

    def release(self) -> None:
        """Give it back."""


class _Guarded(Protocol):
    _call_lock: Lock
    _closed: bool


G = TypeVar("G", bound=_Guarded)


def one_at_a_time(method: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
    """A method that raises IllegalState after close and while another thread is in one (KafkaConsumer.acquire).

    Calls from within one, as rebalance listeners make them, are fine.
    """

    @functools.wraps(method)
    def guarded(self: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not self._call_lock.acquire(blocking=False):
            raise IllegalState(TWO_THREADS)
        try:
            if self._closed:
                raise IllegalState(CLOSED)
            return method(self, *args, **kwargs)
        finally:
            self._call_lock.release()

    return guarded
