"""A streams group (Kafka's StreamsGroup, KIP-1071): topology, members, epochs, target tasks and owners of tasks.

Only `apply` changes what records hold. The group epoch rises when members, topology, topics or settings change; the
assignment epoch follows when target tasks are computed, and each member's epoch when it has revoked what it must. This
module knows no timers, disks or sockets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, unique

from kafkatools.core import errors
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import CommitCheck
from kafkatools.core.broker.coordinators.groups.modern.modern_group import put_or_drop
from kafkatools.core.broker.coordinators.groups.offset_records import Record
from kafkatools.core.broker.coordinators.groups.streams.changes import (
    Change,
    CurrentAssignmentChange,
    GroupEpochChange,
    MemberChange,
    TargetEpochChange,
    TargetMemberChange,
    TopologyChange,
    removal_of,
)
from kafkatools.core.broker.coordinators.groups.streams.configured import ConfiguredTopology
from kafkatools.core.broker.coordinators.groups.streams.member import StreamsMember
from kafkatools.core.broker.coordinators.groups.streams.tasks import NO_TASKS, OwnedTasks, Task, Tasks, tasks_in
from kafkatools.core.broker.coordinators.groups.streams.topology import Topology

STREAMS = "streams"
FIRST_EPOCH = 1
NO_EPOCH = -1
FIRST_COMMIT_VERSION = 9


@unique
class StreamsGroupState(Enum):
    """The state of a streams group; the value is the name that clients see."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class TaskOwners:
    """The processes that have each task, assigned or pending revocation."""

    def __init__(self) -> None:
        self._active: dict[Task, str] = {}
        self._standby: dict[Task, set[str]] = {}
        self._warmup: dict[Task, set[str]] = {}

    def active(self, task: Task) -> str | None:
        """The process id of the owner of an active task; None without one."""
        return self._active.get(task)

    def has_inactive(self, task: Task, process_id: str) -> bool:
        """Return whether the process has the task as standby or warm-up."""
        return process_id in self._standby.get(task, ()) or process_id in self._warmup.get(task, ())

    def add(self, tasks: OwnedTasks, process_id: str) -> None:
        """Note the tasks of a process."""
        self._active.update(dict.fromkeys(tasks_in(tasks.active), process_id))
        for owners, kind in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
            for task in tasks_in(kind):
                owners.setdefault(task, set()).add(process_id)

    def remove(self, tasks: OwnedTasks, process_id: str) -> None:
        """Remove the tasks of a process. An active task of another process stays: compacted records may show a false
        order."""
        for task in tasks_in(tasks.active):
            if self._active.get(task) == process_id:
                del self._active[task]
        for owners, kind in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
            for task in tasks_in(kind):
                owners.get(task, set()).discard(process_id)
                if not owners.get(task):
                    owners.pop(task, None)


