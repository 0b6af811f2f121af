"""The sticky assignors, which keep partitions with their owners: StickyAssignor and CooperativeStickyAssignor (KIP-54,
KIP-429).

Rules: members report the partitions they own, with a generation. StickyAssignor reads both from its user data (version
0 lacks the generation). CooperativeStickyAssignor reads them from the subscription, or the generation from its user
data. Of two claims to a partition the newer generation's wins; two claims of one generation are void. Unreadable user
data counts as owning nothing.

A cooperative assignment excludes partitions that their owner must revoke first; the next rebalance assigns them.
Source: AbstractStickyAssignor. Two rare cases differ, where Kafka leaves partitions unread: a partition that its topic
no longer has is assigned to nobody, and a member without topics gets none.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kafkatools.core.consumer.assignors.assignor import (
    GroupAssignment,
    MemberSubscription,
    Partitions,
    RebalanceProtocol,
    Subscriptions,
    in_map_order,
)
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.java.hash_order import hash_order

DEFAULT_GENERATION = -1
_INT32 = struct.Struct(">i")
_INT16 = struct.Struct(">h")


class MemberData(NamedTuple):
    """The partitions a member claims to own; generation None when it reported none."""

    partitions: Sequence[TopicPartition]
    generation: int | None = None


class Claims:
    """The owners of partitions after conflicting claims are settled (Kafka's allSubscriptionsEqual)."""

    def __init__(self) -> None:
        self.owned: dict[str, list[TopicPartition]] = {}
        self.doubly_claimed: set[TopicPartition] = set()
        self._owners: dict[TopicPartition, str] = {}

    def take(
        self, member: str, data: MemberData, partitions_per_topic: Partitions, subscriptions: Subscriptions
    ) -> None:
        """Add a member's claims and settle conflicts with earlier members' claims by generation."""
        generation = DEFAULT_GENERATION if data.generation is None else data.generation
        owned = self.owned[member] = []
        for part in data.partitions:
            if not 0 <= part.partition < len(partitions_per_topic.get(part.topic, ())):
                continue
            rival = self._owners.get(part)
            # Kafka compares with the generation in the other member's subscription, whatever its user data says.
            other_generation = (
                DEFAULT_GENERATION if rival is None else max(DEFAULT_GENERATION, subscriptions[rival].generation_id)
            )
            if rival is None or generation > other_generation:
                owned.append(part)
            elif generation < other_generation:
                continue
            else:
                self.doubly_claimed.add(part)
            if rival is not None and part in self.owned[rival]:
                self.owned[rival].remove(part)
            self._owners[part] = member


class _StickyBase(ABC):
    """The assignment algorithm that both sticky assignors share."""

    def __init__(self) -> None:
        self._generation = DEFAULT_GENERATION
        self._max_generation = DEFAULT_GENERATION

    @abstractmethod
    def _member_data(self, subscription: MemberSubscription) -> MemberData:
        """Return the partitions and generation that a member's subscription claims."""

    def _assign(
        self, partitions_per_topic: Partitions, subscriptions: Subscriptions
    ) -> tuple[GroupAssignment, dict[TopicPartition, str] | None]:
        """Return the assignment, and the new owner of each partition that another member still owns. The second item is
        None when members subscribe to different topics: compare with the owned partitions then."""
        # Only the group leader assigns, so other members need not load these.
        from kafkatools.core.consumer.assignors.sticky_constrained import ConstrainedAssignment
        from kafkatools.core.consumer.assignors.sticky_general import GeneralAssignment
        from kafkatools.core.consumer.assignors.sticky_racks import RackInfo

        partitions_per_topic, subscriptions = in_map_order(partitions_per_topic, subscriptions)
        data = {member: self._member_data(subscription) for member, subscription in subscriptions.items()}
        claims = Claims()
        for member, claim in data.items():
            if claim.generation is not None:
                self._max_generation = max(self._max_generation, claim.generation)
            claims.take(member, claim, partitions_per_topic, subscriptions)
        owned = {member: claims.owned[member] for member in hash_order(claims.owned)}
        racks = RackInfo(partitions_per_topic, subscriptions)
        if _are_equal(subscriptions):
            constrained = ConstrainedAssignment(partitions_per_topic, racks, owned, claims.doubly_claimed)
            return constrained.build(), constrained.transferring
        previous = self._previous_owners(data)
        return GeneralAssignment(partitions_per_topic, racks, owned, subscriptions).build(previous), None

    def _previous_owners(self, data: dict[str, MemberData]) -> dict[TopicPartition, str]:
        """Return each partition's owner in the newest generation that claims the partition and is older than the newest
        generation of all members (Kafka's prevAssignment)."""
        previous: dict[TopicPartition, tuple[str, int]] = {}
        for member, claim in data.items():
            generation = DEFAULT_GENERATION if claim.generation is None else claim.generation
            if generation >= self._max_generation:
                continue
            for part in claim.partitions:
                if part not in previous or generation > previous[part][1]:
                    previous[part] = (member, generation)
        return {part: member for part, (member, _) in previous.items()}


def _are_equal(subscriptions: Subscriptions) -> bool:
    topic_sets = [frozenset(subscription.topics) for subscription in subscriptions.values()]
    return all(topics == topic_sets[0] for topics in topic_sets)


class StickyAssignor(_StickyBase):
    """Kafka's StickyAssignor (eager): everything is revoked first, and mostly reassigned to the same members."""

    name = "sticky"
    supported_protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def __init__(self) -> None:
        super().__init__()
        self._assignment: Sequence[TopicPartition] | None = None

    def subscription_user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the last assignment and its generation (user data version 1); None before the first assignment."""
        if self._assignment is None:
            return None
        return write_sticky_user_data(self._assignment, self._generation)

    def on_assignment(self, assignment: Sequence[TopicPartition], generation: int) -> None:
        """Remember the assignment for the member's next JoinGroup."""
        self._assignment, self._generation = tuple(assignment), generation

    def assign(self, partitions_per_topic: Partitions, subscriptions: Subscriptions) -> GroupAssignment:
        """Return every member's partitions."""
        return self._assign(partitions_per_topic, subscriptions)[0]

    def _member_data(self, subscription: MemberSubscription) -> MemberData:
        return read_sticky_user_data(subscription.user_data) if subscription.user_data else MemberData(())


class CooperativeStickyAssignor(_StickyBase):
    """Kafka's CooperativeStickyAssignor: only partitions that move are revoked, one rebalance before they are assigned.
    It supports the eager protocol too, so that a group can switch in two rolling restarts: first with this and the old
    assignor in partition.assignment.strategy, then with this one alone."""

    name = "cooperative-sticky"
    supported_protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def subscription_user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the generation of the last assignment (-1 before the first) as 4 bytes, for leaders that cannot read
        version 2 subscriptions."""
        return _INT32.pack(self._generation)

    def on_assignment(self, assignment: Sequence[TopicPartition], generation: int) -> None:
        """Remember the generation of the assignment."""
        self._generation = generation

    def assign(self, partitions_per_topic: Partitions, subscriptions: Subscriptions) -> GroupAssignment:
        """Return every member's partitions, excluding those another member must revoke first."""
        assignment, transferring = self._assign(partitions_per_topic, subscriptions)
        if transferring is None:
            transferring = _transferring(assignment, subscriptions)
        for part, member in transferring.items():
            assignment[member].remove(part)
        return assignment

    def _member_data(self, subscription: MemberSubscription) -> MemberData:
        if subscription.generation_id >= 0:
            return MemberData(subscription.owned_partitions, subscription.generation_id)
        if subscription.user_data is None:
            return MemberData(subscription.owned_partitions)
        is_readable = len(subscription.user_data) >= _INT32.size
        generation = _INT32.unpack_from(subscription.user_data)[0] if is_readable else DEFAULT_GENERATION
        return MemberData(subscription.owned_partitions, generation)


def _transferring(assignment: GroupAssignment, subscriptions: Subscriptions) -> dict[TopicPartition, str]:
    """Return the partitions assigned to one member but still owned by another, with their new owners."""
    additions: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member, partitions in assignment.items():
        owned = {TopicPartition(*part) for part in subscriptions[member].owned_partitions}
        additions.update((part, member) for part in partitions if part not in owned)
        revoked.update(owned.difference(partitions))
    return {part: member for part, member in additions.items() if part in revoked}


# --- the user data of StickyAssignor: STICKY_ASSIGNOR_USER_DATA_V0 and V1


def write_sticky_user_data(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """Encode the user data of StickyAssignor, version 1: topics with their partitions, then the generation."""
    by_topic: dict[str, list[int]] = {}
    for part in partitions:
        by_topic.setdefault(part.topic, []).append(part.partition)
    out = bytearray(_INT32.pack(len(by_topic)))
    for topic in hash_order(by_topic):
        name, indexes = topic.encode(), by_topic[topic]
        out += _INT16.pack(len(name)) + name
        out += struct.pack(f">{len(indexes) + 1}i", len(indexes), *indexes)
    return bytes(out + _INT32.pack(generation))


def read_sticky_user_data(data: bytes) -> MemberData:
    """Decode StickyAssignor's user data, version 1, or 0 without a generation; no partitions if malformed."""
    try:
        partitions, end = _read_partitions(data)
    except (struct.error, UnicodeDecodeError, ValueError):
        return MemberData((), DEFAULT_GENERATION)
    if len(data) - end < _INT32.size:
        return MemberData(partitions)
    return MemberData(partitions, _INT32.unpack_from(data, end)[0])


def _read_partitions(data: bytes) -> tuple[list[TopicPartition], int]:
    partitions: list[TopicPartition] = []
    topics, position = _count(data, 0)
    for _ in range(topics):
        (length,) = _INT16.unpack_from(data, position)
        position += _INT16.size
        if not 0 <= length <= len(data) - position:
            raise ValueError(length)
        topic = data[position : position + length].decode()
        count, position = _count(data, position + length)
        partitions += [TopicPartition(topic, index) for index in struct.unpack_from(f">{count}i", data, position)]
        position += _INT32.size * count
    return partitions, position


def _count(data: bytes, position: int) -> tuple[int, int]:
    (count,) = _INT32.unpack_from(data, position)
    if not 0 <= count <= len(data) - position:
        raise ValueError(count)
    return count, position + _INT32.size
