"""Level preferred leaders by reordering replica lists, which copies nothing.

The number of preferred leaders is levelled to within one where the replicas allow. Where no direct change helps,
leaders move along the shortest path over other brokers. With rates, exchanges of two leaders then level the bytes per
second that each broker leads, without changing the numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Sequence

_LOOKS = 64  # partitions of a pair of brokers that are compared by rate
_NO_RATES: Sequence[float] = ()


class Leaders:
    """Preferred leaders of the brokers that take part. `movable` are the partitions whose list may be reordered.
    `rates` are bytes per second by partition, empty if they do not count."""

    def __init__(
        self,
        replicas: Sequence[list[int]],
        movable: Iterable[int],
        taking_part: Sequence[int],
        brokers: int,
        rates: Sequence[float] = _NO_RATES,
    ) -> None:
        self._replicas = replicas
        self._brokers = frozenset(taking_part)
        self._rates = rates
        self.counts = [0] * brokers
        self.led_rates = [0.0] * brokers
        for partition, brokers_of_partition in enumerate(replicas):
            if brokers_of_partition:
                self.counts[brokers_of_partition[0]] += 1
                self.led_rates[brokers_of_partition[0]] += rates[partition] if rates else 0
        # (leader, other replica) -> partitions that the other replica may lead instead
        self._pairs: dict[tuple[int, int], dict[int, None]] = {}
        for partition in movable:
            self._note(partition)
        self.changed: dict[int, None] = {}

    def level_counts(self) -> None:
        """Level the numbers of preferred leaders."""
        stuck: set[int] = set()
        has_moved = False
        while True:
            source = max(
                (broker for broker in self._brokers if broker not in stuck),
                key=lambda broker: (self.counts[broker], -broker),
                default=None,
            )
            if source is None:
                if not has_moved:
                    return
                stuck, has_moved = set(), False  # other leaders have moved since: try again
                continue
            path = self._path(source)
            if path is None:
                stuck.add(source)
                continue
            for leader, target in reversed(list(zip(path, path[1:], strict=False))):
                self._lead(self._best(leader, target), target)
            has_moved = True

    def level_rates(self, tolerance: float, *, keeps_counts: bool) -> None:
        """Pass or exchange leads between pairs of brokers until the led rates are within the tolerance of their mean.
        With `keeps_counts` leads are only exchanged."""
        mean = sum(self.led_rates[broker] for broker in self._brokers) / len(self._brokers)
        stuck: set[int] = set()
        has_moved = False
        for _ in range(10 * len(self._replicas)):  # an end also where rounding hides that a step changes nothing
            order = sorted(self._brokers, key=lambda broker: (self.led_rates[broker], broker))
            source = next((broker for broker in reversed(order) if broker not in stuck), None)
            if source is None or self.led_rates[source] <= mean * (1 + tolerance):
                if not (stuck and has_moved):
                    return
                stuck, has_moved = set(), False  # other leaders have moved since: try again
            elif any(self._pass_rate(source, target, mean, keeps_counts) for target in order if target != source):
                has_moved = True
            else:
                stuck.add(source)

    def _path(self, source: int) -> list[int] | None:
        """The shortest path over pairs of brokers from `source` to a broker that leads at least two less."""
        goal = self.counts[source] - 2
        came_from = {source: source}
        queue = deque([source])
        while queue:
            broker = queue.popleft()
            targets = [other for other in self._brokers if other not in came_from and self._pairs.get((broker, other))]
            for target in sorted(targets, key=lambda target: (self.counts[target], target)):
                came_from[target] = broker
                if self.counts[target] <= goal:
                    return _trace(came_from, source, target)
                queue.append(target)
        return None

    def _best(self, leader: int, target: int) -> int:
        """The partition whose lead should pass from one broker to another: the one that levels the rates most."""
        partitions = self._pairs[leader, target]
        if not self._rates:
            return next(iter(partitions))
        half = (self.led_rates[leader] - self.led_rates[target]) / 2
        looks = (partition for partition, _ in zip(partitions, range(_LOOKS), strict=False))
        return min(looks, key=lambda partition: (abs(self._rates[partition] - half), partition))

    def _pass_rate(self, source: int, target: int, mean: float, keeps_counts: bool) -> bool:
        """Pass the lead of a partition, or exchange those of two, so that rate passes from one broker to the other, up
        to the mean of the one that reaches it first. Returns False if no partitions do."""
        room = min(self.led_rates[source] - mean, mean - self.led_rates[target])
        if room <= 0:
            return False
        given = self._by_rate(source, target)
        returned = self._by_rate(target, source)
        rates = [self._rates[partition] for partition in returned]
        best: tuple[float, int, int | None] | None = None
        for partition in given:
            if not keeps_counts and room / 16 < self._rates[partition] <= room:
                best = (-self._rates[partition], partition, None)  # `given` ascends, so a later one passes more
                continue
            at = bisect_left(rates, self._rates[partition] - room)
            if at < len(rates) and self._rates[partition] - rates[at] > room / 16:
                choice = (rates[at] - self._rates[partition], partition, returned[at])
                best = choice if best is None or choice[0] < best[0] else best
        if best is None:
            return False
        self._lead(best[1], target)
        if best[2] is not None:
            self._lead(best[2], source)
        return True

    def _by_rate(self, leader: int, target: int) -> list[int]:
        partitions = self._pairs.get((leader, target), {})
        return sorted(partitions, key=lambda partition: (self._rates[partition], partition))

    def _lead(self, partition: int, target: int) -> None:
        replicas = self._replicas[partition]
        leader = replicas[0]
        for other in replicas[1:]:
            self._pairs.get((leader, other), {}).pop(partition, None)
        at = replicas.index(target)
        replicas[0], replicas[at] = target, leader
        self.counts[leader] -= 1
        self.counts[target] += 1
        if self._rates:
            self.led_rates[leader] -= self._rates[partition]
            self.led_rates[target] += self._rates[partition]
        self._note(partition)
        self.changed[partition] = None

    def _note(self, partition: int) -> None:
        replicas = self._replicas[partition]
        if replicas[0] not in self._brokers:
            return
        for other in replicas[1:]:
            if other in self._brokers:
                self._pairs.setdefault((replicas[0], other), {})[partition] = None


def _trace(came_from: dict[int, int], source: int, target: int) -> list[int]:
    path = [target]
    while path[-1] != source:
        path.append(came_from[path[-1]])
    return path[::-1]


def movable_leaders(replicas: Sequence[Sequence[int]], chosen: Collection[int]) -> list[int]:
    """Return the chosen partitions with more than one replica, in order."""
    return [partition for partition in sorted(chosen) if len(replicas[partition]) > 1]
