"""The figures that conditions compare, read from a view: `MEASURES` has one row for each name.

A figure of groups has a reading for each group, a figure of disks one for each log directory, any other figure one for
the cluster. A reading of an unknown value has a reason and the least value that is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kafkatools.tools.monitor.view import NOT_REPORTED, ClusterView, GroupPartition, GroupView, PartitionView

_NAMES = 3


class Place(NamedTuple):
    """The group, or the broker and directory, that a reading is of; of the cluster if all are None."""

    group: str | None = None
    broker: int | None = None
    directory: str | None = None

    @property
    def text(self) -> str:
        """The place in words, empty for the cluster."""
        parts = (
            None if self.group is None else f"group {self.group}",
            None if self.broker is None else f"broker {self.broker}",
            self.directory,
        )
        return ", ".join(part for part in parts if part is not None)

    def covers(self, other: Place) -> bool:
        """Return whether a reading here says something about the other place too; the cluster covers all places."""
        return all(mine is None or mine == its for mine, its in zip(self, other, strict=True))


CLUSTER = Place()


class Reading(NamedTuple):
    """A figure at a place. If unknown, `value` is None, `lower_bound` its least value (None if nothing is known of it)
    and `reason` the reason.

    `is_early`: only a later snapshot can tell. `partition`: topic and number of the partition with the largest value of
    a group. `detail`: names of what was counted.
    """

    place: Place
    value: float | None
    lower_bound: float | None = None
    reason: str = ""
    is_early: bool = False
    partition: tuple[str, int] | None = None
    detail: str = ""

    @property
    def text(self) -> str:
        """The number as printed, or `at least N`."""
        if self.value is not None:
            return number_text(self.value)
        return "unknown" if self.lower_bound is None else f"at least {number_text(self.lower_bound)}"


def number_text(number: float) -> str:
    """Format a figure, with one decimal unless it is an integer."""
    return f"{number:.1f}" if isinstance(number, float) else str(number)


class Measure(NamedTuple):
    """A figure. `selectors`: the keys that its `on` accepts. `unit`: `s` for seconds, `%` for percent."""

    read: Callable[[ClusterView], Iterable[Reading]]
    selectors: tuple[str, ...] = ()
    unit: str = ""


def active_controllers(view: ClusterView) -> int | None:
    """Return 1, or 0 without an active controller; None when the quorum request was refused."""
    return None if view.controller == NOT_REPORTED else int(view.controller >= 0)


# -- figures of the cluster --


def _count(
    value: Callable[[ClusterView], float | None],
    why: Callable[[ClusterView], str] = lambda view: "",
    least: Callable[[ClusterView], float] | None = None,
) -> Callable[[ClusterView], Iterator[Reading]]:
    """Return a reader of one number of the cluster. `why` returns the reason why it is unknown or only partly known,
    then `least`, or else the value, is its lower bound."""

    def read(view: ClusterView) -> Iterator[Reading]:
        number, reason = value(view), why(view)
        if reason or number is None:
            bound = least(view) if least is not None else number or 0
            yield Reading(CLUSTER, None, bound, reason or "no broker reported it")
        else:
            yield Reading(CLUSTER, number)

    return read


def _partitions(
    holds: Callable[[PartitionView], bool], why: Callable[[ClusterView], str] = lambda view: ""
) -> Callable[[ClusterView], Iterator[Reading]]:
    """Return a reader of the number of partitions for which `holds` is true."""

    def read(view: ClusterView) -> Iterator[Reading]:
        names = [f"{part.topic}-{part.partition}" for part in view.partitions if holds(part)]
        reason = why(view)
        detail = ", ".join(names[:_NAMES]) + (f" and {len(names) - _NAMES} more" if len(names) > _NAMES else "")
        yield Reading(CLUSTER, None if reason else len(names), len(names), reason, detail=detail)

    return read


def _messages(view: ClusterView) -> Iterator[Reading]:
    for part in view.partitions:
        if part.end_offset is None and not part.is_offline:
            reason = f"broker {part.leader} did not report the end of {part.topic}-{part.partition}"
            yield Reading(CLUSTER, None, view.totals.messages_in or 0, reason)
            return
    rate = view.totals.messages_in
    if rate is None:
        yield Reading(CLUSTER, None, None, "it takes two snapshots", is_early=True)
    else:
        yield Reading(CLUSTER, rate)


def _why_no_total_lag(view: ClusterView) -> str:
    reasons = [*view.unlisted, *(f"group {group.group_id}: {group.unknown}" for group in view.groups if group.unknown)]
    return reasons[0] if reasons else ""


def _why_no_min_isr(view: ClusterView) -> str:
    unset = (part.topic for part in view.partitions if not part.is_min_isr_known)
    return next((f"min.insync.replicas of {topic} is not reported" for topic in unset), "")


def _why_no_log_dirs(view: ClusterView) -> str:
    silent = (broker.id for broker in view.brokers if broker.is_alive and broker.log_dirs is None)
    return next((f"broker {broker} did not report its log directories" for broker in silent), "")


# -- figures of groups and disks --


def _groups(of_group: Callable[[GroupView, str], Reading | None]) -> Callable[[ClusterView], Iterator[Reading]]:
    """Return a reader of a figure of each group; `of_group` gets the reason for unknown values."""

    def read(view: ClusterView) -> Iterator[Reading]:
        for group in view.groups:
            reason = group.unknown or f"its coordinator, broker {group.coordinator}, did not report"
            reading = of_group(group, reason)
            if reading is not None:
                yield reading
        if view.unlisted:
            yield Reading(CLUSTER, None, None, view.unlisted[0])

    return read


def _members(group: GroupView, reason: str) -> Reading:
    return Reading(Place(group.group_id), group.members, 0, "" if group.members is not None else reason)


def _lag(group: GroupView, reason: str) -> Reading | None:
    place, worst = Place(group.group_id), _largest(group, lambda part: part.lag or 0)
    if not group.is_lag_known:
        return Reading(place, None, group.least_lag, reason, partition=worst)
    return None if group.lag is None else Reading(place, group.lag, partition=worst)


def _lag_seconds(group: GroupView, reason: str) -> Reading | None:
    place = Place(group.group_id)
    worst = _largest(group, lambda part: part.least_lag_ms if part.lag_ms is None else part.lag_ms)
    least_s = group.least_lag_ms / 1000
    if not group.is_lag_known:
        return Reading(place, None, least_s, reason, partition=worst)
    if group.lag_ms is not None:
        return Reading(place, group.lag_ms / 1000, partition=worst)
    reason = "its oldest record came in before the first snapshot: it takes two snapshots"
    return Reading(place, None, least_s or None, reason, is_early=True, partition=worst) if group.lag else None


def _largest(group: GroupView, value: Callable[[GroupPartition], int]) -> tuple[str, int] | None:
    """Return the partition of a group with the largest value, None if all are 0."""
    part = max(group.partitions or (), key=value, default=None)
    return (part.topic, part.partition) if part is not None and value(part) else None


def _disk_used(view: ClusterView) -> Iterator[Reading]:
    for broker in view.brokers:
        if broker.log_dirs is None:
            reason = f"broker {broker.id} did not report its log directories"
            yield Reading(Place(broker=broker.id), None, None, reason)
        for path in broker.log_dirs or ():
            place = Place(broker=broker.id, directory=path.path)
            if path.error is not None:
                yield Reading(place, None, None, f"the directory is offline: {path.error}")
            elif path.total_bytes <= 0 or path.usable_bytes < 0:
                yield Reading(place, None, None, f"broker {broker.id} does not report the size of its volumes")
            else:
                yield Reading(place, 100 * (path.total_bytes - path.usable_bytes) / path.total_bytes)


_OF_PARTITIONS = ("topic", "partition")
_OF_OFFSETS = ("group", "topic", "partition")

MEASURES: dict[str, Measure] = {
    "brokers": Measure(_count(lambda view: view.totals.alive), ("broker",)),
    "fenced": Measure(_count(lambda view: view.totals.brokers - view.totals.alive), ("broker",)),
    "silent": Measure(_count(lambda view: view.totals.alive - view.totals.answering), ("broker",)),
    "offline": Measure(_partitions(lambda part: part.is_offline), _OF_PARTITIONS),
    "under-replicated": Measure(_partitions(lambda part: part.is_under_replicated), _OF_PARTITIONS),
    "under-min-isr": Measure(_partitions(lambda part: part.is_under_min_isr, _why_no_min_isr), _OF_PARTITIONS),
    "at-min-isr": Measure(_partitions(lambda part: part.is_at_min_isr, _why_no_min_isr), _OF_PARTITIONS),
    "not-preferred": Measure(_partitions(lambda part: not part.is_preferred), _OF_PARTITIONS),
    "moving": Measure(
        _partitions(lambda part: bool(part.adding_replicas or part.removing_replicas), lambda view: view.why_no_moves),
        _OF_PARTITIONS,
    ),
    "offline-log-dirs": Measure(_count(lambda view: view.totals.offline_log_dirs, _why_no_log_dirs), ("broker",)),
    "disk-used": Measure(_disk_used, ("broker",), "%"),
    "controllers": Measure(_count(active_controllers)),
    "problems": Measure(_count(lambda view: len(view.problems))),
    "total-lag": Measure(
        _count(lambda view: view.totals.lag, _why_no_total_lag, lambda view: view.totals.least_lag), _OF_OFFSETS
    ),
    "messages": Measure(_messages, ("topic",)),
    "lag": Measure(_groups(_lag), _OF_OFFSETS),
    "lag-seconds": Measure(_groups(_lag_seconds), _OF_OFFSETS, "s"),
    "members": Measure(_groups(_members), ("group",)),
}
"""The figures by the name that conditions use."""
