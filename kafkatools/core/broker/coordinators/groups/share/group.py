"""A share group (Kafka's ShareGroup, KIP-932): members, epochs, target assignment and initialized partitions.

Only `apply` changes what records hold. This module knows no timers, disks or sockets.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kafkatools.core.broker.coordinators.groups.modern.modern_group import ModernGroup
from kafkatools.core.broker.coordinators.groups.offset_records import Record
from kafkatools.core.broker.coordinators.groups.share.changes import (
    Change,
    CurrentAssignmentChange,
    GroupEpochChange,
    MemberChange,
    StatePartitions,
    StatePartitionsChange,
    TargetEpochChange,
    removal_of,
)
from kafkatools.core.broker.coordinators.groups.share.member import ShareMember
from kafkatools.core.errors import GroupIdNotFound

SHARE = "share"


class ShareGroup(ModernGroup[ShareMember]):
    """A share group."""

    group_type = SHARE
    first_epoch = no_assignment_epoch = 0

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.states = StatePartitions()
        self.is_refresh_due = True

    # -- changes ---------------------------------------------------------------------------------------------------
    def apply(self, change: Change) -> None:
        """Apply a change to the group."""
        if isinstance(change, StatePartitionsChange):
            self.states = change.partitions or StatePartitions()
        elif isinstance(change, MemberChange | CurrentAssignmentChange):
            self._apply_to_member(change)
        else:
            self._apply_common(change)

    def _apply_to_member(self, change: MemberChange | CurrentAssignmentChange) -> None:
        if change.member is None:
            if isinstance(change, MemberChange):
                self.members.pop(change.member_id, None)
            return
        present = self.members.get(change.member_id) or ShareMember(change.member_id)
        member, holder = (change.member, present) if isinstance(change, MemberChange) else (present, change.member)
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
