"""All streams groups of this broker (KIP-1071): heartbeats, leaving, timers, and topics that change.

Source: GroupMetadataManager.streamsGroupHeartbeat, streamsGroupLeave and computeDelayedTargetAssignment of Apache Kafka
4.3. All changes of a request are written as one batch before they take effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkatools.core import errors
from kafkatools.core.broker.coordinators.groups import offset_records
from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup, GroupParts
from kafkatools.core.broker.coordinators.groups.classic.group import Group
from kafkatools.core.broker.coordinators.groups.modern.consumer_member import LEAVE_GROUP_EPOCH
from kafkatools.core.broker.coordinators.groups.requests import Fields
from kafkatools.core.broker.coordinators.groups.streams.assignor import MemberTasks, SubtopologyTasks, assign
from kafkatools.core.broker.coordinators.groups.streams.changes import (
    CurrentAssignmentChange,
    GroupEpochChange,
    MemberChange,
    TargetEpochChange,
    TargetMemberChange,
    TopologyChange,
    removal_of,
)
from kafkatools.core.broker.coordinators.groups.streams.configured import Status, configure
from kafkatools.core.broker.coordinators.groups.streams.endpoints import endpoint_partitions
from kafkatools.core.broker.coordinators.groups.streams.group import StreamsGroup
from kafkatools.core.broker.coordinators.groups.streams.heartbeats import (
    Draft,
    StreamsHeartbeat,
    check,
    ensure_epoch,
    ensure_tasks,
    topology_of,
    updated_member,
)
from kafkatools.core.broker.coordinators.groups.streams.internal_topics import CreationFailures
from kafkatools.core.broker.coordinators.groups.streams.member import MemberState, StreamsMember
from kafkatools.core.broker.coordinators.groups.streams.reconciliation import Reconciliation
from kafkatools.core.broker.coordinators.groups.streams.settings import StreamsGroupSettings
from kafkatools.core.broker.coordinators.groups.streams.tasks import NO_TASKS, Tasks, task_ids_as_listed
from kafkatools.core.broker.coordinators.groups.streams.topology import InternalTopic, Topology
from kafkatools.core.java.hash_order import hash_order

SESSION, REVOCATION, FIRST_ASSIGNMENT = "session", "rebalance", "first-assignment"


class HeartbeatResult(NamedTuple):
    """The response fields of a heartbeat, and the internal topics that do not exist yet."""

    fields: Fields
    missing_topics: tuple[InternalTopic, ...] = ()


class Target(NamedTuple):
    """A member's target tasks and their epoch."""

    epoch: int
    tasks: Tasks


