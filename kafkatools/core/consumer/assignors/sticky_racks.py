"""Racks of members and partitions for the sticky assignors (AbstractStickyAssignor.RackInfo, KIP-881)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkatools.core.consumer.assignors.assignor import Partitions, Subscriptions, needs_rack_awareness, racks_of
from kafkatools.core.consumer.subscription import TopicPartition


class RackInfo:
    """The racks of members and partitions; empty (and false) when racks do not affect the assignment."""

    def __init__(self, partitions_per_topic: Partitions, subscriptions: Subscriptions) -> None:
        members = {
            member: subscription.rack_id for member, subscription in subscriptions.items() if subscription.rack_id
        }
        partitions: dict[TopicPartition, frozenset[str]] = {}
        if members:
            partitions = {
                TopicPartition(topic, info.partition): racks_of(info)
                for topic, infos in partitions_per_topic.items()
                for info in infos
            }
        is_used = needs_rack_awareness(members.values(), tuple(partitions.values()))
        self.consumer_racks: Final[dict[str, str]] = members if is_used else {}
        self.partition_racks: Final = partitions if is_used else {}

    def __bool__(self) -> bool:
        return bool(self.consumer_racks)

    def is_mismatch(self, member: str, partition: TopicPartition) -> bool:
        """Return whether the member has a rack and no replica of the partition is in it."""
        rack = self.consumer_racks.get(member)
        return rack is not None and rack not in self.partition_racks.get(partition, ())

    def by_rack_consumers(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Sort partitions by the number of members in their replicas' racks, fewest first; unchanged when racks do not
        matter."""
        if not self.consumer_racks:
            return list(partitions)
        members: dict[str, int] = {}
        for rack in self.consumer_racks.values():
            members[rack] = members.get(rack, 0) + 1
        return sorted(
            partitions, key=lambda part: sum(members.get(rack, 0) for rack in self.partition_racks.get(part, ()))
        )

    def next_consumer(self, partition: TopicPartition, members: Sequence[str], first: int) -> int:
        """Return the index of the next member, cyclically from `first`, in a rack of the partition; -1 if none."""
        racks = self.partition_racks.get(partition)
        if not racks:
            return -1
        for step in range(len(members)):
            index = (first + step) % len(members)
            if self.consumer_racks.get(members[index]) in racks:
                return index
        return -1
