"""Causes of groups that do not consume, as functions of Observations.

A cause that needs two snapshots finds nothing with one. The lag of a group whose coordinator did not report offsets is
unknown, and no cause here guesses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkatools.core.admin.groups import EMPTY, SHARE, STABLE, STREAMS, GroupDescription, MemberDescription
from kafkatools.tools.diagnosis.findings import (
    Finding,
    count,
    duration,
    partition_names,
    partition_places,
    places,
    waiting_records,
)
from kafkatools.tools.diagnosis.observations import GROUP, NextBatch, Observations, TopicPartition, committed
from kafkatools.tools.monitor.view import GroupPartition, GroupView

REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


_LEAST_CONSUMED = 0.1
"""The share of what was written that a group must have consumed: lag and end offsets are not of the same instant."""


def has_progressed(obs: Observations, group: GroupView) -> bool:
    """Return whether a committed offset differs between the two snapshots, or a share group consumed records after its
    start offset. False with one snapshot."""
    before = obs.before(group.group_id)
    return before is not None and (
        committed(before) != committed(group) or not _consumed_after_start(obs, group).isdisjoint(committed(group))
    )


def _consumed_after_start(obs: Observations, group: GroupView) -> set[TopicPartition]:
    """Return the partitions whose records a share group consumed between the two snapshots, by its lag. One record that
    is not acknowledged keeps the start offset where it is."""
    before = obs.before(group.group_id)
    if group.type != SHARE or before is None or obs.earlier is None:
        return set()
    consumed, lags_before = set(), _lags(before)
    for key, lag in _lags(group).items():
        lag_before, old, new = lags_before.get(key), obs.earlier.by_partition.get(key), obs.partition(key)
        if lag is None or lag_before is None or old is None or new is None:
            continue
        if old.end_offset is None or new.end_offset is None:
            continue
        written = new.end_offset - old.end_offset
        if written - (lag - lag_before) > written * _LEAST_CONSUMED:
            consumed.add(key)
    return consumed


def _lags(group: GroupView) -> dict[TopicPartition, int | None]:
    return {(part.topic, part.partition): part.lag for part in group.partitions or ()}


def has_stopped(obs: Observations, group: GroupView) -> bool:
    """Return whether two snapshots have the same committed offsets, both with lag. False with one snapshot."""
    before = obs.before(group.group_id)
    return before is not None and bool(before.least_lag and group.least_lag) and not has_progressed(obs, group)


def has_stopped_at(obs: Observations, group: GroupView, key: TopicPartition) -> bool:
    """Return whether two snapshots have the same committed offset of a partition, both with lag, and a share group
    consumed nothing after it. False with one snapshot."""
    if key in _consumed_after_start(obs, group):
        return False
    before = obs.before(group.group_id)
    waiting = (
        {(part.topic, part.partition): part.committed for part in before.partitions or () if part.lag} if before else {}
    )
    return any(
        key == (part.topic, part.partition) and part.lag and waiting.get(key) == part.committed
        for part in group.partitions or ()
    )


def has_no_offsets(group: GroupView) -> bool:
    """Return whether the coordinator reported that a group has committed no offset at all."""
    return group.partitions == ()


def lag_text(obs: Observations, group: GroupView) -> str:
    """Return the lag and its change since the first snapshot, or that the change is unknown."""
    if not group.is_lag_known and not group.least_lag:
        return "The lag is unknown"
    if has_no_offsets(group):
        return "It has no committed offsets, so its lag is unknown"
    total = f"{group.least_lag:,}" if group.is_lag_known else f"at least {group.least_lag:,}"
    before = obs.before(group.group_id)
    if group.is_lag_known and not group.least_lag and before is None:
        return "Lag 0"
    if before is None or not (before.is_lag_known and group.is_lag_known):
        return f"Lag {total}; whether it grows is unknown with one snapshot"
    return f"Lag {total}, {group.least_lag - before.least_lag:+,} in {obs.seconds or 0:.1f} s"


def commit_lines(obs: Observations) -> Iterator[str]:
    """Yield a line about the last commit of the group of the subject, if its records can be read."""
    if obs.commits is None:
        return
    last_ms, usual_ms = obs.commits.last_ms(), obs.commits.usual_ms()
    if last_ms is not None:
        usually = f"; it commits every {duration(usual_ms)}" if usual_ms else ""
        yield f"The last commit was {duration(max(0, obs.now_ms - last_ms))} ago{usually}"
    elif obs.commits.since_ms is not None and obs.commits.since_ms >= 0:
        yield f"No commit for at least {duration(max(0, obs.now_ms - obs.commits.since_ms))}"


def _commits_rarely(obs: Observations, key: TopicPartition | None = None) -> bool:
    """Return whether the next commit, of the group or of one partition, is not overdue by its usual pauses."""
    if obs.commits is None:
        return False
    usual_ms = obs.commits.usual_ms(key)
    last_ms = obs.commits.last_ms() if key is None else max(obs.commits.by_partition.get(key, ()), default=None)
    return usual_ms is not None and last_ms is not None and obs.now_ms - last_ms <= 2 * usual_ms


def _described(obs: Observations) -> Iterator[tuple[GroupView, GroupDescription]]:
    """Yield the groups in view whose members are known."""
    for group in obs.view.groups:
        if group.group_id in obs.descriptions:
            yield group, obs.descriptions[group.group_id]


def keys_of(parts: Iterable[GroupPartition]) -> list[TopicPartition]:
    """Return the keys of partitions."""
    return [(part.topic, part.partition) for part in parts]


def members_command(group: GroupView) -> tuple[str, ...]:
    """Return the command that lists the members of a group with their partitions."""
    return (group_command(group), "--describe", "--group", group.group_id, "--members", "--verbose")


def _state_command(group: GroupView) -> tuple[str, ...]:
    return (group_command(group), "--describe", "--group", group.group_id, "--state")


def group_command(group: GroupView) -> str:
    """Return the command for groups of this type."""
    return {SHARE: "share-groups", STREAMS: "streams-groups"}.get(group.type, "consumer-groups")


def _is_disturbed(obs: Observations, group: GroupView, description: GroupDescription) -> bool:
    """Return whether a group has stopped, never committed or is rebalancing, so that a change of its members matters.
    Consumers that crash at their first record never commit."""
    return has_stopped(obs, group) or has_no_offsets(group) or description.state in REBALANCING


def member_text(member: MemberDescription) -> str:
    """Return a member in words: client id, host, its partitions and, if static, its instance id."""
    instance = f", group.instance.id {member.group_instance_id}" if member.group_instance_id else ""
    return f"{member.client_id} at {member.host.lstrip('/')}{instance}: {count(len(member.assignment), 'partition')}"


def coordinator_unavailable(obs: Observations) -> Iterator[Finding]:
    """Partitions of __consumer_offsets have no leader, so the groups in them have no coordinator."""
    for reason in obs.view.unlisted:
        if reason.endswith("have no leader"):
            is_own = obs.subject.kind == GROUP
            if is_own and obs.view.groups:
                return
            subject = f"Group {obs.subject.name} has no coordinator" if is_own else "Some groups have no coordinator"
            command = ("topics", "--describe", "--topic", "__consumer_offsets", "--unavailable-partitions")
            leaderless = [(part.topic, part.partition) for part in obs.partitions() if part.is_offline]
            own = [key for key in leaderless if key[0] == "__consumer_offsets"]
            yield Finding(f"{subject}: {reason}", (), command, places(("cluster", ""), partition_places(own)))


def no_members(obs: Observations) -> Iterator[Finding]:
    """A group with lag has no member. A group that only commits offsets is given the time of two snapshots."""
    for group in obs.view.groups:
        description = obs.descriptions.get(group.group_id)
        if group.state != EMPTY or not group.least_lag or has_progressed(obs, group):
            continue
        if description is None or (description.is_simple and obs.earlier is None):
            continue
        lagging = keys_of(obs.lagging(group))
        if not lagging:
            continue
        yield Finding(
            f"Group {group.group_id} has no members: nobody consumes {partition_names(lagging)}",
            (lag_text(obs, group), f"State {group.state}, coordinator broker {group.coordinator}", *commit_lines(obs)),
            _state_command(group),
            places(("group", group.group_id), partition_places(lagging)),
        )


def static_member_replaced(obs: Observations) -> Iterator[Finding]:
    """Two clients use one group.instance.id: each join fences the other one."""
    for group, description in _described(obs):
        before = obs.earlier_descriptions.get(group.group_id)
        ids = {m.group_instance_id: m.member_id for m in before.members if m.group_instance_id} if before else {}
        replaced = [m for m in description.members if ids.get(m.group_instance_id or "", m.member_id) != m.member_id]
        if replaced and _is_disturbed(obs, group, description):
            member = replaced[0]
            yield Finding(
                f"Another client took over group.instance.id {member.group_instance_id} of group {group.group_id} "
                f"within {obs.seconds or 0:.1f} s: two clients use the same id and fence each other",
                (*map(member_text, replaced[:3]), lag_text(obs, group)),
                members_command(group),
                places(("group", group.group_id)),
            )


def members_change(obs: Observations) -> Iterator[Finding]:
    """Members leave and others join between two snapshots, and nothing is committed meanwhile."""
    for group, description in _described(obs):
        before = obs.earlier_descriptions.get(group.group_id)
        old = {member.member_id for member in before.members} if before else set()
        new = {member.member_id for member in description.members}
        if old and old - new and new - old and _is_disturbed(obs, group, description):
            yield Finding(
                f"Members of group {group.group_id} leave and join again: {len(new - old)} of {len(new)} joined within "
                f"{obs.seconds or 0:.1f} s, so the group rebalances instead of consuming",
                (f"State {description.state}", lag_text(obs, group)),
                members_command(group),
                places(("group", group.group_id)),
            )


def member_behind(obs: Observations) -> Iterator[Finding]:
    """A member stays at an old epoch in both snapshots, so it does not give up partitions (KIP-848)."""
    for group, description in _described(obs):
        target = description.target_assignment_epoch
        before = obs.earlier_descriptions.get(group.group_id)
        old = {member.member_id: member.member_epoch for member in before.members} if before else {}
        behind = [
            member
            for member in description.members
            if target is not None
            and member.member_epoch is not None
            and member.member_epoch < target
            and old.get(member.member_id) == member.member_epoch
        ]
        if behind and description.type != SHARE:
            member = behind[0]
            yield Finding(
                f"Member {member.client_id} of group {group.group_id} does not follow the rebalance: it is at epoch "
                f"{member.member_epoch}, the group at {target}",
                (f"State {description.state}", *map(member_text, behind[:3]), lag_text(obs, group)),
                members_command(group),
                places(("group", group.group_id)),
            )


def rebalancing(obs: Observations) -> Iterator[Finding]:
    """The group is in a rebalance in both snapshots."""
    for group, description in _described(obs):
        before = obs.earlier_descriptions.get(group.group_id)
        if before is None or not {before.state, description.state} <= set(REBALANCING):
            continue
        yield Finding(
            f"Group {group.group_id} has been rebalancing for at least {obs.seconds or 0:.1f} s: a member has not "
            "rejoined, or the leader has not assigned partitions",
            (
                f"State {description.state}, {count(len(description.members), 'member')}",
                lag_text(obs, group),
                *commit_lines(obs),
            ),
            members_command(group),
            places(("group", group.group_id)),
        )


def members_without_partitions(obs: Observations) -> Iterator[Finding]:
    """A stable group assigns no partition to any of its members."""
    for group, description in _described(obs):
        if description.state != STABLE or not description.members or description.type == SHARE:
            continue
        if not any(member.assignment or member.target_assignment for member in description.members):
            yield Finding(
                f"Group {group.group_id} has {count(len(description.members), 'member')} without any partition: no "
                "subscribed topic exists",
                (*map(member_text, description.members[:3]), lag_text(obs, group)),
                members_command(group),
                places(("group", group.group_id)),
            )


def partition_unassigned(obs: Observations) -> Iterator[Finding]:
    """A stable group has lag in a partition that none of its members has."""
    for group, description in _described(obs):
        assigned = {key for member in description.members for key in member.assignment}
        if description.state != STABLE or not assigned or description.type == SHARE:
            continue
        waiting = [part for part in obs.lagging(group) if (part.topic, part.partition) not in assigned]
        if waiting and not _moved(obs, group, keys_of(waiting)):
            yield Finding(
                f"No member of group {group.group_id} has {partition_names(keys_of(waiting))}, where "
                f"{waiting_records(sum(part.lag or 0 for part in waiting))}",
                (*map(member_text, description.members[:3]), lag_text(obs, group)),
                members_command(group),
                places(("group", group.group_id), partition_places(keys_of(waiting))),
            )


def _moved(obs: Observations, group: GroupView, keys: Iterable[TopicPartition]) -> bool:
    before = obs.before(group.group_id)
    old, new = (committed(before) if before is not None else {}), committed(group)
    return any(key in old and old[key] != new.get(key) for key in keys)


def offsets_pending(obs: Observations) -> Iterator[Finding]:
    """A transaction with offsets of the group is open in both snapshots, so consumers cannot fetch their offsets."""
    for name, keys in obs.pending.items():
        stuck = [key for key in keys if key in obs.earlier_pending.get(name, ())]
        if stuck:
            yield Finding(
                f"An open transaction holds committed offsets of group {name} in {partition_names(stuck)}: consumers "
                "that start wait until it ends",
                (f"The same offsets were pending {obs.seconds or 0:.1f} s before",),
                ("transactions", "list", "--duration-filter", "10000"),
                places(("group", name)),
            )


def stalled(obs: Observations) -> Iterator[Finding]:
    """Members have partitions with lag, and no offset is committed between two snapshots."""
    for group in obs.view.groups:
        if group.state != STABLE or not group.members or not has_stopped(obs, group) or _commits_rarely(obs):
            continue
        if group.type == STREAMS:  # it commits every 30 s by default, longer than the usual interval
            continue
        description = obs.descriptions.get(group.group_id)
        assigned = {key for member in description.members for key in member.assignment} if description else None
        waiting = [key for key in keys_of(obs.lagging(group)) if assigned is None or key in assigned]
        if not waiting:
            continue
        members = [] if description is None else [member_text(member) for member in description.members[:3]]
        yield Finding(
            f"Group {group.group_id} committed nothing in {obs.seconds or 0:.1f} s although it has "
            f"{count(group.members, 'member')} and {waiting_records(group.least_lag)} in {partition_names(waiting)}",
            (lag_text(obs, group), *members, *_next_records(obs, group), *commit_lines(obs)),
            members_command(group),
            places(("group", group.group_id), partition_places(waiting)),
        )


_BACKLOG_MS = 60_000


def partition_stalled(obs: Observations) -> Iterator[Finding]:
    """The group commits other partitions between two snapshots, but not one in which records wait. A member may
    consume its partitions one after the other, so one that is behind in another partition says nothing."""
    for group in obs.view.groups:
        description = obs.descriptions.get(group.group_id)
        if description is None or description.state not in (STABLE, EMPTY) or not has_progressed(obs, group):
            continue
        owners = {key: member.member_id for member in description.members for key in member.assignment}
        for part in sorted(obs.lagging(group), key=lambda part: -(part.lag or 0)):
            key = part.topic, part.partition
            if not has_stopped_at(obs, group, key) or (owners and key not in owners) or _commits_rarely(obs, key):
                continue
            moved = [other for other in _moved_keys(obs, group) if owners.get(other) == owners.get(key)]
            if any(_is_behind(obs, group, other) for other in moved):
                continue
            members = [member_text(member) for member in description.members if key in member.assignment]
            batch = obs.batches.get((group.group_id, key))
            yield Finding(
                f"Group {group.group_id} stays at offset {part.committed:,} of {part.topic}-{part.partition}, where "
                f"{waiting_records(part.lag or 0)}, although it commits {partition_names(_moved_keys(obs, group))}",
                (*record_lines(obs, key, part.committed, batch), *members, lag_text(obs, group), *commit_lines(obs)),
                _record_command(key, part.committed),
                places(("partition", key), ("topic", part.topic)),
            )


def _moved_keys(obs: Observations, group: GroupView) -> list[TopicPartition]:
    before = obs.before(group.group_id)
    old = committed(before) if before is not None else {}
    return [key for key, offset in committed(group).items() if old.get(key, offset) != offset]


def _is_behind(obs: Observations, group: GroupView, key: TopicPartition) -> bool:
    """Return whether old records wait in a partition, or records of unknown age."""
    if key not in keys_of(obs.lagging(group)):
        return False
    batch = obs.batches.get((group.group_id, key))
    return batch is None or batch.timestamp <= 0 or obs.now_ms - batch.timestamp > _BACKLOG_MS


def _record_command(key: TopicPartition, offset: int) -> tuple[str, ...]:
    where = ("--topic", key[0], "--partition", str(key[1]), "--offset", str(offset))
    return ("console-consumer", *where, "--max-messages", "1")


def record_lines(obs: Observations, key: TopicPartition, at: int, batch: NextBatch | None) -> Iterator[str]:
    """Yield lines about the next record after a committed offset: its age and size, and a gap before it."""
    if batch is None or batch.offset < 0:
        return
    age = f"is {duration(max(0, obs.now_ms - batch.timestamp))} old" if batch.timestamp > 0 else "has no timestamp"
    yield (
        f"The next record of {key[0]}-{key[1]}, at offset {batch.offset:,}, {age}; its batch has "
        f"{batch.size_bytes:,} bytes"
    )
    if batch.offset > at:
        yield f"Offsets {at:,} to {batch.offset - 1:,} have no record: compaction removed them or they are markers"


def _next_records(obs: Observations, group: GroupView) -> Iterator[str]:
    """Yield lines about the oldest of the group's next records."""
    batches = [
        (key, batch) for (name, key), batch in obs.batches.items() if name == group.group_id and batch.timestamp > 0
    ]
    if batches:
        key, batch = min(batches, key=lambda item: item[1].timestamp)
        yield from record_lines(obs, key, committed(group)[key], batch)


_OLD_MS = 300_000


def too_slow(obs: Observations) -> Iterator[Finding]:
    """The group commits, but more is produced than it consumes, and its next record is older than five minutes."""
    for group in obs.view.groups:
        before = obs.before(group.group_id)
        ages = [
            obs.now_ms - batch.timestamp
            for (name, _), batch in obs.batches.items()
            if name == group.group_id and batch.timestamp > 0
        ]
        if before is None or not has_progressed(obs, group) or max(ages, default=0) < _OLD_MS:
            continue
        if not (before.is_lag_known and group.is_lag_known) or group.least_lag <= before.least_lag:
            continue
        yield Finding(
            f"Group {group.group_id} consumes more slowly than producers write: its lag grew by "
            f"{group.least_lag - before.least_lag:,} in {obs.seconds or 0:.1f} s, and its next record is "
            f"{duration(max(ages))} old",
            (lag_text(obs, group), f"It consumes {group.consumed or 0:.1f} records/s"),
            members_command(group),
            places(("group", group.group_id), partition_places(keys_of(obs.lagging(group)))),
        )
