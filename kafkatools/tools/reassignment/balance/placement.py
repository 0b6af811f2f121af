"""The replicas of a cluster while a balance plan is made, with the constraints that no move may break.

Brokers are numbers from 0 (`Brokers.ids` has their ids), partitions are indexes of `ClusterState.partitions`.

Constraints:
- A partition keeps its number of replicas, each on another broker.
- Replicas move between live brokers that take part, and only of partitions with a live in-sync replica.
- A replica moves to another rack only if that rack then has no more replicas of the partition than the source's rack
  had: the spread over racks never gets worse, and no rack gets more than ceil(replicas / racks) that had not more.
- A new replica fits in the free space of one log directory of its broker, without space that others leave free.
- With `only_above` no move brings a log directory or a broker as a whole above this use.
- The copied bytes stay within the budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkatools.tools.reassignment.balance.levelling import ALLOWED
from kafkatools.tools.reassignment.balance.model import BalanceInput, BalanceOptions, Disk
from kafkatools.tools.reassignment.layout import PlanRefused, racks_of

HAS_REPLICA, OTHER_RACK, NO_SPACE, NO_BUDGET = 1, 2, 3, 4
_UNLIMITED = float("inf")


class Budget:
    """The bytes that a plan may still copy."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.left: float = _UNLIMITED if limit is None else limit

    def affords(self, cost: int) -> bool:
        return cost <= self.left

    def spend(self, cost: int) -> None:
        self.left -= cost


class Brokers:
    """The brokers of a cluster by number: live ones first, then ids that only replica lists have. `taking_part` are
    the numbers of those among which replicas move."""

    def __init__(self, given: BalanceInput, options: BalanceOptions) -> None:
        live = sorted(broker.id for broker in given.cluster.brokers)
        others = {broker for part in given.cluster.partitions for broker in part.replicas} - set(live)
        self.ids = [*live, *sorted(others)]
        self.number = {broker: number for number, broker in enumerate(self.ids)}
        racks = racks_of(given.cluster, rack_aware=options.rack_aware)
        self.racks = [racks.get(broker, f"?{broker}") for broker in self.ids] if racks else []
        chosen = set(live) if options.brokers is None else options.brokers
        self.taking_part = tuple(
            self.number[broker] for broker in live if broker in chosen and broker not in options.excluded
        )
        if not self.taking_part:
            raise PlanRefused("No live broker is left to balance")


class FreeSpace:
    """The bytes that new replicas may add to a broker: to each volume, and with `only_above` to the broker as a whole,
    so that a log directory above this use can give its surplus to the others. `booked` has the log directory in which
    the space of each new replica is booked; unless the plan names another one, Kafka chooses. A broker that does not
    report its free space takes everything."""

    def __init__(self, disks: Sequence[Disk], only_above: float | None) -> None:
        self.booked: dict[int, str] = {}
        self._rooms: dict[str, float] = {}
        self._total = self._largest = _UNLIMITED
        if disks and all(disk.total_bytes >= 0 for disk in disks):
            self._rooms = {disk.path: free_bytes(disk, only_above) for disk in volumes(disks)}
            self._largest = max(self._rooms.values())
            if only_above is not None:
                self._total = -surplus_bytes(disks, only_above)

    def fits(self, size: int) -> bool:
        """Return whether a replica of this size fits."""
        return size <= min(self._largest, self._total)

    def book(self, item: int, size: int) -> None:
        """Book the space of a new replica in the volume with the most free space."""
        if self._rooms:
            path = max(self._rooms, key=self._rooms.__getitem__)
            self.booked[item] = path
            self._add(path, -size)

    def release(self, item: int, size: int) -> None:
        """Give back the space of a replica that moves on."""
        if self._rooms:
            self._add(self.booked.pop(item), size)

    def _add(self, path: str, size: int) -> None:
        self._rooms[path] += size
        self._total += size
        self._largest = max(self._rooms.values())


