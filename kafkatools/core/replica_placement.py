"""Where new replicas of a topic go (StripedReplicaPlacer: new topics at the controller, and the plans of --generate).

Partitions go over the racks in stripes: each begins with the rack after the one its predecessor began with, and takes
one broker from each rack in turn; within a rack the brokers take turns. Where stripes begin is drawn by lot, and after
as many partitions as there are brokers everything is shuffled. Brokers without a rack are a rack of their own. The
lots are java.util.Random's, so that a seed gives what it gives in Apache Kafka.
"""

from __future__ import annotations

import os
from collections.abc import MutableSequence, Sequence
from typing import Any, NamedTuple

from kafkatools.core.errors import InvalidReplicationFactor

_MULTIPLIER = 0x5DEECE66D
_STATE = (1 << 48) - 1
_WORD = 0xFFFFFFFF
_HASH_BUCKETS = 16
_FULL = 0.75


class UsableBroker(NamedTuple):
    """A broker that may get replicas; a fenced one gets some only where there is no other, and never the first."""

    id: int
    rack: str | None = None
    fenced: bool = False


class JavaRandom:
    """java.util.Random as far as it is needed here."""

    def __init__(self, seed: int | None = None) -> None:
        self._state = ((int.from_bytes(os.urandom(6), "big") if seed is None else seed) ^ _MULTIPLIER) & _STATE

    def _next(self, bits: int) -> int:
        self._state = (self._state * _MULTIPLIER + 0xB) & _STATE
        return self._state >> (48 - bits)

    def below(self, bound: int) -> int:
        """nextInt(bound)."""
        drawn = self._next(31)
        if bound & (bound - 1) == 0:
            return bound * drawn >> 31
        while drawn - drawn % bound + bound - 1 >= 1 << 31:
            drawn = self._next(31)
        return drawn % bound

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Collections.shuffle."""
        for size in range(len(items), 1, -1):
            other = self.below(size)
            items[size - 1], items[other] = items[other], items[size - 1]


class _BrokerList:
    """Brokers that take turns; in one epoch (one partition) each comes once."""

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
        self._in_hash_order = _hash_order(list(self._racks))
        for name in self._in_hash_order:
            self._racks[name].fenced.begin(random)
            self._racks[name].unfenced.begin(random)
        self._names = sorted(self._racks, key=lambda name: (name is not None, _utf16(name or "")))
        self._epoch = 0
        self._offset = random.below(len(self._names)) if self._names else 0

    def place(self, factor: int) -> list[int]:
        """The replicas of the next partition."""
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
        """The first replica, and the place of its rack: that one is passed over once when the others are chosen."""
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


def _hash_order(racks: Sequence[str | None]) -> list[str | None]:
    """The racks in the order of a HashMap of Optionals."""
    buckets = _HASH_BUCKETS
    while len(racks) > buckets * _FULL:
        buckets *= 2
    return sorted(racks, key=lambda name: _spread(name or "") & (buckets - 1))


def _spread(text: str) -> int:
    code = 0
    units = _utf16(text)
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & _WORD
    return code ^ code >> 16


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def place(
    brokers: Sequence[UsableBroker], partition_count: int, replication_factor: int, random: JavaRandom
) -> list[list[int]]:
    """The replicas of each partition of a new topic, the preferred leader first. Raises InvalidReplicationFactor."""
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
    return [racks.place(replication_factor) for _ in range(partition_count)]
