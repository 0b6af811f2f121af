"""The replicas of a cluster while a plan is made, and the types of its input.

Candidates of a move are kept until something changes on their broker: where racks forbid most moves, each search for a
move would otherwise look at every replica of the broker again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
        self._per_topic: dict[tuple[int, str], int] = {}
        # Broker -> topic -> partitions with a replica there: all of them, and those that this plan has placed there.
        self._on: dict[int, dict[str, dict[TopicPartition, None]]] = {}
        self._fresh: dict[int, dict[str, dict[TopicPartition, None]]] = {}
        # Increases with each change of a partition that has a replica on the broker.
        self._versions: dict[int, int] = {}
        self._kept_candidates: dict[tuple[int, str, bool], tuple[int, Mapping[str, list[TopicPartition]]]] = {}
        for part in cluster.partitions:
            for broker in part.replicas:
                self._all[broker] = self._all.get(broker, 0) + 1
        for key, replicas in self.replicas.items():
            for broker in replicas:
                self._note(key, broker)
                self._all[broker] -= 1

    def _note(self, key: TopicPartition, broker: int) -> None:
        self.count[broker] = self.count.get(broker, 0) + 1
        self._all[broker] = self._all.get(broker, 0) + 1
        self._per_topic[broker, key[0]] = self._per_topic.get((broker, key[0]), 0) + 1
        self._on.setdefault(broker, {}).setdefault(key[0], {})[key] = None
        if broker not in self.partitions[key].replicas:
            self._fresh.setdefault(broker, {}).setdefault(key[0], {})[key] = None

    def _forget(self, key: TopicPartition, broker: int) -> None:
        self.count[broker] -= 1
        self._all[broker] -= 1
        self._per_topic[broker, key[0]] -= 1
        del self._on[broker][key[0]][key]
        self._fresh.get(broker, {}).get(key[0], {}).pop(key, None)

    def _note_change(self, key: TopicPartition, *brokers: int) -> None:
        for broker in (*self.replicas[key], *brokers):
            self._versions[broker] = self._versions.get(broker, 0) + 1

    def add(self, key: TopicPartition, broker: int) -> None:
        """Add a replica at the end of the partition's list."""
        self.replicas[key].append(broker)
        self._note(key, broker)
        self._note_change(key)

    def remove(self, key: TopicPartition, broker: int) -> None:
        self.replicas[key].remove(broker)
        self._forget(key, broker)
        self._note_change(key, broker)

    def replace(self, key: TopicPartition, old: int, new: int) -> None:
        """Replace a replica at its position in the partition's list."""
        self.replicas[key][self.replicas[key].index(old)] = new
        self._forget(key, old)
        self._note(key, new)
        self._note_change(key, old)

    def cannot_be_copied(self, key: TopicPartition) -> bool:
        """Return whether no live replica of the partition is in sync. If so, adds the partition to `left_out`."""
        if any(broker in self.live for broker in self.partitions[key].isr):
            return False
        self.left_out[key] = "no live replica is in sync, so there is nothing to copy from"
        return True

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
        in_rack = {
            broker: self.in_rack_of(key, broker) - (without is not None and self.rack(broker) == self.rack(without))
            for broker in free
        }
        return min(free, key=lambda broker: (in_rack[broker], self._load(broker, key[0])))

    def _load(self, broker: int, topic: str) -> tuple[int, int, int, int]:
        return self.count[broker], self._per_topic.get((broker, topic), 0), self._all[broker], broker

    def by_load(self, brokers: Iterable[int]) -> list[int]:
        """The brokers in order of load, the least loaded first."""
        return sorted(brokers, key=lambda broker: (self.count[broker], self._all[broker], broker))

    def rack_change(self, key: TopicPartition, source: int, target: int) -> int:
        """Return the loss of the partition's spread over racks by a move; negative if it improves. The measure is half
        the change of the sum of squared replica counts per rack."""
        racks = self._racks
        if racks[source] == racks[target]:
            return 0
        used = [racks[replica] for replica in self.replicas[key]]
        return used.count(racks[target]) - used.count(racks[source]) + 1

    def pick(self, source: int, target: int, *, fresh_only: bool) -> TopicPartition | None:
        """The partition whose replica is best moved from one broker to the other; None if none may move. `fresh_only`:
        only replicas that this plan has placed."""
        topics = self._candidates(source, target, fresh_only=fresh_only)
        surplus = {
            topic: self._per_topic.get((target, topic), 0) - self._per_topic.get((source, topic), 0) for topic in topics
        }
        for topic in sorted(topics, key=lambda topic: (surplus[topic], topic)):
            movable = [key for key in topics[topic] if self._may_move(key, target)]
            if movable:
                return min(movable, key=lambda key: self._price(key, source, target))
        return None

    def _candidates(self, source: int, target: int, *, fresh_only: bool) -> Mapping[str, Collection[TopicPartition]]:
        """The partitions of a broker whose replica may move to the rack of another one, by topic."""
        present = (self._fresh if fresh_only else self._on).get(source, {})
        if self.rack(source) == self.rack(target):
            return present
        version = self._versions.get(source, 0)
        place = (source, self.rack(target), fresh_only)
        kept = self._kept_candidates.get(place)
        if kept is not None and kept[0] == version:
            return kept[1]
        topics: dict[str, list[TopicPartition]] = {}
        for topic, keys in present.items():
            movable = [key for key in keys if self.rack_change(key, source, target) <= 0]
            if movable:
                topics[topic] = movable
        self._kept_candidates[place] = version, topics
        return topics

    def _may_move(self, key: TopicPartition, target: int) -> bool:
        return target not in self.replicas[key] and key not in self.left_out and not self.cannot_be_copied(key)

    def _price(self, key: TopicPartition, source: int, target: int) -> tuple[int, int, TopicPartition]:
        """The sort key of a move: what it adds to the plan, size, partition. Moving a moved replica on adds nothing."""
        part = self.partitions[key]
        return (target not in part.replicas) - (source not in part.replicas), part.size_bytes, key


def racks_of(cluster: ClusterState, *, rack_aware: bool) -> dict[int, str]:
    """Racks by broker; {} if ignored or no broker has one. Raises PlanRefused if only some brokers have one."""
    racks = {broker.id: broker.rack for broker in cluster.brokers if broker.rack is not None}
    if not rack_aware or not racks:
        return {}
    if len(racks) < len(cluster.brokers):
        without = ", ".join(str(broker.id) for broker in cluster.brokers if broker.rack is None)
        raise PlanRefused(f"Not all brokers have a rack (not {without}): plan without racks, or set their broker.rack")
    return racks
