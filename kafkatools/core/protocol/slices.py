"""Work in slices: where a long loop over a request or a response may be interrupted, and how many elements it may have.

A thread that works on a large request sets a pause for itself (`pausing`). Loops that may be long walk over
`paced(...)`, which calls the pause every few elements; the pause returns at once or lets other work go first. Without a
pause, which is the ordinary case, `paced` gives back what it was given.

A pause may come only where nothing is half done: reading a request, making the fields of an answer from state that is
looked up anew for each element, writing the answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
ELEMENTS_PER_PAUSE = 16


class TooManyElements(Exception):
    """The arrays of a message have more elements than were allowed."""


class _State(threading.local):
    """What holds for the present thread."""

    pause: Callable[[], None] | None = None
    elements_left: int | None = None


_state = _State()


def paced(items: Iterable[Item]) -> Iterable[Item]:
    """The items, with a pause every few of them where the present thread works in slices."""
    pause = _state.pause
    return items if pause is None else _with_pauses(items, pause)


def _with_pauses(items: Iterable[Item], pause: Callable[[], None]) -> Iterator[Item]:
    for number, item in enumerate(items):
        if not number % ELEMENTS_PER_PAUSE:
            pause()
        yield item


def is_paced() -> bool:
    """Whether the present thread works in slices."""
    return _state.pause is not None


@contextmanager
def pausing(pause: Callable[[], None] | None) -> Iterator[None]:
    """Work in slices within this block; None: in one go, although the block around it may be interrupted."""
    before, _state.pause = _state.pause, pause
    try:
        yield
    finally:
        _state.pause = before


@contextmanager
def counting(most_elements: int) -> Iterator[None]:
    """Raise TooManyElements within this block once more elements than these were noted."""
    before, _state.elements_left = _state.elements_left, most_elements
    try:
        yield
    finally:
        _state.elements_left = before


def note_elements(count: int) -> None:
    """A message claims so many further elements. Raises TooManyElements."""
    left = _state.elements_left
    if left is not None:
        if count > left:
            raise TooManyElements
        _state.elements_left = left - count
