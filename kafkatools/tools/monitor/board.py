"""The Board: the last view and what came before it, for all who show them.

Written by the thread that looks, read by any thread; `_lock` guards everything.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.tools.monitor.view import ClusterView, Event

_EVENTS = 500
_POINTS = 300


class Point(NamedTuple):
    """The values of one look for the charts; None is a gap. `topics` (messages per second) and `lags` (by group
    and topic) leave out values of 0. `unknown_groups`: the groups whose coordinator did not respond."""

    time_ms: int
    messages_in: float | None
    bytes_in: float | None
    lag: int | None
    under_replicated: int
    offline: int
    topics: Mapping[str, float | None]
    lags: Mapping[tuple[str, str], int | None]
    unknown_groups: frozenset[str]

    def lag_of(self, group: str, topic: str) -> int | None:
        """The lag of a group in a topic; None when it is not known."""
        return None if group in self.unknown_groups else self.lags.get((group, topic), 0)


class Board:
    """What is known now: the last view (None before the first), why the last look failed (None when it did not), the
    events of the newest look first, and a history of points, the oldest first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._view: ClusterView | None = None
        self._error: str | None = None
        self._events: deque[Event] = deque(maxlen=_EVENTS)
        self._points: deque[Point] = deque(maxlen=_POINTS)

    def publish(self, view: ClusterView) -> None:
        """A look that went well."""
        point = _point(view)
        with self._lock:
            self._view, self._error = view, None
            self._events.extendleft(reversed(view.events))
            self._points.append(point)

    def fail(self, error: str) -> None:
        """A look that told nothing."""
        with self._lock:
            self._error = error

    @property
    def last(self) -> tuple[ClusterView | None, str | None]:
        """The last view, and why there is no newer one."""
        with self._lock:
            return self._view, self._error

    def events(self, number: int) -> list[Event]:
        """The newest ones, those of a look in their order: brokers first, which are the cause of the rest."""
        with self._lock:
            return list(self._events)[:number]

    def points(self) -> list[Point]:
        with self._lock:
            return list(self._points)


def _point(view: ClusterView) -> Point:
    totals = view.totals
    return Point(
        view.time_ms,
        totals.messages_in,
        totals.bytes_in,
        totals.lag,
        totals.under_replicated,
        totals.offline,
        {topic.name: topic.messages_in for topic in view.topics if topic.messages_in != 0},
        {
            (group.group_id, topic): lag
            for group in view.groups
            for topic, lag in group.lag_by_topic().items()
            if lag != 0
        },
        frozenset(group.group_id for group in view.groups if group.partitions is None),
    )
