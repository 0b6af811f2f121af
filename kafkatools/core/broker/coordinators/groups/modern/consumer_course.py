"""Changes of consumer groups in response to requests and timers (the KIP-848 half of Kafka's GroupMetadataManager).

Rules:
- A request collects its changes in a `Draft`. `write` appends all of them as one batch and then applies them. A
  request that fails half way changes nothing.
- Each member has a session timer, and a rebalance timer while it revokes partitions. Members of the classic protocol
  have join and sync timers. The session timer starts again with each heartbeat; others check the member's present
  epoch or are cancelled.
- The target assignment is computed at most once per assignment interval. Members get it with their heartbeats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from kafkatools.core import errors
from kafkatools.core.broker.coordinators.groups.any_group import GroupParts
from kafkatools.core.broker.coordinators.groups.group_topics import GroupTopics
from kafkatools.core.broker.coordinators.groups.modern.consumer_changes import (
    Change,
    CurrentAssignmentChange,
    GroupEpochChange,
    MemberChange,
    RegexChange,
    SubscriptionMetadataChange,
    TargetEpochChange,
    TargetMemberChange,
    removal_of,
)
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import CONSUMER, ConsumerGroup
from kafkatools.core.broker.coordinators.groups.modern.consumer_member import (
    LEAVE_GROUP_STATIC_EPOCH,
    Assignment,
    ConsumerMember,
    MemberState,
)
from kafkatools.core.broker.coordinators.groups.modern.consumer_settings import ConsumerGroupSettings
from kafkatools.core.broker.coordinators.groups.modern.group_spec import GroupSpec, PartitionAssignorError
from kafkatools.core.broker.coordinators.groups.modern.modern_changes import ensure_valid_epoch
from kafkatools.core.broker.coordinators.groups.modern.modern_group import NOTHING
from kafkatools.core.broker.coordinators.groups.modern.reconciliation import Owned, Reconciliation
from kafkatools.core.broker.coordinators.groups.modern.server_assignors import assignor_of
from kafkatools.core.broker.coordinators.groups.offset_records import Record
from kafkatools.core.java.hash_order import hash_order

METADATA_REFRESH_INTERVAL_MS = 2**31 - 1
JOIN_TIMER, SYNC_TIMER = "consumer-join", "consumer-sync"

Downgrade = Callable[[ConsumerGroup, Collection[str]], bool]
"""Convert a consumer group to a classic one if only classic members stay after these leave; returns whether it did."""


@dataclass(slots=True)
class Draft:
    """The collected changes of one consumer group. `first_records` and `last_records` are written before and after the
    changes, of a classic group that is converted. The functions in `callbacks` are called when everything is
    written."""

    group: ConsumerGroup
    changes: list[Change] = field(default_factory=list)
    first_records: list[Record] = field(default_factory=list)
    last_records: list[Record] = field(default_factory=list)
    callbacks: list[Callable[[], None]] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class ConsumerCourse(GroupParts[ConsumerGroupSettings]):
    """Changes consumer groups: subscriptions, epochs, assignments, timers and the removal of members."""

    downgrade: Downgrade

    def write(self, draft: Draft) -> None:
        """Append all records of a draft as one batch. Then apply its changes, add the group to the registry, and call
        the functions in `callbacks`. Raises a KafkaError if the append fails."""
        group = draft.group
        records = [
            *draft.first_records,
            *(change.record(group.group_id) for change in draft.changes),
            *draft.last_records,
        ]
        if records:
            self.store.append_change(group.group_id, records)
        for change in draft.changes:
            group.apply(change)
        if draft.changes:
            self.groups[group.group_id] = group
        for action in draft.callbacks:
            action()

    # -- members ---------------------------------------------------------------------------------------------------
    def ensure_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Raise GroupMaxSizeReached if a new member would exceed group.consumer.max.size."""
        size = self.settings.max_size
        if len(group.members) >= size and member_id not in group.members:
            raise errors.GroupMaxSizeReached(f"The consumer group has reached its maximum capacity of {size} members.")

    def rejoining_static(self, draft: Draft, member_id: str, instance_id: str, *, uses_classic: bool) -> ConsumerMember:
        """A static member that joins. An unused instance id gives the member of `member_id` or a new one. Otherwise the
        present member of the instance id gets `member_id` and epoch 0 in the draft. Raises UnreleasedInstanceId if both
        use the consumer protocol and the present member has not left."""
        current = draft.group.static_member(instance_id)
        if current is None:
            return draft.group.members.get(member_id) or ConsumerMember(member_id)
        if not uses_classic and not current.uses_classic_protocol and current.member_epoch != LEAVE_GROUP_STATIC_EPOCH:
            raise errors.UnreleasedInstanceId(
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {current.member_id} member."
            )
        member = replace(current, member_id=member_id, member_epoch=0, previous_member_epoch=0)
        target = draft.group.target.get(current.member_id, NOTHING)
        draft.changes += [
            *removal_of(current.member_id),
            MemberChange(member_id, member),
            TargetMemberChange(member_id, target),
            CurrentAssignmentChange(member_id, member),
        ]
        return member

    def static_member_of(self, group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
        """The member of an instance id. Raises UnknownMemberId, or FencedInstanceId if it has another member id."""
        current = group.static_member(instance_id)
        if current is None:
            raise errors.UnknownMemberId(f"Instance id {instance_id} is unknown.")
        ensure_not_replaced(current, member_id, instance_id)
        return current

    # -- subscriptions, epochs and assignments ---------------------------------------------------------------------
    def note_subscription(self, draft: Draft, current: ConsumerMember, updated: ConsumerMember) -> bool:
        """Add a changed member to the draft. Returns whether its subscribed topic names changed."""
        if updated != current:
            draft.changes.append(MemberChange(updated.member_id, updated))
        return updated.subscribed_topic_names != current.subscribed_topic_names

    def advance(self, draft: Draft, updated: ConsumerMember, *, bump: bool) -> int:
        """Raise the group epoch in the draft if `bump`, or if the topics' metadata was due for a check and has changed.
        Returns the group epoch."""
        group, now_ms = draft.group, self.clock.wall_ms()
        epoch = group.group_epoch
        if not bump and not group.is_metadata_expired(now_ms):
            return epoch
        topics = group.topics_of(group.members_with(updated))
        metadata_hash = self.topics.group_hash(topics)
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            draft.changes.append(GroupEpochChange(epoch, metadata_hash))
        group.set_refresh_deadline(now_ms + METADATA_REFRESH_INTERVAL_MS, epoch)
        if group.has_subscription_metadata:
            draft.changes.append(SubscriptionMetadataChange())
        return epoch

    def target(self, draft: Draft, updated: ConsumerMember, epoch: int) -> tuple[int, Assignment]:
        """The epoch and target assignment of a member. Computes a new one for all members, into the draft, if `epoch`
        is above the assignment epoch and the assignment interval has passed. Raises UnknownServerError if the assignor
        fails."""
        group = draft.group
        if group.assignment_epoch >= epoch or not self.may_assign(group):
            return group.assignment_epoch, group.target_of(updated.member_id, updated.instance_id)
        members = group.members_with(updated)
        assignor = group.preferred_assignor(members, self.settings.assignors[0])
        target = next_target(group, members, self.topics, assignor)
        draft.changes += target_changes(group, members, target, epoch, self.clock.wall_ms())
        return epoch, target.get(updated.member_id, NOTHING)

    def reconcile(
        self,
        draft: Draft,
        member: ConsumerMember,
        target: tuple[int, Assignment],
        owned: Owned | None,
        *,
        has_subscription_changed: bool,
    ) -> ConsumerMember:
        """Move a member one step towards its target assignment, in the draft. `owned` is what the member reports to
        own, None without a report. Returns the member after the step, unchanged if it has its target or must wait.
        Raises FencedMemberEpoch for a member in an unknown state."""
        group, (epoch, assignment) = draft.group, target
        if not has_subscription_changed and member.is_reconciled_to(epoch):
            return member
        topic_ids = self.topics.ids_of(group.topics_of_member(member))
        step = Reconciliation(epoch, assignment, topic_ids, group.partition_epoch, owned, has_subscription_changed)
        updated = step.step(member)
        if updated == member:
            return member
        draft.changes.append(CurrentAssignmentChange(updated.member_id, updated))
        if not updated.uses_classic_protocol:
            draft.callbacks.append(lambda: self._watch_revocation(group.group_id, updated))
        return updated

    # -- removal of members ----------------------------------------------------------------------------------------
    def fence(self, group: ConsumerGroup, leaving: Sequence[ConsumerMember]) -> None:
        """Remove members and cancel their timers; does nothing without members. The group becomes a classic one if only
        classic members stay and the settings allow it. Raises a KafkaError."""
        member_ids = {member.member_id for member in leaving}
        if not leaving or self.downgrade(group, member_ids):
            return
        draft = Draft(group)
        for member in leaving:
            draft.changes += removal_of(member.member_id)
        remaining = group.members_with(None, member_ids)
        regex_counts = group.regex_counts(remaining)
        unused_regexes = [regex for regex in group.regex_counts(leaving) if not regex_counts[regex]]
        draft.changes += [RegexChange(regex, None) for regex in unused_regexes]
        metadata_hash = self.topics.group_hash(group.topics_of(remaining))
        draft.changes.append(GroupEpochChange(group.group_epoch + 1, metadata_hash))
        self.write(draft)
        for member_id in member_ids:
            self.cancel_timers(group.group_id, member_id)

    def _fence_by_timer(self, group_id: str, member_id: str) -> None:
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup) and member_id in group.members:
            self.fence(group, [group.members[member_id]])

    # -- timers ----------------------------------------------------------------------------------------------------
    def watch_session(self, group_id: str, member_id: str, timeout_ms: int | None = None) -> None:
        """Start or restart a member's session timer: `timeout_ms`, or the group's session timeout if None. The member
        is removed when it expires."""
        wait_ms = self.settings.session_timeout_ms(group_id) if timeout_ms is None else timeout_ms
        self._watch("session", group_id, member_id, wait_ms)

    def _watch(self, kind: str, group_id: str, member_id: str, wait_ms: int) -> None:
        """Remove a member when this timer expires."""
        self.timer.schedule((kind, group_id, member_id), wait_ms, lambda: self._fence_by_timer(group_id, member_id))

    def _watch_revocation(self, group_id: str, member: ConsumerMember) -> None:
        key = ("rebalance", group_id, member.member_id)
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self.timer.cancel(key)
            return

        def expire() -> None:
            group = self.groups.get(group_id)
            now = group.members.get(member.member_id) if isinstance(group, ConsumerGroup) else None
            if now is not None and now.member_epoch == member.member_epoch:
                self._fence_by_timer(group_id, member.member_id)

        self.timer.schedule(key, member.rebalance_timeout_ms, expire)

    def watch_join(self, group_id: str, member: ConsumerMember) -> None:
        """Start the rebalance timeout within which a classic member must send JoinGroup after REBALANCE_IN_PROGRESS. A
        running timeout is not restarted. The member is removed when it expires."""
        key = (JOIN_TIMER, group_id, member.member_id)
        if not self.timer.is_scheduled(key):
            self._watch(*key, member.rebalance_timeout_ms)

    def watch_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        """Start the timeout within which a classic member must send SyncGroup after its join. The member is removed
        when it expires."""
        self._watch(SYNC_TIMER, group_id, member_id, timeout_ms)

    def cancel_timers(self, group_id: str, member_id: str) -> None:
        """Cancel all timers of a member."""
        for kind in ("session", "rebalance", JOIN_TIMER, SYNC_TIMER):
            self.timer.cancel((kind, group_id, member_id))

    def forget(self, group: ConsumerGroup) -> None:
        """Remove a group and its timers from memory."""
        for member_id in group.members:
            self.cancel_timers(group.group_id, member_id)
        self.timer.cancel(("regex", group.group_id))
        self.groups.pop(group.group_id, None)

    release = forget

    def resume(self, group: ConsumerGroup) -> None:
        """Start the timers of a loaded group: the members' sessions, and the revocations in progress."""
        for member_id, member in group.members.items():
            session_ms = member.classic.session_timeout_ms if member.classic is not None else None
            self.watch_session(group.group_id, member_id, session_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS and not member.uses_classic_protocol:
                self._watch_revocation(group.group_id, member)


def ensure_not_replaced(current: ConsumerMember, member_id: str, instance_id: str) -> None:
    """Raise FencedInstanceId if the instance id's member has another member id."""
    if current.member_id != member_id:
        raise errors.FencedInstanceId(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {current.member_id}."
        )


def ensure_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Raise FencedMemberEpoch unless `epoch` is 0 (joining), the member's, or the previous one after a lost response.
    The previous epoch needs a report of owned partitions that are all assigned to the member."""
    previous = member.previous_member_epoch if _owns_no_more(member, owned) else None
    ensure_valid_epoch(CONSUMER, epoch, member.member_epoch, previous)


def _owns_no_more(member: ConsumerMember, owned: Owned | None) -> bool:
    if owned is None:
        return False
    return all(
        partition in member.assigned.get(topic_id, {})
        for topic_id, partitions in owned.items()
        for partition in partitions
    )


def next_target(
    group: ConsumerGroup, members: Collection[ConsumerMember], topics: GroupTopics, assignor: str
) -> dict[str, Assignment]:
    """Compute the target assignment of each member with the named assignor (Kafka's TargetAssignmentBuilder). Raises
    UnknownServerError if the assignor fails."""
    by_id = {member.member_id: member for member in members}
    ids = {member.member_id: topics.ids_of(group.topics_of_member(member)) for member in members}
    spec = GroupSpec(
        {member_id: ids[member_id] for member_id in hash_order(by_id)},
        {topic_id: topics.partition_count(topic_id) for topic_ids in ids.values() for topic_id in topic_ids},
        {member_id: group.target_of(member_id, member.instance_id) for member_id, member in by_id.items()},
        group.is_homogeneous(members),
        {member.member_id: member.instance_id for member in members if member.instance_id is not None},
    )
    try:
        return assignor_of(assignor)(spec)
    except PartitionAssignorError as error:
        raise errors.UnknownServerError(
            f"Failed to compute a new target assignment for epoch {group.group_epoch}: {error}"
        ) from error


def target_changes(
    group: ConsumerGroup,
    members: Collection[ConsumerMember],
    target: dict[str, Assignment],
    epoch: int,
    wall_ms: int,
) -> list[Change]:
    """The changes to write for a new target assignment: members whose assignment changed, then the epoch."""
    changes: list[Change] = [
        TargetMemberChange(member_id, target.get(member_id, NOTHING))
        for member_id in hash_order(member.member_id for member in members)
        if group.target.get(member_id) != target.get(member_id, NOTHING)
    ]
    return [*changes, TargetEpochChange(epoch, wall_ms)]
