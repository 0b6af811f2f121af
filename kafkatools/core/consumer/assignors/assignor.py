"""Client-side partition assignors of the classic group protocol.

Rules: the group leader's assignor receives all members' subscriptions and assigns for all members, without I/O or
clock. Results equal Kafka's, list for list (two exceptions: sticky.py), so that Java clients and this one can alternate
as leader without moving partitions. `subscriptions` has the order of the JoinGroup response. An assignor belongs to one
member, whose last assignment it may remember. Sources: RangeAssignor, RoundRobinAssignor, AbstractPartitionAssignor
(KIP-345 for the order of static members, KIP-881 for racks).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, cycle, islice
from typing import NamedTuple, Protocol

from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import utf16_order
from kafkatools.core.net.metadata import ClusterView


@enum.unique
class RebalanceProtocol(enum.IntEnum):
    """The rebalance protocols: revoke everything first, or only the partitions that move (KIP-429)."""

    EAGER = 0
    COOPERATIVE = 1


class PartitionInfo(NamedTuple):
    """A partition and the racks of its replicas (None for a broker without a rack)."""

    topic: str
    partition: int
    racks: tuple[str | None, ...] = ()


class MemberSubscription(NamedTuple):
    """A member's subscription as decoded from JoinGroup. `generation_id` is -1 when the member sent none."""

    topics: Sequence[str]
    owned_partitions: Sequence[TopicPartition] = ()
    user_data: bytes | None = None
    generation_id: int = -1
    group_instance_id: str | None = None
    rack_id: str | None = None


Partitions = Mapping[str, Sequence[PartitionInfo]]
Subscriptions = Mapping[str, MemberSubscription]
GroupAssignment = dict[str, list[TopicPartition]]


class Assignor(Protocol):
    """The interface of a client-side assignor (ConsumerPartitionAssignor)."""

    name: str
    supported_protocols: tuple[RebalanceProtocol, ...]

    def subscription_user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return the user data for the member's JoinGroup subscription, or None."""

    def assign(self, partitions_per_topic: Partitions, subscriptions: Subscriptions) -> GroupAssignment:
        """Return every member's partitions; `partitions_per_topic` lacks topics without metadata."""

    def on_assignment(self, assignment: Sequence[TopicPartition], generation: int) -> None:
        """Called after the member was assigned these partitions in this generation."""


def partitions_of(view: ClusterView, topics: Iterable[str]) -> dict[str, list[PartitionInfo]]:
    """Return the partitions of each topic with their replicas' racks, without topics that are missing from metadata."""
    infos: dict[str, list[PartitionInfo]] = {}
    for name in topics:
        topic = view.topics.get(name)
        if topic is not None and topic.partitions:
            infos[name] = [
                PartitionInfo(name, index, tuple(_rack(view, node) for node in topic.partitions[index].replicas))
                for index in sorted(topic.partitions)
            ]
    return infos


def _rack(view: ClusterView, node_id: int) -> str | None:
    node = view.node(node_id)
    return None if node is None else node.rack


def in_map_order(partitions_per_topic: Partitions, subscriptions: Subscriptions) -> tuple[Partitions, Subscriptions]:
    """Return both mappings in the iteration order of the HashMaps that Kafka's assignors fill. Topics without
    partitions or subscribers are left out."""
    members = {member: subscriptions[member] for member in hash_order(subscriptions)}
    topic_order = hash_order(chain.from_iterable(subscription.topics for subscription in members.values()))
    topics = {topic: partitions_per_topic[topic] for topic in topic_order if partitions_per_topic.get(topic)}
    return {topic: topics[topic] for topic in hash_order(topics)}, members


def sorted_members(members: Iterable[str], subscriptions: Subscriptions) -> list[str]:
    """Sort static members first, by group.instance.id, then dynamic ones by member id (MemberInfo.compareTo)."""

    def key(member: str) -> tuple[bool, bytes]:
        instance = subscriptions[member].group_instance_id
        return (True, utf16_order(member)) if instance is None else (False, utf16_order(instance))

    return sorted(members, key=key)


def racks_of(info: PartitionInfo) -> frozenset[str]:
    """Return the racks of a partition's replicas, without replicas whose rack is unknown."""
    return frozenset(rack for rack in info.racks if rack is not None)


def needs_rack_awareness(consumer_racks: Iterable[str], partition_racks: Sequence[frozenset[str]]) -> bool:
    """Return whether racks matter: a consumer shares a partition's rack, and not all partitions are in all racks."""
    everywhere = frozenset(chain.from_iterable(partition_racks))
    if everywhere.isdisjoint(consumer_racks):
        return False
    return any(racks != everywhere for racks in partition_racks)


class _NoUserData:
    """Base of assignors without user data and memory; eager protocol."""

    supported_protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)

    def subscription_user_data(self, topics: Iterable[str]) -> bytes | None:
        """Return None."""
        return None

    def on_assignment(self, assignment: Sequence[TopicPartition], generation: int) -> None:
        """Do nothing."""