@dataclass(eq=False, repr=False)
class StreamsGroups(GroupParts[StreamsGroupSettings]):
    """All streams groups that this broker coordinates, in one registry with the groups of other types."""

    failures: CreationFailures = field(default_factory=CreationFailures)

    def find(self, group_id: str) -> StreamsGroup:
        """The streams group of this id. Raises GroupIdNotFound."""
        return self.checked(group_id, self.groups.get(group_id))

    @staticmethod
    def checked(group_id: str, group: AnyGroup | None) -> StreamsGroup:
        """Return the group with this id if it is a streams group. Raises GroupIdNotFound."""
        if group is None:
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, StreamsGroup):
            raise errors.GroupIdNotFound(f"Group {group_id} is not a streams group.")
        return group

    # -- heartbeats ------------------------------------------------------------------------------------------------
    def heartbeat(self, request: StreamsHeartbeat) -> HeartbeatResult:
        """StreamsGroupHeartbeat: join, stay or leave. Returns the response fields, with tasks if the member joins or
        has new ones. Raises a KafkaError."""
        check(request)
        if request.member_epoch == LEAVE_GROUP_EPOCH:
            return self._leave(request)
        return self._beat(request)

    def _beat(self, request: StreamsHeartbeat) -> HeartbeatResult:
        draft, replaced = self._open(request)
        group = draft.group
        if request.is_joining:
            current = group.members.get(request.member_id) or StreamsMember(request.member_id)
        else:
            current = group.member(request.member_id)
        ensure_epoch(current, request)
        updated = updated_member(current, request)
        is_changed = updated != current or request.member_id not in group.members
        if is_changed:
            draft.changes.append(MemberChange(updated.member_id, updated))
        topology = self._topology(draft, updated, request)
        self._raise_epoch(draft, topology, request, bump=is_changed)
        if group.is_empty:
            self._delay_first_assignment(group.group_id)
        target = self._target(draft, updated)
        member = self._reconciled(draft, updated, target, request.owned)
        self._write(draft, replaced)
        self._watch_revocation(group.group_id, updated, member)
        self._watch_session(group.group_id, member.member_id)
        return self._result(draft, request, current, member)

    def _open(self, request: StreamsHeartbeat) -> tuple[Draft, Group | None]:
        """A draft of the group, and the empty classic group that a new one replaces."""
        group = self.groups.get(request.group_id)
        if not request.is_joining:
            if group is None:
                raise errors.GroupIdNotFound(f"Streams group {request.group_id} not found.")
            return Draft(self.find(request.group_id)), None
        replaced = group if isinstance(group, Group) and group.is_empty else None
        if group is None or replaced is not None:
            draft = Draft(StreamsGroup(request.group_id), is_new=True)
        else:
            draft = Draft(self.find(request.group_id))
        size = self.settings.max_size
        if len(draft.group.members) >= size:
            raise errors.GroupMaxSizeReached(f"The streams group has reached its maximum capacity of {size} members.")
        return draft, replaced

    def _topology(self, draft: Draft, updated: StreamsMember, request: StreamsHeartbeat) -> Topology:
        present = draft.group.topology
        topology = topology_of(draft.group, request.topology)
        if present is None:
            draft.changes.append(TopologyChange(topology))
        elif updated.topology_epoch < present.epoch:
            draft.note(
                Status.STALE_TOPOLOGY,
                f"The member's topology epoch {updated.topology_epoch} is behind the group's topology epoch "
                f"{present.epoch}.",
            )
        return topology

    def _raise_epoch(self, draft: Draft, topology: Topology, request: StreamsHeartbeat, *, bump: bool) -> None:
        """Configure the topology if it or a topic changed, and raise the group epoch if something did."""
        group = draft.group
        draft.configured, draft.metadata_hash = group.configured, group.metadata_hash
        if group.topology is None or group.configured is None or group.is_refresh_due:
            draft.metadata_hash = self.topics.group_hash(topology.required_topics)
            if draft.metadata_hash != group.metadata_hash:
                bump = True
            if draft.metadata_hash != group.metadata_hash or group.topology is None or group.configured is None:
                draft.configured = configure(topology, self._partition_count)
        assert draft.configured is not None
        validated_epoch = -1
        if draft.configured.is_ready:
            validated_epoch = topology.epoch
            ensure_tasks(draft.configured, request)
        configs = self.settings.assignment_configs(group.group_id)
        draft.group_epoch = group.group_epoch
        if bump or validated_epoch != group.validated_topology_epoch or configs != group.assignment_configs:
            draft.group_epoch += 1
            draft.changes.append(GroupEpochChange(draft.group_epoch, draft.metadata_hash, validated_epoch, configs))

    def _partition_count(self, name: str) -> int | None:
        topic = self.topics.by_name(name)
        return None if topic is None else len(topic.partitions)

    # -- assignment ------------------------------------------------------------------------------------------------
    def _delay_first_assignment(self, group_id: str) -> None:
        key = (FIRST_ASSIGNMENT, group_id)
        delay_ms = self.settings.initial_rebalance_delay_ms(group_id)
        if delay_ms > 0 and not self.timer.is_scheduled(key):
            self.timer.schedule(key, delay_ms, lambda: self._assign_first(group_id))

    def _assign_first(self, group_id: str) -> None:
        """Assign tasks to the members that joined during the initial delay."""
        group = self.groups.get(group_id)
        if not isinstance(group, StreamsGroup) or group.is_empty or group.configured is None:
            return
        if group.group_epoch > group.assignment_epoch:
            draft = Draft(group, configured=group.configured, group_epoch=group.group_epoch)
            draft.metadata_hash = group.metadata_hash
            self._assign(draft, list(group.members.values()))
            self._write(draft, None)

    def _target(self, draft: Draft, updated: StreamsMember) -> Target:
        """The member's target tasks, computed anew if the group epoch is above that of the target, and neither the
        initial delay nor the interval between two assignments forbids it."""
        group = draft.group
        if self.timer.is_scheduled((FIRST_ASSIGNMENT, group.group_id)):
            detail = "Assignment delayed due to the configured initial rebalance delay."
            draft.note(Status.ASSIGNMENT_DELAYED, detail)
            return Target(group.assignment_epoch, NO_TASKS)
        last = Target(group.assignment_epoch, group.target_of(updated.member_id))
        if group.assignment_epoch >= draft.group_epoch:
            return last
        if not self.may_assign(group):
            draft.note(Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.")
            return last
        others = [member for member in group.members.values() if member.member_id != updated.member_id]
        return Target(draft.group_epoch, self._assign(draft, [*others, updated])[updated.member_id])

    def _assign(self, draft: Draft, members: Iterable[StreamsMember]) -> dict[str, Tasks]:
        """Compute the target tasks of all members and add their changes. Without a ready topology nobody has any."""
        group, configured = draft.group, draft.configured
        rows = {
            member.member_id: MemberTasks(member.process_id, group.target_of(member.member_id)) for member in members
        }
        if configured is None or not configured.is_ready:
            targets = dict.fromkeys(rows, NO_TASKS)
        else:
            parts = {
                key: SubtopologyTasks(part.task_count, part.is_stateful)
                for key, part in configured.subtopologies.items()
            }
            targets = assign(rows, parts, self.settings.standby_count(group.group_id))
        for member_id in hash_order(rows):
            if group.target.get(member_id) != targets[member_id]:
                draft.changes.append(TargetMemberChange(member_id, targets[member_id]))
        draft.changes.append(TargetEpochChange(draft.group_epoch, self.clock.wall_ms()))
        return targets

    @staticmethod
    def _reconciled(draft: Draft, updated: StreamsMember, target: Target, owned: Tasks | None) -> StreamsMember:
        if updated.is_reconciled_to(target.epoch):
            return updated
        member = Reconciliation(target.epoch, target.tasks, draft.group.owners, owned).step(updated)
        if member != updated:
            draft.changes.append(CurrentAssignmentChange(member.member_id, member))
        return member

    def _write(self, draft: Draft, replaced: Group | None) -> None:
        """Append all changes as one batch, then apply them and add the group to the registry. Raises a KafkaError."""
        group = draft.group
        if draft.changes:
            records = [change.record(group.group_id) for change in draft.changes]
            if replaced is not None:
                records.insert(0, offset_records.group_tombstone(group.group_id))
            self.store.append_change(group.group_id, records)
            for change in draft.changes:
                group.apply(change)
            self.groups[group.group_id] = group
        group.configured, group.is_refresh_due = draft.configured, False

    # -- responses -------------------------------------------------------------------------------------------------
    def _result(
        self, draft: Draft, request: StreamsHeartbeat, before: StreamsMember, member: StreamsMember
    ) -> HeartbeatResult:
        group, configured = draft.group, draft.configured
        assert configured is not None
        if request.is_shutdown and group.shutdown_member_id is None:
            group.shutdown_member_id = member.member_id
        interval_ms = self.settings.heartbeat_interval_ms(group.group_id)
        fields = heartbeat_fields(member.member_id, member.member_epoch, interval_ms)
        if request.is_joining or member.assigned != before.assigned:
            fields["active_tasks"] = task_ids_as_listed(member.assigned.active)
            fields["standby_tasks"] = task_ids_as_listed(member.assigned.standby)
            fields["warmup_tasks"] = task_ids_as_listed(member.assigned.warmup)
            if member.endpoint is not None:
                group.endpoint_epoch += 1
        if group.endpoint_epoch != request.endpoint_epoch:
            others = [other for other in group.members.values() if other.member_id != member.member_id]
            endpoints = endpoint_partitions([*others, member], configured, self._partition_count)
            fields["partitions_by_user_endpoint"] = endpoints
        if configured.problem is not None:
            draft.note(configured.problem.status, configured.problem.detail)
        if group.shutdown_member_id is not None:
            draft.note(
                Status.SHUTDOWN_APPLICATION,
                f"Streams group member {group.shutdown_member_id} encountered a fatal error and requested a shutdown "
                "for the entire application.",
            )
        if draft.is_new:  # as in Apache Kafka, where a new group counts from its second heartbeat on
            group.endpoint_epoch, group.shutdown_member_id = 0, None
        fields["endpoint_information_epoch"] = group.endpoint_epoch
        fields["status"] = draft.statuses
        return HeartbeatResult(fields, configured.missing)

    # -- leaving ---------------------------------------------------------------------------------------------------
    def _leave(self, request: StreamsHeartbeat) -> HeartbeatResult:
        group = self.find(request.group_id)
        if request.is_shutdown and group.shutdown_member_id is None:
            group.shutdown_member_id = request.member_id
        self._fence(group, group.member(request.member_id))
        return HeartbeatResult({**heartbeat_fields(request.member_id, request.member_epoch, 0), "status": []})

    def _fence(self, group: StreamsGroup, member: StreamsMember) -> None:
        epoch = GroupEpochChange(
            group.group_epoch + 1, group.metadata_hash, group.validated_topology_epoch, group.assignment_configs
        )
        changes = (*removal_of(member.member_id), epoch)
        self.store.append_change(group.group_id, [change.record(group.group_id) for change in changes])
        for change in changes:
            group.apply(change)
        self._cancel_timers(group.group_id, member.member_id)

    # -- timers ----------------------------------------------------------------------------------------------------
    def _watch_session(self, group_id: str, member_id: str) -> None:
        """Start or restart a member's session timer. The member is removed when it expires."""
        wait_ms = self.settings.session_timeout_ms(group_id)
        self.timer.schedule((SESSION, group_id, member_id), wait_ms, lambda: self._expire(group_id, member_id))

    def _expire(self, group_id: str, member_id: str) -> None:
        group = self.groups.get(group_id)
        if isinstance(group, StreamsGroup) and member_id in group.members:
            self._fence(group, group.members[member_id])

    def _watch_revocation(self, group_id: str, before: StreamsMember, member: StreamsMember) -> None:
        """Start the rebalance timeout of a member that has to revoke tasks; cancel it once it has."""
        key = (REVOCATION, group_id, member.member_id)
        if member == before:
            return
        if member.state is not MemberState.UNREVOKED_TASKS:
            self.timer.cancel(key)
            return
        self.timer.schedule(key, member.rebalance_timeout_ms, lambda: self._expire(group_id, member.member_id))

    def _cancel_timers(self, group_id: str, member_id: str) -> None:
        for kind in (SESSION, REVOCATION):
            self.timer.cancel((kind, group_id, member_id))

    # -- topics ----------------------------------------------------------------------------------------------------
    def note_topics(self, names: Collection[str]) -> None:
        """Have groups that need created, changed or deleted topics check them at the next heartbeat."""
        for group in self.groups.values():
            if isinstance(group, StreamsGroup) and group.needs_any_of(names):
                group.is_refresh_due = True

    # -- loading and unloading -------------------------------------------------------------------------------------
    def resume(self, group: StreamsGroup) -> None:
        """Start the timers of a loaded group's members."""
        for member in group.members.values():
            self._watch_session(group.group_id, member.member_id)
            if member.state is MemberState.UNREVOKED_TASKS:
                self._watch_revocation(group.group_id, StreamsMember(member.member_id), member)

    def release(self, group: StreamsGroup) -> None:
        """Remove a group and its timers from memory. Another broker may coordinate it."""
        for member_id in group.members:
            self._cancel_timers(group.group_id, member_id)
        self.timer.cancel((FIRST_ASSIGNMENT, group.group_id))
        self.groups.pop(group.group_id, None)

    forget = release


def heartbeat_fields(member_id: str, member_epoch: int, interval_ms: int) -> Fields:
    """The fields of a successful heartbeat response without tasks."""
    return {
        "error_code": 0,
        "error_message": None,
        "member_id": member_id,
        "member_epoch": member_epoch,
        "heartbeat_interval": interval_ms,
    }
