"""A consumer group (Kafka's ConsumerGroup, KIP-848): members, epochs and target assignment.

`apply` changes it by records, `put` sets a converted member. The group epoch rises when members or topics change. The
assignment epoch follows when the target assignment is computed, and each member's epoch when the member has revoked
what the target takes from it. This module knows no timers, disks or sockets.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from enum import Enum, unique

from kafkatools.core import errors
from kafkatools.core.broker.coordinators.groups.modern.consumer_changes import (
    Change,
    CurrentAssignmentChange,
    GroupEpochChange,
    MemberChange,
    RegexChange,
    ResolvedRegex,
    SubscriptionMetadataChange,
    TargetEpochChange,
    TargetMemberChange,
    removal_of,
    with_assignment_of,
)
from kafkatools.core.broker.coordinators.groups.modern.consumer_member import (
    LEAVE_GROUP_EPOCH,
    Assignment,
    AssignmentWithEpochs,
    ConsumerMember,
    MemberState,
)
from kafkatools.core.broker.coordinators.groups.modern.modern_group import NOTHING, ModernGroup, put_or_drop
from kafkatools.core.broker.coordinators.groups.modern.reconciliation import NO_EPOCH
from kafkatools.core.broker.coordinators.groups.offset_records import Record

CONSUMER = "consumer"
FIRST_COMMIT_VERSION = 9
CommitCheck = Callable[[str, uuid.UUID | None, int], None]
"""Checks one partition of a commit, by the topic's name and id."""


