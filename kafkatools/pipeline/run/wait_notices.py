"""Times at which an ongoing wait is reported: for executors (waiting.py), and for services that do not answer
(services.py)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class WaitNotices(NamedTuple):
    """The waits to report now, by name, with the milliseconds waited so far: those that go on, and those that have
    ended."""

    ongoing: dict[str, int]
    ended: dict[str, int]


class WaitTimer:
    """Decides when waits are reported: after `first_ms`, again each `interval_ms`, and at the end of a wait that was
    reported. Waits have names and are independent of each other."""

    def __init__(self, first_ms: int, interval_ms: int) -> None:
        self._first_ms = first_ms
        self._interval_ms = interval_ms
        self._since_ms: dict[str, int] = {}
        self._next_ms: dict[str, int] = {}

    def notices(self, waiting: Collection[str], now_ms: int, since_ms: int | None = None) -> WaitNotices:
        """Return the notices that are due. `waiting` names all present waits; a name that is missing has ended. A wait
        that is new began at `since_ms`, by default now."""
        ongoing, ended = dict[str, int](), dict[str, int]()
        for name in [name for name in self._since_ms if name not in waiting]:
            began_ms = self._since_ms.pop(name)
            if self._next_ms.pop(name) > self._first_ms:
                ended[name] = now_ms - began_ms
        for name in waiting:
            waited_ms = now_ms - self._since_ms.setdefault(name, now_ms if since_ms is None else since_ms)
            if waited_ms >= self._next_ms.setdefault(name, self._first_ms):
                self._next_ms[name] = waited_ms + self._interval_ms
                ongoing[name] = waited_ms
        return WaitNotices(ongoing, ended)
