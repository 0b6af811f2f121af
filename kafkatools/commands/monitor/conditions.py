"""Conditions of --fail-if: `MEASURE OP NUMBER`, such as `under-replicated>0`, `brokers<3`, `lag>1000`; and `unwell`.

MEASURES says what can be measured; OP is one of > >= < <= = == !=. `lag`, `lag-seconds` and `members` are about each
group, the others about everything that is looked at. What is not known makes no condition hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.exit_status import UsageError
from kafkatools.options.comparisons import COMPARISONS

if TYPE_CHECKING:
    from kafkatools.core.admin.cluster_view import ClusterView, GroupView

UNWELL = "unwell"
_GRAMMAR = re.compile(r"\s*([a-z-]+)\s*(>=|<=|==|!=|>|<|=)\s*([0-9]{1,18})\s*", re.ASCII)

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

_OF_GROUPS: dict[str, Callable[[GroupView], float | None]] = {
    "lag": lambda group: group.lag,
    "lag-seconds": lambda group: None if group.lag_ms is None else group.lag_ms / 1000,
    "members": lambda group: group.members,
}
_WRONG = {
    "fenced": ("1 broker fenced", "{} brokers fenced"),
    "silent": ("1 broker not answering", "{} brokers not answering"),
    "offline": ("1 partition without a leader", "{} partitions without a leader"),
    "under-min-isr": ("1 partition under its min ISR", "{} partitions under their min ISR"),
    "under-replicated": ("1 partition under-replicated", "{} partitions under-replicated"),
    "offline-log-dirs": ("1 log directory offline", "{} log directories offline"),
}
"""What is wrong when it is not 0, in words for one and for several."""


def active_controllers(view: ClusterView) -> int | None:
    """1, or 0; None when nobody is allowed to tell."""
    from kafkatools.core.admin.cluster_view import NOT_TOLD

    return None if view.controller == NOT_TOLD else int(view.controller >= 0)


class Condition(NamedTuple):
    """One condition; `unwell` has no comparison."""

    text: str
    measure: str
    comparison: str = ""
    amount: int = 0

    def findings(self, view: ClusterView) -> Iterator[str]:
        """Where it holds, in words."""
        if self.measure == UNWELL:
            wrong = what_is_wrong(view)
            if wrong:
                yield f"unwell holds: {', '.join(wrong)}"
        elif self.measure in _OF_GROUPS:
            for group in view.groups:
                value = _OF_GROUPS[self.measure](group)
                if self._holds(value):
                    yield f"{self.text} holds for group {group.group_id}: {self.measure} is {_text(value)}"
        else:
            found = MEASURES[self.measure](view)
            if self._holds(found):
                yield f"{self.text} holds: {self.measure} is {_text(found)}"

    def _holds(self, value: float | None) -> bool:
        return value is not None and COMPARISONS[self.comparison](value, self.amount)


def _text(number: float | None) -> str:
    return f"{number:.1f}" if isinstance(number, float) else str(number)


def parse_condition(text: str) -> Condition:
    """Reads one. Raises UsageError."""
    if text.strip() == UNWELL:
        return Condition(UNWELL, UNWELL)
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise UsageError(
            f"--fail-if '{text}' is no condition: it takes MEASURE OP NUMBER, such as under-replicated>0, brokers<3, "
            "lag>1000, or unwell"
        )
    measure, comparison, amount = match.groups()
    if measure not in MEASURES and measure not in _OF_GROUPS:
        known = ", ".join([*MEASURES, *_OF_GROUPS, UNWELL])
        raise UsageError(f"--fail-if '{text}': there is no measure '{measure}'; those are {known}")
    return Condition(text.strip(), measure, comparison, int(amount))


def what_is_wrong(view: ClusterView) -> list[str]:
    """What an operator would look at first, in a few words each; nothing when the cluster is well."""
    wrong = ["no active controller known"] if active_controllers(view) == 0 else []
    for name, (one, several) in _WRONG.items():
        count = MEASURES[name](view)
        if count:
            wrong.append(one if count == 1 else several.format(count))
    return wrong
