"""Requests of classic members of a consumer group (KIP-848): JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

They are answered from the group's target assignment, without waiting for other members. A member whose assignment
changes gets REBALANCE_IN_PROGRESS. It revokes partitions with its next join, and gets its assignment with the sync
after it. Source: GroupMetadataManager.classicGroup...ToConsumerGroup of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kafkatools.core import errors
from kafkatools.core.broker.coordinators.groups.classic.conversion import (
    assignment_bytes,
    owned_partitions,
    subscription_of_request,
)
from kafkatools.core.broker.coordinators.groups.classic.group import protocol_version
from kafkatools.core.broker.coordinators.groups.modern.consumer_course import (
    JOIN_TIMER,
    SYNC_TIMER,
    ConsumerCourse,
    Draft,
    ensure_not_replaced,
)
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import CONSUMER, ConsumerGroup
from kafkatools.core.broker.coordinators.groups.modern.consumer_member import (
    ClassicMetadata,
    ConsumerMember,
    MemberState,
)
from kafkatools.core.broker.coordinators.groups.modern.consumer_settings import MigrationPolicy
from kafkatools.core.broker.coordinators.groups.requests import (
    Fields,
    JoinRequest,
    MemberIdentity,
    SyncRequest,
    join_error,
)
from kafkatools.core.broker.coordinators.groups.topic_regex import TopicRegexes
from kafkatools.core.protocol import uuids

Replace = Callable[[Draft, ConsumerMember, bool], None]
MayReplace = Callable[[ConsumerGroup, ConsumerMember], bool]


class ClassicMembers:
    """Handles requests of the classic protocol to consumer groups. `may_downgrade` and `downgrade` convert the group to
    a classic one, when its last consumer member, a static one, comes back with the classic protocol."""

    def __init__(
        self, course: ConsumerCourse, regexes: TopicRegexes, may_downgrade: MayReplace, downgrade: Replace
    ) -> None:
        self._course = course
        self._regexes = regexes
        self._may_downgrade = may_downgrade
        self._downgrade = downgrade

    # -- joining ---------------------------------------------------------------------------------------------------
    def join(self, group: ConsumerGroup, request: JoinRequest) -> Fields:
        """JoinGroup of a classic member. Returns the response fields; without a member id, these may be
        MemberIdRequired and a new id. May convert the group to a classic one. Raises a KafkaError."""
        self._ensure_may_join(group, request)
        member_id = request.member_id or uuids.uuid_text(uuids.random_uuid())
        if not request.member_id and request.needs_member_id:
            return join_error(member_id, errors.MemberIdRequired.code)
        course, draft = self._course, Draft(group)
        current = self._member(draft, request, member_id)
        replaced = group.static_member(request.instance_id)
        is_downgrade = replaced is not None and self._may_downgrade(group, replaced)
        subscription = subscription_of_request(request.protocols)
        updated = _updated(current, request, subscription)
        names_changed = course.note_subscription(draft, current, updated)
        regex_changed, _ = self._regexes.update(draft, current, updated)
        has_changed = names_changed or regex_changed
        epoch = course.advance(draft, updated, bump=has_changed)
        owned = owned_partitions(subscription, course.topics)
        is_stale = is_downgrade and group.assignment_epoch < epoch
        if not is_stale:
            target = (
                (group.assignment_epoch, group.target_of(updated.member_id, updated.instance_id))
                if is_downgrade
                else course.target(draft, updated, epoch)
            )
            updated = course.reconcile(draft, updated, target, owned, has_subscription_changed=has_changed)
        if is_downgrade:
            self._downgrade(draft, updated, is_stale)
        course.write(draft)
        course.timer.cancel((JOIN_TIMER, group.group_id, member_id))
        if not is_downgrade:
            course.watch_session(group.group_id, member_id, request.session_timeout_ms)
            course.watch_sync(group.group_id, member_id, request.rebalance_timeout_ms)
        return {
            **join_error(member_id, 0),
            "generation_id": updated.member_epoch,
            "protocol_type": CONSUMER,
            "protocol_name": request.protocols[0][0],
        }

    def _ensure_may_join(self, group: ConsumerGroup, request: JoinRequest) -> None:
        if self._course.settings.migration_policy is MigrationPolicy.DISABLED:
            raise errors.InconsistentGroupProtocol(
                f"Cannot join the consumer group {group.group_id} with the classic protocol because the group "
                "migration is disabled."
            )
        self._course.ensure_room(group, request.member_id)
        if not group.supports_classic(request.protocol_type, [name for name, _ in request.protocols]):
            raise errors.InconsistentGroupProtocol()

    def _member(self, draft: Draft, request: JoinRequest, member_id: str) -> ConsumerMember:
        group = draft.group
        if request.instance_id is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if not request.member_id:
            return self._course.rejoining_static(draft, member_id, request.instance_id, uses_classic=True)
        return self._course.static_member_of(group, member_id, request.instance_id)

    # -- sync and heartbeat ----------------------------------------------------------------------------------------
    def sync(self, group: ConsumerGroup, request: SyncRequest) -> Fields:
        """SyncGroup of a classic member. Restarts its session timeout and returns the response fields with its
        assignment. Raises RebalanceInProgress if the member must rejoin, or another KafkaError."""
        member = self._ensured(group, request.member_id, request.instance_id, request.generation_id)
        assert member.classic is not None
        protocol_name, subscription = member.classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, protocol_name):
            raise errors.InconsistentGroupProtocol()
        if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._course.watch_join(group.group_id, member)
            raise errors.RebalanceInProgress(
                f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} should rejoin "
                "to catch up."
            )
        self._course.timer.cancel((SYNC_TIMER, group.group_id, member.member_id))
        self._course.watch_session(group.group_id, member.member_id, member.classic.session_timeout_ms)
        return {
            "error_code": 0,
            "protocol_type": CONSUMER,
            "protocol_name": protocol_name,
            "assignment": assignment_bytes(member.assigned, protocol_version(subscription), self._course.topics),
        }

    def heartbeat(self, group: ConsumerGroup, generation_id: int, member_id: str, instance_id: str | None) -> None:
        """Heartbeat of a classic member: restart its session timeout. Raises RebalanceInProgress to make it rejoin, or
        another KafkaError."""
        member = self._ensured(group, member_id, instance_id, generation_id)
        assert member.classic is not None
        self._course.watch_session(group.group_id, member_id, member.classic.session_timeout_ms)
        is_released = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_partition(member)
        if (
            member.member_epoch < group.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or is_released
        ):
            self._course.watch_join(group.group_id, member)
            raise errors.RebalanceInProgress()

    def _ensured(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
    ) -> ConsumerMember:
        if instance_id is None:
            member = group.member(member_id)
        else:
            current = group.static_member(instance_id)
            if current is None:
                raise errors.UnknownMemberId(
                    f"Member with instance id {instance_id} is not a member of group {group.group_id}."
                )
            ensure_not_replaced(current, member_id, instance_id)
            member = current
        if not member.uses_classic_protocol:
            raise errors.UnknownMemberId(f"Member {member.member_id} does not use the classic protocol.")
        if generation_id != member.member_epoch:
            raise errors.IllegalGeneration(
                f"The request generation id {generation_id} is not equal to the member epoch {member.member_epoch} of "
                f"member {member_id}."
            )
        return member

    # -- leaving ---------------------------------------------------------------------------------------------------
    def leave(self, group: ConsumerGroup, members: Sequence[MemberIdentity]) -> list[int]:
        """LeaveGroup of members of either protocol, which may convert the group to a classic one. Returns an error code
        for each member, 0 for a removed one. Raises a KafkaError if the change cannot be written."""
        leaving: dict[str, ConsumerMember] = {}
        codes = []
        for identity in members:
            try:
                member = self._leaving(group, identity)
                leaving[member.member_id] = member
                codes.append(0)
            except errors.KafkaError as error:
                codes.append(error.code)
        self._course.fence(group, list(leaving.values()))
        return codes

    def _leaving(self, group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
        if identity.instance_id is None:
            return group.member(identity.member_id)
        member_id = identity.member_id or group.static_members.get(identity.instance_id, "")
        return self._course.static_member_of(group, member_id, identity.instance_id)


def _updated(current: ConsumerMember, request: JoinRequest, subscription: object) -> ConsumerMember:
    return replace(
        current,
        instance_id=request.instance_id if request.instance_id is not None else current.instance_id,
        rack_id=getattr(subscription, "rack_id", None) or current.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=frozenset(subscription.topics),  # type: ignore[attr-defined]
        subscribed_topic_regex="",
        client_id=request.client.client_id,
        client_host=request.client.host,
        classic=ClassicMetadata(request.session_timeout_ms, tuple(request.protocols)),
    )
