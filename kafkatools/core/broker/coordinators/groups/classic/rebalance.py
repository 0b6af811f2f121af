"""Rebalances of classic groups (the classic half of Kafka's GroupMetadataManager), from the first join to the
assignments.

Rules:
- A group has up to three kinds of timers: JOIN waits for members that have not rejoined, for the longest rebalance
  timeout. SYNC waits the same for SyncGroup. Each member has a session timer. A timer checks the present state of the
  group, so a late one changes nothing.
- An empty group waits group.initial.rebalance.delay.ms for more members. New members prolong the wait, up to the
  rebalance timeout.
- Assignments are written before members get them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.classic import group_records
from kafkatools.core.broker.coordinators.groups.classic.group import Group
from kafkatools.core.broker.coordinators.groups.classic.member import Member
from kafkatools.core.broker.coordinators.groups.classic.states import GroupState
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.keyed_timer import KeyedTimer
from kafkatools.core.broker.coordinators.groups.offsets_topic import OffsetsTopic
from kafkatools.core.broker.coordinators.groups.requests import (
    JoinRequest,
    ResponseCallback,
    error_code_field,
    join_error,
)
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import KafkaError, NotCoordinator, RebalanceInProgress, UnknownMemberId

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
LIVE_STATES = (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


@dataclass(eq=False, repr=False)
class Rebalancing:
    """Runs the rebalances of classic groups. `groups` is the registry of groups of all types."""

    config: Config
    store: OffsetsTopic
    timer: KeyedTimer
    clock: Clock
    groups: dict[str, AnyGroup] = field(default_factory=dict, init=False)

    # -- members ---------------------------------------------------------------------------------------------------
    def schedule_session(self, group: Group, member_id: str, timeout_ms: int) -> None:
        """Start a member's session timer. It removes the member after `timeout_ms` without a request, unless a response
        to the member is pending (`has_satisfied_heartbeat`). Also for a pending member id."""
        self.timer.schedule(
            ("session", group.group_id, member_id), timeout_ms, lambda: self._expire_session(group, member_id)
        )

    def reschedule_session(self, group: Group, member: Member) -> None:
        """Restart a member's session timer after one of its requests."""
        self.schedule_session(group, member.member_id, member.session_timeout_ms)

    def cancel_session(self, group: Group, member_id: str) -> None:
        """Cancel a member's session timer."""
        self.timer.cancel(("session", group.group_id, member_id))

    def _expire_session(self, group: Group, member_id: str) -> None:
        if group.is_in(GroupState.DEAD) or self.groups.get(group.group_id) is not group:
            return
        if member_id in group.pending_join:
            group.remove(member_id)
            if group.is_in(GroupState.PREPARING_REBALANCE):
                self.maybe_complete_join(group)
            return
        member = group.members.get(member_id)
        if member is not None and not member.has_satisfied_heartbeat:
            self.remove_member(group, member)
            self.go_on_without(group)

    def remove_member(self, group: Group, member: Member) -> None:
        """Remove a member, without a rebalance. Its pending responses get UNKNOWN_MEMBER_ID, so that the client joins
        again."""
        group.complete_join(member, join_error("", UnknownMemberId.code))
        group.complete_sync(member, error_code_field(UnknownMemberId.code))
        self.cancel_session(group, member.member_id)
        group.remove(member.member_id)

    def go_on_without(self, group: Group) -> None:
        """After members left, start a rebalance in a stable or syncing group. In the join phase, end it if it waited
        only for them."""
        if group.is_in(*LIVE_STATES):
            self.rebalance_or_complete(group)
        elif group.is_in(GroupState.PREPARING_REBALANCE):
            self.maybe_complete_join(group)

    def add_member(self, group: Group, request: JoinRequest, member_id: str, respond: ResponseCallback) -> None:
        """Add a member and start a rebalance or join the present one (addMemberThenRebalanceOrCompleteJoin). A new
        member sends no heartbeats yet, so its session lasts five minutes until the join phase ends."""
        timeouts_ms = (request.session_timeout_ms, request.rebalance_timeout_ms)
        member = Member(
            member_id, request.instance_id, request.client, timeouts_ms, request.protocol_type, request.protocols
        )
        member.is_new = True
        if group.is_in(GroupState.PREPARING_REBALANCE) and group.previous_state is GroupState.EMPTY:
            group.has_new_member = True
        group.add(member, respond)
        self.schedule_session(group, member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.rebalance_or_complete(group)

    def update_member(self, group: Group, member: Member, request: JoinRequest, respond: ResponseCallback) -> None:
        """Update a member that joins again, and start a rebalance (updateMemberThenRebalanceOrCompleteJoin)."""
        group.update(member, request, respond)
        self.rebalance_or_complete(group)

    def return_static_member(self, group: Group, request: JoinRequest, respond: ResponseCallback) -> None:
        """Give a static member that joins without its member id a new one
        (updateStaticMemberThenRebalanceOrCompleteJoin). In a stable group whose protocol stays the same it keeps its
        assignment without a rebalance; otherwise a rebalance starts. If that state cannot be written, the old member id
        comes back and `respond` gets the error."""
        assert request.instance_id is not None
        old_id, old_leader = group.static_members[request.instance_id], group.leader_id
        self.cancel_session(group, old_id)
        new_id = f"{request.instance_id}-{uuid.uuid4()}"
        member = group.replace_static_member(request.instance_id, new_id)
        previous_settings = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self.reschedule_session(group, member)
        group.update(member, request, respond)
        if not group.is_in(GroupState.STABLE):
            self.rebalance_or_complete(group)
            return
        if group.select_protocol() != group.protocol_name:
            self.rebalance_or_complete(group)
            return
        try:
            self.store.append(group.group_id, [group_records.group_metadata(group, assignments_of(group))])
        except KafkaError as error:
            member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms = previous_settings
            group.complete_join(member, join_error("", coordinator_error_code(error)))
            group.replace_static_member(request.instance_id, old_id)
            self.cancel_session(group, new_id)
            self.reschedule_session(group, member)
            return
        if request.may_skip_assignment:
            group.complete_join(member, group.joined_fields(member, skip_assignment=group.is_leader(new_id)))
        else:
            fields = {**group.joined_fields(member), "members": [], "leader": old_leader or ""}
            group.complete_join(member, fields)

    # -- the join phase --------------------------------------------------------------------------------------------
    def rebalance_or_complete(self, group: Group) -> None:
        """Start a rebalance if the state allows it, else end the join phase if all members have rejoined."""
        if group.can_rebalance:
            self.prepare_rebalance(group)
        else:
            self.maybe_complete_join(group)

    def prepare_rebalance(self, group: Group) -> None:
        """Start a rebalance: all members must rejoin. Waiting SyncGroup requests get REBALANCE_IN_PROGRESS. Raises
        ValueError if the group's state does not allow a rebalance."""
        if group.is_in(GroupState.COMPLETING_REBALANCE):
            self.reset_assignments(group, RebalanceInProgress.code)
        self.timer.cancel(("sync", group.group_id))
        is_initial = group.is_in(GroupState.EMPTY)
        group.transition_to(GroupState.PREPARING_REBALANCE, self.clock.wall_ms())
        if is_initial:
            delay_ms = self.config.group_initial_rebalance_delay_ms
            self._wait_for_first_members(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        else:
            self._wait_for_members(group)
            self.maybe_complete_join(group)

    def _wait_for_members(self, group: Group) -> None:
        self.timer.schedule(
            ("join", group.group_id), group.rebalance_timeout_ms, lambda: self.complete_join_phase(group)
        )

    def _wait_for_first_members(self, group: Group, delay_ms: int, remaining_ms: int) -> None:
        def wait_on() -> None:
            if group.has_new_member and remaining_ms != 0:
                group.has_new_member = False
                next_ms = min(self.config.group_initial_rebalance_delay_ms, remaining_ms)
                self._wait_for_first_members(group, next_ms, max(remaining_ms - delay_ms, 0))
            else:
                self.complete_join_phase(group)

        self.timer.schedule(("join", group.group_id), delay_ms, wait_on)

    def maybe_complete_join(self, group: Group) -> None:
        """End the join phase if all members have rejoined. Does nothing outside the join phase. The first join phase of
        an empty group ends only by its timer."""
        if not group.is_in(GroupState.PREPARING_REBALANCE) or group.previous_state is GroupState.EMPTY:
            return
        if group.has_all_members_joined:
            self.complete_join_phase(group)

    def complete_join_phase(self, group: Group) -> None:
        """End the join phase: remove dynamic members that have not rejoined, and send JoinGroup responses with the next
        generation to the members that have. If static members are left and none has rejoined, wait for another
        rebalance timeout. A group without members becomes Empty. Does nothing outside the join phase."""
        self.timer.cancel(("join", group.group_id))
        if not group.is_in(GroupState.PREPARING_REBALANCE):
            return
        for member in [m for m in group.members.values() if not m.is_awaiting_join and m.instance_id is None]:
            self.remove_member(group, member)
        if group.members and not group.elect_joined_leader():
            self._wait_for_members(group)
            return
        group.has_new_member = False
        group.init_next_generation(self.clock.wall_ms())
        if group.is_in(GroupState.EMPTY):
            self._write_empty(group)
            return
        self.timer.schedule(
            ("sync", group.group_id),
            group.rebalance_timeout_ms,
            lambda generation=group.generation_id: self._expire_sync(group, generation),  # type: ignore[misc]
        )
        for member in group.members.values():
            group.complete_join(member, group.joined_fields(member))
            self.reschedule_session(group, member)
            member.is_new = False
            group.pending_sync.add(member.member_id)

    def _write_empty(self, group: Group) -> None:
        try:
            self.store.append(group.group_id, [group_records.group_metadata(group, {})])
        except KafkaError as error:
            self.store.note_failure(error)

    # -- the sync phase --------------------------------------------------------------------------------------------
    def _expire_sync(self, group: Group, generation_id: int) -> None:
        if group.generation_id != generation_id or not group.is_in(*LIVE_STATES) or not group.pending_sync:
            return
        for member_id in list(group.pending_sync):
            member = group.members.get(member_id)
            if member is not None:
                self.remove_member(group, member)
            group.pending_sync.discard(member_id)
        self.prepare_rebalance(group)

    def note_sync(self, group: Group, member_id: str) -> None:
        """Record that a member has sent SyncGroup. Cancels the sync timer after the last member's request."""
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self.timer.cancel(("sync", group.group_id))

    def store_assignments(self, group: Group, assigned: Mapping[str, bytes]) -> None:
        """Write the leader's assignments, send them to the members that wait, and make the group stable. Members that
        `assigned` lacks get empty bytes. If the write fails, waiting members get its error and a rebalance starts."""
        assignments = {member_id: assigned.get(member_id, b"") for member_id in group.members}
        try:
            self.store.append(group.group_id, [group_records.group_metadata(group, assignments)])
        except KafkaError as error:
            self.reset_assignments(group, coordinator_error_code(error))
            self.rebalance_or_complete(group)
            return
        for member in group.members.values():
            member.assignment = assignments[member.member_id]
        self._propagate(group, 0)
        group.transition_to(GroupState.STABLE, self.clock.wall_ms())

    def reset_assignments(self, group: Group, error_code: int) -> None:
        """Clear all assignments. Pending SyncGroup responses get the error code, and those members' session timers
        restart."""
        for member in group.members.values():
            member.assignment = b""
        self._propagate(group, error_code)

    def _propagate(self, group: Group, error_code: int) -> None:
        for member in group.members.values():
            if group.complete_sync(member, error_code_field(error_code) if error_code else group.synced_fields(member)):
                self.reschedule_session(group, member)

    # -- the end ---------------------------------------------------------------------------------------------------
    def forget(self, group: Group) -> None:
        """Remove a group and its timers from memory. Pending responses get UNKNOWN_MEMBER_ID: clients join again."""
        for member in list(group.members.values()):
            self.remove_member(group, member)
        self._end(group)

    def release(self, group: Group) -> None:
        """Remove a group and its timers from memory. Pending responses get NOT_COORDINATOR."""
        for member in group.members.values():
            group.complete_join(member, join_error(member.member_id, NotCoordinator.code))
            group.complete_sync(member, error_code_field(NotCoordinator.code))
        self._end(group)

    def _end(self, group: Group) -> None:
        self.cancel_timers(group)
        group.transition_to(GroupState.DEAD, self.clock.wall_ms())
        self.groups.pop(group.group_id, None)

    def resume(self, group: Group) -> None:
        """Start the session timers of a loaded group. A group above group.max.size starts a rebalance."""
        for member in group.members.values():
            self.reschedule_session(group, member)
        if len(group.members) > self.config.group_max_size:
            self.prepare_rebalance(group)

    def cancel_timers(self, group: Group) -> None:
        """Cancel all timers of a group and its members."""
        for member_id in (*group.members, *group.pending_join):
            self.cancel_session(group, member_id)
        self.timer.cancel(("join", group.group_id))
        self.timer.cancel(("sync", group.group_id))


def assignments_of(group: Group) -> dict[str, bytes]:
    """The assignment bytes of each member, by member id."""
    return {member.member_id: member.assignment for member in group.members.values()}
