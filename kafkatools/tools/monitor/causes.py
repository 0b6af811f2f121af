"""Collapse events and unhealthy partitions by their cause, such as "broker 3 is fenced".

A cause is a sentence: things with the same sentence belong together. A partition suffers from a broker that is fenced,
unregistered, silent or has an offline log directory: an offline partition from one that could lead it, any other from
one whose replica is not in sync.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkatools.tools.monitor.figures import ids
from kafkatools.tools.monitor.view import NO_BROKER, BrokerView, ClusterView, Event, PartitionView

INCIDENT_PAUSE_MS = 300_000
"""An event this long after the last one of its cause begins another incident."""
_INCIDENTS = 100
_EXAMPLES = 50


def broker_troubles(view: ClusterView) -> dict[int, str]:
    """Return by broker id the sentence about a registered broker that is fenced, silent or has an offline log
    directory."""
    troubles = {}
    for broker in view.brokers:
        text = _trouble(broker)
        if text:
            troubles[broker.id] = text
    return troubles


def _trouble(broker: BrokerView) -> str:
    if broker.is_fenced:
        return f"broker {broker.id} is fenced"
    if not broker.is_responding:
        return f"broker {broker.id} does not respond"
    if broker.offline_log_dirs:
        return f"broker {broker.id} has an offline log directory"
    return ""


class Cluster:
    """The troubles of a view's brokers, to look up the cause of a partition's state or change."""

    def __init__(self, view: ClusterView) -> None:
        self._troubles = broker_troubles(view)
        self._registered = {broker.id for broker in view.brokers}

    def trouble(self, broker: int) -> str:
        """Return the sentence about a broker; empty if it is registered and well, and for NO_BROKER."""
        if broker == NO_BROKER:
            return ""
        if broker not in self._registered:
            return f"broker {broker} is not registered"
        return self._troubles.get(broker, "")

    def first_trouble(self, brokers: Iterable[int]) -> str:
        """Return the sentence about the first of these brokers that has one; empty if none has."""
        return next(filter(None, map(self.trouble, brokers)), "")

    def partition_cause(self, part: PartitionView) -> str:
        """Return why a partition is unhealthy or moving."""
        missing = sorted(broker for broker in part.replicas if broker not in part.isr)
        trouble = self.first_trouble([*part.isr, *missing]) if part.is_offline else self.first_trouble(missing)
        if trouble:
            return trouble
        if part.adding_replicas or part.removing_replicas:
            return "a reassignment moves replicas"
        if part.is_offline:
            return "no replica can lead although their brokers respond"
        return f"replicas of broker {ids(missing)} are behind" if missing else "fewer replicas than min.insync.replicas"


class Finding(NamedTuple):
    """A cause of what is wrong now: how many partitions suffer, and of these how many are offline, under their min ISR
    and under-replicated. `partitions`: the first 50."""

    cause: str
    troubled: int
    offline: int
    under_min_isr: int
    under_replicated: int
    partitions: tuple[PartitionView, ...]


def findings(view: ClusterView, troubled: Iterable[PartitionView]) -> list[Finding]:
    """Return the causes of the troubled partitions, the worst first, and the troubles of brokers without any."""
    cluster = Cluster(view)
    by_cause: dict[str, list[PartitionView]] = {text: [] for text in broker_troubles(view).values()}
    for part in troubled:
        by_cause.setdefault(cluster.partition_cause(part), []).append(part)
    found = [
        Finding(
            cause,
            len(parts),
            sum(part.is_offline for part in parts),
            sum(part.is_under_min_isr for part in parts),
            sum(part.is_under_replicated for part in parts),
            tuple(parts[:_EXAMPLES]),
        )
        for cause, parts in by_cause.items()
    ]
    return sorted(found, key=lambda one: (-one.offline, -one.under_min_isr, -one.under_replicated, -one.troubled))


class Incident:
    """Events with the same cause, close to each other in time: their number by kind and the first 50 of them."""

    def __init__(self, event: Event) -> None:
        self.cause = event.cause or event.kind
        self.first_ms = event.time_ms
        self.last_ms = event.time_ms
        self.kinds: Counter[str] = Counter()
        self.events: list[Event] = []

    def add(self, event: Event) -> None:
        """Count an event of this cause."""
        self.last_ms = event.time_ms
        self.kinds[event.kind] += 1
        if len(self.events) < _EXAMPLES:
            self.events.append(event)

    def to_json(self) -> dict[str, object]:
        """Return the incident as a JSON object; `events` are in the order of time."""
        return {
            "cause": self.cause,
            "first": self.first_ms,
            "last": self.last_ms,
            "count": self.kinds.total(),
            "kinds": dict(self.kinds.most_common()),
            "events": [[event.time_ms, event.kind, event.message] for event in self.events],
        }


class Incidents:
    """The latest 100 incidents. Not for several threads: the Board has the lock."""

    def __init__(self) -> None:
        self._by_cause: dict[str, Incident] = {}  # the incident that the next event of a cause may join
        self._all: list[Incident] = []

    def add(self, events: Iterable[Event]) -> None:
        """Add the events of a snapshot."""
        for event in events:
            incident = self._by_cause.get(event.cause or event.kind)
            if incident is None or event.time_ms - incident.last_ms > INCIDENT_PAUSE_MS:
                incident = Incident(event)
                self._by_cause[incident.cause] = incident
                self._all.append(incident)
            incident.add(event)
        if len(self._all) > _INCIDENTS:
            self._all.sort(key=lambda one: one.last_ms)
            for old in self._all[:-_INCIDENTS]:
                if self._by_cause.get(old.cause) is old:
                    del self._by_cause[old.cause]
            del self._all[:-_INCIDENTS]

    def to_json(self) -> list[dict[str, object]]:
        """Return the incidents as JSON objects, the one with the latest event first."""
        return [one.to_json() for one in sorted(self._all, key=lambda one: -one.last_ms)]


def partition_change_cause(before: Cluster, after: Cluster, old: PartitionView, new: PartitionView, kind: str) -> str:
    """Return the cause of an event about a partition."""
    left = [broker for broker in old.isr if broker not in new.isr]
    joined = [broker for broker in new.isr if broker not in old.isr]
    if kind in ("leader-changed", "leader-lost"):
        trouble = after.trouble(old.leader) or (
            after.first_trouble([*old.isr, *new.replicas]) if new.is_offline else ""
        )
        if trouble:
            return trouble
        if old.is_offline and before.trouble(new.leader):
            return f"broker {new.leader} is back"
        return "leaders moved to the preferred replica" if new.is_preferred else "leaders moved"
    if kind == "isr-shrank":
        return after.first_trouble(left) or f"replicas of broker {ids(left)} fell behind"
    if kind == "isr-grew":
        return f"replicas of broker {ids(joined)} caught up"
    return "partitions were reassigned"


KIND_CAUSES: Mapping[str, str] = {
    "topic-created": "topics were created",
    "topic-deleted": "topics were deleted",
    "group-empty": "groups lost their members",
    "group-active": "groups have members again",
    "group-gone": "groups were deleted",
}
"""The causes of events that have none beyond their kind."""
