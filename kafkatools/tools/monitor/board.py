"""The latest view and the history of snapshots, shared with all threads that display them.

The collecting thread writes, any thread reads; `_lock` guards everything.
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
    """The values of one snapshot for the charts; None is a gap. `topics` (messages per second) and `lags` (by group and
    topic) omit zeros. `unknown_groups`: groups whose coordinator did not respond."""

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
        """Return the lag of a group in a topic: None when it is unknown, 0 for a topic or group without recorded
        lag."""
        return None if group in self.unknown_groups else self.lags.get((group, topic), 0)


class Board:
    """The latest view, the last snapshot's error, the latest 500 events (newest snapshot first), and the latest 300
    points (oldest first)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._view: ClusterView | None = None
        self._error: str | None = None
        self._events: deque[Event] = deque(maxlen=_EVENTS)
        self._points: deque[Point] = deque(maxlen=_POINTS)

    def publish(self, view: ClusterView) -> None:
        """Store the view of a successful snapshot, with its events and point."""
        point = _point(view)
        with self._lock:
            self._view, self._error = view, None
            self._events.extendleft(reversed(view.events))
            self._points.append(point)

    def fail(self, error: str) -> None:
        """Store the error of a failed snapshot."""
        with self._lock:
            self._error = error

    @property
    def last(self) -> tuple[ClusterView | None, str | None]:
        """The latest view (None before the first one), and the error of the last snapshot or None."""
        with self._lock:
            return self._view, self._error

    def events(self, number: int) -> list[Event]:
        """Return up to `number` events of the newest snapshots, each snapshot's in its own order, brokers first."""
        with self._lock:
            return list(self._events)[:number]

    def points(self) -> list[Point]:
        """Return the points of the charts, oldest first."""
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
