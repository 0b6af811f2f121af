"""The replicas of a cluster while a plan is made, and the types of its input.

The replicas of a broker are grouped by the racks to which they must not move. Where racks forbid most moves, each
search for a move would otherwise look at every replica of the broker again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from heapq import heapify, heappop
from typing import NamedTuple

TopicPartition = tuple[str, int]


class PlanRefused(ValueError):
    """No plan meets the request; the message has the reason."""


class Broker(NamedTuple):
    """A live broker with its rack."""

    id: int
    rack: str | None = None


class Partition(NamedTuple):
    """A partition with its replicas, preferred leader first. `leader` is -1 without one; the size is of one replica."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    size_bytes: int = 0

    @property
    def key(self) -> TopicPartition:
        """Topic and partition number."""
        return self.topic, self.partition


class ClusterState(NamedTuple):
    """The input of a plan: the live brokers and all partitions."""

    brokers: tuple[Broker, ...]
    partitions: tuple[Partition, ...]


class Scope(NamedTuple):
    """The scope of a plan: the partitions of these topics (None: all). Without `rack_aware` racks are ignored."""

    topics: frozenset[str] | None = None
    rack_aware: bool = True


EVERYTHING = Scope()


# Topic -> partitions with a replica on a broker.
_ByTopic = dict[str, dict[TopicPartition, None]]
# Racks to which these replicas must not move -> replicas.
_Groups = dict[frozenset[str], _ByTopic]