class RoundRobinAssignor(_NoUserData):
    """Kafka's RoundRobinAssignor: all partitions in turn to the members subscribed to their topics."""

    name = "roundrobin"

    def assign(self, partitions_per_topic: Partitions, subscriptions: Subscriptions) -> GroupAssignment:
        """Return every member's partitions."""
        partitions_per_topic, subscriptions = in_map_order(partitions_per_topic, subscriptions)
        assignment: GroupAssignment = {member: [] for member in subscriptions}
        members = cycle(sorted_members(subscriptions, subscriptions))
        subscribed = {member: frozenset(subscription.topics) for member, subscription in subscriptions.items()}
        for topic in sorted(partitions_per_topic, key=utf16_order):
            for index in range(len(partitions_per_topic[topic])):
                member = next(member for member in members if topic in subscribed[member])
                assignment[member].append(TopicPartition(topic, index))
        return assignment


class RangeAssignor(_NoUserData):
    """Kafka's RangeAssignor: consecutive partitions of each topic in shares that differ by at most one, same-rack
    members first."""

    name = "range"

    def assign(self, partitions_per_topic: Partitions, subscriptions: Subscriptions) -> GroupAssignment:
        """Return every member's partitions."""
        partitions_per_topic, subscriptions = in_map_order(partitions_per_topic, subscriptions)
        assignment: GroupAssignment = {member: [] for member in subscriptions}
        topics = [_TopicRanges(topic, infos, subscriptions) for topic, infos in partitions_per_topic.items()]
        is_rack_aware = any(topic.is_rack_aware for topic in topics)
        if is_rack_aware:
            for group in _co_partitioned(topics):
                if len(group) > 1:
                    _assign_together(group, assignment)
                elif group[0].is_rack_aware:
                    group[0].assign_ranges(group[0].racks_match, assignment)
        for topic in topics:
            topic.assign_ranges(lambda _member, _part: True, assignment)
        if is_rack_aware:
            for partitions in assignment.values():
                partitions.sort(key=lambda part: (utf16_order(part.topic), part.partition))
        return assignment


class _TopicRanges:
    """One topic's unassigned partitions, subscribed members and their quotas (Kafka's TopicAssignmentState)."""

    def __init__(self, topic: str, infos: Sequence[PartitionInfo], subscriptions: Subscriptions) -> None:
        self.topic = topic
        members = [member for member, subscription in subscriptions.items() if topic in subscription.topics]
        self.racks: dict[str, str | None] = {
            member: subscriptions[member].rack_id or None for member in sorted_members(members, subscriptions)
        }
        self.unassigned = {TopicPartition(topic, info.partition): None for info in infos}
        self._assigned_counts = dict.fromkeys(self.racks, 0)
        self._partitions_per_member, self._members_with_extra = (
            divmod(len(infos), len(self.racks)) if self.racks else (0, 0)
        )
        consumer_racks = [rack for rack in self.racks.values() if rack is not None]
        self.partition_racks = (
            {TopicPartition(topic, info.partition): racks_of(info) for info in infos} if consumer_racks else {}
        )
        self.is_rack_aware = needs_rack_awareness(consumer_racks, tuple(self.partition_racks.values()))

    def racks_match(self, member: str, partition: TopicPartition) -> bool:
        """Return whether a replica is in the member's rack; True for a member without a rack."""
        rack = self.racks[member]
        return rack is None or rack in self.partition_racks.get(partition, ())

    def max_assignable(self, member: str) -> int:
        """Return how many more partitions the member's quota allows."""
        return max(0, self._partitions_per_member + (self._members_with_extra > 0) - self._assigned_counts[member])

    def assign_ranges(self, may_assign: Callable[[str, TopicPartition], bool], assignment: GroupAssignment) -> None:
        """Assign consecutive partitions that `may_assign` allows to every member, up to its quota."""
        for member in self.racks:
            allowed = (part for part in self.unassigned if may_assign(member, part))
            partitions = list(islice(allowed, self.max_assignable(member)))
            if partitions:
                self.assign(member, partitions, assignment)

    def assign(self, member: str, partitions: Sequence[TopicPartition], assignment: GroupAssignment) -> None:
        """Assign partitions to a member and count them against its quota."""
        assignment[member].extend(partitions)
        self._assigned_counts[member] += len(partitions)
        if self._assigned_counts[member] > self._partitions_per_member:
            self._members_with_extra -= 1
        for part in partitions:
            self.unassigned.pop(part, None)


def _co_partitioned(topics: Iterable[_TopicRanges]) -> list[list[_TopicRanges]]:
    """Group topics with the same members and partition count: joins by key need equal partitions together."""
    groups: dict[tuple[tuple[tuple[str, str | None], ...], int], list[_TopicRanges]] = {}
    for topic in topics:
        groups.setdefault((tuple(topic.racks.items()), len(topic.partition_racks)), []).append(topic)
    return list(groups.values())


def _assign_together(topics: Sequence[_TopicRanges], assignment: GroupAssignment) -> None:
    """Assign partition n of all co-partitioned topics to the first member with room whose rack holds a replica of each;
    a member without a rack fits too. Without such a member, the partitions stay unassigned here."""
    members = list(topics[0].racks)

    def fits(member: str, index: int) -> bool:
        return all(
            topic.racks_match(member, TopicPartition(topic.topic, index)) and topic.max_assignable(member) > 0
            for topic in topics
        )

    for index in range(len(topics[0].partition_racks)):
        member = next((member for member in members if fits(member, index)), None)
        if member is None:
            continue
        for topic in topics:
            topic.assign(member, [TopicPartition(topic.topic, index)], assignment)
        if not any(topic.max_assignable(member) > 0 for topic in topics):
            members.remove(member)
            if not members:
                break
