"""The sticky assignment of members with equal topics (AbstractStickyAssignor.ConstrainedAssignmentBuilder).

Rules: members' partition counts differ by at most one. Members keep owned partitions up to their quota, in their rack
when racks count. Then unassigned partitions go to members in the same rack, and the rest round-robin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from kafkatools.core.consumer.assignors.assignor import GroupAssignment, Partitions
from kafkatools.core.consumer.assignors.sticky_racks import RackInfo
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.java.hashes import utf16_order


class ConstrainedAssignment:
    """One assignment being built. `transferring`: partitions that another member still owns, with their new owners."""

    def __init__(
        self,
        partitions_per_topic: Partitions,
        racks: RackInfo,
        owned: Mapping[str, Sequence[TopicPartition]],
        doubly_claimed: AbstractSet[TopicPartition],
    ) -> None:
        self._partitions = [
            TopicPartition(topic, index)
            for topic in sorted(partitions_per_topic, key=utf16_order)
            for index in range(len(partitions_per_topic[topic]))
        ]
        self._racks = racks
        self._owned = owned
        self._doubly_claimed = doubly_claimed
        self._revoked: dict[TopicPartition, str] = {}  # owned partitions that were not kept, by owner
        self._min_quota, self._expected_over = divmod(len(self._partitions), len(owned)) if owned else (0, 0)
        self._max_quota = self._min_quota + (self._expected_over > 0)
        self._over = 0  # members above the minimum quota
        self._below: list[str] = []  # members below the minimum quota
        self._at_min: list[str] = []  # members at the minimum quota that may get one more
        self._assignment: GroupAssignment = {member: [] for member in owned}
        self.transferring: dict[TopicPartition, str] = {}

    def build(self) -> GroupAssignment:
        """Return every member's partitions."""
        for member, partitions in self._owned.items():
            self._keep_owned(member, partitions)
        assigned = {part for partitions in self._assignment.values() for part in partitions}
        free = self._racks.by_rack_consumers([part for part in self._partitions if part not in assigned])
        self._below.sort(key=utf16_order)
        self._at_min.sort(key=utf16_order)
        if self._racks:
            free = self._assign_in_racks(free)
        self._assign_round(free)
        return self._assignment

    def _keep_owned(self, member: str, partitions: Sequence[TopicPartition]) -> None:
        owned = sorted(
            (part for part in partitions if not self._racks.is_mismatch(member, part)),
            key=lambda part: (part.partition, utf16_order(part.topic)),
        )
        owned = [part for part in owned if part not in self._doubly_claimed]
        quota = self._min_quota
        if len(owned) < self._min_quota:
            self._below.append(member)
        elif self._over < self._expected_over:
            if len(owned) >= self._max_quota:
                quota = self._max_quota
                self._over += 1
                if self._over == self._expected_over:
                    self._at_min.clear()
            else:
                self._at_min.append(member)
        self._assignment[member] += owned[:quota]
        retained = frozenset(owned[:quota])
        self._revoked.update((part, member) for part in partitions if part not in retained)

    def _assign_in_racks(self, free: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions to members in the same rack; return those for which no such member has room."""
        unassigned: list[TopicPartition] = []
        turn = 0
        for part in free:
            index = self._racks.next_consumer(part, self._below, turn)
            if index >= 0:
                turn = self._assign_below(part, index)
                continue
            index = self._racks.next_consumer(part, self._at_min, 0)
            if index < 0:
                unassigned.append(part)
                continue
            member = self._at_min[index]
            if self._assign(part, member) == self._max_quota:
                del self._at_min[index]
                self._over += 1
                if self._over == self._expected_over:
                    self._at_min.clear()
        return unassigned

    def _assign_below(self, part: TopicPartition, index: int) -> int:
        """Assign a partition to a member below the minimum quota; return the index of the next such member."""
        member = self._below[index]
        count = self._assign(part, member)
        if count >= self._min_quota:
            del self._below[index]
            if count < self._max_quota and self._over < self._expected_over:
                self._at_min.append(member)
        else:
            index += 1
        return index % len(self._below) if self._below else 0

    def _assign_round(self, free: Sequence[TopicPartition]) -> None:
        """Assign the rest round-robin to members below the minimum quota, then one each to members at it."""
        turn = 0
        for part in free:
            if turn >= len(self._below):
                turn = 0
            is_below = bool(self._below)
            member = self._below[turn] if is_below else self._at_min.pop(0)
            count = self._assign(part, member)
            if is_below and count == self._min_quota:
                del self._below[turn]
                self._at_min.append(member)
            elif is_below:
                turn += 1

    def _assign(self, part: TopicPartition, member: str) -> int:
        partitions = self._assignment[member]
        partitions.append(part)
        if part in self._doubly_claimed or self._revoked.get(part, member) != member:
            self.transferring[part] = member
        return len(partitions)
