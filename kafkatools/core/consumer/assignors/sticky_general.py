"""The sticky assignment of members with different topics (AbstractStickyAssignor.GeneralAssignmentBuilder).

Rules: members keep owned partitions that they may still have. Unassigned partitions go to the eligible member with the
fewest partitions, same rack first. Then partitions move one at a time, those with the fewest eligible members first, as
long as the balance improves. A partition returns to its owner of an older generation if that member has at least two
partitions fewer. Instead of crossing moves within a topic, an earlier move is reversed. Moves that did not improve the
balance are undone, unless no member owned a partition before.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence

from kafkatools.core.consumer.assignors.assignor import GroupAssignment, Partitions, Subscriptions
from kafkatools.core.consumer.assignors.sticky_racks import RackInfo
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.java.hash_order import PartitionSet
from kafkatools.core.java.hashes import utf16_order

Previous = Mapping[TopicPartition, str]


class PartitionMovements:
    """The partitions moved so far, by topic and by (old, new) member pair
    (AbstractStickyAssignor.PartitionMovements)."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[tuple[str, str], PartitionSet]] = {}
        self._pairs: dict[TopicPartition, tuple[str, str]] = {}

    def move(self, part: TopicPartition, old: str, new: str) -> None:
        """Record a move; a move back to the first owner removes the record."""
        source = old
        if part in self._pairs:
            source = self._forget(part)
            if source == new:
                return
        self._pairs[part] = (source, new)
        self._by_topic.setdefault(part.topic, {}).setdefault((source, new), PartitionSet()).add(part)

    def actual_partition(self, part: TopicPartition, old: str, new: str) -> TopicPartition:
        """Return a partition of the topic that moved the opposite way, to be moved back instead; else `part`."""
        movements = self._by_topic.get(part.topic)
        if movements is None:
            return part
        if part in self._pairs:
            old = self._pairs[part][0]
        opposite = movements.get((new, old))
        return part if opposite is None else opposite.first()

    def _forget(self, part: TopicPartition) -> str:
        pair = self._pairs.pop(part)
        movements = self._by_topic[part.topic]
        movements[pair].remove(part)
        if not movements[pair]:
            del movements[pair]
        if not movements:
            del self._by_topic[part.topic]
        return pair[0]


