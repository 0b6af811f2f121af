"""Evaluate --fail-if conditions of groups: `MEASURE OP AMOUNT`, such as `lag>1000`, `lag>5m`, `members<2`,
`state!=Stable`.

| measure | of             | amount                                                          |
|---------|----------------|-----------------------------------------------------------------|
| lag     | each partition | records, or the age of the first unconsumed record (--lag-time) |
| behind  | each partition | the age difference of that record and the newest one            |
| total   | the group      | records, summed over its partitions                             |
| members | the group      | a number                                                        |
| state   | the group      | a state, with = or != only                                      |

OP is one of > >= < <= = == !=. Ages are numbers with ms, s, m, h or d. A partition without a commit or of a deleted
topic has no lag. Where a log end offset is unknown, so is the condition, unless the known part decides it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkatools.tools.comparisons import COMPARISONS
from kafkatools.tools.groups.times import duration_text
from kafkatools.tools.groups.view import GroupView, PartitionRow


class Condition(NamedTuple):
    """A parsed condition. `amount` is a number of records or members, ms if `is_time`, or a state."""

    text: str
    measure: str
    comparison: str
    amount: int | str
    is_time: bool

    def holds(self, value: int | str | None) -> bool:
        """Return whether the condition holds for a value; False for None."""
        return value is not None and COMPARISONS[self.comparison](value, self.amount)


class Finding(NamedTuple):
    """A place where a condition holds; topic and partition are None for a condition about the whole group."""

    condition: Condition
    group_id: str
    topic: str | None
    partition: int | None
    value: int | str | None

    @property
    def message(self) -> str:
        """A sentence that names the condition, the group or partition, and the value."""
        place = f"group {self.group_id}" + (f", {self.topic}-{self.partition}" if self.topic is not None else "")
        value = self.value
        if self.condition.is_time and isinstance(value, int):
            value = duration_text(value)
        return f"{self.condition.text} holds for {place}: {self.condition.measure} is {value}"


def needs_times(conditions: list[Condition]) -> bool:
    """Return whether any condition compares ages of records."""
    return any(condition.is_time for condition in conditions)


def findings(conditions: list[Condition], view: GroupView) -> Iterator[Finding]:
    """Yield where conditions hold in one group. A `total` with unknown end offsets counts only for the operators > and
    >=."""
    for condition in conditions:
        if condition.measure in ("lag", "behind"):
            for row in view.rows:
                value: int | str | None = _of_partition(condition, row)
                if condition.holds(value):
                    yield Finding(condition, view.group_id, row.topic, row.partition, value)
        else:
            value = _of_group(condition, view)
            if condition.holds(value) and not (_has_unknown_total(condition, view) and not _only_grows(condition)):
                yield Finding(condition, view.group_id, None, None, value)


def unknowns(condition: Condition, view: GroupView) -> Iterator[str]:
    """Yield a sentence with the reason for each place in a group where a condition cannot be decided."""
    if condition.measure in ("lag", "behind"):
        for row in view.rows:
            error = view.unknown_ends.get((row.topic, row.partition))
            if row.offset is not None and error is not None:
                place = f"group {view.group_id}, {row.topic}-{row.partition}"
                yield f"{condition.text} is unknown for {place}: the end of the log is not known: {error}"
            elif condition.is_time and row.lag and _of_partition(condition, row) is None:
                place = f"group {view.group_id}, {row.topic}-{row.partition}"
                yield f"{condition.text} is unknown for {place}: the time of its records is not known"
    elif _has_unknown_total(condition, view):
        is_decided = condition.holds(_of_group(condition, view)) == _only_grows(condition)
        if condition.comparison in ("=", "==", "!=") or not is_decided:
            parts = sum((row.topic, row.partition) in view.unknown_ends for row in view.rows)
            yield f"{condition.text} is unknown for group {view.group_id}: {parts} partitions have no known end"


def _has_unknown_total(condition: Condition, view: GroupView) -> bool:
    return condition.measure == "total" and any(
        row.offset is not None and (row.topic, row.partition) in view.unknown_ends for row in view.rows
    )


def _only_grows(condition: Condition) -> bool:
    """Return whether a condition that holds for a partial sum also holds for the whole sum."""
    return condition.comparison in (">", ">=")


def _of_partition(condition: Condition, row: PartitionRow) -> int | None:
    if condition.measure == "behind":
        return row.behind_newest_ms
    return row.lag_ms if condition.is_time else row.lag


def _of_group(condition: Condition, view: GroupView) -> int | str:
    if condition.measure == "total":
        return sum(row.lag for row in view.rows if row.lag is not None)
    return len(view.description.members) if condition.measure == "members" else view.description.state