@unique
class ConsumerGroupState(Enum):
    """The state of a consumer group; the value is the name that clients see."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup(ModernGroup[ConsumerMember]):
    """A consumer group."""

    group_type = CONSUMER
    first_epoch = 1
    no_assignment_epoch = NO_EPOCH

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.static_members: dict[str, str] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_subscription_metadata = False
        self._refresh_deadline = (0, 0)
        self._partition_epochs: dict[uuid.UUID, dict[int, int]] = {}

    # -- changes ---------------------------------------------------------------------------------------------------
    def apply(self, change: Change) -> None:
        """Apply a change to the group."""
        if isinstance(change, RegexChange):
            put_or_drop(self.regexes, change.regex, change.resolved)
        elif isinstance(change, SubscriptionMetadataChange):
            self.has_subscription_metadata = change.is_present
        elif isinstance(change, MemberChange | CurrentAssignmentChange):
            self._apply_to_member(change)
        else:
            self._apply_common(change)

    def _apply_to_member(self, change: MemberChange | CurrentAssignmentChange) -> None:
        current = self.members.get(change.member_id)
        if change.member is not None:
            member = current or ConsumerMember(change.member_id)
            if isinstance(change, MemberChange):
                self.put(with_assignment_of(change.member, member))
            else:
                self.put(with_assignment_of(member, change.member))
        elif isinstance(change, MemberChange):
            self._remove(change.member_id)
        elif current is not None:
            self.put(_without_assignment(current))

    def put(self, member: ConsumerMember) -> None:
        """Add or replace a member without writing a record."""
        current = self.members.get(member.member_id)
        if current is not None:
            self._release(current)
        self._own(member.assigned, member.member_epoch)
        self._own(member.pending_revocation, member.member_epoch)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _own(self, assignment: AssignmentWithEpochs, epoch: int) -> None:
        for topic_id, partitions in assignment.items():
            self._partition_epochs.setdefault(topic_id, {}).update(dict.fromkeys(partitions, epoch))

    def _release(self, member: ConsumerMember) -> None:
        """Drop partition epochs that are still this member's: compacted records may show a false order."""
        for assignment in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assignment.items():
                owned = self._partition_epochs.get(topic_id)
                if owned is None:
                    continue
                for partition in partitions:
                    if owned.get(partition) == member.member_epoch:
                        del owned[partition]
                if not owned:
                    del self._partition_epochs[topic_id]

    # -- state -----------------------------------------------------------------------------------------------------
    @property
    def state(self) -> ConsumerGroupState:
        """The group state that follows from members and epochs: Assigning while the group epoch is above the assignment
        epoch, Reconciling while a member lacks its target assignment."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        """The group state as clients see it."""
        return self.state.value

    def is_metadata_expired(self, now_ms: int) -> bool:
        """Return whether to check the topics' metadata again: it changed, was never checked, or the write after the
        last check failed."""
        deadline_ms, epoch = self._refresh_deadline
        return now_ms >= deadline_ms or self.group_epoch < epoch

    def set_refresh_deadline(self, deadline_ms: int, epoch: int) -> None:
        """Record that the topics' metadata was checked: valid until `deadline_ms`, if the group reaches this epoch."""
        self._refresh_deadline = (deadline_ms, epoch)

    def request_metadata_refresh(self) -> None:
        """Have the next heartbeat check the topics' metadata."""
        self._refresh_deadline = (0, 0)

    # -- members ---------------------------------------------------------------------------------------------------
    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member of an instance id; None without one."""
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return self.members.get(member_id) if member_id is not None else None

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """The target assignment of a member. A static member has that of the present member of its instance id."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, member_id)
        return self.target.get(member_id, NOTHING)

    def partition_epoch(self, topic_id: uuid.UUID, partition: int) -> int:
        """The member epoch of a partition's owner; NO_EPOCH without an owner."""
        return self._partition_epochs.get(topic_id, {}).get(partition, NO_EPOCH)

    def waits_for_partition(self, member: ConsumerMember) -> bool:
        """Return whether other members still own a partition of this member's target assignment. False unless its state
        is UNRELEASED_PARTITIONS."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        return any(
            partition not in member.assigned.get(topic_id, {}) and self.partition_epoch(topic_id, partition) != NO_EPOCH
            for topic_id, partitions in self.target.get(member.member_id, NOTHING).items()
            for partition in partitions
        )

    # -- subscriptions of the members passed in --------------------------------------------------------------------
    def members_with(self, updated: ConsumerMember | None, removed: Collection[str] = ()) -> list[ConsumerMember]:
        """The group's members with one updated or added, and some removed. `updated` replaces the member of its id or
        instance id."""
        members = [member for member_id, member in self.members.items() if member_id not in removed]
        if updated is None:
            return members
        replaced = self.static_members.get(updated.instance_id) if updated.instance_id is not None else None
        others = [member for member in members if member.member_id not in (updated.member_id, replaced)]
        return [*others, updated]

    def topics_of(
        self, members: Iterable[ConsumerMember], regexes: Mapping[str, ResolvedRegex] | None = None
    ) -> set[str]:
        """The names of topics that these members subscribe to. `regexes` replaces the group's resolved patterns."""
        names: set[str] = set()
        for member in members:
            names |= self.topics_of_member(member, regexes)
        return names

    def topics_of_member(
        self, member: ConsumerMember, regexes: Mapping[str, ResolvedRegex] | None = None
    ) -> frozenset[str]:
        """The names of topics that a member subscribes to. A pattern that is not resolved yet matches no topic."""
        patterns = self.regexes if regexes is None else regexes
        resolved = patterns.get(member.subscribed_topic_regex) if member.subscribed_topic_regex else None
        return (
            member.subscribed_topic_names | resolved.topics if resolved is not None else member.subscribed_topic_names
        )

    def is_homogeneous(self, members: Collection[ConsumerMember]) -> bool:
        """Return whether all members have the same subscription: the same names, or one pattern and no names."""
        patterns = Counter(member.subscribed_topic_regex for member in members if member.subscribed_topic_regex)
        names = Counter(name for member in members for name in member.subscribed_topic_names)
        if not patterns:
            return all(count == len(members) for count in names.values())
        return not names and len(patterns) == 1 and patterns.total() == len(members)

    def regex_counts(self, members: Iterable[ConsumerMember]) -> Counter[str]:
        """The number of members by pattern."""
        return Counter(member.subscribed_topic_regex for member in members if member.subscribed_topic_regex)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member is subscribed to the topic."""
        return any(topic in self.topics_of_member(member) for member in self.members.values())

    def preferred_assignor(self, members: Iterable[ConsumerMember], default: str) -> str:
        """The server-side assignor that most members prefer; `default` if no member names one."""
        votes = Counter(member.server_assignor for member in members if member.server_assignor)
        return votes.most_common(1)[0][0] if votes else default

    # -- the classic protocol --------------------------------------------------------------------------------------
    @property
    def classic_members(self) -> list[ConsumerMember]:
        """The members that use the classic protocol."""
        return [member for member in self.members.values() if member.uses_classic_protocol]

    def supports_classic(self, protocol_type: str, names: Collection[str]) -> bool:
        """Return whether a classic member with these protocol names can join: the type is `consumer`, and all classic
        members support one of the names. Without classic members any name will do."""
        if protocol_type != CONSUMER:
            return False
        if self.is_empty:
            return bool(names)
        classic = self.classic_members
        counts = Counter(name for member in classic for name, _ in (member.classic.protocols if member.classic else ()))
        return any(counts[name] == len(classic) for name in names)

    def uses_classic_except(self, leaving: Collection[str]) -> bool:
        """Return whether all members except those leaving use the classic protocol. True if no member stays."""
        return all(
            member.uses_classic_protocol for member_id, member in self.members.items() if member_id not in leaving
        )

    # -- checks, creation and deletion -----------------------------------------------------------------------------
    def ensure_may_delete_offsets(self) -> None:
        """Do nothing: as in classic groups of type consumer, offsets may be deleted while there are members.
        OffsetDelete refuses subscribed topics one by one."""

    def ensure_may_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_transactional: bool = False, version: int = 9
    ) -> CommitCheck | None:
        """Check an offset commit (validateOffsetCommit): by a member in its epoch, or without an epoch while the group
        is empty. In a transaction, a client without an epoch, member id and instance id may always commit.

        A member in an older epoch may commit partitions that it has owned since then (KIP-1251): returns the check to
        call for each partition, else None. Raises StaleMemberEpoch, IllegalGeneration, UnknownMemberId or
        UnsupportedVersion.
        """
        if epoch < 0 and not self.members:
            return None
        if is_transactional and epoch == NO_EPOCH and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        is_classic = member.uses_classic_protocol
        if not is_transactional and not is_classic and version < FIRST_COMMIT_VERSION:
            raise errors.UnsupportedVersion(
                "OffsetCommit version 9 or above must be used by members using the consumer group protocol"
            )
        if epoch == member.member_epoch:
            return None
        if epoch > member.member_epoch:
            if is_classic:
                raise errors.IllegalGeneration(
                    f"Received generation id {epoch} is newer than current member epoch {member.member_epoch}."
                )
            raise errors.StaleMemberEpoch(
                f"Received member epoch {epoch} is newer than current member epoch {member.member_epoch}."
            )
        return lambda _topic, topic_id, partition: _ensure_had(member, epoch, topic_id, partition)

    def ensure_may_fetch(self, member_id: str | None, epoch: int) -> None:
        """Check an offset fetch: by a member in its epoch, or by a client without a member id (validateOffsetFetch).
        Raises StaleMemberEpoch, IllegalGeneration or UnknownMemberId."""
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch == member.member_epoch:
            return
        if member.uses_classic_protocol:
            raise errors.IllegalGeneration(
                f"The received generation id {epoch} does not match the expected member epoch {member.member_epoch}."
            )
        raise errors.StaleMemberEpoch(
            f"The received member epoch {epoch} does not match the expected member epoch {member.member_epoch}."
        )

    def expiration_base_ms(self, topic: str, commit_ms: int) -> int | None:
        """The commit time in ms since 1970. None while a member is subscribed to the topic: no expiry."""
        return None if self.is_subscribed_to(topic) else commit_ms

    def removal(self, instead: tuple[str, str] | None = None) -> list[Change]:
        """The changes that delete the group. `instead` is a member id that was replaced and the id that replaced it."""
        renamed = dict([instead]) if instead is not None else {}
        member_ids = [renamed.get(member_id, member_id) for member_id in self.members]
        parts: list[list[Change]] = [removal_of(member_id) for member_id in member_ids]
        return [
            *(part[0] for part in parts),
            *(part[1] for part in parts),
            TargetEpochChange(None),
            *(part[2] for part in parts),
            *(RegexChange(regex, None) for regex in self.regexes),
            *([SubscriptionMetadataChange()] if self.has_subscription_metadata else []),
            GroupEpochChange(None),
        ]

    def creation(self) -> list[Change]:
        """The changes that create this group with its members and assignments."""
        members = list(self.members.values())
        return [
            *(MemberChange(member.member_id, member) for member in members),
            GroupEpochChange(self.group_epoch, self.metadata_hash),
            *(TargetMemberChange(member.member_id, self.target.get(member.member_id, NOTHING)) for member in members),
            TargetEpochChange(self.assignment_epoch, self.assignment_timestamp_ms),
            *(CurrentAssignmentChange(member.member_id, member) for member in members),
        ]

    def tombstones(self) -> list[Record]:
        """The records that delete the group from `__consumer_offsets`."""
        return [change.record(self.group_id) for change in self.removal()]


def _without_assignment(member: ConsumerMember) -> ConsumerMember:
    """The member after its assignment was deleted, before it is deleted itself."""
    return replace(
        member,
        member_epoch=LEAVE_GROUP_EPOCH,
        previous_member_epoch=LEAVE_GROUP_EPOCH,
        assigned={},
        pending_revocation={},
    )


def _ensure_had(member: ConsumerMember, epoch: int, topic_id: uuid.UUID | None, partition: int) -> None:
    """Raise StaleMemberEpoch (classic member: IllegalGeneration) if it did not own the partition in that epoch."""
    refusal = errors.IllegalGeneration if member.uses_classic_protocol else errors.StaleMemberEpoch
    since = member.assignment_epoch(topic_id, partition) if topic_id is not None else None
    if since is None:
        raise refusal(f"Partition {topic_id}-{partition} is not assigned or pending revocation for member.")
    if epoch < since:
        raise refusal(f"Received epoch {epoch} is older than assignment epoch {since} of {topic_id}-{partition}.")
