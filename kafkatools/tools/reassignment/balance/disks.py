"""Level the log directories within brokers.

A replica that the plan brings to a broker gets the directory with the lowest load that has space for it. Where not all
of them find space this way, each gets the directory in which the placement booked its space. Then replicas move between
the directories of their broker, as levelling allows. Directories on volumes of known, different sizes get loads in
proportion to them. With `only_above`, directories above this use give to those below it, and no others do.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.core.admin.reassignments import Replica
from kafkatools.tools.reassignment.balance.levelling import ALLOWED, Bound, Levelling, even_bound, full_bound
from kafkatools.tools.reassignment.balance.model import BalanceOptions, Disk, DiskLoad
from kafkatools.tools.reassignment.balance.placement import (
    NO_BUDGET,
    NO_SPACE,
    Budget,
    Placement,
    free_bytes,
    has_capacity,
    surplus_bytes,
    volumes,
)


class DiskRules:
    """The moves between the log directories of one broker: within the free space of each, and within the budget.
    `now` is the directory of each replica during planning, `before` the present one; a replica that is new on the
    broker has none, and its choice of a directory copies nothing."""

    def __init__(self, sizes: Sequence[int], disks: Sequence[Disk], options: BalanceOptions, budget: Budget) -> None:
        self._sizes = sizes
        self._budget = budget
        self.before = {item: number for number, disk in enumerate(disks) for item in disk.partitions}
        self.now: dict[int, int] = {}
        # Directories that share a volume have no free space apart, so their space does not limit moves between them.
        is_shared = len(volumes(disks)) < len(disks)
        self.free = [float("inf") if is_shared else free_bytes(disk, options.only_above) for disk in disks]

    def refusal(self, item: int, source: int, target: int) -> int:
        """Return ALLOWED, or the constraint that the move would break."""
        if self._sizes[item] > self.free[target] and self.before.get(item) != target:
            return NO_SPACE
        return ALLOWED if self._budget.affords(self.cost(item, source, target)) else NO_BUDGET

    def affords(self, cost: int) -> bool:
        return self._budget.affords(cost)

    def cost(self, item: int, source: int, target: int) -> int:
        """Return the bytes that the move adds to the plan."""
        before = self.before.get(item)
        if before is None:
            return 0
        return self._sizes[item] * ((target != before) - (source != before))

    def move(self, item: int, source: int, target: int) -> None:
        self._budget.spend(self.cost(item, source, target))
        self.now[item] = target
        if self.before.get(item) != target:
            self.free[target] -= self._sizes[item]
        if self.before.get(item) != source:
            self.free[source] += self._sizes[item]


class LevelledDisks:
    """The log directories of one broker after levelling."""

    def __init__(
        self,
        broker: int,
        disks: Sequence[Disk],
        placement: Placement,
        weights: Sequence[float],
        movable: frozenset[int] | set[int],
        options: BalanceOptions,
    ) -> None:
        self.broker, self._disks, self._placement = broker, disks, placement
        number = placement.brokers.number[broker]
        self._rules = rules = DiskRules(placement.sizes, disks, options, placement.budget)
        rules.now.update({item: at for item, at in rules.before.items() if number in placement.replicas[item]})
        present, loads = [0.0] * len(disks), [0.0] * len(disks)
        for item, at in rules.before.items():
            present[at] += weights[item]
        for item, at in rules.now.items():
            loads[at] += weights[item]
        arriving = [
            item
            for item in placement.changed
            if number in placement.replicas[item] and number not in placement.before[item]
        ]
        total = sum(loads) + sum(weights[item] for item in arriving)
        bounds = _bounds(disks, present, total, options)
        for item, at in self._directories(arriving, loads, bounds, weights).items():
            rules.now[item] = at
            rules.free[at] -= placement.sizes[item]
            loads[at] += weights[item]
        items = [
            [item for item, at in rules.now.items() if at == disk and item in movable] for disk in range(len(disks))
        ]
        items = [[item for item in disk_items if weights[item] > 0] for disk_items in items]
        levelling = Levelling(weights, placement.sizes, bounds, loads, items, rules)
        levelling.level()
        self.is_level = all(load <= bound.high for load, bound in zip(levelling.loads, bounds, strict=True))
        self.refusals = 0
        for refusals in levelling.refusals:
            self.refusals |= refusals

    def _directories(
        self, arriving: Sequence[int], loads: Sequence[float], bounds: Sequence[Bound], weights: Sequence[float]
    ) -> dict[int, int]:
        """Choose the directories of replicas that are new on the broker."""
        loads, free = list(loads), list(self._rules.free)
        chosen = {}
        for item in sorted(arriving, key=lambda item: (-weights[item], item)):
            size, weight = self._placement.sizes[item], weights[item]
            ratios = [
                ((loads[at] + weight) / max(bound.center, 1e-9), at)
                for at, bound in enumerate(bounds)
                if free[at] >= size
            ]
            if not ratios:
                return self._booked(arriving)
            _, at = min(ratios)
            chosen[item] = at
            free[at] -= size
            loads[at] += weight
        return chosen

    def _booked(self, arriving: Sequence[int]) -> dict[int, int]:
        booked = self._placement.space[self._placement.brokers.number[self.broker]].booked
        numbers = {disk.path: at for at, disk in enumerate(self._disks)}
        return {item: numbers[booked[item]] for item in arriving}

    def targets(self) -> dict[Replica, str]:
        """Return the directories of new replicas, and of those that get another one; none if there is only one."""
        rules = self._rules
        if len(self._disks) == 1:
            return {}
        return {self._replica(item): self._disks[at].path for item, at in rules.now.items() if self._is_moved(item)}

    def origins(self) -> dict[Replica, str]:
        """Return the present directories of the replicas that get another one on the same broker."""
        before = self._rules.before
        return {
            self._replica(item): self._disks[before[item]].path
            for item in self._rules.now
            if item in before and self._is_moved(item)
        }

    def moved(self) -> list[int]:
        """Return the partitions whose replica gets another directory on the same broker."""
        return [item for item in self._rules.now if item in self._rules.before and self._is_moved(item)]

    def rows(self) -> list[DiskLoad]:
        """Return the bytes of each directory before and after."""
        sizes, rules = self._placement.sizes, self._rules
        before, after = [0] * len(self._disks), [0] * len(self._disks)
        for item, at in rules.before.items():
            before[at] += sizes[item]
        for item, at in rules.now.items():
            after[at] += sizes[item]
        return [
            DiskLoad(self.broker, disk.path, (before[at], after[at]), disk.total_bytes, disk.usable_bytes)
            for at, disk in enumerate(self._disks)
        ]

    def _is_moved(self, item: int) -> bool:
        return self._rules.now[item] != self._rules.before.get(item)

    def _replica(self, item: int) -> Replica:
        part = self._placement.partitions[item]
        return Replica(part.topic, part.partition, self.broker)


def _bounds(disks: Sequence[Disk], present: Sequence[float], total: float, options: BalanceOptions) -> list[Bound]:
    """The range of each directory's load: its share of the broker's load, or with `only_above` the bytes that fill it
    that far. Directories that share a volume cannot relieve each other, so with `only_above` they keep their loads."""
    has_shares = has_capacity({0: disks}, 0) and len(volumes(disks)) == len(disks)
    if options.only_above is not None and has_shares:
        return [
            full_bound(load - surplus_bytes([disk], options.only_above))
            for disk, load in zip(disks, present, strict=True)
        ]
    capacity = sum(disk.total_bytes for disk in disks)
    shares = [disk.total_bytes / capacity if has_shares else 1 / len(disks) for disk in disks]
    if options.only_above is not None:
        return [Bound(total * share, float("-inf"), float("inf")) for share in shares]
    return [even_bound(total * share, options.tolerance) for share in shares]
