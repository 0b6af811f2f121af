"""Share groups (KIP-932): heartbeats of members, and the share states of their partitions.

Source: GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid and GroupMetadataManager.shareGroupHeartbeat,
shareGroupLeave of Apache Kafka 4.3. All changes of a request are written as one batch before they take effect. In a
cluster, share coordinators initialize the states of new partitions after that; without one, this comes first. Members
are assigned initialized partitions only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import InitVar, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafkatools.core import errors
from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup, GroupParts
from kafkatools.core.broker.coordinators.groups.modern.consumer_member import LEAVE_GROUP_EPOCH
from kafkatools.core.broker.coordinators.groups.modern.modern_changes import (
    JOINING_EPOCH,
    ensure_valid_epoch,
    heartbeat_fields,
    partitions_of,
)
from kafkatools.core.broker.coordinators.groups.modern.modern_group import NOTHING
from kafkatools.core.broker.coordinators.groups.requests import Client, Fields
from kafkatools.core.broker.coordinators.groups.share.assignor import assign
from kafkatools.core.broker.coordinators.groups.share.changes import (
    Change,
    CurrentAssignmentChange,
    GroupEpochChange,
    MemberChange,
    StatePartitionsChange,
    TargetEpochChange,
    TargetMemberChange,
    removal_of,
)
from kafkatools.core.broker.coordinators.groups.share.group import SHARE, ShareGroup
from kafkatools.core.broker.coordinators.groups.share.member import ShareMember
from kafkatools.core.broker.coordinators.groups.share.settings import ShareGroupSettings
from kafkatools.core.broker.coordinators.share_state.share_state import UNINITIALIZED_START_OFFSET, ShareKey

if TYPE_CHECKING:
    from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
    from kafkatools.core.broker.coordinators.share_state.persister import StatePersister


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """A ShareGroupHeartbeat request. A field of None is unchanged since the member's last request."""

    group_id: str
    member_id: str
    member_epoch: int
    client: Client
    rack_id: str | None = None
    subscribed_topic_names: frozenset[str] | None = None


def _missing() -> ShareCoordinator:
    raise RuntimeError("ShareGroups was created without a share coordinator")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ShareSurroundings:
    """The other parts of the broker that share groups use. `states` returns this broker's share coordinator.
    `persister` returns the client of the cluster's share coordinators, None on a broker without a cluster.
    `group_emptied` drops the share partitions of a group whose offsets changed or that was deleted."""

    states: Callable[[], ShareCoordinator] = _missing
    persister: Callable[[], StatePersister | None] = lambda: None
    group_emptied: Callable[[str], None] = lambda group_id: None


