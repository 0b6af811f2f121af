"""Assignors of the broker for consumer groups (KIP-848): `uniform` and `range`, with Kafka's results.

They take who is subscribed to what and the present target assignment, and give the next one. They know nothing of
members' states, records or time. Source: RangeAssignor, UniformAssignor, UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkatools.core.broker.group_coordinator.consumer_member import Assignment
from kafkatools.core.broker.group_coordinator.java_order import copied_topic_order, topic_order

Partition = tuple[uuid.UUID, int]
Result = dict[str, Assignment]


class PartitionAssignorError(Exception):
    """No assignment can be made (Kafka's PartitionAssignorException)."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """What an assignor is told. `members`: member id -> topic ids it is subscribed to, in the order of Kafka's map;
    `partition_counts` of all those topics; `target`: the assignment until now."""

    members: Mapping[str, frozenset[uuid.UUID]]
    partition_counts: Mapping[uuid.UUID, int]
    target: Mapping[str, Assignment]
    is_homogeneous: bool

    def assignment_of(self, member_id: str) -> Assignment:
        """What a member was to have until now."""
        return self.target.get(member_id, {})

    def topics_of_first(self) -> frozenset[uuid.UUID]:
        """Everybody's topics in a homogeneous group."""
        return next(iter(self.members.values()), frozenset())


Assign = Callable[[GroupSpec], Result]


# -- range -------------------------------------------------------------------------------------------------------------
def assign_range(spec: GroupSpec) -> Result:
    """Every member gets a range of each of its topics, and keeps what it has as far as that goes."""
    result: dict[str, dict[uuid.UUID, frozenset[int]]] = {}
    for topic_id, member_ids in _members_by_topic(spec).items():
        for member_id, partitions in _range_of_topic(spec, topic_id, member_ids).items():
            if partitions:
                result.setdefault(member_id, {})[topic_id] = frozenset(partitions)
    return dict(result)


def _members_by_topic(spec: GroupSpec) -> dict[uuid.UUID, list[str]]:
    members: dict[uuid.UUID, list[str]] = {}
    for member_id, topic_ids in spec.members.items():
        for topic_id in topic_ids:
            members.setdefault(topic_id, []).append(member_id)
    return {topic_id: members[topic_id] for topic_id in topic_order(members)}


def _range_of_topic(spec: GroupSpec, topic_id: uuid.UUID, member_ids: list[str]) -> dict[str, list[int]]:
    count = spec.partition_counts[topic_id]
    quota, extra = divmod(count, len(member_ids))
    given: dict[str, list[int]] = {}
    unfilled: list[tuple[str, int]] = []
    for member_id in member_ids:
        present = sorted(spec.assignment_of(member_id).get(topic_id, ()))
        kept = present[:quota]
        if len(present) > quota and extra > 0:
            extra -= 1
            kept = present[: quota + 1]
        else:
            unfilled.append((member_id, quota - len(present)))
        given[member_id] = kept
    taken = {partition for partitions in given.values() for partition in partitions}
    free = [partition for partition in range(count) if partition not in taken]
    start = 0
    for member_id, missing in unfilled:
        wanted = missing
        if extra > 0:
            extra -= 1
            wanted += 1
        if wanted > 0:
            given[member_id] = [*given[member_id], *free[start : start + wanted]]
            start += wanted
    return given


# -- uniform -----------------------------------------------------------------------------------------------------------
def assign_uniform(spec: GroupSpec) -> Result:
    """Everybody gets the same number of partitions, give or take one, and keeps as many as possible."""
    if not spec.members:
        return {}
    if spec.is_homogeneous:
        return _HomogeneousUniform(spec).build()
    from kafkatools.core.broker.group_coordinator.heterogeneous_uniform import HeterogeneousUniform

    return HeterogeneousUniform(spec).build()


class _HomogeneousUniform:
    """All members have the same topics: a quota each; what is above it goes to those who are below."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._topics = copied_topic_order(spec.topics_of_first())
        self._free: list[Partition] = []
        self._unfilled: list[tuple[str, int]] = []
        self._result: dict[str, dict[uuid.UUID, set[int]]] = {}

    def build(self) -> Result:
        """The next assignment."""
        if not self._topics:
            return {}
        total = self._collect_free()
        quota, extra = divmod(total, len(self._spec.members))
        for index, member_id in enumerate(self._spec.members):
            self._revoke(member_id, quota + (1 if index < extra else 0))
        self._hand_out()
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in self._result.items()
        }

    def _collect_free(self) -> int:
        taken: dict[uuid.UUID, set[int]] = {}
        for assignment in self._spec.target.values():
            for topic_id, partitions in assignment.items():
                taken.setdefault(topic_id, set()).update(partitions)
        total = 0
        for topic_id in self._topics:
            count = self._spec.partition_counts[topic_id]
            owned = taken.get(topic_id, set())
            self._free.extend((topic_id, partition) for partition in range(count) if partition not in owned)
            total += count
        return total

    def _revoke(self, member_id: str, quota: int) -> None:
        kept: dict[uuid.UUID, set[int]] = {}
        assignment = self._spec.assignment_of(member_id)
        topics = set(self._topics)
        for topic_id in topic_order(assignment):
            if topic_id not in topics:
                continue
            partitions = sorted(assignment[topic_id])
            if partitions[:quota]:
                kept[topic_id] = set(partitions[:quota])
            self._free.extend((topic_id, partition) for partition in partitions[quota:])
            quota = max(quota - len(partitions), 0)
        if quota > 0:
            self._unfilled.append((member_id, quota))
        self._result[member_id] = kept

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
    """The assignor of a name, or of Kafka's class for it; KeyError."""
    short = {
        "org.apache.kafka.coordinator.group.assignor.UniformAssignor": UNIFORM,
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor": RANGE,
    }.get(name, name)
    return ASSIGNORS[short]
