"""Evaluate --fail-if conditions of the cluster: `MEASURE OP NUMBER`, such as `under-replicated>0` or `lag>5m`, and
`unwell`.

MEASURES lists the measures; OP is one of > >= < <= = == !=. `lag`, `lag-seconds` and `members` are evaluated for each
group, the other measures once. A condition on an unknown value neither holds nor fails, but is unknown for a reason.
The known part of a sum may still decide it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkatools.tools.comparisons import COMPARISONS
from kafkatools.tools.monitor.view import NOT_REPORTED, ClusterView, GroupView

UNWELL = "unwell"

MEASURES: dict[str, Callable[[ClusterView], float | None]] = {
    "brokers": lambda view: view.totals.alive,
    "fenced": lambda view: view.totals.brokers - view.totals.alive,
    "silent": lambda view: view.totals.alive - view.totals.answering,
    "offline": lambda view: view.totals.offline,
    "under-replicated": lambda view: view.totals.under_replicated,
    "under-min-isr": lambda view: view.totals.under_min_isr,
    "at-min-isr": lambda view: view.totals.at_min_isr,
    "not-preferred": lambda view: view.totals.not_preferred,
    "moving": lambda view: view.totals.moving,
    "offline-log-dirs": lambda view: view.totals.offline_log_dirs,
    "controllers": lambda view: active_controllers(view),
    "problems": lambda view: len(view.problems),
    "total-lag": lambda view: view.totals.lag,
    "messages": lambda view: view.totals.messages_in,
}
"""What a condition is about, besides `lag` and `members` of a group."""

GROUP_MEASURES = ("lag", "lag-seconds", "members")
_NEEDS_SNAPSHOTS = "it takes two snapshots"
_PROBLEM_TEXTS = {
    "fenced": ("1 broker fenced", "{} brokers fenced"),
    "silent": ("1 broker not responding", "{} brokers not responding"),
    "offline": ("1 partition without a leader", "{} partitions without a leader"),
    "under-min-isr": ("1 partition under its min ISR", "{} partitions under their min ISR"),
    "under-replicated": ("1 partition under-replicated", "{} partitions under-replicated"),
    "offline-log-dirs": ("1 log directory offline", "{} log directories offline"),
}
"""What is wrong when it is not 0, in words for one and for several."""


def active_controllers(view: ClusterView) -> int | None:
    """Return 1, or 0 without an active controller; None when the quorum request was refused."""
    return None if view.controller == NOT_REPORTED else int(view.controller >= 0)


class Condition(NamedTuple):
    """A parsed condition; `unwell` has no comparison."""

    text: str
    measure: str
    comparison: str = ""
    amount: float = 0

    def findings(self, view: ClusterView) -> Iterator[str]:
        """Yield a sentence for each place where the condition holds."""
        if self.measure == UNWELL:
            wrong = what_is_wrong(view)
            if wrong:
                yield f"unwell holds: {', '.join(wrong)}"
            return
        for place, measurement in self._measurements(view):
            if self._holds(measurement) is True:
                yield f"{self.text} holds{place}: {self.measure} is {measurement.text}"

    def unknowns(self, view: ClusterView, *, is_only_snapshot: bool) -> Iterator[str]:
        """Yield a sentence for each undecidable value; values that need two snapshots only if `is_only_snapshot`."""
        if self.measure == UNWELL:
            return
        for place, measurement in self._measurements(view):
            if self._holds(measurement) is None and (is_only_snapshot or measurement.reason != _NEEDS_SNAPSHOTS):
                yield f"{self.text} is unknown{place}: {measurement.reason}"
        if self.measure in GROUP_MEASURES and view.unlisted:
            yield f"{self.text} is unknown for groups that are not listed: {view.unlisted[0]}"

    def _measurements(self, view: ClusterView) -> Iterator[tuple[str, Measured]]:
        if self.measure in GROUP_MEASURES:
            for group in view.groups:
                measurement = _of_group(self.measure, group)
                if measurement is not None:
                    yield f" for group {group.group_id}", measurement
        else:
            yield "", _of_cluster(self.measure, view)

    def _holds(self, measurement: Measured) -> bool | None:
        """Return whether the condition holds. If the value is unknown, its `measurement.lower_bound` may decide;
        None if it does not, or if the value needs two snapshots."""
        compare = COMPARISONS[self.comparison]
        if measurement.value is not None:
            return compare(measurement.value, self.amount)
        if measurement.reason == _NEEDS_SNAPSHOTS:
            return None
        if self.comparison in (">", ">="):
            return True if compare(measurement.lower_bound, self.amount) else None
        if self.comparison in ("<", "<="):
            return None if compare(measurement.lower_bound, self.amount) else False
        return None if measurement.lower_bound <= self.amount else self.comparison == "!="


class Measured(NamedTuple):
    """A measured number. If unknown, `value` is None, `lower_bound` its lower bound and `reason` the reason."""

    value: float | None
    lower_bound: float = 0
    reason: str = ""

    @property
    def text(self) -> str:
        """The number as printed, or `at least N`."""
        return _text(self.value) if self.value is not None else f"at least {_text(self.lower_bound)}"


def _text(number: float) -> str:
    return f"{number:.1f}" if isinstance(number, float) else str(number)


def _of_group(measure: str, group: GroupView) -> Measured | None:
    """The value of `lag`, `lag-seconds` or `members` for a group, perhaps unknown. None for the lag of a group without
    committed offsets."""
    reason = group.unknown or f"its coordinator, broker {group.coordinator}, did not report"
    if measure == "members":
        return Measured(group.members, 0, reason)
    if not group.is_lag_known:
        return Measured(None, group.least_lag if measure == "lag" else 0, reason)
    if measure == "lag":
        return None if group.lag is None else Measured(group.lag)
    if group.lag_ms is None:
        return Measured(None, 0, _NEEDS_SNAPSHOTS) if group.lag else None
    return Measured(group.lag_ms / 1000)


def _of_cluster(measure: str, view: ClusterView) -> Measured:
    value = MEASURES[measure](view)
    reason = _why_unknown(measure, view)
    if measure == "total-lag":
        return Measured(value, view.totals.least_lag, reason)
    if reason:
        return Measured(None, value or 0, reason)
    return Measured(value, 0, _NEEDS_SNAPSHOTS if measure == "messages" else "no broker reported it")


def _why_unknown(measure: str, view: ClusterView) -> str:
    """Return why a measure is unknown or only partly known, an empty string when it is known."""
    if measure == "total-lag":
        return next(iter([*view.unlisted, *(f"group {g.group_id}: {g.unknown}" for g in view.groups if g.unknown)]), "")
    if measure == "messages":
        unlisted_by = (part for part in view.partitions if part.end_offset is None and not part.is_offline)
        return next(
            (f"broker {part.leader} did not report the end of {part.topic}-{part.partition}" for part in unlisted_by),
            "",
        )
    if measure in ("under-min-isr", "at-min-isr"):
        unset = (part.topic for part in view.partitions if part.min_isr is None and not part.is_offline)
        return next((f"min.insync.replicas of {topic} is not reported" for topic in unset), "")
    if measure == "offline-log-dirs":
        silent = (broker.id for broker in view.brokers if broker.is_alive and broker.log_dirs is None)
        return next((f"broker {broker} did not report its log directories" for broker in silent), "")
    if measure == "moving":
        return next((problem.message for problem in view.problems if problem.what == "reassignments"), "")
    return ""


def what_is_wrong(view: ClusterView) -> list[str]:
    """Return short descriptions of what an operator should check first; empty for a healthy cluster."""
    wrong = ["no active controller known"] if active_controllers(view) == 0 else []
    for name, (singular, plural) in _PROBLEM_TEXTS.items():
        count = MEASURES[name](view)
        if count:
            wrong.append(singular if count == 1 else plural.format(count))
    return wrong
