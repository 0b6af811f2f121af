"""The rules by which two other tools even out bytes, modelled for a comparison on the same clusters.

- `storage_rebalance`: `topicmappr rebalance` of DataDog's kafka-kit 4, from commands/rebalance.go, reassignments.go and
  planner.go, with its defaults: brokers whose free storage is 20% below the harmonic mean give their 30 largest
  partitions of at least 512 MiB to the brokers with the most free storage, one in each pass; all tolerances from 1% to
  98% are tried, and the one with the smallest range of free storage wins.
- `disk_distribution`: DiskUsageDistributionGoal of LinkedIn's Cruise Control (ResourceDistributionGoal), after a goal
  for racks: broker by broker, first moves, then exchanges, the largest replicas first.

These are models in Python of published rules, without the tools' clusters of metrics, other goals and time-outs. Their
seconds say nothing about the speed of the tools.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from kafkatools.tools.reassignment.balance.model import BalanceInput

Lists = list[list[int]]
_BELOW_MEAN = 0.20
_LARGEST = 30
_LEAST_BYTES = 512 << 20
_MARGIN = 0.9  # BALANCE_MARGIN of the goal: of a threshold of 10% the goal uses 9%


def storage_rebalance(given: BalanceInput, volume_bytes: int) -> Lists:
    """The replicas after topicmappr's rebalance of brokers with volumes of this size."""
    best: tuple[float, float, Lists] | None = None
    for percent in range(1, 99):
        free, lists = _storage_pass(given, volume_bytes, percent / 100)
        mean = sum(free.values()) / len(free)
        deviation = (sum((value - mean) ** 2 for value in free.values()) / len(free)) ** 0.5
        result = (max(free.values()) - min(free.values()), deviation, lists)
        if best is None or result[:2] < best[:2]:
            best = result
    assert best is not None
    return best[2]


def _storage_pass(given: BalanceInput, volume_bytes: int, tolerance: float) -> tuple[dict[int, float], Lists]:
    parts = given.cluster.partitions
    racks = {broker.id: broker.rack for broker in given.cluster.brokers}
    free: dict[int, float] = dict.fromkeys(racks, float(volume_bytes))
    largest: dict[int, list[int]] = {broker: [] for broker in racks}
    for index, part in enumerate(parts):
        for broker in part.replicas:
            free[broker] -= part.size_bytes
            if part.size_bytes >= _LEAST_BYTES:
                largest[broker].append(index)
    positive = [value for value in free.values() if value > 0]
    harmonic = len(positive) / sum(1 / value for value in positive)
    sources = sorted((broker for broker in free if (harmonic - free[broker]) / harmonic > _BELOW_MEAN), key=free.get)  # type: ignore[arg-type]
    for source in sources:
        largest[source].sort(key=lambda index: (-parts[index].size_bytes, index))
    planned: dict[int, list[tuple[int, int]]] = {}
    exhausted = 0
    while exhausted < len(sources):
        for source in sources:
            exhausted += not _relocate_one(given, source, sources, free, largest[source], planned, racks, tolerance)
    lists = [list(part.replicas) for part in parts]
    for index, pairs in planned.items():
        for source, target in pairs:
            lists[index][lists[index].index(source)] = target
    return free, lists


def _relocate_one(
    given: BalanceInput,
    source: int,
    sources: list[int],
    free: dict[int, float],
    largest: list[int],
    planned: dict[int, list[tuple[int, int]]],
    racks: dict[int, str | None],
    tolerance: float,
) -> bool:
    positive = [value for value in free.values() if value > 0]
    mean = sum(positive) / len(positive)
    order = sorted((broker for broker in free if broker not in sources), key=lambda broker: (-free[broker], broker))
    for index in largest[:_LARGEST]:
        part = given.cluster.partitions[index]
        others = {broker for broker in part.replicas if broker != source}
        others |= {target for _, target in planned.get(index, ())}
        taken = {racks[broker] for broker in others}
        target = next((broker for broker in order if broker not in others and racks[broker] not in taken), None)
        if target is None:
            continue
        size = part.size_bytes
        if free[source] + size > mean * (1 + tolerance) or free[target] - size < mean * (1 - tolerance):
            continue
        planned.setdefault(index, []).append((source, target))
        free[source] += size
        free[target] -= size
        largest.remove(index)
        return True
    return False


def disk_distribution(given: BalanceInput, threshold: float = 1.10) -> Lists:
    """The replicas after Cruise Control's goal for disks of equal size, with this `disk.balance.threshold`."""
    return _DiskGoal(given, (threshold - 1) * _MARGIN).run()


