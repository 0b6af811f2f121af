"""Replica placement of new topics over brokers and racks (StripedReplicaPlacer), at the controller and for `--generate`
plans.

Each partition starts one rack after its predecessor and takes one broker from each rack in turn. Within a rack, brokers
rotate. The first rack is random, and the order is shuffled again after as many partitions as there are unfenced
brokers. Brokers without a rack form one rack. The random numbers are java.util.Random's, so a seed gives the same
placement as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkatools.core.errors import InvalidReplicationFactor
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import string_hash, utf16_order
from kafkatools.core.java.random import JavaRandom
from kafkatools.core.protocol.slices import paced


class UsableBroker(NamedTuple):
    """A broker that replicas can be placed on. A fenced broker is used only if its rack has no unfenced one left, and
    never as the first replica."""

    id: int
    rack: str | None = None
    fenced: bool = False


class _BrokerList:
    """Brokers of one rack in rotation; within one epoch (one partition) each broker is returned once, then `next`
    returns None."""

    def __init__(self) -> None:
        self.brokers: list[int] = []
        self._index = 0
        self._offset = 0
        self._epoch = 0

    def begin(self, random: JavaRandom) -> None:
        if self.brokers:
            self.brokers.sort()
            self._offset = random.below(len(self.brokers))

    def next(self, epoch: int) -> int | None:
        count = len(self.brokers)
        if count == 0:
            return None
        if self._epoch != epoch:
            self._epoch = epoch
            self._index = 0
            self._offset = (self._offset + 1) % count
        if self._index >= count:
            return None
        self._index += 1
        return self.brokers[(self._index - 1 + self._offset) % count]


class _Rack:
    def __init__(self) -> None:
        self.fenced = _BrokerList()
        self.unfenced = _BrokerList()

    def next(self, epoch: int) -> int | None:
        broker = self.unfenced.next(epoch)
        return self.fenced.next(epoch) if broker is None else broker


class _RackList:
    def __init__(self, random: JavaRandom, brokers: Sequence[UsableBroker]) -> None:
        self._random = random
        self._racks: dict[str | None, _Rack] = {}
        for broker in brokers:
            rack = self._racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.fenced else rack.unfenced).brokers.append(broker.id)
        self._unfenced_count = sum(not broker.fenced for broker in brokers)
        self._in_hash_order = hash_order(self._racks, lambda name: string_hash(name or ""))
        for name in self._in_hash_order:
            self._racks[name].fenced.begin(random)
            self._racks[name].unfenced.begin(random)
        self._names = sorted(self._racks, key=lambda name: (name is not None, utf16_order(name or "")))
        self._epoch = 0
        self._offset = random.below(len(self._names)) if self._names else 0

    def place(self, factor: int) -> list[int]:
        """Choose the replicas of the next partition; the first one is the preferred leader."""
        if self._epoch == self._unfenced_count and self._unfenced_count > 1:
            self._shuffle()
            self._epoch = 0
        if self._offset == len(self._names):
            self._offset = 0
        skipped: int | None
        skipped, leader = self._leader(self._offset)
        replicas = [leader]
        position = self._offset
        while len(replicas) < factor:
            broker = None
            if position == skipped:
                skipped = None
            else:
                broker = self._racks[self._names[position]].next(self._epoch)
            position = (position + 1) % len(self._names)
            if broker is not None:
                replicas.append(broker)
        self._epoch += 1
        self._offset += 1
        return replicas

    def _leader(self, position: int) -> tuple[int, int]:
        """Choose the first replica of a partition: (position of its rack, broker id)."""
        while True:
            leader = self._racks[self._names[position]].unfenced.next(self._epoch)
            if leader is not None:
                return position, leader
            position = (position + 1) % len(self._names)

    def _shuffle(self) -> None:
        self._random.shuffle(self._names)
        for name in self._in_hash_order:
            self._random.shuffle(self._racks[name].fenced.brokers)
            self._random.shuffle(self._racks[name].unfenced.brokers)


def place(
    brokers: Sequence[UsableBroker], partition_count: int, replication_factor: int, random: JavaRandom
) -> list[list[int]]:
    """Choose the replicas of each partition of a topic, the preferred leader first. Raises InvalidReplicationFactor
    when it is not positive or above the number of brokers, or when no broker is unfenced."""
    if replication_factor <= 0:
        raise InvalidReplicationFactor(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if all(broker.fenced for broker in brokers):
        raise InvalidReplicationFactor("All brokers are currently fenced, or have all their log directories cordoned.")
    if replication_factor > len(brokers):
        raise InvalidReplicationFactor(
            f"The target replication factor of {replication_factor} cannot be reached because only {len(brokers)} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    racks = _RackList(random, brokers)
    return [racks.place(replication_factor) for _ in paced(range(partition_count))]
