"""A member of a consumer group (Kafka's ConsumerGroupMember), as an immutable value.

Each assigned partition has the epoch in which the member got it (KIP-1251): a commit from an older epoch is refused.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, unique

LEAVE_GROUP_EPOCH = -1
LEAVE_GROUP_STATIC_EPOCH = -2

Assignment = Mapping[uuid.UUID, frozenset[int]]
AssignmentWithEpochs = Mapping[uuid.UUID, Mapping[int, int]]


@unique
class MemberState(IntEnum):
    """A member's progress towards the target assignment; the value is the one in the log."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of_value(cls, value: int) -> MemberState:
        """The state of a number in a record; UNKNOWN for an unknown number."""
        return cls(value) if value in cls._value2member_map_ else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """Session timeout and protocols of a member that joined with the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """A member of a consumer group."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    server_assignor: str | None = None
    assigned: AssignmentWithEpochs = field(default_factory=dict)
    pending_revocation: AssignmentWithEpochs = field(default_factory=dict)
    classic: ClassicMetadata | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        """Return whether the member joined with the classic protocol."""
        return self.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has its whole target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def assignment_epoch(self, topic_id: uuid.UUID, partition: int) -> int | None:
        """The epoch in which the member got a partition, also one being revoked; None if it does not own it."""
        for partitions in (self.assigned.get(topic_id), self.pending_revocation.get(topic_id)):
            if partitions is not None and partition in partitions:
                return partitions[partition]
        return None

    def at_epoch(
        self,
        epoch: int,
        state: MemberState,
        assigned: AssignmentWithEpochs,
        pending_revocation: AssignmentWithEpochs,
    ) -> ConsumerMember:
        """The member after a reconciliation step. Its present epoch becomes the previous one."""
        return replace(
            self,
            member_epoch=epoch,
            previous_member_epoch=self.member_epoch,
            state=state,
            assigned=assigned,
            pending_revocation=pending_revocation,
        )


def with_epoch(assignment: Assignment, epoch: int) -> AssignmentWithEpochs:
    """The assignment with one epoch for all partitions."""
    return {topic_id: dict.fromkeys(sorted(partitions), epoch) for topic_id, partitions in assignment.items()}
