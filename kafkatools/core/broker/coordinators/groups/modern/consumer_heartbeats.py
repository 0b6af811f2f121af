"""ConsumerGroupHeartbeat: members join, go on and leave by the consumer protocol (KIP-848).

Source: GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid and
GroupMetadataManager.consumerGroupHeartbeat, consumerGroupLeave of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kafkatools.core.broker.coordinators.groups.modern.consumer_changes import CurrentAssignmentChange
from kafkatools.core.broker.coordinators.groups.modern.consumer_course import ConsumerCourse, Draft, ensure_epoch
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import ConsumerGroup
from kafkatools.core.broker.coordinators.groups.modern.consumer_member import (
    LEAVE_GROUP_EPOCH,
    LEAVE_GROUP_STATIC_EPOCH,
    ConsumerMember,
)
from kafkatools.core.broker.coordinators.groups.modern.modern_changes import (
    JOINING_EPOCH,
    heartbeat_fields,
    partitions_of,
)
from kafkatools.core.broker.coordinators.groups.modern.reconciliation import Owned
from kafkatools.core.broker.coordinators.groups.requests import Client, Fields
from kafkatools.core.broker.coordinators.groups.topic_regex import MayDescribe, TopicRegexes, everything
from kafkatools.core.errors import GroupIdNotFound, InvalidRequest, UnsupportedAssignor
from kafkatools.core.protocol import uuids

NOT_GIVEN = -1
FIRST_VERSION_OF_CLIENT_MEMBER_ID = 1
OpenGroup = Callable[[str], Draft]


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """A ConsumerGroupHeartbeat request. A field of None, and a rebalance timeout of -1, is unchanged since the member's
    last request. `may_describe` tells whether the client may see a topic that matches its pattern."""

    group_id: str
    member_id: str
    member_epoch: int
    client: Client
    version: int = 1
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NOT_GIVEN
    subscribed_topic_names: frozenset[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: Owned | None = None
    may_describe: MayDescribe = everything

    @property
    def is_full(self) -> bool:
        """Return whether the request has all fields, as after a failure, so that the response must have the
        assignment."""
        has_subscription = self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None
        return self.rebalance_timeout_ms != NOT_GIVEN and has_subscription and self.owned is not None


class ConsumerHeartbeats:
    """Handles ConsumerGroupHeartbeat. `upgrade` drafts the conversion of a classic group."""

    def __init__(self, course: ConsumerCourse, regexes: TopicRegexes, upgrade: OpenGroup) -> None:
        self._course = course
        self._regexes = regexes
        self._upgrade = upgrade

    def heartbeat(self, request: HeartbeatRequest) -> Fields:
        """ConsumerGroupHeartbeat: join, stay or leave. Returns the response fields, with the assignment if the member
        joins, sends all fields, or has a new assignment. Raises a KafkaError."""
        self._check(request)
        if request.member_epoch in (LEAVE_GROUP_EPOCH, LEAVE_GROUP_STATIC_EPOCH):
            return self._leave(request)
        return self._beat(request)

    def _check(self, request: HeartbeatRequest) -> None:
        epoch = request.member_epoch
        has_member_id = request.version >= FIRST_VERSION_OF_CLIENT_MEMBER_ID
        if (has_member_id or epoch > 0 or epoch == LEAVE_GROUP_EPOCH) and not request.member_id.strip():
            raise InvalidRequest("MemberId can't be empty.")
        for value, name in (
            (request.group_id, "GroupId"),
            (request.instance_id, "InstanceId"),
            (request.rack_id, "RackId"),
        ):
            if value is not None and not value.strip():
                raise InvalidRequest(f"{name} can't be empty.")
        if epoch == JOINING_EPOCH:
            self._check_joining(request)
        elif epoch == LEAVE_GROUP_STATIC_EPOCH:
            if request.instance_id is None:
                raise InvalidRequest("InstanceId can't be null.")
        elif epoch < LEAVE_GROUP_STATIC_EPOCH:
            raise InvalidRequest("MemberEpoch is invalid.")
        assignors = self._course.settings.assignors
        if request.server_assignor is not None and request.server_assignor not in assignors:
            raise UnsupportedAssignor(
                f"ServerAssignor {request.server_assignor} is not supported. "
                f"Supported assignors: {', '.join(assignors)}."
            )

    def _check_joining(self, request: HeartbeatRequest) -> None:
        if request.rebalance_timeout_ms == NOT_GIVEN:
            raise InvalidRequest("RebalanceTimeoutMs must be provided in first request.")
        if request.owned is None or request.owned:
            raise InvalidRequest("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise InvalidRequest(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )

    # -- joining and going on --------------------------------------------------------------------------------------
    def _beat(self, request: HeartbeatRequest) -> Fields:
        course = self._course
        draft = self._open(request)
        course.ensure_room(draft.group, request.member_id)
        current = self._member(draft, request)
        updated = _updated(current, request)
        names_changed = course.note_subscription(draft, current, updated)
        regex_changed, regex_resolved = self._regexes.update(draft, current, updated, request.may_describe)
        epoch = course.advance(draft, updated, bump=names_changed or (regex_changed and regex_resolved))
        target = course.target(draft, updated, epoch)
        member = course.reconcile(
            draft, updated, target, request.owned, has_subscription_changed=names_changed or regex_changed
        )
        course.write(draft)
        course.watch_session(request.group_id, member.member_id)
        interval_ms = course.settings.heartbeat_interval_ms(request.group_id)
        fields = heartbeat_fields(member.member_id, member.member_epoch, interval_ms)
        if request.member_epoch == JOINING_EPOCH or request.is_full or _partitions_differ(current, member):
            fields["assignment"] = {"topic_partitions": partitions_of(member.assigned)}
        return fields

    def _open(self, request: HeartbeatRequest) -> Draft:
        group = self._course.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return Draft(group)
        if request.member_epoch != JOINING_EPOCH:
            if group is None:
                raise GroupIdNotFound(f"Consumer group {request.group_id} not found.")
            raise GroupIdNotFound(f"Group {request.group_id} is not a consumer group.")
        return Draft(ConsumerGroup(request.group_id)) if group is None else self._upgrade(request.group_id)

    def _member(self, draft: Draft, request: HeartbeatRequest) -> ConsumerMember:
        group, is_joining = draft.group, request.member_epoch == JOINING_EPOCH
        member_id = request.member_id or uuids.uuid_text(uuids.random_uuid())
        if request.instance_id is not None:
            if is_joining:
                return self._course.rejoining_static(draft, member_id, request.instance_id, uses_classic=False)
            member = self._course.static_member_of(group, member_id, request.instance_id)
        elif is_joining:
            member = group.members.get(member_id) or ConsumerMember(member_id)
        else:
            member = group.member(member_id)
        ensure_epoch(member, request.member_epoch, request.owned)
        return member

    # -- leaving ---------------------------------------------------------------------------------------------------
    def _leave(self, request: HeartbeatRequest) -> Fields:
        group = self._course.groups.get(request.group_id)
        if group is None:
            raise GroupIdNotFound(f"Group {request.group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise GroupIdNotFound(f"Group {request.group_id} is not a consumer group.")
        if request.instance_id is None:
            self._course.fence(group, [group.member(request.member_id)])
        else:
            member = self._course.static_member_of(group, request.member_id, request.instance_id)
            if request.member_epoch == LEAVE_GROUP_STATIC_EPOCH:
                self._leave_static(group, member)
            else:
                self._course.fence(group, [member])
        return heartbeat_fields(request.member_id, request.member_epoch, 0)

    def _leave_static(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Set a static member to epoch -2. It keeps its assignment while it restarts within its session timeout, as of
        epoch 0: the returning member may commit with any epoch."""
        assigned = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()}
        leaving = replace(member, member_epoch=LEAVE_GROUP_STATIC_EPOCH, assigned=assigned, pending_revocation={})
        self._course.write(Draft(group, [CurrentAssignmentChange(member.member_id, leaving)]))


def _updated(current: ConsumerMember, request: HeartbeatRequest) -> ConsumerMember:
    fields: dict[str, object] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == NOT_GIVEN else request.rebalance_timeout_ms,
        "server_assignor": request.server_assignor,
        "subscribed_topic_names": request.subscribed_topic_names,
        "subscribed_topic_regex": request.subscribed_topic_regex,
    }
    changes = {name: value for name, value in fields.items() if value is not None}
    return replace(
        current,
        client_id=request.client.client_id,
        client_host=request.client.host,
        classic=None,
        **changes,  # type: ignore[arg-type]
    )


def _partitions_differ(previous: ConsumerMember, current: ConsumerMember) -> bool:
    return {topic: set(p) for topic, p in previous.assigned.items()} != {
        topic: set(p) for topic, p in current.assigned.items()
    }
