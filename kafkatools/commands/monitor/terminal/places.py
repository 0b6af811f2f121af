"""Places: the contents of a table, and the path to it."""

from __future__ import annotations

from typing import NamedTuple

OVERVIEW, BROKERS, TOPICS, GROUPS, EVENTS = "overview", "brokers", "topics", "groups", "events"
PARTITIONS, LAG, QUORUM, LOG_DIRS = "partitions", "lag", "quorum", "log-dirs"
BROKER, TOPIC, PARTITION, GROUP, MEMBER = "broker", "topic", "partition", "group", "member"

NO_MEMBER = ""
"""The member id of the row of partitions that no member of a group is assigned."""


class Place(NamedTuple):
    """A view and its target, such as ("topic", ("orders",)); `target` is empty for the views of the cluster. For
    a broker it is the id, for a partition topic and number, for a member group and member id. Of `partitions` it may be
    a state: `offline`, `under-min-isr`, `under-replicated`, `moving` or `not-preferred`."""

    view: str
    target: tuple[str | int, ...] = ()

    @property
    def name(self) -> str:
        """The target as text: the first part of it, or `topic-number` for a partition; empty without a target."""
        if self.view == PARTITION:
            return f"{self.target[0]}-{self.target[1]}"
        return str(self.target[0]) if self.target else ""


TABS = {
    "1": Place(OVERVIEW),
    "2": Place(BROKERS),
    "3": Place(TOPICS),
    "4": Place(GROUPS),
    "5": Place(EVENTS),
    "6": Place(PARTITIONS),
    "7": Place(LAG),
    "8": Place(QUORUM),
    "9": Place(LOG_DIRS),
}
"""The views of the cluster by their key."""


class Path:
    """The places that led to the present one; the first is a view of the cluster. `titles` has the titles of places
    that were shown: below a member nothing else knows its client id."""

    def __init__(self, place: Place) -> None:
        self._places = [place]
        self.titles: dict[Place, str] = {}

    @property
    def places(self) -> tuple[Place, ...]:
        """All places, the present one last."""
        return tuple(self._places)

    @property
    def place(self) -> Place:
        """The present place."""
        return self._places[-1]

    def open(self, place: Place) -> None:
        """Go to a place below the present one. A place that is already on the path is gone back to."""
        if place in self._places:
            del self._places[self._places.index(place) + 1 :]
        else:
            self._places.append(place)

    def back(self) -> bool:
        """Go back by one place; return False at a view of the cluster."""
        if len(self._places) == 1:
            return False
        self._places.pop()
        return True