@dataclass(eq=False, repr=False)
class ShareGroups(GroupParts[ShareGroupSettings]):
    """All share groups that this broker coordinates, in one registry with the groups of other types."""

    around: InitVar[ShareSurroundings]
    _requested: set[ShareKey] = field(default_factory=set, init=False)

    def __post_init__(self, around: ShareSurroundings) -> None:
        self.states, self.persister = around.states, around.persister
        self.group_emptied = around.group_emptied

    def find(self, group_id: str) -> ShareGroup:
        """The share group of this id. Raises GroupIdNotFound."""
        return self.checked(group_id, self.groups.get(group_id))

    @staticmethod
    def checked(group_id: str, group: AnyGroup | None) -> ShareGroup:
        """Return the group with this id if it is a share group. Raises GroupIdNotFound."""
        if group is None:
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        if not isinstance(group, ShareGroup):
            raise errors.GroupIdNotFound(f"Group {group_id} is not a share group.")
        return group

    # -- heartbeats ------------------------------------------------------------------------------------------------
    def heartbeat(self, request: ShareHeartbeat) -> Fields:
        """ShareGroupHeartbeat: join, stay or leave. Returns the response fields, with an assignment if the member
        joins, names its topics or has a new assignment. Raises a KafkaError."""
        _check(request)
        if request.member_epoch == LEAVE_GROUP_EPOCH:
            return self._leave(request)
        return self._beat(request)

    def _beat(self, request: ShareHeartbeat) -> Fields:
        group = self._open(request)
        size = self.settings.max_size
        if request.member_id not in group.members and len(group.members) >= size:
            raise errors.GroupMaxSizeReached(f"The share group has reached its maximum capacity of {size} members.")
        if request.member_epoch == JOINING_EPOCH:
            current = group.members.get(request.member_id) or ShareMember(request.member_id)
        else:
            current = group.member(request.member_id)
        ensure_valid_epoch(SHARE, request.member_epoch, current.member_epoch, current.previous_member_epoch)
        updated = _updated(current, request)
        changes: list[Change] = []
        if updated != current or request.member_id not in group.members:
            changes.append(MemberChange(updated.member_id, updated))
        has_new_topics = updated.subscribed_topic_names != current.subscribed_topic_names
        members = group.members_with(updated)
        epoch = self._epoch(group, members, changes, bump=has_new_topics or request.member_id not in group.members)
        missing = self._make_states(group, members, epoch, changes)
        member = self._assigned(group, updated, members, epoch, changes, has_new_topics=has_new_topics)
        self.write(group, changes)
        group.is_refresh_due = False  # after the write: if it fails, the next heartbeat checks the topics again
        self._initialize_states(group, missing, epoch)
        self.watch_session(group.group_id, member.member_id)
        wants_assignment = request.member_epoch == JOINING_EPOCH or request.subscribed_topic_names is not None
        interval_ms = self.settings.heartbeat_interval_ms(group.group_id)
        fields = heartbeat_fields(member.member_id, member.member_epoch, interval_ms)
        if wants_assignment or member.assigned != current.assigned:
            fields["assignment"] = {"topic_partitions": partitions_of(member.assigned)}
        return fields

    def _open(self, request: ShareHeartbeat) -> ShareGroup:
        if request.member_epoch == JOINING_EPOCH and request.group_id not in self.groups:
            return ShareGroup(request.group_id)
        if request.group_id not in self.groups:
            raise errors.GroupIdNotFound(f"Share group {request.group_id} not found.")
        return self.find(request.group_id)

    def _epoch(self, group: ShareGroup, members: Collection[ShareMember], changes: list[Change], *, bump: bool) -> int:
        """The group epoch, raised in `changes` if `bump` or if the topics' metadata changed."""
        if not bump and not group.is_refresh_due:
            return group.group_epoch
        metadata_hash = self.topics.group_hash(group.topics_of(members))
        if not bump and metadata_hash == group.metadata_hash:
            return group.group_epoch
        changes.append(GroupEpochChange(group.group_epoch + 1, metadata_hash))
        return group.group_epoch + 1

    def _make_states(
        self, group: ShareGroup, members: Collection[ShareMember], epoch: int, changes: list[Change]
    ) -> list[ShareKey]:
        """Initialize the share states of subscribed partitions without one. A broker without a cluster does it at once
        and returns an empty list. In a cluster this returns the share partitions to initialize through their
        coordinators. Adds the new state partitions to `changes`."""
        states = group.states
        keys: list[ShareKey] = []
        is_here = self.persister() is None
        for name in sorted(group.topics_of(members)):
            topic = self.topics.by_name(name)
            if topic is None:
                continue
            missing = set(topic.partitions) - states.partitions_of(topic.topic_id)
            if not is_here:
                keys += [ShareKey(group.group_id, topic.topic_id, partition) for partition in sorted(missing)]
                if not missing <= states.initializing.get(topic.topic_id, ("", frozenset()))[1]:
                    states = states.with_initializing(topic.topic_id, name, missing)
            elif missing:
                coordinator = self.states()
                for partition in sorted(missing):
                    key = ShareKey(group.group_id, topic.topic_id, partition)
                    if coordinator.summary(key) is None:
                        coordinator.initialize(key, epoch, UNINITIALIZED_START_OFFSET)
                states = states.with_initialized(topic.topic_id, name, missing)
        if states is not group.states:
            changes.append(StatePartitionsChange(states))
        return keys

    def _initialize_states(self, group: ShareGroup, keys: Collection[ShareKey], epoch: int) -> None:
        """Have share coordinators initialize states, then raise the group epoch, so that members get the partitions. A
        later heartbeat retries failures."""
        persister = self.persister()
        requested = [key for key in keys if key not in self._requested]
        if persister is None or not requested:
            return
        self._requested.update(requested)

        def finish(error: errors.KafkaError | None) -> None:
            self._requested.difference_update(requested)
            if error is not None:
                self.store.note_failure(error)
            elif self.groups.get(group.group_id) is group:
                self._note_states(group, requested)

        persister.initialize_all(dict.fromkeys(requested, UNINITIALIZED_START_OFFSET), epoch, finish)

    def _note_states(self, group: ShareGroup, keys: Collection[ShareKey]) -> None:
        states = group.states
        for topic_id in {key.topic_id for key in keys}:
            topic = self.topics.by_id(topic_id)
            if topic is not None:
                partitions = [key.partition for key in keys if key.topic_id == topic_id]
                states = states.with_initialized(topic_id, topic.name, partitions)
        try:
            self.write(
                group,
                [GroupEpochChange(group.group_epoch + 1, group.metadata_hash), StatePartitionsChange(states)],
            )
        except errors.KafkaError as error:
            self.store.note_failure(error)

    def _assigned(
        self,
        group: ShareGroup,
        updated: ShareMember,
        members: Collection[ShareMember],
        epoch: int,
        changes: list[Change],
        *,
        has_new_topics: bool,
    ) -> ShareMember:
        """The member with its target assignment. The target is computed again for all members, and added to `changes`,
        if the group epoch is above the assignment epoch or `changes` has new state partitions, but not within
        share.assignment.interval.ms of the last one. Topics that the member no longer subscribes to are left out at
        once (Kafka's ShareGroupAssignmentBuilder)."""
        target = group.target.get(updated.member_id, NOTHING)
        states = next((change.partitions for change in changes if isinstance(change, StatePartitionsChange)), None)
        is_outdated = epoch > group.assignment_epoch or states is not None
        if is_outdated and not self.may_assign(group):
            is_outdated = False
            if epoch == group.assignment_epoch:  # so that a later heartbeat assigns the new partitions
                changes.append(GroupEpochChange(epoch + 1, group.metadata_hash))
        if is_outdated:
            initialized = (states or group.states).initialized
            partitions = {topic_id: indexes for topic_id, (_, indexes) in initialized.items()}
            subscriptions = {member.member_id: self.topics.ids_of(member.subscribed_topic_names) for member in members}
            targets = assign(subscriptions, partitions, group.target)
            changes += [
                TargetMemberChange(member_id, targets[member_id])
                for member_id in targets
                if group.target.get(member_id) != targets[member_id]
            ]
            changes.append(TargetEpochChange(epoch, self.clock.wall_ms()))
            target = targets[updated.member_id]
        else:
            epoch = group.assignment_epoch
        has_new_epoch = updated.member_epoch != epoch
        if not has_new_epoch and not has_new_topics:
            return updated
        subscribed = self.topics.ids_of(updated.subscribed_topic_names)
        assigned = {topic_id: partitions for topic_id, partitions in target.items() if topic_id in subscribed}
        if not has_new_epoch and updated.assigned == assigned:
            return updated
        previous_epoch = updated.member_epoch if has_new_epoch else updated.previous_member_epoch
        member = replace(updated, member_epoch=epoch, previous_member_epoch=previous_epoch, assigned=assigned)
        changes.append(CurrentAssignmentChange(member.member_id, member))
        return member

    def write(self, group: ShareGroup, changes: list[Change]) -> None:
        """Append all changes as one batch, then apply them and add the group to the registry. Does nothing without
        changes. Raises a KafkaError."""
        if not changes:
            return
        self.store.append_change(group.group_id, [change.record(group.group_id) for change in changes])
        for change in changes:
            group.apply(change)
        self.groups[group.group_id] = group

    # -- leaving ---------------------------------------------------------------------------------------------------
    def _leave(self, request: ShareHeartbeat) -> Fields:
        group = self.find(request.group_id)
        self._fence(group, group.member(request.member_id))
        return heartbeat_fields(request.member_id, request.member_epoch, 0)

    def _fence(self, group: ShareGroup, member: ShareMember) -> None:
        remaining = group.members_with(None, member.member_id)
        metadata_hash = self.topics.group_hash(group.topics_of(remaining))
        changes: list[Change] = [*removal_of(member.member_id), GroupEpochChange(group.group_epoch + 1, metadata_hash)]
        self.write(group, changes)
        self.timer.cancel(("session", group.group_id, member.member_id))

    # -- timers ----------------------------------------------------------------------------------------------------
    def watch_session(self, group_id: str, member_id: str) -> None:
        """Start or restart a member's session timer. The member is removed when it expires."""

        def expire() -> None:
            group = self.groups.get(group_id)
            if isinstance(group, ShareGroup) and member_id in group.members:
                self._fence(group, group.members[member_id])

        self.timer.schedule(("session", group_id, member_id), self.settings.session_timeout_ms(group_id), expire)

    def forget(self, group: ShareGroup) -> None:
        """Remove a deleted group from memory and release its acquired records."""
        self.release(group)
        self.group_emptied(group.group_id)

    # -- topics ----------------------------------------------------------------------------------------------------
    def note_topics(self, names: Collection[str]) -> None:
        """Have groups subscribed to created, changed or deleted topics check their assignment at the next heartbeat."""
        for group in self.groups.values():
            if isinstance(group, ShareGroup) and any(group.is_subscribed_to(name) for name in names):
                group.is_refresh_due = True

    def forget_topics(self, topic_ids: Collection[Any]) -> None:
        """Remove deleted topics from the initialized, initializing and deleting partitions of all share groups. Reports
        failed writes."""
        for group in list(self.groups.values()):
            if not isinstance(group, ShareGroup):
                continue
            states = group.states
            for topic_id in topic_ids:
                if topic_id in states.initialized or topic_id in states.initializing or topic_id in states.deleting:
                    states = states.without_topic(topic_id)
            if states is not group.states:
                try:
                    self.write(group, [StatePartitionsChange(states)])
                except errors.KafkaError as error:
                    self.store.note_failure(error)

    def delete_states(self, group: ShareGroup) -> None:
        """Delete the share states of a group, on a broker without a cluster. Raises a KafkaError."""
        for key in self._states_of(group):
            self.states().delete(key)

    def delete_states_in_cluster(
        self, group: ShareGroup, on_deleted: Callable[[errors.KafkaError | None], None]
    ) -> None:
        """Have share coordinators delete a group's states, in a cluster. Calls `on_deleted` with the first error or
        None."""
        persister = self.persister()
        assert persister is not None
        persister.delete_all(self._states_of(group), on_deleted)

    def _states_of(self, group: ShareGroup) -> list[ShareKey]:
        """The share partitions of the group that have a state, except those of deleted topics. States are deleted with
        their topic, even if the write that notes it in the group failed."""
        return [
            ShareKey(group.group_id, topic_id, partition)
            for topic_id, (_, partitions) in group.states.initialized.items()
            if self.topics.by_id(topic_id) is not None
            for partition in sorted(partitions)
        ]

    # -- loading and unloading -------------------------------------------------------------------------------------
    def resume(self, group: ShareGroup) -> None:
        """Start the session timers of a loaded group's members."""
        for member_id in group.members:
            self.watch_session(group.group_id, member_id)

    def release(self, group: ShareGroup) -> None:
        """Remove a group and its timers from memory. Another broker may coordinate it."""
        for member_id in group.members:
            self.timer.cancel(("session", group.group_id, member_id))
        self.groups.pop(group.group_id, None)


def _check(request: ShareHeartbeat) -> None:
    if not request.member_id.strip():
        raise errors.InvalidRequest()  # without a text, as Apache Kafka 4.3.1 answers
    if not request.group_id.strip():
        raise errors.InvalidRequest("GroupId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise errors.InvalidRequest("RackId can't be empty.")
    if request.member_epoch == JOINING_EPOCH:
        if not request.subscribed_topic_names:
            raise errors.InvalidRequest("SubscribedTopicNames must be set in first request.")
    elif request.member_epoch < LEAVE_GROUP_EPOCH:
        raise errors.InvalidRequest("MemberEpoch is invalid.")


def _updated(current: ShareMember, request: ShareHeartbeat) -> ShareMember:
    names = request.subscribed_topic_names
    return replace(
        current,
        rack_id=current.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client.client_id,
        client_host=request.client.host,
        subscribed_topic_names=current.subscribed_topic_names if names is None else names,
    )