class Layout:
    """The replicas while a plan is made, with the counts that decide where the next replica goes."""

    def __init__(self, cluster: ClusterState, scope: Scope) -> None:
        self.live = frozenset(broker.id for broker in cluster.brokers)
        racks = racks_of(cluster, rack_aware=scope.rack_aware)
        brokers = self.live.union(*(part.replicas for part in cluster.partitions))
        self._racks = {broker: racks.get(broker, f"?{broker}") if racks else "" for broker in brokers}
        partitions = [part for part in cluster.partitions if scope.topics is None or part.topic in scope.topics]
        self.partitions = {part.key: part for part in sorted(partitions, key=lambda part: part.key)}
        self.keys = tuple(self.partitions)
        self.replicas = {key: list(part.replicas) for key, part in self.partitions.items()}
        self.left_out: dict[TopicPartition, str] = {}
        self.count = dict.fromkeys(self.live, 0)
        self._all = dict.fromkeys(self.live, 0)
        self._per_topic: dict[int, dict[str, int]] = {}
        self._on: dict[int, _Groups] = {}
        self._placed_on: dict[int, _Groups] = {}  # those replicas of `_on` that this plan has placed
        for part in cluster.partitions:
            for broker in part.replicas:
                self._all[broker] = self._all.get(broker, 0) + 1
        for key, replicas in self.replicas.items():
            for broker in replicas:
                self._count(key, broker, 1)
                self._all[broker] -= 1
            self._file(key)

    def _count(self, key: TopicPartition, broker: int, change: int) -> None:
        self.count[broker] = self.count.get(broker, 0) + change
        self._all[broker] = self._all.get(broker, 0) + change
        topics = self._per_topic.setdefault(broker, {})
        topics[key[0]] = topics.get(key[0], 0) + change

    def _file(self, key: TopicPartition) -> None:
        """Add the partition to the groups of its brokers."""
        before = self.partitions[key].replicas
        for broker, forbidden in self._forbidden_racks(key):
            self._on.setdefault(broker, {}).setdefault(forbidden, {}).setdefault(key[0], {})[key] = None
            if broker not in before:
                self._placed_on.setdefault(broker, {}).setdefault(forbidden, {}).setdefault(key[0], {})[key] = None

    def _unfile(self, key: TopicPartition) -> None:
        """Remove the partition from the groups of its brokers, before its replicas change."""
        before = self.partitions[key].replicas
        for broker, forbidden in self._forbidden_racks(key):
            _remove(self._on[broker], forbidden, key)
            if broker not in before:
                _remove(self._placed_on[broker], forbidden, key)

    def _forbidden_racks(self, key: TopicPartition) -> Iterator[tuple[int, frozenset[str]]]:
        """Each broker of the partition, with the racks that have at least as many of its replicas as the broker's own:
        a move to them would make the spread worse, by the sum of squared replica counts per rack."""
        replicas = self.replicas[key]
        used = [self._racks[broker] for broker in replicas]
        counts = {rack: used.count(rack) for rack in used}
        for broker, rack in zip(replicas, used, strict=True):
            yield broker, frozenset(other for other in counts if other != rack and counts[other] >= counts[rack])

    def add(self, key: TopicPartition, broker: int) -> None:
        """Add a replica at the end of the partition's list."""
        self._unfile(key)
        self.replicas[key].append(broker)
        self._count(key, broker, 1)
        self._file(key)

    def remove(self, key: TopicPartition, broker: int) -> None:
        self._unfile(key)
        self.replicas[key].remove(broker)
        self._count(key, broker, -1)
        self._file(key)

    def replace(self, key: TopicPartition, old: int, new: int) -> None:
        """Replace a replica at its position in the partition's list."""
        self._unfile(key)
        self.replicas[key][self.replicas[key].index(old)] = new
        self._count(key, old, -1)
        self._count(key, new, 1)
        self._file(key)

    def cannot_be_copied(self, key: TopicPartition) -> bool:
        """Return whether no live replica of the partition is in sync. If so, adds the partition to `left_out`."""
        if self._has_live_copy(key):
            return False
        self.left_out[key] = "no live replica is in sync, so there is nothing to copy from"
        return True

    def _has_live_copy(self, key: TopicPartition) -> bool:
        return any(broker in self.live for broker in self.partitions[key].isr)

    def in_rack_of(self, key: TopicPartition, broker: int) -> int:
        """The number of the partition's replicas in the broker's rack."""
        racks = self._racks
        return [racks[replica] for replica in self.replicas[key]].count(racks[broker])

    def is_uneven(self, key: TopicPartition, racks: Collection[str]) -> bool:
        """Return whether one of `racks` has at least two replicas of the partition fewer than another rack."""
        used = [self.rack(broker) for broker in self.replicas[key]]
        return max(map(used.count, used), default=0) - min(map(used.count, racks), default=0) >= 2

    def rack(self, broker: int) -> str:
        """The rack of a broker, a name of its own if it is down; equal for all brokers if racks are ignored."""
        return self._racks[broker]

    def choose(self, key: TopicPartition, brokers: Iterable[int], without: int | None = None) -> int:
        """The best broker for one more replica, or for the replica that leaves broker `without`. Raises PlanRefused."""
        free = [broker for broker in brokers if broker not in self.replicas[key]]
        if not free:
            factor = len(self.replicas[key]) + (without is None)
            raise PlanRefused(
                f"{key[0]}-{key[1]} needs {factor} replica{'' if factor == 1 else 's'}, but every broker that may get "
                "one has one already"
            )
        used = [self._racks[replica] for replica in self.replicas[key] if replica != without]
        in_rack = {broker: used.count(self._racks[broker]) for broker in free}
        least = min(in_rack.values())
        return min((broker for broker in free if in_rack[broker] == least), key=lambda at: self._load(at, key[0]))

    def _load(self, broker: int, topic: str) -> tuple[int, int, int, int]:
        return self.count[broker], self._per_topic.get(broker, {}).get(topic, 0), self._all[broker], broker

    def by_load(self, brokers: Iterable[int]) -> list[int]:
        """The brokers in order of load, the least loaded first."""
        return sorted(brokers, key=lambda broker: (self.count[broker], self._all[broker], broker))

    def can_pick(self, source: int, target: int, *, placed_only: bool) -> bool:
        """Return whether `pick` finds a partition. If not, adds to `left_out` those that cannot be copied."""
        uncopied = []
        for topics in self._allowed_groups(source, target, placed_only=placed_only):
            for keys in topics.values():
                for key in keys:
                    if target in self.replicas[key] or key in self.left_out:
                        continue
                    if self._has_live_copy(key):
                        return True
                    uncopied.append(key)
        for key in uncopied:
            self.cannot_be_copied(key)
        return False

    def pick(self, source: int, target: int, *, placed_only: bool) -> TopicPartition | None:
        """The partition whose replica is best moved from one broker to the other; None if none may move. With
        `placed_only` only replicas that this plan has placed move."""
        groups = self._allowed_groups(source, target, placed_only=placed_only)
        here, there = self._per_topic.get(source, {}), self._per_topic.get(target, {})
        order = [(there.get(topic, 0) - here[topic], topic) for topic in {topic for group in groups for topic in group}]
        heapify(order)  # the first topic nearly always has a replica that may move
        while order:
            topic = heappop(order)[1]
            movable = [key for group in groups for key in group.get(topic, ()) if self._may_move(key, target)]
            if movable:
                return min(movable, key=lambda key: self._price(key, source, target))
        return None

    def _allowed_groups(self, source: int, target: int, *, placed_only: bool) -> list[_ByTopic]:
        """The groups of a broker whose replicas may move to the rack of another one."""
        groups = (self._placed_on if placed_only else self._on).get(source, {})
        rack = self._racks[target]
        return [topics for forbidden, topics in groups.items() if rack not in forbidden]

    def _may_move(self, key: TopicPartition, target: int) -> bool:
        return target not in self.replicas[key] and key not in self.left_out and not self.cannot_be_copied(key)

    def _price(self, key: TopicPartition, source: int, target: int) -> tuple[int, int, TopicPartition]:
        """The sort key of a move: what it adds to the plan, size, partition. Moving a moved replica on adds nothing."""
        part = self.partitions[key]
        return (target not in part.replicas) - (source not in part.replicas), part.size_bytes, key


def _remove(groups: _Groups, forbidden: frozenset[str], key: TopicPartition) -> None:
    topics = groups[forbidden]
    del topics[key[0]][key]
    if not topics[key[0]]:
        del topics[key[0]]
    if not topics:
        del groups[forbidden]


def racks_of(cluster: ClusterState, *, rack_aware: bool) -> dict[int, str]:
    """Racks by broker; {} if ignored or no broker has one. Raises PlanRefused if only some brokers have one."""
    racks = {broker.id: broker.rack for broker in cluster.brokers if broker.rack is not None}
    if not rack_aware or not racks:
        return {}
    if len(racks) < len(cluster.brokers):
        without = ", ".join(str(broker.id) for broker in cluster.brokers if broker.rack is None)
        raise PlanRefused(f"Not all brokers have a rack (not {without}): plan without racks, or set their broker.rack")
    return racks