class _DiskGoal:
    def __init__(self, given: BalanceInput, distance: float) -> None:
        self.parts = given.cluster.partitions
        self.racks = {broker.id: broker.rack for broker in given.cluster.brokers}
        self.lists = [list(part.replicas) for part in self.parts]
        self.load = dict.fromkeys(self.racks, 0)
        self.on: dict[int, list[int]] = {broker: [] for broker in self.racks}
        for index, part in enumerate(self.parts):
            for broker in part.replicas:
                self.load[broker] += part.size_bytes
                self.on[broker].append(index)
        for items in self.on.values():
            items.sort(key=self._key)
        mean = sum(self.load.values()) / len(self.load)
        self.low, self.high = mean * (1 - distance), mean * (1 + distance)

    def _key(self, index: int) -> tuple[int, int]:
        return self.parts[index].size_bytes, index

    def run(self) -> Lists:
        for broker in sorted(self.racks):
            if self.load[broker] > self.high and not self._move_out(broker):
                self._exchange_out(broker)
            if self.load[broker] < self.low and not self._move_in(broker):
                self._exchange_in(broker)
        return self.lists

    def _under(self) -> list[int]:
        return sorted((b for b in self.load if self.load[b] < self.high), key=lambda b: (self.load[b], b))

    def _is_legit(self, index: int, source: int, target: int) -> bool:
        """No second replica on a broker, and racks as the goal for racks left them."""
        replicas = self.lists[index]
        if target in replicas:
            return False
        if self.racks[source] == self.racks[target]:
            return True
        racks = [self.racks[broker] for broker in replicas]
        return racks.count(self.racks[target]) < racks.count(self.racks[source])

    def _try_move(self, index: int, source: int, target: int) -> bool:
        size = self.parts[index].size_bytes
        if self.load[target] + size > self.high or self.load[source] - size < self.low:
            return False
        if not self._is_legit(index, source, target):
            return False
        self._relocate(index, source, target)
        return True

    def _relocate(self, index: int, source: int, target: int) -> None:
        size = self.parts[index].size_bytes
        self.lists[index][self.lists[index].index(source)] = target
        self.load[source] -= size
        self.load[target] += size
        del self.on[source][bisect_left(self.on[source], self._key(index), key=self._key)]
        insort(self.on[target], index, key=self._key)

    def _descending(self, broker: int) -> list[int]:
        """Replicas that came to the broker first, then by size, the largest first."""
        return sorted(self.on[broker], key=lambda i: (broker in self.parts[i].replicas, -self.parts[i].size_bytes, i))

    def _move_out(self, broker: int) -> bool:
        for index in self._descending(broker):
            if self.parts[index].size_bytes == 0:
                break
            targets = [target for target in self._under() if target != broker]
            if any(self._try_move(index, broker, target) for target in targets) and self.load[broker] <= self.high:
                return True
        return False

    def _move_in(self, broker: int) -> bool:
        queue = [other for other in self.load if other != broker and self.load[other] > self.low]
        while queue:
            source = max(queue, key=lambda other: (self.load[other], other))
            queue.remove(source)
            for index in self._descending(source):
                if self._try_move(index, source, broker):
                    if self.load[broker] >= self.low:
                        return True
                    if queue and self.load[source] < max(self.load[other] for other in queue):
                        queue.append(source)
                        break
        return False

    def _exchange_out(self, broker: int) -> None:
        """Exchange large replicas of the broker for small ones of others, until it is within the limits."""
        queue = self._under()
        while queue:
            partner = queue.pop(0)
            pair = self._pair(broker, partner)
            if pair is None:
                continue
            self._relocate(pair[0], broker, partner)
            self._relocate(pair[1], partner, broker)
            if self.load[broker] <= self.high:
                return
            insort(queue, partner, key=lambda other: self.load[other])

    def _exchange_in(self, broker: int) -> None:
        over = sorted((b for b in self.load if self.load[b] > self.low), key=lambda b: (-self.load[b], b))
        for partner in over:
            while self.load[broker] < self.low and (pair := self._pair(partner, broker)) is not None:
                self._relocate(pair[0], partner, broker)
                self._relocate(pair[1], broker, partner)
            if self.load[broker] >= self.low:
                return

    def _pair(self, giver: int, taker: int) -> tuple[int, int] | None:
        for index in reversed(self.on[giver]):
            size = self.parts[index].size_bytes
            for other in self.on[taker]:
                delta = size - self.parts[other].size_bytes
                if delta <= 0:
                    break
                if self.load[giver] - delta < self.low or self.load[taker] + delta > self.high:
                    continue
                if self._is_legit(index, giver, taker) and self._is_legit(other, taker, giver):
                    return index, other
        return None
