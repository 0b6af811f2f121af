"""The group coordinator (Kafka's GroupCoordinatorService and GroupMetadataManager).

Rules:
- Everything runs on the listener's thread. Responses to delayed requests are queued and sent after the state change is
  complete (`send_responses`), because sending one may bring in that client's next request.
- `member_id` is "" for a client without one, `instance_id` is None unless the member is static.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, cast

from kafkatools.core import errors
from kafkatools.core.broker.coordinators.groups import offset_records
from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.classic import group_records
from kafkatools.core.broker.coordinators.groups.classic.group import Group
from kafkatools.core.broker.coordinators.groups.classic.member import Member
from kafkatools.core.broker.coordinators.groups.classic.rebalance import Rebalancing
from kafkatools.core.broker.coordinators.groups.classic.states import GroupState
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.group_topics import GroupTopics
from kafkatools.core.broker.coordinators.groups.keyed_timer import KeyedTimer
from kafkatools.core.broker.coordinators.groups.loading import LoadedGroups
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import CONSUMER, CommitCheck, ConsumerGroup
from kafkatools.core.broker.coordinators.groups.modern.consumer_groups import ConsumerGroups
from kafkatools.core.broker.coordinators.groups.modern.consumer_heartbeats import HeartbeatRequest
from kafkatools.core.broker.coordinators.groups.modern.consumer_settings import ConsumerGroupSettings, MemberTimes
from kafkatools.core.broker.coordinators.groups.offset_expiry import OffsetExpiry
from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset
from kafkatools.core.broker.coordinators.groups.offsets import Offsets, Place
from kafkatools.core.broker.coordinators.groups.offsets_topic import OffsetsTopic, Producer
from kafkatools.core.broker.coordinators.groups.replaced_values import Progress
from kafkatools.core.broker.coordinators.groups.replicated_groups import ReplicatedGroups
from kafkatools.core.broker.coordinators.groups.requests import (
    Fields,
    JoinRequest,
    MemberIdentity,
    ResponseCallback,
    SyncRequest,
    error_code_field,
    join_error,
)
from kafkatools.core.broker.coordinators.groups.share.group import SHARE, ShareGroup
from kafkatools.core.broker.coordinators.groups.share.groups import ShareGroups, ShareHeartbeat, ShareSurroundings
from kafkatools.core.broker.coordinators.groups.share.offsets import ShareOffsets
from kafkatools.core.broker.coordinators.groups.share.settings import ShareGroupSettings
from kafkatools.core.broker.coordinators.groups.streams.group import STREAMS, StreamsGroup
from kafkatools.core.broker.coordinators.groups.streams.groups import HeartbeatResult, StreamsGroups
from kafkatools.core.broker.coordinators.groups.streams.heartbeats import StreamsHeartbeat
from kafkatools.core.broker.coordinators.groups.streams.settings import StreamsGroupSettings
from kafkatools.core.broker.coordinators.groups.transactional_offsets import write_pending
from kafkatools.core.broker.metadata.image import GROUP_RESOURCE, MetadataImage, TopicState
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.server.timer import Timer
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.protocol.definitions import MAX_STRING_BYTES

GROUP_ID_NOT_FOUND_SINCE = 9
TOMBSTONES_IN_BATCH = 1000
# A member id is a name, a dash and a UUID of 36 characters. Responses and records cannot hold a longer string.
_LONGEST_NAME_BYTES = MAX_STRING_BYTES - 37


class Keeper(Protocol):
    """The part with the groups of one type; it gets groups of that type only."""

    def resume(self, group: AnyGroup) -> None: ...
    def release(self, group: AnyGroup) -> None: ...
    def forget(self, group: AnyGroup) -> None: ...


class GroupCoordinator:
    """All groups that this broker coordinates. `ensure_active` raises a KafkaError if another broker coordinates the
    group, or while its partition is loading."""

    def __init__(  # noqa: PLR0913 - wired in one place
        self,
        config: Config,
        store: OffsetsTopic,
        timer: Timer,
        clock: Clock,
        *,
        image: MetadataImage,
        share_around: ShareSurroundings | None = None,
        ensure_active: Callable[[str], None] = lambda group_id: None,
        progress: Callable[[str], Progress] | None = None,
    ) -> None:
        self.clock = clock
        self.offsets = Offsets(progress)
        self._store = store
        self._pending_responses: list[Callable[[], None]] = []
        timers = KeyedTimer(timer, clock, self.send_responses, store.note_failure)
        self._course = Rebalancing(config, store, timers, clock)
        self._config = config
        topics = GroupTopics(image)

        def own_configs(group_id: str) -> Mapping[str, str]:
            return image.configs.get((GROUP_RESOURCE, group_id), {})

        consumer_settings = ConsumerGroupSettings(config, own_configs)
        self.consumer = ConsumerGroups(self._course, consumer_settings, topics)
        share_settings = ShareGroupSettings(config, own_configs)
        self.share = ShareGroups(
            self.groups,
            share_settings,
            topics,
            store,
            self._course.timer,
            clock,
            share_around or ShareSurroundings(),
        )
        self.share_offsets = ShareOffsets(self.share)
        streams_settings = StreamsGroupSettings(config, own_configs)
        self.streams = StreamsGroups(self.groups, streams_settings, topics, store, self._course.timer, clock)
        self._settings: tuple[MemberTimes, ...] = (consumer_settings, share_settings, streams_settings)
        self.ensure_active = ensure_active
        self.replicated = ReplicatedGroups(self.groups, progress)
        store.on_group_append = self.replicated.note_append
        self.expiry = OffsetExpiry(self.groups, self.offsets, self.delete_offsets, self._delete, timers)

    def configure(self, config: Config) -> None:
        """Apply the broker's current settings to groups that have none of their own."""
        for settings in self._settings:
            settings.config = config

    @property
    def groups(self) -> dict[str, AnyGroup]:
        """The groups of all types by group id."""
        return self._course.groups

    # -- answers ---------------------------------------------------------------------------------------------------
    def later(self, send: Callable[[], None]) -> None:
        """Queue a response until `send_responses`."""
        self._pending_responses.append(send)

    def send_responses(self) -> None:
        """Send the queued responses, and those that they cause."""
        pending = self._pending_responses
        while pending:
            pending.pop(0)()

    # -- joining ---------------------------------------------------------------------------------------------------
    def join(self, request: JoinRequest, respond: ResponseCallback) -> None:
        """JoinGroup: join or rejoin. Calls `respond` with the response fields, at once or after the rebalance. After an
        error these are an error code and a member id; MemberIdRequired carries the member id for the next join."""
        try:
            self._check_join(request)
            self.ensure_active(request.group_id)
            existing = self.groups.get(request.group_id)
            if isinstance(existing, ConsumerGroup) and not existing.is_empty:
                self._join_consumer(existing, request, respond)
                return
            group = self._group_to_join(request)
            self._ensure_room(group, request.member_id)
            if not group.supports(request.protocol_type, request.protocols):
                raise errors.InconsistentGroupProtocol()
            if request.member_id:
                self._join_again(group, request, respond)
            else:
                self._join_first(group, request, respond)
        except errors.GroupMaxSizeReached as error:
            respond(join_error("", error.code))
        except errors.KafkaError as error:
            respond(join_error(request.member_id, coordinator_error_code(error)))

    def _join_consumer(self, group: ConsumerGroup, request: JoinRequest, respond: ResponseCallback) -> None:
        try:
            respond(self.consumer.classic_members.join(group, request))
        except errors.KafkaError as error:
            respond(join_error("", coordinator_error_code(error)))

    def _check_join(self, request: JoinRequest) -> None:
        if not request.group_id:
            raise errors.InvalidGroupId()
        least_ms, greatest_ms = self._config.group_min_session_timeout_ms, self._config.group_max_session_timeout_ms
        if not least_ms <= request.session_timeout_ms <= greatest_ms:
            raise errors.InvalidSessionTimeout()
        if len((request.instance_id or request.client.client_id).encode()) > _LONGEST_NAME_BYTES:
            raise errors.InvalidRequest(f"The member id would be longer than {MAX_STRING_BYTES} bytes")

    def _group_to_join(self, request: JoinRequest) -> Group:
        existing = self.groups.get(request.group_id)
        if isinstance(existing, Group):
            return existing
        if existing is not None and not isinstance(existing, ConsumerGroup):
            raise errors.InconsistentGroupProtocol()
        if request.member_id:
            raise errors.UnknownMemberId()
        if existing is not None:
            self.consumer.give_way(existing)
        group = Group(request.group_id, self.clock.wall_ms())
        self._store.append_change(group.group_id, [group_records.group_metadata(group, {})])
        self.groups[group.group_id] = group
        return group

    def _ensure_room(self, group: Group, member_id: str) -> None:
        """Check group.max.size (acceptJoiningMember). During a rebalance only members that have rejoined count; an
        empty group has room. Raises GroupMaxSizeReached, after removing the refused member from the group."""
        member = group.members.get(member_id)
        if group.is_in(GroupState.EMPTY):
            return
        if group.is_in(GroupState.PREPARING_REBALANCE):
            is_accepted = member is not None and member.is_awaiting_join
            count = len(group.awaiting_join)
        else:
            is_accepted, count = member is not None, len(group.members)
        if not is_accepted and count >= self._config.group_max_size:
            group.remove(member_id)
            self._course.cancel_session(group, member_id)
            raise errors.GroupMaxSizeReached()

    def _join_first(self, group: Group, request: JoinRequest, respond: ResponseCallback) -> None:
        if request.instance_id in group.static_members:
            self._course.return_static_member(group, request, respond)
            return
        member_id = f"{request.instance_id or request.client.client_id}-{uuid.uuid4()}"
        if request.instance_id is None and request.needs_member_id:
            group.pending_join.add(member_id)
            self._course.schedule_session(group, member_id, request.session_timeout_ms)
            respond(join_error(member_id, errors.MemberIdRequired.code))
            return
        self._course.add_member(group, request, member_id, respond)

    def _join_again(self, group: Group, request: JoinRequest, respond: ResponseCallback) -> None:
        if request.member_id in group.pending_join:
            self._course.add_member(group, request, request.member_id, respond)
            return
        member = group.ensure_member(request.member_id, request.instance_id)
        if group.is_in(GroupState.PREPARING_REBALANCE):
            self._course.update_member(group, member, request, respond)
        elif group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            is_leader_asking = group.is_in(GroupState.STABLE) and group.is_leader(member.member_id)
            if is_leader_asking or member.protocols != request.protocols:
                self._course.update_member(group, member, request, respond)
            else:
                respond(group.joined_fields(member))
        else:
            raise errors.UnknownMemberId()

    # -- sync, heartbeat, leave ------------------------------------------------------------------------------------
    def sync(self, request: SyncRequest, respond: ResponseCallback) -> None:
        """SyncGroup: get a member's assignment. The leader's request stores all assignments. Calls `respond` with the
        response fields or an error code, at once or after the leader's request."""
        existing = self.groups.get(request.group_id)
        try:
            self._ensure_mine(request.group_id)
            if isinstance(existing, ConsumerGroup):
                respond(self.consumer.classic_members.sync(existing, request))
                return
            group, member = self._member(request.group_id, request.member_id, request.instance_id)
            group.ensure_generation(request.generation_id)
            if _differ(request.protocol_type, group.protocol_type) or _differ(
                request.protocol_name, group.protocol_name
            ):
                raise errors.InconsistentGroupProtocol()
            if group.is_in(GroupState.PREPARING_REBALANCE):
                raise errors.RebalanceInProgress()
        except errors.KafkaError as error:
            respond(error_code_field(error.code))
            return
        if group.is_in(GroupState.STABLE):
            self._course.note_sync(group, member.member_id)
            respond(group.synced_fields(member))
            return
        group.complete_sync(member, error_code_field(errors.RebalanceInProgress.code))
        member.awaiting_sync_callback = respond
        self._course.note_sync(group, member.member_id)
        if group.is_leader(member.member_id):
            self._course.store_assignments(group, dict(request.assignments))

    def heartbeat(self, group_id: str, generation_id: int, member_id: str, instance_id: str | None) -> int:
        """Heartbeat: restart the session timeout of a member. Returns the error code: 0, REBALANCE_IN_PROGRESS if the
        member must rejoin (its session timeout restarts too), or that of a refused request."""
        existing = self.groups.get(group_id)
        try:
            self._ensure_mine(group_id)
            if isinstance(existing, ConsumerGroup):
                self.consumer.classic_members.heartbeat(existing, generation_id, member_id, instance_id)
                return 0
            group, member = self._member(group_id, member_id, instance_id)
            group.ensure_generation(generation_id)
        except errors.KafkaError as error:
            return error.code
        self._course.reschedule_session(group, member)
        return errors.RebalanceInProgress.code if group.is_in(GroupState.PREPARING_REBALANCE) else 0

    def leave(self, group_id: str, members: Sequence[MemberIdentity]) -> tuple[int, list[int]]:
        """LeaveGroup: remove members. Returns the error code of the request, and one for each member. The list is empty
        if the request failed."""
        try:
            self._ensure_mine(group_id)
        except errors.KafkaError as error:
            return error.code, []
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            try:
                return 0, self.consumer.classic_members.leave(group, members)
            except errors.KafkaError as error:
                return coordinator_error_code(error), []
        if not isinstance(group, Group):
            return 0, [errors.UnknownMemberId.code] * len(members)
        codes = [self._leave_one(group, identity) for identity in members]
        if 0 in codes:
            self._course.go_on_without(group)
        return 0, codes

    def _leave_one(self, group: Group, identity: MemberIdentity) -> int:
        member_id, instance_id = identity
        if member_id in group.pending_join:
            group.remove(member_id)
            self._course.cancel_session(group, member_id)
            return 0
        try:
            if not member_id:
                member_id = group.static_members.get(instance_id or "", "")
            self._course.remove_member(group, group.ensure_member(member_id, instance_id))
        except errors.KafkaError as error:
            return error.code
        return 0

    def _ensure_mine(self, group_id: str) -> None:
        if not group_id:
            raise errors.InvalidGroupId()
        self.ensure_active(group_id)

    def _member(self, group_id: str, member_id: str, instance_id: str | None) -> tuple[Group, Member]:
        group = self.groups.get(group_id)
        if not isinstance(group, Group):
            raise errors.UnknownMemberId()
        return group, group.ensure_member(member_id, instance_id)

    # -- consumer, share and streams protocols ---------------------------------------------------------------------
    def consumer_heartbeat(self, request: HeartbeatRequest) -> Fields:
        """ConsumerGroupHeartbeat: returns the response fields. Raises a KafkaError."""
        self.ensure_active(request.group_id)
        return self.consumer.heartbeats.heartbeat(request)

    def share_heartbeat(self, request: ShareHeartbeat) -> Fields:
        """ShareGroupHeartbeat: returns the response fields. Raises a KafkaError."""
        self.ensure_active(request.group_id)
        return self.share.heartbeat(request)

    def streams_heartbeat(self, request: StreamsHeartbeat) -> HeartbeatResult:
        """StreamsGroupHeartbeat: returns the response fields and the missing internal topics. Raises a KafkaError."""
        self.ensure_active(request.group_id)
        return self.streams.heartbeat(request)

    # -- offsets ---------------------------------------------------------------------------------------------------
    def ensure_may_commit(
        self, group_id: str, identity: MemberIdentity, generation_id: int, version: int
    ) -> CommitCheck | None:
        """Check that a member may commit offsets now. Restarts the session timeout of a classic group's member. Raises
        a KafkaError. Returns a check to make for each partition, None if all are allowed. A client without a generation
        may commit to a group that does not exist."""
        self.ensure_active(group_id)
        group = self.groups.get(group_id)
        if group is None and generation_id < 0:
            return None
        if isinstance(group, ConsumerGroup | StreamsGroup):
            try:
                return group.ensure_may_commit(*identity, generation_id, version=version)
            except errors.StaleMemberEpoch as error:
                raise (error if version >= GROUP_ID_NOT_FOUND_SINCE else errors.UnsupportedVersion()) from error
        if group is None:
            raise errors.GroupIdNotFound() if version >= GROUP_ID_NOT_FOUND_SINCE else errors.IllegalGeneration()
        if not isinstance(group, Group):
            raise errors.GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        group.ensure_may_commit(identity.member_id, identity.instance_id, generation_id)
        member = group.members.get(identity.member_id)
        if member is not None:
            self._course.reschedule_session(group, member)
        return None

    def _ensure_exists(self, group_id: str) -> None:
        """Create a classic group without members for offsets that were written, if there is no group."""
        if group_id not in self.groups:
            self.replicated.note_append(group_id)
            self.groups[group_id] = Group(group_id, self.clock.wall_ms())

    def ensure_may_fetch(self, group_id: str, member_id: str | None, member_epoch: int, *, is_stable: bool) -> None:
        """Check that a client may read a group's offsets. In a consumer or streams group, raises UnknownMemberId for an
        unknown member, StaleMemberEpoch or IllegalGeneration for another epoch. Other groups, also missing ones, are
        only checked to be coordinated here. Without `is_stable` the replicated state of the group counts. Raises
        NotCoordinator or CoordinatorLoadInProgress if another broker coordinates the group."""
        self.ensure_active(group_id)
        group = self.groups.get(group_id) if is_stable else self.replicated.of(group_id)
        if isinstance(group, ConsumerGroup | StreamsGroup):
            group.ensure_may_fetch(member_id, member_epoch)

    def commit(
        self,
        group_id: str,
        offsets: Sequence[tuple[Place, CommittedOffset]],
        records: Sequence[offset_records.Record] | None = None,
    ) -> ProduceStatus | None:
        """Write committed offsets and keep them in memory. Creates a missing group. `records` are the encoded offsets,
        if the caller has them. Returns the append to wait for, None if it is replicated. Raises InvalidCommitOffsetSize
        for offsets larger than a batch may be, or another KafkaError."""
        if records is None:
            records = offset_records.committed_offsets(group_id, offsets)
        try:
            status = self._store.append(group_id, records)
        except (errors.MessageTooLarge, errors.RecordListTooLarge) as error:
            raise errors.InvalidCommitOffsetSize() from error
        self._ensure_exists(group_id)
        self.offsets.put_all(group_id, offsets)
        return status

    def commit_transactional(
        self,
        group_id: str,
        identity: MemberIdentity,
        generation_id: int,
        producer: Producer,
        offsets: Sequence[tuple[Place, CommittedOffset]],
        records: Sequence[offset_records.Record],
    ) -> ProduceStatus | None:
        """Write offsets that stay pending until their transaction is committed (KIP-447). Creates a missing group.
        `records` are the encoded offsets. Returns the append to wait for, None if it is replicated. Raises a
        KafkaError."""
        self.ensure_may_commit_transactional(group_id, identity, generation_id, [place for place, _ in offsets])
        status = write_pending(self._store, self.offsets.pending, group_id, producer, offsets, records)
        self._ensure_exists(group_id)
        return status

    def ensure_may_commit_transactional(
        self, group_id: str, identity: MemberIdentity, generation_id: int, places: Iterable[Place] = ()
    ) -> None:
        """Check that a member may commit these partitions in a transaction (validateTransactionalOffsetCommit). Raises
        IllegalGeneration, GroupIdNotFound for a share group, or another KafkaError."""
        self.ensure_active(group_id)
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup | StreamsGroup):
            try:
                check = group.ensure_may_commit(*identity, generation_id, is_transactional=True)
                if check is not None:
                    self._ensure_may_commit_each(places, check)
            except errors.StaleMemberEpoch as error:
                raise errors.IllegalGeneration() from error
        elif isinstance(group, Group):
            group.ensure_may_commit(identity.member_id, identity.instance_id, generation_id, is_transactional=True)
        elif group is not None:
            raise errors.GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        elif generation_id >= 0:
            raise errors.IllegalGeneration()

    def _ensure_may_commit_each(self, places: Iterable[Place], check: CommitCheck) -> None:
        for topic, partition in places:
            state = self.consumer.topics.by_name(topic)
            if state is None:
                raise errors.IllegalGeneration()
            check(topic, state.topic_id, partition)

    def complete_transaction(self, producer_id: int, partition_index: int, *, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a producer, after its marker in a partition of `__consumer_offsets`."""
        if self.offsets.pending:
            self.offsets.complete_transaction(
                producer_id, lambda group_id: self._store.partition_of(group_id) == partition_index, is_commit=is_commit
            )

    def delete_offsets(self, group_id: str, places: Iterable[Place]) -> None:
        """Delete committed and pending offsets of a group, with tombstones in batches of limited size. Ignores
        partitions without one. Raises a KafkaError, after which some offsets may be deleted."""
        deleted = [place for place in dict.fromkeys(places) if self.offsets.has(group_id, place)]
        for start in range(0, len(deleted), TOMBSTONES_IN_BATCH):
            batch = deleted[start : start + TOMBSTONES_IN_BATCH]
            self._store.append(group_id, [offset_records.offset_tombstone(group_id, *place) for place in batch])
            for place in batch:
                self.offsets.remove(group_id, place)

    def group(self, group_id: str) -> AnyGroup:
        """The group of this id. Raises GroupIdNotFound, or a KafkaError if another broker coordinates the group."""
        self.ensure_active(group_id)
        group = self.groups.get(group_id)
        if group is None:
            raise errors.GroupIdNotFound(f"Group {group_id} not found.")
        return group

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, its offsets, and a share group's states. Raises GroupIdNotFound,
        NonEmptyGroup or another KafkaError."""
        group = self.group(group_id)
        group.ensure_may_delete()
        if isinstance(group, ShareGroup):
            self.share.delete_states(group)
        self._delete(group)

    def delete_group_and_states(self, group_id: str, on_deleted: Callable[[errors.KafkaError | None], None]) -> None:
        """Delete a group as `delete_group`, in a cluster after the share coordinators have deleted a share group's
        states. Calls `on_deleted` with the error or None."""
        group = self.groups.get(group_id)
        try:
            if not isinstance(group, ShareGroup) or self.share.persister() is None:
                self.delete_group(group_id)
                on_deleted(None)
                return
            self.ensure_active(group_id)
            group.ensure_may_delete()
        except errors.KafkaError as error:
            on_deleted(error)
            return

        def finish(error: errors.KafkaError | None) -> None:
            try:
                if error is not None:
                    raise error
                if self.group(group_id) is group:
                    group.ensure_may_delete()
                    self._delete(group)
            except errors.KafkaError as failure:
                on_deleted(failure)
            else:
                on_deleted(None)

        self.share.delete_states_in_cluster(group, finish)

    def _delete(self, group: AnyGroup) -> None:
        self.delete_offsets(group.group_id, self.offsets.places(group.group_id)[TOMBSTONES_IN_BATCH:])
        places = self.offsets.places(group.group_id)
        records = [offset_records.offset_tombstone(group.group_id, *place) for place in places]
        self._store.append_change(group.group_id, [*records, *group.tombstones()])
        self.offsets.remove_group(group.group_id)
        self._keeper_of(group).forget(group)

    def _keeper_of(self, group: AnyGroup) -> Keeper:
        """The part with the groups of this group's type: `resume` after loading, `release` to another broker, and
        `forget` after the deletion."""
        keepers = {CONSUMER: self.consumer.course, SHARE: self.share, STREAMS: self.streams}
        return cast("Keeper", keepers.get(group.group_type, self._course))

    # -- deletion ------------------------------------------------------------------------------------------------
    def forget_topics(self, topics: Iterable[TopicState], recreated: Collection[str] = ()) -> None:
        """Delete the committed and pending offsets of deleted topics (onTopicsDeleted), with tombstones. An offset
        without a topic id stays if its topic's name is in `recreated`. Reports failed writes."""
        places_by_group: dict[str, list[Place]] = {}
        ids: dict[str, set[uuid.UUID]] = {}
        for topic in topics:
            ids.setdefault(topic.name, set()).add(topic.topic_id)
        for group_id, place, topic_id in self.offsets.of_topics(ids):
            if topic_id in ids[place[0]] or (topic_id is None and place[0] not in recreated):
                places_by_group.setdefault(group_id, []).append(place)
        for group_id, places in places_by_group.items():
            try:
                self.delete_offsets(group_id, places)
            except errors.KafkaError as error:
                self._store.note_failure(error)

    def unload(self) -> None:
        """Forget all groups and offsets because `__consumer_offsets` was deleted. Waiting JoinGroup and SyncGroup
        requests get UNKNOWN_MEMBER_ID."""
        for group in list(self.groups.values()):
            self._keeper_of(group).forget(group)
        self.offsets.clear()
        self.replicated.release(lambda group_id: True)
        self.send_responses()

    # -- loading and unloading -------------------------------------------------------------------------------------
    def take_over(self, loaded: LoadedGroups) -> None:
        """Start to coordinate loaded groups. The session timeout of every member starts again. A classic group above
        group.max.size starts a rebalance."""
        loaded.finish()
        self.groups.update(loaded.groups)
        self.offsets.take_over(loaded.offsets)
        for row in loaded.pending:
            self.offsets.pending.put(*row)
        for group in loaded.groups.values():
            self._keeper_of(group).resume(group)

    def release(self, is_released: Callable[[str], bool]) -> None:
        """Forget the groups for which `is_released` is true, those of an unloaded `__consumer_offsets` partition
        (onUnloaded). Cancels their timers. Requests that wait for a rebalance get NOT_COORDINATOR with the next
        `send_responses`."""
        for group in [group for group in self.groups.values() if is_released(group.group_id)]:
            self._keeper_of(group).release(group)
            self.offsets.pending.forget(group.group_id)
        self.offsets.release(is_released)
        self.replicated.release(is_released)


def _differ(requested: str | None, current: str | None) -> bool:
    return requested is not None and current is not None and requested != current
