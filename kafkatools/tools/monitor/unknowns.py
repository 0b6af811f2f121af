"""Track groups whose coordinator does not respond, and explain unknown lags.

Only its coordinator lists a group. While a coordinator does not respond, its groups are kept from the previous snapshot
without members and offsets, until a coordinator lists them. A group that no coordinator lists `SETTLING_MS` after a
change of coordinators is gone. A new coordinator reports only offsets that it knows to be replicated, perhaps none at
first; until then the offsets of its groups are unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kafkatools.core.admin.groups import UNKNOWN
from kafkatools.core.admin.topics import TopicDescription
from kafkatools.core.errors import UnknownTopicOrPartition
from kafkatools.tools.monitor.groups import ListedGroup
from kafkatools.tools.monitor.view import ClusterView, GroupView, PartitionView

SETTLING_MS = 10_000
"""Time after a change of coordinators before a group that nobody lists counts as gone."""


class Coordinators:
    """The group coordinators over several snapshots. `reasons`: why groups may be missing from the latest snapshot."""

    def __init__(self) -> None:
        self.reasons: tuple[str, ...] = ()
        self._coordinators: tuple[object, ...] | None = None
        self._changed_ms: int | None = None
        self._is_settling = False
        self._committed: dict[str, frozenset[tuple[str, int]]] = {}

    def update(
        self,
        offsets_topic: TopicDescription | None,
        alive: Collection[int],
        unlisted_by: Mapping[int, str],
        now_ms: int,
    ) -> None:
        """Update the coordinators and `reasons` from one snapshot. `offsets_topic`: __consumer_offsets, None if
        unknown. `unlisted_by`: the brokers that did not list their groups, with the error text."""
        leaders = _leaders(offsets_topic)
        reasons = [
            f"broker {broker} did not list its groups: {reason}"
            for broker, reason in sorted(unlisted_by.items())
            if leaders is None or broker in leaders.values()
        ]
        without = [partition for partition, leader in (leaders or {}).items() if leader < 0]
        if without:
            reasons.append(f"{len(without)} of {len(leaders or {})} partitions of __consumer_offsets have no leader")
        coordinators = (frozenset(alive), tuple(sorted((leaders or {}).items())), bool(reasons))
        if self._coordinators is not None and coordinators != self._coordinators:
            self._changed_ms = now_ms
        self._coordinators = coordinators
        self.reasons = tuple(reasons)
        self._is_settling = self._changed_ms is not None and now_ms - self._changed_ms < SETTLING_MS

    def unlisted_groups(
        self, last: ClusterView | None, groups: Iterable[ListedGroup], alive: Collection[int]
    ) -> list[GroupView]:
        """Return the groups of the `last` snapshot that no broker lists now but that may still exist, without members
        and offsets. Empty while all coordinators respond and none has changed lately."""
        if last is None or not (self.reasons or self._is_settling):
            return []
        names = {group.group_id for group in groups}
        return [
            GroupView(
                group.group_id, group.type, UNKNOWN, group.coordinator, None, None, unknown=self._reason(group, alive)
            )
            for group in last.groups
            if group.group_id not in names
        ]

    def complete(self, groups: Iterable[GroupView]) -> list[GroupView]:
        """Return the groups, and remember their partitions. While coordinators change, a group that lacks partitions of
        the last snapshot gets unknown offsets (`partitions` None) with a reason."""
        before, self._committed = self._committed, {}
        is_changing = self._is_settling or bool(self.reasons)
        views = []
        for group in groups:
            earlier = before.get(group.group_id, frozenset())
            reported = frozenset((part.topic, part.partition) for part in group.partitions or ())
            if group.partitions is not None and is_changing and not earlier <= reported:
                reason = f"broker {group.coordinator} has not reported all of its offsets yet"
                group = group._replace(partitions=None, unknown=reason)
            self._committed[group.group_id] = earlier if group.partitions is None else reported
            views.append(group)
        return views

    def _reason(self, group: GroupView, alive: Collection[int]) -> str:
        if group.coordinator not in alive:
            return f"its coordinator, broker {group.coordinator}, does not respond"
        return self.reasons[0] if self.reasons else "its coordinator changed, and no broker lists it yet"


def _leaders(offsets_topic: TopicDescription | None) -> dict[int, int] | None:
    """Return the leader of each __consumer_offsets partition, empty before the first group; None when unknown."""
    if offsets_topic is None:
        return None
    if offsets_topic.error is not None and not isinstance(offsets_topic.error, UnknownTopicOrPartition):
        return None
    return {part.partition: part.leader for part in offsets_topic.partitions}


def with_reason(
    group: GroupView, parts: Mapping[tuple[str, int], PartitionView], responding: Collection[int]
) -> GroupView:
    """Return the group with the reason why its lag is not completely known, if so."""
    if group.is_lag_known or group.unknown is not None:
        return group
    if group.partitions is None:
        return group._replace(unknown=f"its coordinator, broker {group.coordinator}, did not report its offsets")
    missing = [(part.topic, part.partition) for part in group.partitions if part.lag is None]
    return group._replace(unknown=_missing_end_reason(missing, parts, responding))


def _missing_end_reason(
    missing: Sequence[tuple[str, int]], parts: Mapping[tuple[str, int], PartitionView], responding: Collection[int]
) -> str:
    topic, partition = missing[0]
    suffix = f" (and {len(missing) - 1} more partitions)" if len(missing) > 1 else ""
    part = parts.get(missing[0])
    if part is None:
        reason = "is not described"
    elif part.is_offline:
        reason = "has no leader"
    elif part.leader in responding:
        reason = f"has no end offset from its leader, broker {part.leader}"
    else:
        reason = f"is led by broker {part.leader}, which does not respond"
    return f"{topic}-{partition} {reason}{suffix}"
