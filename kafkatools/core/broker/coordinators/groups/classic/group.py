"""A classic group as a value with rules (Kafka's ClassicGroup): members, state, generation, protocol.

Nothing here knows of time-outs, disks or sockets; times are parameters. Members are kept in the order of joining.
"""

from __future__ import annotations

from collections import Counter

from kafkatools.core.broker.coordinators.groups.classic.member import Member
from kafkatools.core.broker.coordinators.groups.classic.states import GroupState, may_follow
from kafkatools.core.broker.coordinators.groups.offset_records import Record, group_tombstone
from kafkatools.core.broker.coordinators.groups.requests import (
    Answer,
    Fields,
    JoinRequest,
    Protocols,
    error_code_field,
    join_error,
)
from kafkatools.core.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    NonEmptyGroup,
    RebalanceInProgress,
    UnknownMemberId,
)

CONSUMER_PROTOCOL_TYPE = "consumer"


class Group:
    """One group."""

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
        return self.state.value

    @property
    def protocol_name_of_type(self) -> str:
        return self.protocol_type or ""

    @property
    def is_empty(self) -> bool:
        return self.is_in(GroupState.EMPTY)

    def is_in(self, *states: GroupState) -> bool:
        """Whether the group is in one of these states."""
        return self.state in states

    def transition_to(self, state: GroupState, wall_ms: int) -> None:
        """Change the state; ValueError when there is no way."""
        if not may_follow(state, self.state):
            raise ValueError(f"Group {self.group_id} cannot go from {self.state.value} to {state.value}")
        self.previous_state, self.state = self.state, state
        self.state_since_ms = wall_ms

    @property
    def can_rebalance(self) -> bool:
        return may_follow(GroupState.PREPARING_REBALANCE, self.state)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of its members'."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- members ---------------------------------------------------------------------------------------------------
    def add(self, member: Member, answer: Answer | None = None) -> None:
        """A new member, which waits for the answer of its join."""
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        member.join_answer = answer
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Forget a member or a pending one; the leader is followed by the oldest member."""
        member = self.members.pop(member_id, None)
        if member is not None and member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)
        return member

    def replace_static_member(self, instance_id: str, member_id: str) -> Member:
        """A static member came back under a new member id: the old one is fenced wherever it waits."""
        old_id = self.static_members[instance_id]
        member = self.members[old_id]
        self.complete_join(member, join_error(old_id, FencedInstanceId.code))
        self.complete_sync(member, error_code_field(FencedInstanceId.code))
        self.members = {member_id if known == old_id else known: other for known, other in self.members.items()}
        member.member_id = member_id
        self.static_members[instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if old_id in self.pending_sync:
            self.pending_sync.discard(old_id)
            self.pending_sync.add(member_id)
        return member

    def update(self, member: Member, request: JoinRequest, answer: Answer | None) -> None:
        """What a member says when it joins again. A join it had still open is answered: its client gave it up."""
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        if answer is not None and member.join_answer is not None:
            self.complete_join(member, join_error(member.member_id, RebalanceInProgress.code))
        member.join_answer = answer

    def ensure_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member; UnknownMemberId, FencedInstanceId (validateMember)."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise UnknownMemberId(f"Static member {instance_id} is not found in group {self.group_id}.")
            if known != member_id:
                raise FencedInstanceId(
                    f"Static member {instance_id} of group {self.group_id} was replaced by member {known}."
                )
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def is_leader(self, member_id: str) -> bool:
        """Whether it computes the assignment."""
        return self.leader_id == member_id

    @property
    def awaiting_join(self) -> list[Member]:
        return [member for member in self.members.values() if member.is_awaiting_join]

    @property
    def has_all_members_joined(self) -> bool:
        return not self.pending_join and all(member.is_awaiting_join for member in self.members.values())

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one who joined; False when nobody did."""
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
        """Whether a member with these protocols can be in the group."""
        if self.is_in(GroupState.EMPTY):
            return bool(protocol_type and protocols)
        if self.protocol_type != protocol_type:
            return False
        if not self.members:  # everybody left during the initial wait
            return bool(protocols)
        common = self.common_protocols()
        return any(name in common for name, _ in protocols)

    def common_protocols(self) -> set[str]:
        """Those that every member has."""
        counts = Counter(name for member in self.members.values() for name in dict(member.protocols))
        return {name for name, count in counts.items() if count == len(self.members)}

    def select_protocol(self) -> str:
        """The common protocol that most members prefer; among equals the one voted for first."""
        candidates = self.common_protocols()
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def init_next_generation(self, wall_ms: int) -> None:
        """The rebalance is over: with members they await their assignment, else the group is empty."""
        self.generation_id += 1
        if self.members:
            self.protocol_name = self.select_protocol()
            self.subscribed_topics = self._subscriptions()
            self.transition_to(GroupState.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol_name = None
            self.subscribed_topics = self._subscriptions()
            self.transition_to(GroupState.EMPTY, wall_ms)
        self.pending_sync.clear()

    def recompute_subscriptions(self) -> None:
        """After the group was read back."""
        self.subscribed_topics = self._subscriptions()

    def _subscriptions(self) -> frozenset[str] | None:
        """The topics of a group of consumers; None when they cannot be told."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            found = subscribed_topics(member.metadata(self.protocol_name))
            if found is None:
                return None
            topics.update(found)
        return frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads it; true of every topic while that is not known of a group of consumers."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    # -- answers ---------------------------------------------------------------------------------------------------
    def joined_fields(self, member: Member, *, skip_assignment: bool = False) -> Fields:
        """The JoinGroup response of a member of the present generation."""
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
        """What the leader gets to know of everybody."""
        assert self.protocol_name is not None
        return [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "metadata": member.metadata(self.protocol_name),
            }
            for member in self.members.values()
        ]

    def synced_fields(self, member: Member, error_code: int = 0) -> Fields:
        """The SyncGroup response of a member."""
        if error_code:
            return error_code_field(error_code)
        return {
            "error_code": 0,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol_name,
            "assignment": member.assignment,
        }

    def complete_join(self, member: Member, fields: Fields) -> bool:
        """Answer the join it waits for; False when it waits for none."""
        answer, member.join_answer = member.join_answer, None
        if answer is not None:
            answer(fields)
        return answer is not None

    def complete_sync(self, member: Member, fields: Fields) -> bool:
        """Answer the sync it waits for; False when it waits for none."""
        answer, member.sync_answer = member.sync_answer, None
        if answer is not None:
            answer(fields)
        return answer is not None

    # -- checks of offsets -----------------------------------------------------------------------------------------
    def ensure_may_commit(
        self, member_id: str, instance_id: str | None, generation_id: int, *, is_transactional: bool = False
    ) -> None:
        """validateOffsetCommit: members of this generation; anybody without a membership while the group is empty, in a
        transaction always."""
        if self.is_in(GroupState.DEAD):
            raise CoordinatorNotAvailable()
        if generation_id < 0 and self.is_in(GroupState.EMPTY):
            return
        if generation_id >= 0 or member_id or instance_id is not None:
            self.ensure_member(member_id, instance_id)
            self.ensure_generation(generation_id)
        elif not is_transactional:
            raise UnknownMemberId()
        if not is_transactional and self.is_in(GroupState.COMPLETING_REBALANCE):
            raise RebalanceInProgress()

    def ensure_generation(self, generation_id: int) -> None:
        """IllegalGeneration unless it is the present one."""
        if generation_id != self.generation_id:
            raise IllegalGeneration()

    def ensure_may_delete(self) -> None:
        """validateDeleteGroup: only an empty group is deleted."""
        if self.is_in(GroupState.DEAD):
            raise GroupIdNotFound(f"Group {self.group_id} not found.")
        if not self.is_in(GroupState.EMPTY):
            raise NonEmptyGroup()

    def tombstones(self) -> list[Record]:
        """What deletes the group from the log."""
        return [group_tombstone(self.group_id)]

    def ensure_may_delete_offsets(self) -> None:
        """validateOffsetDelete: an empty group, or one of consumers (whose subscriptions are looked at)."""
        if self.is_in(GroupState.DEAD):
            raise GroupIdNotFound(f"Group {self.group_id} not found.")
        if not self.is_in(GroupState.EMPTY) and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise NonEmptyGroup()

    def expiration_base_ms(self, topic: str, commit_ms: int) -> int | None:
        """From when the retention of an offset counts (offsetExpirationCondition); None: it is kept."""
        if self.protocol_type is None:
            return commit_ms
        if self.is_in(GroupState.EMPTY):
            return commit_ms if self.state_since_ms is None else self.state_since_ms
        if self.is_in(GroupState.STABLE) and self.subscribed_topics is not None:
            return None if topic in self.subscribed_topics else commit_ms
        return None


def subscribed_topics(metadata: bytes) -> tuple[str, ...] | None:
    """The topics of a consumer's subscription; None when the bytes are none (ConsumerProtocol)."""
    from kafkatools.core.protocol.schemas.consumer_protocol import ConsumerProtocolSubscription
    from kafkatools.core.protocol.schemas.errors import RecordFormatError

    if len(metadata) < 2:
        return None
    version = min(int.from_bytes(metadata[:2], "big", signed=True), ConsumerProtocolSubscription.highest_version)
    if version < 0:
        return None
    try:
        entity, _ = ConsumerProtocolSubscription.read(version, metadata, 2)
    except RecordFormatError:
        return None
    return tuple(entity.topics)
