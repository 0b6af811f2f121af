"""A member of a streams group (Kafka's StreamsGroupMember), as an immutable value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, unique

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import LEAVE_GROUP_EPOCH
from kafkatools.core.broker.coordinators.groups.streams.tasks import OWNS_NOTHING, OwnedTasks


@unique
class MemberState(IntEnum):
    """A member's progress towards its target tasks; the value is the one in the log."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127

    @classmethod
    def of_value(cls, value: int) -> MemberState:
        """The state of a number in a record; UNKNOWN for an unknown number."""
        return cls(value) if value in cls._value2member_map_ else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address at which an application instance answers queries of its state stores."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """A member of a streams group: one thread of an application instance. Members of a process share `process_id`."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: Mapping[str, str] = field(default_factory=dict)
    assigned: OwnedTasks = OWNS_NOTHING
    pending_revocation: OwnedTasks = OWNS_NOTHING

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has all target tasks of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def assignment_epoch(self, subtopology: str, partition: int) -> int | None:
        """The epoch in which the member got an active task, also one being revoked; None if it does not own it."""
        epoch = self.assigned.epoch_of(subtopology, partition)
        return self.pending_revocation.epoch_of(subtopology, partition) if epoch is None else epoch

    def at_epoch(self, epoch: int, state: MemberState, assigned: OwnedTasks, revoked: OwnedTasks) -> StreamsMember:
        """The member after a reconciliation step. Its present epoch becomes the previous one."""
        return replace(
            self,
            member_epoch=epoch,
            previous_member_epoch=self.member_epoch,
            state=state,
            assigned=assigned,
            pending_revocation=revoked,
        )

    def with_tasks_of(self, other: StreamsMember) -> StreamsMember:
        """This member with the epochs, the state and the tasks of `other`."""
        return replace(
            self,
            member_epoch=other.member_epoch,
            previous_member_epoch=other.previous_member_epoch,
            state=other.state,
            assigned=other.assigned,
            pending_revocation=other.pending_revocation,
        )

    def without_tasks(self) -> StreamsMember:
        """The member after its tasks were deleted, before it is deleted itself."""
        return replace(
            self,
            member_epoch=LEAVE_GROUP_EPOCH,
            previous_member_epoch=LEAVE_GROUP_EPOCH,
            assigned=OWNS_NOTHING,
            pending_revocation=OWNS_NOTHING,
        )
