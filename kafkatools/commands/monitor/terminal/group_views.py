"""The views of groups: all groups, their lag by topic, the members of one, and the partitions of a member."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkatools.commands.monitor.tables import GOOD, WARNING
from kafkatools.commands.monitor.terminal import columns as c
from kafkatools.commands.monitor.terminal import places
from kafkatools.commands.monitor.terminal.columns import Cell, Column
from kafkatools.commands.monitor.terminal.model import Model
from kafkatools.commands.monitor.terminal.places import NO_MEMBER, Place
from kafkatools.commands.monitor.terminal.topic_views import leader_cell
from kafkatools.commands.monitor.terminal.views import Target, View
from kafkatools.core.admin.groups import MemberDescription
from kafkatools.tools.diagnosis.observations import GROUP, PARTITION, Subject
from kafkatools.tools.monitor.assessment import catches_up_s
from kafkatools.tools.monitor.figures import UNKNOWN, span
from kafkatools.tools.monitor.view import GroupPartition, GroupView, PartitionView, TopicPartition

# -- groups --


def _lag(model: Model, group: GroupView) -> Cell:
    if group.partitions == ():
        return Cell("-", None)
    lag = model.lags[group.group_id]
    return c.at_least(lag.least if lag.is_known else None, lag.least)


def _behind(model: Model, group: GroupView) -> Cell:
    if group.lag_ms is not None and group.is_lag_known:
        return c.span(group.lag_ms / 1000)
    least_s = group.least_lag_ms / 1000
    return Cell(f">={span(least_s)}", least_s) if least_s else c.span(None, is_unknown=not group.is_lag_known)


def _catches_up(model: Model, group: GroupView) -> Cell:
    return c.span(catches_up_s(model.view, group), is_unknown=not group.is_lag_known)


def _groups_unknown(model: Model, target: Target) -> str:
    return f"unknown: {model.view.unlisted[0]}" if model.view.unlisted else "no group"


GROUPS = View(
    "Groups",
    (
        Column("Group", lambda model, group: c.text(group.group_id), is_number=False, least=20),
        Column("State", lambda model, group: c.text(group.state), is_number=False),
        Column("Memb", lambda model, group: c.number(group.members), "members"),
        Column("Lag", _lag, "ends of the logs less committed offsets; - without commits"),
        Column("Behind", _behind, "age of the oldest record that was not consumed; >= for one from before the start"),
        Column("Cons/s", lambda model, group: c.rate(group.consumed, is_unknown=group.partitions is None),
               "records consumed per second"),
        Column("Catch up", _catches_up, "time until there is no lag; - when it does not shrink"),
        Column("Coord", lambda model, group: Cell(str(group.coordinator), group.coordinator),
               "broker id of the coordinator"),
        Column("Type", lambda model, group: c.text(group.type), is_number=False),
        Column("Unknown", lambda model, group: c.text(group.unknown or ""),
               "why the lag is not completely known", is_number=False),
    ),
    lambda model, target: model.view.groups,
    key=lambda group: group.group_id,
    opens=lambda model, group: Place(places.GROUP, (group.group_id,)),
    subject=lambda group: Subject(GROUP, group.group_id),
    mood=lambda group: WARNING if group.unknown or (group.state == "Empty" and group.least_lag) else GOOD,
    when_empty=_groups_unknown,
    sort_column=3,
)  # fmt: skip


class _TopicLag(NamedTuple):
    """The lag of a group in a topic; None if it is partly unknown."""

    group: GroupView
    topic: str
    lag: int | None


LAG = View(
    "Lag",
    (
        Column("Group", lambda model, item: c.text(item.group.group_id), is_number=False, least=24),
        Column("Topic", lambda model, item: c.text(item.topic), is_number=False, least=24),
        Column("Lag", lambda model, item: c.number(item.lag), "records not consumed"),
        Column("Cons/s", lambda model, item: c.rate((item.group.consumed_by_topic or {}).get(item.topic),
                                                    is_unknown=item.group.partitions is None),
               "records consumed per second"),
    ),
    lambda model, target: [_TopicLag(*row) for row in model.topic_lags],
    key=lambda item: (item.group.group_id, item.topic),
    opens=lambda model, item: Place(places.GROUP, (item.group.group_id,)),
    subject=lambda item: Subject(GROUP, item.group.group_id),
    mood=lambda item: WARNING if item.lag is None else GOOD,
    when_empty=lambda model, target: "no group has offsets",
    sort_column=2,
)  # fmt: skip


# -- one group --


class _Member(NamedTuple):
    """A member of a group, None for the partitions with commits that no member is assigned, and the partitions."""

    group: GroupView
    member: MemberDescription | None
    keys: tuple[TopicPartition, ...]


def _members(model: Model, target: Target) -> list[_Member]:
    group = model.groups.get(str(target[0]))
    details = model.details
    if group is None or details is None:
        return []
    members = () if details.group is None or details.group.error is not None else details.group.members
    found = [
        _Member(group, member, member.assignment)
        for member in sorted(members, key=lambda member: (member.client_id, member.member_id))
    ]
    assigned = {key for item in found for key in item.keys}
    left = tuple((part.topic, part.partition) for part in group.partitions or ()
                 if (part.topic, part.partition) not in assigned)  # fmt: skip
    return [*found, _Member(group, None, left)] if left else found


def _no_members(model: Model, target: Target) -> str:
    if str(target[0]) not in model.groups:
        return "the group is gone"
    if model.details is None:
        return "reading the members ..."
    return model.details.error or "no member, and no committed offset"


def _commits(group: GroupView) -> dict[TopicPartition, GroupPartition]:
    return {(part.topic, part.partition): part for part in group.partitions or ()}


def _lag_of(group: GroupView, keys: Iterable[TopicPartition]) -> Cell:
    """Return a cell with the lag in some partitions; those without a commit do not count, as in all sums of lag."""
    if group.partitions is None:
        return Cell(UNKNOWN, None)
    commits = _commits(group)
    lags = [commits[key].lag for key in keys if key in commits]
    if not lags:
        return Cell("-", None)
    least = sum(lag or 0 for lag in lags)
    return c.at_least(None if None in lags else least, least)


def _member_name(model: Model, item: _Member) -> Cell:
    if item.member is not None:
        return c.text(item.member.client_id or item.member.member_id)
    is_unknown = model.details is not None and model.details.error is not None
    return c.text("(members unknown)" if is_unknown else "(no member)", "\U0010ffff")  # the last one


ONE_GROUP = View(
    "Group",
    (
        Column("Member", _member_name, "client id", is_number=False, least=24),
        Column("Host", lambda model, item: c.text("-" if item.member is None else item.member.host),
               is_number=False),
        Column("Parts", lambda model, item: c.number(len(item.keys)), "assigned partitions"),
        Column("Lag", lambda model, item: _lag_of(item.group, item.keys), "in these partitions"),
        Column("Epoch", lambda model, item: (
            Cell("-", None) if item.member is None or item.member.member_epoch is None
            else c.number(item.member.member_epoch)), "member epoch, - with the classic protocol"),
        Column("Instance", lambda model, item: c.text(
            "-" if item.member is None else item.member.group_instance_id or "-"), "group.instance.id",
            is_number=False),
        Column("Member id", lambda model, item: c.text("-" if item.member is None else item.member.member_id),
               is_number=False),
    ),
    _members,
    key=lambda item: NO_MEMBER if item.member is None else item.member.member_id,
    opens=lambda model, item: Place(places.MEMBER, (
        item.group.group_id, NO_MEMBER if item.member is None else item.member.member_id)),
    subject=lambda item: Subject(GROUP, item.group.group_id),
    mood=lambda item: GOOD if item.member is not None else WARNING,
    when_empty=_no_members,
)  # fmt: skip


# -- one member --


class _Assigned(NamedTuple):
    """A partition of a member; `commit` None: the group did not commit there, or its offsets are unknown."""

    group: GroupView
    key: TopicPartition
    commit: GroupPartition | None
    part: PartitionView | None


def _assigned(model: Model, target: Target) -> Sequence[_Assigned]:
    for item in _members(model, target):
        if (NO_MEMBER if item.member is None else item.member.member_id) == target[1]:
            commits = _commits(item.group)
            return [
                _Assigned(item.group, key, commits.get(key), model.view.by_partition.get(key))
                for key in sorted(item.keys)
            ]
    return ()


def _no_assignment(model: Model, target: Target) -> str:
    if model.details is None or not _members(model, target):
        return _no_members(model, target)
    is_there = any(item.member is not None and item.member.member_id == target[1] for item in _members(model, target))
    return "no partition is assigned" if is_there else "the member is gone"


def _commit_cell(item: _Assigned, value: int | None) -> Cell:
    """Return a cell of a committed offset or a lag: `-` without a commit, `?` if the offsets are unknown or the
    partition is not in view."""
    is_none = item.commit is None and item.group.partitions is not None and item.part is not None
    return Cell("-", None) if is_none else c.number(value)


ONE_MEMBER = View(
    "Member",
    (
        Column("Partition", lambda model, item: c.text(f"{item.key[0]}-{item.key[1]}", item.key), is_number=False,
               least=24),
        Column("Leader", lambda model, item: leader_cell(item.part), "broker id"),
        Column("Commit", lambda model, item: _commit_cell(item, item.commit and item.commit.committed),
               "committed offset; - without one"),
        Column("End", lambda model, item: c.number(None if item.part is None else item.part.end_offset),
               "log end offset"),
        Column("Lag", lambda model, item: _commit_cell(item, item.commit and item.commit.lag),
               "records not consumed"),
        Column("Msg/s", lambda model, item: c.rate(
            None if item.part is None else model.messages_in(item.part),
            is_unknown=item.part is None or item.part.end_offset is None), "records per second that come in"),
    ),
    _assigned,
    key=lambda item: item.key,
    opens=lambda model, item: Place(places.PARTITION, item.key),
    subject=lambda item: Subject(PARTITION, *item.key),
    mood=lambda item: WARNING if item.commit is not None and item.commit.lag is None else GOOD,
    when_empty=_no_assignment,
)  # fmt: skip