class Placement:
    """The replicas of all partitions, as lists of broker numbers, and the rules of the moves between brokers."""

    def __init__(self, given: BalanceInput, options: BalanceOptions, brokers: Brokers, budget: Budget) -> None:
        number = brokers.number
        self.partitions = given.cluster.partitions
        self.sizes = [part.size_bytes for part in self.partitions]
        self.replicas = [[number[broker] for broker in part.replicas] for part in self.partitions]
        self.before = [tuple(replicas) for replicas in self.replicas]
        self.brokers = brokers
        self.budget = budget
        self.space = [FreeSpace(given.disks.get(broker, ()), options.only_above) for broker in brokers.ids]
        self.changed: dict[int, None] = {}

    def refusal(self, item: int, source: int, target: int) -> int:
        """Return ALLOWED, or the constraint that the move would break."""
        replicas = self.replicas[item]
        if target in replicas:
            return HAS_REPLICA
        racks = self.brokers.racks
        if racks and racks[source] != racks[target]:
            places = [racks[broker] for broker in replicas]
            if places.count(racks[target]) >= places.count(racks[source]):
                return OTHER_RACK
        size = self.sizes[item]
        if target not in self.before[item] and not self.space[target].fits(size):
            return NO_SPACE
        return ALLOWED if self.budget.affords(self.cost(item, source, target)) else NO_BUDGET

    def affords(self, cost: int) -> bool:
        return self.budget.affords(cost)

    def cost(self, item: int, source: int, target: int) -> int:
        """Return the bytes that the move adds to the plan: a replica that the plan has moved before is copied once."""
        before = self.before[item]
        return self.sizes[item] * ((target not in before) - (source not in before))

    def move(self, item: int, source: int, target: int) -> None:
        """Move a replica. It keeps its position in the list of replicas, so a preferred leader moves too."""
        self.budget.spend(self.cost(item, source, target))
        replicas, before, size = self.replicas[item], self.before[item], self.sizes[item]
        replicas[replicas.index(source)] = target
        if target not in before:
            self.space[target].book(item, size)
        if source not in before:
            self.space[source].release(item, size)
        self.changed[item] = None


def volumes(disks: Sequence[Disk]) -> list[Disk]:
    """Return one log directory of each volume. Directories of a broker with equal sizes, equal free space and different
    contents are on one volume, whose space would otherwise count twice. Equal empty ones are new disks."""
    groups: dict[tuple[int, int], list[Disk]] = {}
    for disk in disks:
        groups.setdefault((disk.total_bytes, disk.usable_bytes), []).append(disk)
    return [
        disk
        for group in groups.values()
        for disk in (group if len({disk.replica_bytes for disk in group}) == 1 else group[:1])
    ]


def free_bytes(disk: Disk, only_above: float | None) -> float:
    """Return the bytes that replicas may add to a log directory: the free space, up to the use `only_above`. Infinite
    if the broker does not report it."""
    if disk.total_bytes < 0:
        return _UNLIMITED
    reserve = 0.0 if only_above is None else 1 - only_above
    return max(0.0, disk.usable_bytes - reserve * disk.total_bytes)


def surplus_bytes(disks: Sequence[Disk], only_above: float) -> float:
    """Return the bytes by which log directories are fuller than the use `only_above`; negative below it. The size of
    the volumes is known."""
    parts = volumes(disks)
    total = sum(disk.total_bytes for disk in parts)
    return total - sum(disk.usable_bytes for disk in parts) - only_above * total


def full_disks(disks: Sequence[Disk], only_above: float) -> list[Disk]:
    """Return the log directories whose volumes are fuller than the use `only_above`."""
    return [disk for disk in disks if surplus_bytes([disk], only_above) > 0]


def has_capacity(disks: Mapping[int, Sequence[Disk]], broker: int) -> bool:
    """Return whether a broker reports the size of all its volumes."""
    return bool(disks.get(broker)) and all(disk.total_bytes > 0 for disk in disks[broker])