class GeneralAssignment:
    """One assignment being built for members with different subscriptions."""

    def __init__(
        self,
        partitions_per_topic: Partitions,
        racks: RackInfo,
        owned: Mapping[str, Sequence[TopicPartition]],
        subscriptions: Subscriptions,
    ) -> None:
        self._counts = {topic: len(infos) for topic, infos in partitions_per_topic.items()}
        self._racks = racks
        self._topics = {
            member: [topic for topic in subscription.topics if topic in self._counts]
            for member, subscription in subscriptions.items()
        }
        self._topic_sets = {member: frozenset(topics) for member, topics in self._topics.items()}
        self._consumers: dict[str, list[str]] = {topic: [] for topic in self._counts}
        for member, topics in self._topics.items():
            for topic in topics:
                self._consumers[topic].append(member)
        self._current: GroupAssignment = {member: list(partitions) for member, partitions in owned.items()}
        self._owner = {part: member for member, partitions in self._current.items() for part in partitions}
        self._needs_revocation = False
        self._sorted: list[tuple[int, bytes, str]] = []
        self._movements = PartitionMovements()

    def build(self, previous: Previous) -> GroupAssignment:
        """Return every member's partitions; `previous` holds owners from older generations."""
        retained = self._drop_invalid()
        everything = self._sorted_partitions()
        free = [part for part in everything if part not in retained]
        for member in self._current:
            self._insert(member)
        is_fresh = not self._current[self._sorted[-1][2]]
        self._assign_free(free)
        fixed = self._set_fixed_apart()
        movable = [part for part in everything if len(self._consumers[part.topic]) >= 2]
        self._balance([part for part in free if len(self._consumers[part.topic]) >= 2], movable, previous, is_fresh)
        self._current.update(fixed)
        return self._current

    def _drop_invalid(self) -> set[TopicPartition]:
        """Revoke owned partitions of unsubscribed topics or mismatched racks; return the remaining ones."""
        retained: set[TopicPartition] = set()
        for member, partitions in self._current.items():
            assignable = [
                part
                for part in partitions
                if part.topic in self._topic_sets[member] and not self._racks.is_mismatch(member, part)
            ]
            self._needs_revocation = self._needs_revocation or len(assignable) < len(partitions)
            partitions[:] = assignable
            retained.update(assignable)
        return retained

    def _sorted_partitions(self) -> list[TopicPartition]:
        """Return all partitions, those of topics with the fewest subscribers first."""
        topics = sorted(self._counts, key=lambda topic: (len(self._consumers[topic]), utf16_order(topic)))
        return [TopicPartition(topic, index) for topic in topics for index in range(self._counts[topic])]

    # --- members by the number of their partitions

    def _key(self, member: str) -> tuple[int, bytes, str]:
        return len(self._current[member]), utf16_order(member), member

    def _insert(self, member: str) -> None:
        insort(self._sorted, self._key(member))

    def _remove(self, member: str) -> None:
        del self._sorted[bisect_left(self._sorted, self._key(member))]

    # --- first step: unassigned partitions

    def _assign_free(self, free: Iterable[TopicPartition]) -> None:
        if self._racks:
            free = [part for part in free if not self._assign_to_fewest(part, is_rack_aware=True)]
        for part in free:
            self._assign_to_fewest(part, is_rack_aware=False)

    def _assign_to_fewest(self, part: TopicPartition, is_rack_aware: bool) -> bool:
        for _, _, member in self._sorted:
            if part.topic in self._topic_sets[member] and not (is_rack_aware and self._racks.is_mismatch(member, part)):
                self._remove(member)
                self._current[member].append(part)
                self._owner[part] = member
                self._insert(member)
                return True
        return False

    # --- second step: moves of movable partitions

    def _set_fixed_apart(self) -> GroupAssignment:
        """Remove and return the members that take no part in balancing: no further partition is left for them, and none
        of theirs has another subscriber."""
        fixed: GroupAssignment = {}
        for member in self._topics:
            if not self._can_take_part(member):
                self._remove(member)
                fixed[member] = self._current.pop(member)
        return fixed

    def _can_take_part(self, member: str) -> bool:
        partitions = self._current[member]
        if len(partitions) < self._largest_share(member):
            return True
        return any(len(self._consumers[part.topic]) >= 2 for part in partitions)

    def _largest_share(self, member: str) -> int:
        return sum(self._counts[topic] for topic in self._topics[member])

    def _balance(
        self, free: Sequence[TopicPartition], movable: Sequence[TopicPartition], previous: Previous, is_fresh: bool
    ) -> None:
        original = {member: list(partitions) for member, partitions in self._current.items()}
        if not self._needs_revocation:
            self._reassign(free, previous)
        is_changed = self._reassign(movable, previous)
        if not is_fresh and is_changed and balance_score(self._current) >= balance_score(original):
            self._current = original

    def _reassign(self, partitions: Sequence[TopicPartition], previous: Previous) -> bool:
        """Move partitions until the balance no longer improves; return whether any moved."""
        has_moved = False
        is_modified = True
        while is_modified:
            is_modified = False
            for part in partitions:
                if self._is_balanced():
                    break
                target = self._target(part, previous)
                if target is not None:
                    self._move(part, target)
                    has_moved = is_modified = True
        return has_moved

    def _target(self, part: TopicPartition, previous: Previous) -> str | None:
        """Return the member that should get the partition instead of its owner; None when it should stay."""
        size = len(self._current[self._owner[part]])
        former = previous.get(part)
        if former in self._current and size > len(self._current[former]) + 1:
            return former
        if any(size > len(self._current[consumer]) + 1 for consumer in self._consumers[part.topic]):
            return next(member for _, _, member in self._sorted if part.topic in self._topic_sets[member])
        return None

    def _move(self, part: TopicPartition, new: str) -> None:
        actual = self._movements.actual_partition(part, self._owner[part], new)
        old = self._owner[actual]
        self._remove(old)
        if new != old:
            self._remove(new)
        self._movements.move(actual, old, new)
        self._current[old].remove(actual)
        self._current[new].append(actual)
        self._owner[actual] = new
        self._insert(new)
        if new != old:
            self._insert(old)

    def _is_balanced(self) -> bool:
        """Return whether the members' partition counts differ by at most one, or no partition could move to a member
        that would still have fewer than its owner."""
        if self._sorted[0][0] >= self._sorted[-1][0] - 1:
            return True
        return not any(self._could_get_more(size, member) for size, _, member in self._sorted)

    def _could_get_more(self, size: int, member: str) -> bool:
        if size == self._largest_share(member) or size + 1 >= self._sorted[-1][0]:
            return False
        current, owner = self._current, self._owner
        for topic in self._topics[member]:
            for index in range(self._counts[topic]):
                current_owner = owner[TopicPartition(topic, index)]
                if current_owner != member and size + 1 < len(current[current_owner]):
                    return True
        return False


def balance_score(assignment: GroupAssignment) -> int:
    """Return the sum of the differences between all members' partition counts; 0 is balanced."""
    sizes = sorted(len(partitions) for partitions in assignment.values())
    return sum((2 * index - len(sizes) + 1) * size for index, size in enumerate(sizes))
