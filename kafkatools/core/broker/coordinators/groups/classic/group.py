"""A classic group (Kafka's ClassicGroup): members, state, generation and protocol.

This module knows no timers, disks or sockets; times are parameters. Members are kept in the order of joining.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafkatools.core import errors
from kafkatools.core.broker.coordinators.groups.classic.member import Member
from kafkatools.core.broker.coordinators.groups.classic.states import GroupState, may_follow
from kafkatools.core.broker.coordinators.groups.offset_records import Record, group_tombstone
from kafkatools.core.broker.coordinators.groups.requests import (
    Fields,
    JoinRequest,
    Protocols,
    ResponseCallback,
    error_code_field,
    join_error,
)
from kafkatools.core.protocol.schemas.errors import RecordFormatError

CONSUMER_PROTOCOL_TYPE = "consumer"


class Group:
    """A classic group."""

    group_type = "classic"

    def __init__(self, group_id: str, wall_ms: int) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_since_ms: int | None = wall_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_join: set[str] = set()
        self.pending_sync: set[str] = set()
        self.has_new_member = False
        self.subscribed_topics: frozenset[str] | None = None

    # -- state -----------------------------------------------------------------------------------------------------
    @property
    def state_name(self) -> str:
        """The group state as clients see it."""
        return self.state.value

    @property
    def protocol_name_of_type(self) -> str:
        """The protocol type of the members, such as `consumer`; "" before the first member joins."""
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        """Return whether the group is in state Empty."""
        return self.is_in(GroupState.EMPTY)

    def is_in(self, *states: GroupState) -> bool:
        """Return whether the group is in one of these states."""
        return self.state in states

    def transition_to(self, state: GroupState, wall_ms: int) -> None:
        """Change the state. Raises ValueError for an invalid transition."""
        if not may_follow(state, self.state):
            raise ValueError(f"Group {self.group_id} cannot change from {self.state.value} to {state.value}")
        self.previous_state, self.state = self.state, state
        self.state_since_ms = wall_ms

    @property
    def can_rebalance(self) -> bool:
        """Return whether a rebalance can start: state Empty, CompletingRebalance or Stable."""
        return may_follow(GroupState.PREPARING_REBALANCE, self.state)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members; 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- members ---------------------------------------------------------------------------------------------------
    def add(self, member: Member, respond: ResponseCallback | None = None) -> None:
        """Add a member, with the callback for its pending JoinGroup response if there is one. The first member sets the
        group's protocol type and becomes leader."""
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        member.awaiting_join_callback = respond
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member or a pending member id. If it was the leader, the oldest member becomes leader. Returns the
        member, None if the id was no member."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)
        return member

    def replace_static_member(self, instance_id: str, member_id: str) -> Member:
        """Give a returning static member its new member id, in the place of the old one, and return the member. Pending
        responses to the old id get FENCED_INSTANCE_ID."""
        old_id = self.static_members[instance_id]
        member = self.members[old_id]
        self.complete_join(member, join_error(old_id, errors.FencedInstanceId.code))
        self.complete_sync(member, error_code_field(errors.FencedInstanceId.code))
        self.members = {
            member_id if key == old_id else key: present_member for key, present_member in self.members.items()
        }
        member.member_id = member_id
        self.static_members[instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if old_id in self.pending_sync:
            self.pending_sync.discard(old_id)
            self.pending_sync.add(member_id)
        return member

    def update(self, member: Member, request: JoinRequest, respond: ResponseCallback | None) -> None:
        """Update a member from a new JoinGroup request. An older pending join gets REBALANCE_IN_PROGRESS."""
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        if respond is not None and member.awaiting_join_callback is not None:
            self.complete_join(member, join_error(member.member_id, errors.RebalanceInProgress.code))
        member.awaiting_join_callback = respond

    def ensure_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member of this id (validateMember). Raises UnknownMemberId for an unknown id or instance id,
        FencedInstanceId if the instance id belongs to another member id."""
        if instance_id is not None:
            owner_id = self.static_members.get(instance_id)
            if owner_id is None:
                raise errors.UnknownMemberId(f"Static member {instance_id} is not found in group {self.group_id}.")
            if owner_id != member_id:
                raise errors.FencedInstanceId(
                    f"Static member {instance_id} of group {self.group_id} was replaced by member {owner_id}."
                )
        member = self.members.get(member_id)
        if member is None:
            raise errors.UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def is_leader(self, member_id: str) -> bool:
        """Return whether the member is the group's leader, which computes the assignment."""
        return self.leader_id == member_id

    @property
    def awaiting_join(self) -> list[Member]:
        """The members with a pending JoinGroup response."""
        return [member for member in self.members.values() if member.is_awaiting_join]

    @property
    def has_all_members_joined(self) -> bool:
        """Return whether every member has rejoined and no member id is pending."""
        return not self.pending_join and all(member.is_awaiting_join for member in self.members.values())

    def elect_joined_leader(self) -> bool:
        """Elect the first member that has rejoined as leader, unless the present leader has rejoined. False if no
        member has rejoined or the group has no leader."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].is_awaiting_join:
            return True
        joined = self.awaiting_join
        if joined:
            self.leader_id = joined[0].member_id
        return bool(joined)

    # -- protocols -------------------------------------------------------------------------------------------------
    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols can join: the type matches and all members support one of them.
        An empty group accepts any type with at least one protocol."""
        if self.is_in(GroupState.EMPTY):
            return bool(protocol_type and protocols)
        if self.protocol_type != protocol_type:
            return False
        if not self.members:  # all members left during the initial rebalance delay
            return bool(protocols)
        common = self.common_protocols()
        return any(name in common for name, _ in protocols)

    def common_protocols(self) -> set[str]:
        """The names of the protocols that every member supports."""
        counts = Counter(name for member in self.members.values() for name in dict(member.protocols))
        return {name for name, count in counts.items() if count == len(self.members)}

    def select_protocol(self) -> str:
        """The common protocol that most members prefer; of equals the one that an earlier member prefers."""
        candidates = self.common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def init_next_generation(self, wall_ms: int) -> None:
        """Start the next generation after the join phase: CompletingRebalance with members, Empty without."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.recompute_subscriptions()
        self.transition_to(GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY, wall_ms)
        self.pending_sync.clear()

    def recompute_subscriptions(self) -> None:
        """Decode the members' subscriptions into `subscribed_topics`; None if the group's topics are unknown."""
        self.subscribed_topics = self._subscriptions()

    def _subscriptions(self) -> frozenset[str] | None:
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            member_topics = subscribed_topics(member.metadata(self.protocol_name))
            if member_topics is None:
                return None
            topics.update(member_topics)
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member is subscribed to the topic. True if a consumer group's subscriptions are unknown."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    # -- answers ---------------------------------------------------------------------------------------------------
    def joined_fields(self, member: Member, *, skip_assignment: bool = False) -> Fields:
        """The JoinGroup response of a member in the present generation. Only the leader's lists all members."""
        return {
            **join_error(member.member_id, 0),
            "generation_id": self.generation_id,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol_name,
            "leader": self.leader_id or "",
            "skip_assignment": skip_assignment,
            "members": self.members_metadata() if self.is_leader(member.member_id) else [],
        }

    def members_metadata(self) -> list[Fields]:
        """Member id, instance id and metadata of every member, for the leader's JoinGroup response."""
        assert self.protocol_name is not None
        return [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "metadata": member.metadata(self.protocol_name),
            }
            for member in self.members.values()
        ]

    def synced_fields(self, member: Member) -> Fields:
        """The SyncGroup response of a member with its assignment."""
        return {
            "error_code": 0,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol_name,
            "assignment": member.assignment,
        }

    def complete_join(self, member: Member, fields: Fields) -> bool:
        """Send a member's pending JoinGroup response. Returns False if none is pending."""
        respond, member.awaiting_join_callback = member.awaiting_join_callback, None
        if respond is not None:
            respond(fields)
        return respond is not None

    def complete_sync(self, member: Member, fields: Fields) -> bool:
        """Send a member's pending SyncGroup response. Returns False if none is pending."""
        respond, member.awaiting_sync_callback = member.awaiting_sync_callback, None
        if respond is not None:
            respond(fields)
        return respond is not None

    # -- checks of offsets -----------------------------------------------------------------------------------------
    def ensure_may_commit(
        self, member_id: str, instance_id: str | None, generation_id: int, *, is_transactional: bool = False
    ) -> None:
        """Check an offset commit: by a member of this generation (validateOffsetCommit). A commit without a generation
        is allowed while the group is empty; without a generation and member id also in a transaction. Raises
        UnknownMemberId, FencedInstanceId, IllegalGeneration, RebalanceInProgress, or CoordinatorNotAvailable for a dead
        group."""
        if self.is_in(GroupState.DEAD):
            raise errors.CoordinatorNotAvailable()
        if generation_id < 0 and self.is_in(GroupState.EMPTY):
            return
        if generation_id >= 0 or member_id or instance_id is not None:
            self.ensure_member(member_id, instance_id)
            self.ensure_generation(generation_id)
        elif not is_transactional:
            raise errors.UnknownMemberId()
        if not is_transactional and self.is_in(GroupState.COMPLETING_REBALANCE):
            raise errors.RebalanceInProgress()

    def ensure_generation(self, generation_id: int) -> None:
        """Raise IllegalGeneration unless this is the present generation."""
        if generation_id != self.generation_id:
            raise errors.IllegalGeneration()

    def ensure_may_delete(self) -> None:
        """Check that the group is empty (validateDeleteGroup). Raises NonEmptyGroup or GroupIdNotFound."""
        if self.is_in(GroupState.DEAD):
            raise errors.GroupIdNotFound(f"Group {self.group_id} not found.")
        if not self.is_in(GroupState.EMPTY):
            raise errors.NonEmptyGroup()

    def tombstones(self) -> list[Record]:
        """The record that deletes the group from `__consumer_offsets`."""
        return [group_tombstone(self.group_id)]

    def ensure_may_delete_offsets(self) -> None:
        """Raise NonEmptyGroup unless the group is empty or of type consumer, GroupIdNotFound for a dead group."""
        if self.is_in(GroupState.DEAD):
            raise errors.GroupIdNotFound(f"Group {self.group_id} not found.")
        if not self.is_in(GroupState.EMPTY) and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise errors.NonEmptyGroup()

    def expiration_base_ms(self, topic: str, commit_ms: int) -> int | None:
        """Return the start of an offset's retention, in ms since 1970 (offsetExpirationCondition). In an empty group
        this is when it became empty. It is the commit time for a group that never had members, and in a stable consumer
        group for topics without subscribers. Otherwise None: the offset does not expire."""
        if self.protocol_type is None:
            return commit_ms
        if self.is_in(GroupState.EMPTY):
            return commit_ms if self.state_since_ms is None else self.state_since_ms
        if self.is_in(GroupState.STABLE) and self.subscribed_topics is not None:
            return None if topic in self.subscribed_topics else commit_ms
        return None


def protocol_version(data: bytes) -> int:
    """The ConsumerProtocol version in the first two bytes, at most the highest supported one.

    Raises RecordFormatError if it is negative or missing.
    """
    from kafkatools.core.protocol.schemas.consumer_protocol import ConsumerProtocolAssignment

    if len(data) < 2:
        raise RecordFormatError("Buffer underflow while parsing consumer protocol's header")
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < 0:
        raise RecordFormatError(f"Unsupported subscription version: {version}")
    return min(version, ConsumerProtocolAssignment.highest_version)


def read_subscription(data: bytes) -> Any:
    """The ConsumerProtocolSubscription entity in a member's metadata. Raises RecordFormatError."""
    from kafkatools.core.protocol.schemas.consumer_protocol import ConsumerProtocolSubscription

    entity, _ = ConsumerProtocolSubscription.read(protocol_version(data), data, 2)
    return entity


def subscribed_topics(metadata: bytes) -> tuple[str, ...] | None:
    """The topics of a ConsumerProtocolSubscription; None if the bytes cannot be decoded."""
    try:
        return tuple(read_subscription(metadata).topics)
    except RecordFormatError:
        return None
