"""The common part of consumer and share groups (Kafka's ModernGroup): members, epochs and target assignment."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import Assignment
from kafkatools.core.broker.coordinators.groups.modern.modern_changes import (
    Member,
    ModernGroupEpochChange,
    ModernTargetEpochChange,
    ModernTargetMemberChange,
)
from kafkatools.core.errors import NonEmptyGroup, UnknownMemberId

NOTHING: Assignment = {}
Held = TypeVar("Held")


class ModernGroup(Generic[Member]):
    """A group whose coordinator assigns partitions. `first_epoch` is the epoch of a group without records,
    `no_assignment_epoch` the assignment epoch of a deleted one."""

    group_type: ClassVar[str]
    first_epoch: ClassVar[int]
    no_assignment_epoch: ClassVar[int]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = self.assignment_epoch = self.first_epoch
        self.metadata_hash = 0
        self.assignment_timestamp_ms = 0
        self.members: dict[str, Member] = {}
        self.target: dict[str, Assignment] = {}

    def _apply_common(self, change: object) -> None:
        """Apply a change of the epochs or the target assignment; ignore any other change."""
        if isinstance(change, ModernGroupEpochChange):
            self.group_epoch, self.metadata_hash = change.epoch or self.first_epoch, change.metadata_hash
        elif isinstance(change, ModernTargetEpochChange):
            self.assignment_epoch = self.no_assignment_epoch if change.epoch is None else change.epoch
            self.assignment_timestamp_ms = change.timestamp_ms
        elif isinstance(change, ModernTargetMemberChange):
            put_or_drop(self.target, change.member_id, change.assignment)

    @property
    def protocol_name_of_type(self) -> str:
        """The protocol type as ListGroups shows it: the group type."""
        return self.group_type

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return not self.members

    def member(self, member_id: str) -> Member:
        """The member of this id. Raises UnknownMemberId."""
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def ensure_may_delete(self) -> None:
        """Raise NonEmptyGroup if the group has members."""
        if self.members:
            raise NonEmptyGroup()


def put_or_drop(entries: dict[str, Held], key: str, value: Held | None) -> None:
    """Set the value of a key, or remove the key if the value is None."""
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value
