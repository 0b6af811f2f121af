"""The decorator that rejects a consumer call while another thread is in one, or after close."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from kafkatools.core.errors import IllegalState

P = ParamSpec("P")
R = TypeVar("R")

TWO_THREADS = "The consumer is not safe for use by several threads: another one is in a call now"
IN_LISTENER = "poll, unsubscribe and close cannot be called in a callback of a rebalance listener"
CLOSED = "This consumer has already been closed."


class _Guarded(Protocol):
    _call_lock: threading.RLock
    _is_closed: bool


G = TypeVar("G", bound=_Guarded)


def one_at_a_time(method: Callable[Concatenate[G, P], R]) -> Callable[Concatenate[G, P], R]:
    """Decorate a method to raise IllegalState after close or while another thread is in a call (KafkaConsumer.acquire).
    The same thread may call further methods from inside, as rebalance listeners do."""

    @functools.wraps(method)
    def guarded(self: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if not self._call_lock.acquire(blocking=False):
            raise IllegalState(TWO_THREADS)
        try:
            if self._is_closed:
                raise IllegalState(CLOSED)
            return method(self, *args, **kwargs)
        finally:
            self._call_lock.release()

    return guarded
