"""The server-side assignors of consumer groups (KIP-848), `uniform` and `range`, with Kafka's results.

They compute the next target assignment from subscriptions and the present one. They know no member states, records or
time. Source: RangeAssignor, UniformAssignor, UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable

from kafkatools.core.broker.coordinators.groups.modern.group_spec import GroupSpec, PartitionAssignorError, Result
from kafkatools.core.java.hash_order import copied_partition_order, copied_topic_order, topic_order

Partition = tuple[uuid.UUID, int]
Assign = Callable[[GroupSpec], Result]


# -- range -------------------------------------------------------------------------------------------------------------
def assign_range(spec: GroupSpec) -> Result:
    """Assign each member a range of partitions of each of its topics, none if there are too few. Static members come
    first by instance id, then the others by member id. Topics with the same subscribers and partition count are divided
    equally."""
    shares: dict[uuid.UUID, list[int]] = {}
    subscribers = Counter(topic_id for topic_ids in spec.members.values() for topic_id in topic_ids)
    for topic_id, count in subscribers.items():
        quota, extra = divmod(spec.partition_counts[topic_id], count)
        shares[topic_id] = [0, quota, extra]
    return {
        member_id: {
            topic_id: assigned for topic_id in spec.members[member_id] if (assigned := _next_range(shares[topic_id]))
        }
        for member_id in sorted(spec.members, key=spec.range_key)
    }


def _next_range(share: list[int]) -> frozenset[int]:
    """The next member's range of a topic. `share` is the range start, the quota, and how many members get one more."""
    start, quota, extra = share
    end = start + quota + (1 if extra > 0 else 0)
    share[0], share[2] = end, extra - 1
    return frozenset(range(start, end))


# -- uniform -----------------------------------------------------------------------------------------------------------
def assign_uniform(spec: GroupSpec) -> Result:
    """Assign partitions as the `uniform` assignor. Members with equal subscriptions get numbers of partitions that
    differ by at most one; different subscriptions are balanced within each topic. Members keep partitions where balance
    allows. Returns {} without members or topics. Raises PartitionAssignorError."""
    if not spec.members:
        return {}
    if spec.is_homogeneous:
        return _HomogeneousUniform(spec).build()
    from kafkatools.core.broker.coordinators.groups.modern.heterogeneous_uniform import HeterogeneousUniform

    return HeterogeneousUniform(spec).build()


class _HomogeneousUniform:
    """The uniform assignor for equal subscriptions: partitions above a member's quota go to members below it."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._topics = copied_topic_order(next(iter(spec.members.values())))
        self._free: list[Partition] = []
        self._unfilled: list[tuple[str, int]] = []
        self._result: dict[str, dict[uuid.UUID, set[int]]] = {}

    def build(self) -> Result:
        """Compute the assignment of each member; {} without topics. Raises PartitionAssignorError if partitions are
        left over."""
        if not self._topics:
            return {}
        total = self._collect_free()
        quota, extra = divmod(total, len(self._spec.members))
        for index, member_id in enumerate(self._spec.members):
            is_needed = len(self._spec.members) - index <= extra
            extra -= self._revoke(member_id, quota, has_extra=extra > 0, is_needed=is_needed)
        self._hand_out()
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in self._result.items()
        }

    def _collect_free(self) -> int:
        owned_by_topic: dict[uuid.UUID, set[int]] = {}
        for assignment in self._spec.target.values():
            for topic_id, partitions in assignment.items():
                owned_by_topic.setdefault(topic_id, set()).update(partitions)
        total = 0
        for topic_id in self._topics:
            count = self._spec.partition_counts[topic_id]
            owned = owned_by_topic.get(topic_id, set())
            self._free.extend((topic_id, partition) for partition in range(count) if partition not in owned)
            total += count
        return total

    def _revoke(self, member_id: str, quota: int, *, has_extra: bool, is_needed: bool) -> int:
        """Reduce a member to its quota. Returns 1 if it takes an extra partition, else 0. It takes one if its present
        partitions fill the larger quota, or if as many members as extra partitions are left."""
        retained: dict[uuid.UUID, set[int]] = {}
        assignment = self._spec.assignment_of(member_id)
        topics = set(self._topics)
        remaining_quota = quota + 1 if has_extra else quota
        for topic_id in topic_order(assignment):
            if topic_id not in topics:
                continue
            partitions = copied_partition_order(assignment[topic_id])
            if partitions[:remaining_quota]:
                retained[topic_id] = set(partitions[:remaining_quota])
            self._free.extend((topic_id, partition) for partition in partitions[remaining_quota:])
            remaining_quota = max(remaining_quota - len(partitions), 0)
        takes_extra = has_extra
        if remaining_quota > 0 and has_extra and not is_needed:
            remaining_quota, takes_extra = remaining_quota - 1, False
        if remaining_quota > 0:
            self._unfilled.append((member_id, remaining_quota))
        self._result[member_id] = retained
        return 1 if takes_extra else 0

    def _hand_out(self) -> None:
        position = 0
        for member_id, quota in self._unfilled:
            for topic_id, partition in self._free[position : position + quota]:
                self._result[member_id].setdefault(topic_id, set()).add(partition)
            position += quota
        if position < len(self._free):
            raise PartitionAssignorError("Partitions were left unassigned")


UNIFORM, RANGE = "uniform", "range"
ASSIGNORS: dict[str, Assign] = {UNIFORM: assign_uniform, RANGE: assign_range}


def assignor_of(name: str) -> Assign:
    """The assignor of this name, or of Kafka's class name. Raises KeyError."""
    short = {
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor": UNIFORM,
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor": RANGE,
    }.get(name, name)
    return ASSIGNORS[short]