class StreamsGroup:
    """A streams group. `configured`, `shutdown_member_id` and `endpoint_epoch` are not in the log."""

    group_type = STREAMS

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.metadata_hash = 0
        self.validated_topology_epoch = 0
        self.assignment_configs: Mapping[str, str] = {}
        self.topology: Topology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.target: dict[str, Tasks] = {}
        self.owners = TaskOwners()
        self.configured: ConfiguredTopology | None = None
        self.is_refresh_due = True
        self.shutdown_member_id: str | None = None
        self.endpoint_epoch = 0

    # -- changes ---------------------------------------------------------------------------------------------------
    def apply(self, change: Change) -> None:
        """Apply a change to the group."""
        if isinstance(change, GroupEpochChange):
            self.group_epoch = FIRST_EPOCH if change.epoch is None else change.epoch
            self.metadata_hash = change.metadata_hash
            self.validated_topology_epoch = change.validated_topology_epoch
            self.assignment_configs = change.assignment_configs
        elif isinstance(change, TopologyChange):
            self.topology = change.topology
        elif isinstance(change, TargetEpochChange):
            self.assignment_epoch = NO_EPOCH if change.epoch is None else change.epoch
            self.assignment_timestamp_ms = change.timestamp_ms
        elif isinstance(change, TargetMemberChange):
            put_or_drop(self.target, change.member_id, change.tasks)
        else:
            self._apply_to_member(change)
        if not self.members:
            self.shutdown_member_id = None

    def _apply_to_member(self, change: MemberChange | CurrentAssignmentChange) -> None:
        current = self.members.get(change.member_id)
        if change.member is not None:
            member = current or StreamsMember(change.member_id)
            if isinstance(change, MemberChange):
                self._put(change.member.with_tasks_of(member))
            else:
                self._put(member.with_tasks_of(change.member))
        elif current is not None and isinstance(change, MemberChange):
            self._disown(self.members.pop(change.member_id))
        elif current is not None:
            self._put(current.without_tasks())

    def _put(self, member: StreamsMember) -> None:
        current = self.members.get(member.member_id)
        if current is not None:
            self._disown(current)
        self.members[member.member_id] = member
        for tasks in (member.assigned, member.pending_revocation):
            self.owners.add(tasks, member.process_id)

    def _disown(self, member: StreamsMember) -> None:
        for tasks in (member.assigned, member.pending_revocation):
            self.owners.remove(tasks, member.process_id)

    # -- state -----------------------------------------------------------------------------------------------------
    @property
    def state(self) -> StreamsGroupState:
        """The group state that follows from topology, members and epochs."""
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.group_epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return StreamsGroupState.STABLE
        return StreamsGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        """The group state as clients see it."""
        return self.state.value

    @property
    def protocol_name_of_type(self) -> str:
        """The protocol type as ListGroups shows it: the group type."""
        return self.group_type

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members."""
        return not self.members

    def member(self, member_id: str) -> StreamsMember:
        """The member of this id. Raises UnknownMemberId."""
        member = self.members.get(member_id)
        if member is None:
            raise errors.UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def target_of(self, member_id: str) -> Tasks:
        """The target tasks of a member."""
        return self.target.get(member_id, NO_TASKS)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether the group has members and reads the topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.subtopology_by_input

    def needs_any_of(self, topics: Collection[str]) -> bool:
        """Return whether the topology needs one of these topics."""
        return self.topology is not None and not self.topology.required_topics.isdisjoint(topics)

    # -- as groups of all types ------------------------------------------------------------------------------------
    def ensure_may_delete(self) -> None:
        """Raise NonEmptyGroup if the group has members."""
        if self.members:
            raise errors.NonEmptyGroup()

    def ensure_may_delete_offsets(self) -> None:
        """Do nothing: OffsetDelete refuses subscribed topics one by one."""

    def expiration_base_ms(self, topic: str, commit_ms: int) -> int | None:
        """The commit time in ms since 1970. None while the group has members and reads the topic: no expiry."""
        return None if self.is_subscribed_to(topic) else commit_ms

    def ensure_may_commit(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_transactional: bool = False, version: int = 9
    ) -> CommitCheck | None:
        """Check an offset commit (validateOffsetCommit): by a member in its epoch, or without an epoch while the group
        is empty. In a transaction, a client without an epoch, member id and instance id may always commit.

        A member in an older epoch may commit partitions of tasks that it has had since then: returns the check to call
        for each partition, else None. Raises StaleMemberEpoch, UnknownMemberId or UnsupportedVersion.
        """
        if epoch < 0 and not self.members:
            return None
        if is_transactional and epoch == NO_EPOCH and not member_id and instance_id is None:
            return None
        member = self.member(member_id)
        if not is_transactional and version < FIRST_COMMIT_VERSION:
            raise errors.UnsupportedVersion(
                "OffsetCommit version 9 or above must be used by members using the streams group protocol"
            )
        if epoch == member.member_epoch:
            return None
        if epoch > member.member_epoch:
            raise errors.StaleMemberEpoch(
                f"Received member epoch {epoch} is newer than current member epoch {member.member_epoch}."
            )
        topology = self.topology
        if topology is None:
            raise errors.StaleMemberEpoch("Topology is not available for offset commit validation.")
        return lambda topic, _topic_id, partition: self._ensure_had(topology, member, epoch, (topic, partition))

    @staticmethod
    def _ensure_had(topology: Topology, member: StreamsMember, epoch: int, place: tuple[str, int]) -> None:
        """Raise StaleMemberEpoch if the member did not have the task of a partition in that epoch."""
        topic, partition = place
        subtopology = topology.subtopology_by_input.get(topic)
        if subtopology is None:
            raise errors.StaleMemberEpoch(f"Topic {topic} is not in the topology.")
        since = member.assignment_epoch(subtopology, partition)
        if since is None:
            raise errors.StaleMemberEpoch(
                f"Task {subtopology}-{partition} is not assigned or pending revocation for member."
            )
        if epoch < since:
            raise errors.StaleMemberEpoch(
                f"Received member epoch {epoch} is older than assignment epoch {since} for task "
                f"{subtopology}-{partition}."
            )

    def ensure_may_fetch(self, member_id: str | None, epoch: int) -> None:
        """Check an offset fetch: by a member in its epoch, or by a client without a member id (validateOffsetFetch).
        Raises StaleMemberEpoch or UnknownMemberId."""
        if member_id is None and epoch < 0:
            return
        member = self.member(member_id or "")
        if epoch != member.member_epoch:
            raise errors.StaleMemberEpoch(
                f"The received member epoch {epoch} does not match the expected member epoch {member.member_epoch}."
            )

    def tombstones(self) -> list[Record]:
        """The records that delete the group from `__consumer_offsets`."""
        parts = [removal_of(member_id) for member_id in self.members]
        changes: list[Change] = [
            *(part[0] for part in parts),
            *(part[1] for part in parts),
            TargetEpochChange(None),
            *(part[2] for part in parts),
            GroupEpochChange(None),
            TopologyChange(None),
        ]
        return [change.record(self.group_id) for change in changes]
