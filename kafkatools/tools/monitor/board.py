"""The latest view, the events and the history of an hour, shared with all threads that display them.

The collecting thread writes, any thread reads; `_lock` guards everything.
"""

from __future__ import annotations

import threading
from collections import deque

from kafkatools.tools.monitor.causes import Incidents
from kafkatools.tools.monitor.history import History, Series
from kafkatools.tools.monitor.view import ClusterView, Event

_EVENTS = 500


class Board:
    """The latest view, the last snapshot's error, the latest 500 events (newest snapshot first), the incidents that
    collapse events by cause, and the history of an hour."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._view: ClusterView | None = None
        self._error: str | None = None
        self._events: deque[Event] = deque(maxlen=_EVENTS)
        self._incidents = Incidents()
        self._history = History()

    def publish(self, view: ClusterView) -> None:
        """Store the view of a successful snapshot, with its events and its values for the charts."""
        with self._lock:
            self._view, self._error = view, None
            self._events.extendleft(reversed(view.events))
            self._incidents.add(view.events)
            self._history.add(view)

    def fail(self, error: str) -> None:
        """Store the error of a failed snapshot."""
        with self._lock:
            self._error = error
            self._history.interrupt()

    @property
    def last(self) -> tuple[ClusterView | None, str | None]:
        """The latest view (None before the first one), and the error of the last snapshot or None."""
        with self._lock:
            return self._view, self._error

    def events(self, number: int) -> list[Event]:
        """Return up to `number` events of the newest snapshots, each snapshot's in its own order, brokers first."""
        with self._lock:
            return list(self._events)[:number]

    def incidents(self) -> list[dict[str, object]]:
        """Return the incidents as JSON objects, the one with the latest event first."""
        with self._lock:
            return self._incidents.to_json()

    def history(self, kind: str, name: str = "") -> Series:
        """Return the points of the cluster, or of a broker, topic or group (`history.SERIES` has the kinds)."""
        with self._lock:
            return self._history.read(kind, name)

    def not_kept(self) -> dict[str, int]:
        """Return by kind the number of things in the latest view that have no history."""
        with self._lock:
            return dict(self._history.not_kept)
