"""The uniform assignor for members with different subscriptions (Kafka's UniformHeterogeneousAssignmentBuilder).

Rules: partitions without an owner go to the least loaded subscribers of their topic, topics with the most partitions
per subscriber first. Then each topic in turn moves partitions from its most loaded to its least loaded subscribers,
until no topic changes or MAX_ITERATIONS is reached. Ties are broken by the order of members and of topic ids, so the
same input always has the same result.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from struct import unpack

from kafkatools.core.broker.coordinators.groups.modern.group_spec import GroupSpec, PartitionAssignorError, Result

MAX_ITERATIONS = 16
NOBODY = -1


class HeterogeneousUniform:
    """One run of the uniform assignor for different subscriptions. Members are numbered in the order of Kafka's map.
    Raises PartitionAssignorError for a topic without a partition count."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._members = list(spec.members)
        self._subscribers: dict[uuid.UUID, list[int]] = {}
        for index, member_id in enumerate(self._members):
            for topic_id in spec.members[member_id]:
                if topic_id not in spec.partition_counts:
                    raise PartitionAssignorError(
                        f"Members are subscribed to topic {topic_id} which doesn't exist in the topic metadata."
                    )
                self._subscribers.setdefault(topic_id, []).append(index)
        self._sizes = [0] * len(self._members)
        self._owners = {topic_id: [NOBODY] * spec.partition_counts[topic_id] for topic_id in self._subscribers}

    def build(self) -> Result:
        """Compute the assignment of each member; {} if no member subscribes to a topic."""
        if not self._subscribers:
            return {}
        self._keep_subscribed()
        for topic_id in self._sorted(self._subscribers):
            self._hand_out(topic_id)
        self._balance()
        result: dict[str, dict[uuid.UUID, set[int]]] = {member_id: {} for member_id in self._members}
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                if owner != NOBODY:
                    result[self._members[owner]].setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in result.items()
        }

    def _sorted(self, topic_ids: Iterable[uuid.UUID]) -> list[uuid.UUID]:
        """Sort topics by most partitions per subscriber, fewest subscribers, topic id as two signed halves."""
        counts, subscribers = self._spec.partition_counts, self._subscribers

        def key(topic_id: uuid.UUID) -> tuple[float, int, int, int]:
            number = len(subscribers[topic_id])
            return -counts[topic_id] / number, number, *unpack(">qq", topic_id.bytes)

        return sorted(topic_ids, key=key)

    def _keep_subscribed(self) -> None:
        for index, member_id in enumerate(self._members):
            for topic_id, partitions in self._spec.assignment_of(member_id).items():
                if topic_id in self._spec.members[member_id]:
                    owners = self._owners[topic_id]
                    for partition in partitions:
                        owners[partition] = index
                    self._sizes[index] += len(partitions)

    def _hand_out(self, topic_id: uuid.UUID) -> None:
        owners = self._owners[topic_id]
        free = [partition for partition, owner in enumerate(owners) if owner == NOBODY]
        if free:
            balancer = _Balancer(self._sizes, self._subscribers[topic_id])
            for partition in free:
                self._assign(owners, partition, balancer.next_least_loaded())

    def _assign(self, owners: list[int], partition: int, member: int) -> None:
        if owners[partition] != NOBODY:
            self._sizes[owners[partition]] -= 1
        owners[partition] = member
        self._sizes[member] += 1

    def _balance(self) -> None:
        topic_ids = self._sorted(
            [topic_id for topic_id, subscribers in self._subscribers.items() if len(subscribers) >= 2]
        )
        last_changed = NOBODY
        for _ in range(MAX_ITERATIONS if topic_ids else 0):
            for index, topic_id in enumerate(topic_ids):
                if index == last_changed:
                    return
                if self._balance_topic(topic_id) or last_changed == NOBODY:
                    last_changed = index

    def _balance_topic(self, topic_id: uuid.UUID) -> int:
        """Move partitions of a topic from its most to its least loaded subscribers. Returns the number of moves."""
        balancer = _Balancer(self._sizes, self._subscribers[topic_id])
        if balancer.imbalance <= 1:
            return 0
        owners = self._owners[topic_id]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        moved = 0
        while not balancer.has_converged():
            most_loaded = balancer.next_most_loaded()
            while most_loaded != NOBODY and not owned.get(most_loaded):
                balancer.exclude_most_loaded()
                most_loaded = balancer.next_most_loaded()
            if most_loaded == NOBODY:
                break
            partition = owned[most_loaded].pop()
            least_loaded = balancer.next_least_loaded()
            if balancer.has_converged():
                break
            self._assign(owners, partition, least_loaded)
            moved += 1
        return moved


class _Balancer:
    """Walks over a topic's subscribers, sorted by load, from both ends. The range of the least loaded grows to the
    right, that of the most loaded to the left. All members within a range had the same load when the walk reached
    it."""

    def __init__(self, sizes: list[int], members: list[int]) -> None:
        self._sizes = sizes
        self._sorted = sorted(members, key=lambda member: (sizes[member], member))
        least, most = sizes[self._sorted[0]], sizes[self._sorted[-1]]
        self.imbalance = most - least
        self._least_end = self._next_least = 0
        self._least_count = least - 1
        self._most_start = self._most_end = len(self._sorted)
        self._most_count = most + 1
        self._next_most = len(self._sorted) - 1

    def has_converged(self) -> bool:
        """Return whether the loads at both ends of the walk differ by one at most."""
        return self._most_count - self._least_count <= 1

    def next_least_loaded(self) -> int:
        """The member that receives the next partition."""
        if self._next_least >= self._least_end:
            self._least_count += 1
            while self._least_end < len(self._sorted) and self._size_at(self._least_end) == self._least_count:
                self._least_end += 1
            self._next_least = 0
        member = self._sorted[self._next_least]
        self._next_least += 1
        return member

    def next_most_loaded(self) -> int:
        """The member that gives the next partition; NOBODY if none is left."""
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_count = self._size_at(self._most_start - 1)
            else:
                self._most_count -= 1
            while self._most_start > 0 and self._size_at(self._most_start - 1) == self._most_count:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return NOBODY
        member = self._sorted[self._next_most]
        self._next_most -= 1
        return member

    def exclude_most_loaded(self) -> None:
        """Skip the last member of `next_most_loaded`, which has no partition of the topic."""
        position, last = self._next_most + 1, self._most_end - 1
        self._sorted[position], self._sorted[last] = self._sorted[last], self._sorted[position]
        self._most_end -= 1

    def _size_at(self, position: int) -> int:
        return self._sizes[self._sorted[position]]
