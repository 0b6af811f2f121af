"""Evaluate conditions of --fail-if and --alert: `MEASURE OP NUMBER [on KEY=VALUE,...]`, such as `under-replicated>0` or
`lag>5m on group=payments`, and `unwell`.

`measures.py` lists the measures; OP is one of > >= < <= = == !=. A condition on an unknown value neither holds nor
fails, but is unknown for a reason. The known part of a sum may still decide it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kafkatools.core.control_characters import visible
from kafkatools.tools.comparisons import COMPARISONS
from kafkatools.tools.monitor.measures import CLUSTER, MEASURES, Reading, active_controllers
from kafkatools.tools.monitor.view import ClusterView, GroupView, TopicView

UNWELL = "unwell"
GROUP_MEASURES = ("lag", "lag-seconds", "members")
"""The measures with a reading for each group."""
_UNLISTED = " for groups that are not listed"

_PROBLEM_TEXTS = {
    "fenced": ("1 broker fenced", "{} brokers fenced"),
    "silent": ("1 broker not responding", "{} brokers not responding"),
    "offline": ("1 partition without a leader", "{} partitions without a leader"),
    "under_min_isr": ("1 partition under its min ISR", "{} partitions under their min ISR"),
    "under_replicated": ("1 partition under-replicated", "{} partitions under-replicated"),
    "offline_log_dirs": ("1 log directory offline", "{} log directories offline"),
}
"""What is wrong when it is not 0, in words for one and for several; by fields of Totals, `fenced` and `silent`."""


class Selector(NamedTuple):
    """A part of `on`: only the groups, topics, partitions or brokers with this name or number; `*` is any text."""

    key: str
    value: str

    @property
    def is_exact(self) -> bool:
        """Return whether only one name matches."""
        return "*" not in self.value

    def takes(self, name: object) -> bool:
        """Return whether a name or number matches."""
        pattern = ".*".join(re.escape(part) for part in self.value.split("*"))
        return re.fullmatch(pattern, str(name), re.DOTALL) is not None


class Verdict(NamedTuple):
    """A reading, and whether the condition holds for it; None if that is unknown."""

    reading: Reading
    holds: bool | None


class Condition(NamedTuple):
    """A parsed condition; `unwell` has no comparison. `text`: the source text."""

    text: str
    measure: str
    comparison: str = ""
    amount: float = 0
    on: tuple[Selector, ...] = ()

    def verdicts(self, view: ClusterView) -> Iterator[Verdict]:
        """Yield a verdict for each place. An exact name of `on` that matches nothing makes the condition unknown."""
        if self.measure == UNWELL:
            wrong = what_is_wrong(view)
            yield Verdict(Reading(CLUSTER, len(wrong), detail=", ".join(wrong)), bool(wrong))
            return
        selected = narrowed(view, self.on)
        missing = _missing(selected, self.on)
        readings = [] if missing else list(MEASURES[self.measure].read(selected))
        if not readings and all(selector.is_exact for selector in self.on) and self.on:
            readings = [Reading(CLUSTER, None, None, missing or "no group has committed offsets there")]
        for reading in readings:
            yield Verdict(reading, self._holds(reading))

    def findings(self, view: ClusterView) -> Iterator[str]:
        """Yield a sentence for each place where the condition holds, with control characters escaped."""
        for verdict in self.verdicts(view):
            if verdict.holds:
                yield visible(f"{self.text} holds{_for(verdict.reading)}: {self.value_text(verdict.reading)}")

    def unknowns(self, view: ClusterView, *, is_only_snapshot: bool) -> Iterator[str]:
        """Yield a sentence for each undecidable value, with control characters escaped; values that need two snapshots
        only if `is_only_snapshot`."""
        for reading, holds in self.verdicts(view):
            if holds is None and (is_only_snapshot or not reading.is_early):
                is_listed = reading.place != CLUSTER or reading.reason not in view.unlisted
                place = _for(reading) if is_listed or self.measure not in GROUP_MEASURES else _UNLISTED
                yield visible(f"{self.text} is unknown{place}: {reading.reason}")

    def value_text(self, reading: Reading) -> str:
        """Return the measure and its value in words; for `unwell` what is wrong."""
        return reading.detail if self.measure == UNWELL else f"{self.measure} is {reading.text}"

    def _holds(self, reading: Reading) -> bool | None:
        """Return whether the condition holds. If the value is unknown, its lower bound may decide; None if it does
        not."""
        compare = COMPARISONS[self.comparison]
        if reading.value is not None:
            return compare(reading.value, self.amount)
        if reading.lower_bound is None:
            return None
        if self.comparison in (">", ">="):
            return True if compare(reading.lower_bound, self.amount) else None
        if self.comparison in ("<", "<="):
            return None if compare(reading.lower_bound, self.amount) else False
        return None if reading.lower_bound <= self.amount else self.comparison == "!="


def _for(reading: Reading) -> str:
    place = reading.place.text
    return f" for {place}" if place else ""


def narrowed(view: ClusterView, on: tuple[Selector, ...]) -> ClusterView:
    """Return the view with only those groups, topics, partitions and brokers that all selectors accept."""

    def takes(key: str, name: object) -> bool:
        return all(selector.takes(name) for selector in on if selector.key == key)

    def topic_of(topic: TopicView) -> TopicView:
        return topic._replace(partitions=tuple(part for part in topic.partitions if takes("partition", part.partition)))

    def group_of(group: GroupView) -> GroupView:
        parts = tuple(
            part for part in group.partitions or () if takes("topic", part.topic) and takes("partition", part.partition)
        )
        if group.partitions is None or len(parts) == len(group.partitions):
            return group
        is_known = all(part.lag is not None for part in parts)
        return group._replace(partitions=parts, unknown=None if is_known else group.unknown)

    if not on:
        return view
    groups = tuple(group_of(group) for group in view.groups if takes("group", group.group_id))
    is_whole = bool(groups) and any(selector.key == "group" and selector.is_exact for selector in on)
    return view._replace(
        brokers=tuple(broker for broker in view.brokers if takes("broker", broker.id)),
        topics=tuple(topic_of(topic) for topic in view.topics if takes("topic", topic.name)),
        groups=groups,
        unlisted=() if is_whole else view.unlisted,  # other groups do not matter
    )


def _missing(selected: ClusterView, on: tuple[Selector, ...]) -> str:
    """Return the reason why an exact name of `on` makes a condition unknown: it is not in the narrowed view. An empty
    string if all names are."""
    groups = "" if not selected.unlisted else f": {selected.unlisted[0]}"
    for selector in on:
        has = {
            "group": bool(selected.groups),
            "topic": bool(selected.topics),
            "partition": any(topic.partitions for topic in selected.topics),
            "broker": bool(selected.brokers),
        }[selector.key]
        if selector.is_exact and not has:
            return f"there is no {selector.key} {selector.value}" + (groups if selector.key == "group" else "")
    return ""


def what_is_wrong(view: ClusterView) -> list[str]:
    """Return short descriptions of what an operator should check first; empty for a healthy cluster."""
    totals = view.totals
    wrong = ["no active controller known"] if active_controllers(view) == 0 else []
    counts = {"fenced": totals.brokers - totals.alive, "silent": totals.alive - totals.answering, **totals._asdict()}
    for name, (singular, plural) in _PROBLEM_TEXTS.items():
        if counts[name]:
            wrong.append(singular if counts[name] == 1 else plural.format(counts[name]))
    return wrong
