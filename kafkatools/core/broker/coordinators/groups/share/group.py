"""A share group (Kafka's ShareGroup, KIP-932): members, epochs, target assignment and initialized partitions.

Only `apply` changes what records hold. This module knows no timers, disks or sockets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import Assignment
from kafkatools.core.broker.coordinators.groups.offset_records import Record
from kafkatools.core.broker.coordinators.groups.share.changes import (
    Change,
    CurrentAssignmentChange,
    GroupEpochChange,
    MemberChange,
    StatePartitions,
    StatePartitionsChange,
    TargetEpochChange,
    TargetMemberChange,
    removal_of,
)
from kafkatools.core.broker.coordinators.groups.share.member import ShareMember
from kafkatools.core.errors import GroupIdNotFound, NonEmptyGroup, UnknownMemberId

SHARE = "share"
NOTHING: Assignment = {}


class ShareGroup:
    """A share group."""

    group_type = SHARE
    protocol_name_of_type = SHARE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, Assignment] = {}
        self.states = StatePartitions()
        self.is_refresh_due = True

    # -- changes ---------------------------------------------------------------------------------------------------
    def apply(self, change: Change) -> None:
        """Apply a change to the group."""
        if isinstance(change, GroupEpochChange):
            self.group_epoch, self.metadata_hash = change.epoch or 0, change.metadata_hash
        elif isinstance(change, TargetEpochChange):
            self.assignment_epoch, self.assignment_timestamp_ms = change.epoch or 0, change.timestamp_ms
        elif isinstance(change, TargetMemberChange):
            if change.assignment is None:
                self.target.pop(change.member_id, None)
            else:
                self.target[change.member_id] = change.assignment
        elif isinstance(change, StatePartitionsChange):
            self.states = change.partitions or StatePartitions()
        else:
            self._apply_to_member(change)

    def _apply_to_member(self, change: MemberChange | CurrentAssignmentChange) -> None:
        if change.member is None:
            if isinstance(change, MemberChange):
                self.members.pop(change.member_id, None)
            return
        before = self.members.get(change.member_id) or ShareMember(change.member_id)
        member, holder = (change.member, before) if isinstance(change, MemberChange) else (before, change.member)
        self.members[change.member_id] = replace(
            member,
            member_epoch=holder.member_epoch,
            previous_member_epoch=holder.previous_member_epoch,
            assigned=holder.assigned,
        )

    # -- state -----------------------------------------------------------------------------------------------------
    @property
    def state_name(self) -> str:
        """The group state as clients see it: Stable with members, else Empty."""
        return "Stable" if self.members else "Empty"

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return not self.members

    def member(self, member_id: str) -> ShareMember:
        """The member of this id. Raises UnknownMemberId."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def members_with(self, updated: ShareMember | None, removed: str | None = None) -> list[ShareMember]:
        """The group's members, with `updated` added or replacing the member of its id, and without the member id
        `removed`."""
        members = {member_id: member for member_id, member in self.members.items() if member_id != removed}
        if updated is not None:
            members[updated.member_id] = updated
        return list(members.values())

    @staticmethod
    def topics_of(members: Iterable[ShareMember]) -> set[str]:
        """The names of all topics that these members are subscribed to."""
        return {name for member in members for name in member.subscribed_topic_names}

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member is subscribed to the topic."""
        return any(topic in member.subscribed_topic_names for member in self.members.values())

    # -- as groups of all types ------------------------------------------------------------------------------------
    def ensure_may_delete(self) -> None:
        """Raise NonEmptyGroup if the group has members."""
        if self.members:
            raise NonEmptyGroup()

    def ensure_may_delete_offsets(self) -> None:
        """Raise GroupIdNotFound: OffsetDelete does not support share groups."""
        raise GroupIdNotFound(f"Group {self.group_id} is not a consumer group.")

    def expiration_base_ms(self, topic: str, commit_ms: int) -> int | None:  # noqa: ARG002 - as other groups
        """None, because share groups have no committed offsets."""
        return None

    def tombstones(self) -> list[Record]:
        """The records that delete the group and its members from `__consumer_offsets`."""
        changes: list[Change] = [
            *(change for member_id in self.members for change in removal_of(member_id)),
            TargetEpochChange(None),
            StatePartitionsChange(None),
            GroupEpochChange(None),
        ]
        return [change.record(self.group_id) for change in changes]
