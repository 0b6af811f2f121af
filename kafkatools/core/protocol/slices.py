"""Interruptible loops over large requests and responses.

A thread that handles a large request sets a pause callback for itself (`pausing`). Long loops iterate over
`paced(...)`, which calls the pause every few elements. The pause returns at once or lets other work run first. Without
a pause, the usual case, `paced` returns its argument unchanged.

A pause is only allowed where no state is half changed: while a request is decoded, while response fields are made from
state that is looked up again for each element, and while the response is encoded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from typing import TypeVar

Item = TypeVar("Item")
Sortable = TypeVar("Sortable", str, tuple[int, int, int, str, int])
ELEMENTS_PER_PAUSE = 16
ITEMS_SORTED_AT_ONCE = 1024


class TooManyElements(Exception):
    """The arrays of a message have more elements than the limit of the decoder."""


class _State(threading.local):
    """The pause callback of the current thread, with which long work lets other requests run; None without one."""

    pause: Callable[[], None] | None = None


_state = _State()


def paced(items: Iterable[Item]) -> Iterable[Item]:
    """Return the items as an iterator that calls the current thread's pause callback every 16 items. Without a callback
    return `items` itself."""
    pause = _state.pause
    return items if pause is None else _with_pauses(items, pause)


def _with_pauses(items: Iterable[Item], pause: Callable[[], None]) -> Iterator[Item]:
    for number, item in enumerate(items):
        if not number % ELEMENTS_PER_PAUSE:
            pause()
        yield item


def paced_sorted(items: Sequence[Sortable]) -> Iterable[Sortable]:
    """Return the items in sorted order, as a list or an iterator. If the current thread has a pause callback, it is
    called during the work."""
    if _state.pause is None:
        return sorted(items)
    parts = [
        sorted(items[start : start + ITEMS_SORTED_AT_ONCE])
        for start in paced(range(0, len(items), ITEMS_SORTED_AT_ONCE))
    ]
    return paced(merge(*parts))


def current_pause() -> Callable[[], None] | None:
    """Return the pause callback of the current thread, None if it has none."""
    return _state.pause


@contextmanager
def pausing(pause: Callable[[], None] | None) -> Iterator[None]:
    """Set the thread's pause callback inside a `with` block, and restore the one before at its end. None turns pauses
    off, even in another block."""
    previous, _state.pause = _state.pause, pause
    try:
        yield
    finally:
        _state.pause = previous
