"""Plan the balance of brokers by bytes, rate or leaders. The same input gives the same plan; nothing is read or sent.

Order: replicas move between brokers (bytes, rate) or replica lists are reordered and then leading replicas move
(leaders); preferred leaders of changed partitions are levelled; log directories are levelled.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from kafkatools.core.admin.reassignments import Replica, TopicPartition
from kafkatools.tools.reassignment.balance.disks import LevelledDisks
from kafkatools.tools.reassignment.balance.leaders import Leaders, movable_leaders
from kafkatools.tools.reassignment.balance.levelling import Bound, Levelling, even_bound, full_bound
from kafkatools.tools.reassignment.balance.model import (
    LEADERS,
    RATE,
    BalanceInput,
    BalanceOptions,
    BalancePlan,
    RateLoad,
    Spread,
    spread_of,
)
from kafkatools.tools.reassignment.balance.placement import (
    Brokers,
    Budget,
    Placement,
    full_disks,
    has_capacity,
    surplus_bytes,
)
from kafkatools.tools.reassignment.balance.reasons import broker_reasons, disk_reasons, full_disk_reasons
from kafkatools.tools.reassignment.layout import PlanRefused
from kafkatools.tools.reassignment.listings import ids, plural
from kafkatools.tools.reassignment.plan import Move, broker_loads

_NO_COPY = "no live replica is in sync, so there is nothing to copy from"
_NO_SIZE = "no broker reported its size"
_NO_RATE = "its rate is unknown"


class Levelled(NamedTuple):
    """The brokers after levelling: the bounds of those that take part, and the levelling with their loads."""

    bounds: Sequence[Bound]
    levelling: Levelling


def plan_balance_by(given: BalanceInput, options: BalanceOptions) -> BalancePlan:
    """Return a plan that brings the loads of the brokers within the tolerance of their mean, as far as the constraints
    allow. Raises PlanRefused without a live broker that takes part, for racks of only some brokers, and for
    `only_above` if a broker does not report the size of its volumes."""
    return _Planner(given, options).plan()


class _Planner:
    def __init__(self, given: BalanceInput, options: BalanceOptions) -> None:
        self.given, self.options = given, options
        self.brokers = Brokers(given, options)
        self.budget = Budget(options.max_move_bytes)
        self.placement = Placement(given, options, self.brokers, self.budget)
        self.rates = [rate or 0.0 for rate in given.rates or ()]
        self.left_out: dict[TopicPartition, str] = {}
        self.movable = self._movable()
        if options.only_above is not None:
            self._ensure_capacity()

    def plan(self) -> BalancePlan:
        options = self.options
        levelled = self._level_leaders() if options.by == LEADERS else self._level_replicas(self._weights())
        if options.by == RATE:
            self._level_led_rates()
        disks = self._level_disks() if options.disks else []
        reasons = broker_reasons(levelled.levelling, levelled.bounds, self.placement, options)
        if options.only_above is not None and not options.disks:
            reasons += full_disk_reasons(levelled.levelling, levelled.bounds, self.placement, self.given.disks, options)
        return self._result(disks, [*reasons, *disk_reasons(disks, options)])

    # -- what may move --

    def _movable(self) -> set[int]:
        """The chosen partitions that can be copied and whose weight is known. Adds the other chosen ones to
        `left_out`."""
        live = set(self.brokers.ids[: len(self.given.cluster.brokers)])
        topics, by, rates = self.options.topics, self.options.by, self.given.rates
        movable = set()
        for item, part in enumerate(self.placement.partitions):
            if topics is not None and part.topic not in topics:
                continue
            if live.isdisjoint(part.isr):
                self.left_out[part.key] = _NO_COPY
            elif item in self.given.unknown_sizes and by != LEADERS:
                self.left_out[part.key] = _NO_SIZE
            elif by == RATE and (rates is None or rates[item] is None):
                self.left_out[part.key] = _NO_RATE
            else:
                movable.add(item)
        return movable

    def _ensure_capacity(self) -> None:
        disks = self.given.disks
        missing = [
            broker
            for broker in (self.brokers.ids[number] for number in self.brokers.taking_part)
            if not has_capacity(disks, broker)
        ]
        if missing:
            raise PlanRefused(
                f"The use of the disks is unknown: broker{plural(len(missing))} {ids(missing)} did not report the size "
                "of all volumes"
            )

    def _weights(self) -> Sequence[float]:
        return self.rates if self.options.by == RATE else self.placement.sizes

    # -- brokers --

    def _level_replicas(self, weights: Sequence[float]) -> Levelled:
        taking_part = self.brokers.taking_part
        loads = [0.0] * len(self.brokers.ids)
        items: list[list[int]] = [[] for _ in loads]
        giving = [self._giving(number) if number in taking_part else frozenset() for number in range(len(loads))]
        for item, replicas in enumerate(self.placement.replicas):
            is_item = item in self.movable and weights[item] > 0
            for broker in replicas:
                loads[broker] += weights[item]
                if is_item and item in giving[broker]:
                    items[broker].append(item)
        return self._level(weights, loads, items)

    def _giving(self, number: int) -> Container[int]:
        """The partitions whose replicas may leave a broker. With `only_above` a broker above this use gives, from its
        log directories above it; any other one gives nothing, since its own log directories have space for the surplus
        of each other."""
        limit = self.options.only_above
        if limit is None:
            return self.movable
        disks = self.given.disks[self.brokers.ids[number]]
        if surplus_bytes(disks, limit) <= 0:
            return frozenset()
        return {item for disk in full_disks(disks, limit) for item in disk.partitions}

    def _level_led_rates(self) -> None:
        """Level the rates of the leaders by the lists of the partitions that change anyway."""
        replicas, changed = self.placement.replicas, self.placement.changed
        leaders = Leaders(
            replicas, movable_leaders(replicas, changed), self.brokers.taking_part, len(self.brokers.ids), self.rates
        )
        leaders.level_rates(self.options.tolerance, keeps_counts=False)

    def _level(self, weights: Sequence[float], loads: Sequence[float], items: Sequence[Sequence[int]]) -> Levelled:
        """Level the loads of the brokers that take part; they are the bins, in the order of `taking_part`."""
        taking_part = self.brokers.taking_part
        own_loads = [loads[broker] for broker in taking_part]
        bounds = self._bounds(own_loads)
        levelling = Levelling(
            weights,
            self.placement.sizes,
            bounds,
            own_loads,
            [items[broker] for broker in taking_part],
            _Renumbered(self.placement, taking_part),
        )
        if sum(own_loads) > 0:
            levelling.level()
        return Levelled(bounds, levelling)

    def _bounds(self, loads: Sequence[float]) -> list[Bound]:
        if self.options.only_above is None:
            mean = sum(loads) / len(loads)
            return [even_bound(mean, self.options.tolerance) for _ in loads]
        broker_ids, limit = self.brokers.ids, self.options.only_above
        return [
            full_bound(load - surplus_bytes(self.given.disks[broker_ids[broker]], limit))
            for load, broker in zip(loads, self.brokers.taking_part, strict=True)
        ]

    def _level_leaders(self) -> Levelled:
        """Reorder replica lists. Where leaders stay unequal, replicas of preferred leaders move, the smallest first."""
        replicas, taking_part = self.placement.replicas, self.brokers.taking_part
        reorderable = movable_leaders(replicas, self.movable)
        leaders = Leaders(replicas, reorderable, taking_part, len(self.brokers.ids), self.rates)
        leaders.level_counts()
        if self.rates:
            leaders.level_rates(self.options.tolerance, keeps_counts=True)
        items: list[list[int]] = [[] for _ in self.brokers.ids]
        for item in sorted(self.movable - self.given.unknown_sizes):
            if replicas[item]:
                items[replicas[item][0]].append(item)
        loads = [float(count) for count in leaders.counts]
        return self._level([1] * len(replicas), loads, items)

    # -- the result --

    def _level_disks(self) -> list[LevelledDisks]:
        weights = self.rates if self.options.by == RATE else self.placement.sizes
        levelled = []
        for number in self.brokers.taking_part:
            broker = self.brokers.ids[number]
            disks = self.given.disks.get(broker, ())
            if disks:
                levelled.append(LevelledDisks(broker, disks, self.placement, weights, self.movable, self.options))
        return levelled

    def _result(self, disks: Sequence[LevelledDisks], reasons: Sequence[str]) -> BalancePlan:
        targets: dict[Replica, str] = {}
        origins: dict[Replica, str] = {}
        changed_disks: set[int] = set()
        for levelled in disks:
            targets.update(levelled.targets())
            origins.update(levelled.origins())
            changed_disks.update(levelled.moved())
        moves = self._moves(changed_disks)
        moved_bytes = sum(self.placement.sizes[item] for levelled in disks for item in levelled.moved())
        return BalancePlan(
            moves,
            broker_loads(self.given.cluster, moves),
            dict(sorted(self.left_out.items())),
            self._rate_loads(),
            tuple(row for levelled in disks for row in levelled.rows()),
            targets,
            origins,
            moved_bytes,
            self._spreads(),
            tuple(reasons),
        )

    def _after(self, item: int) -> tuple[int, ...]:
        return tuple(self.brokers.ids[broker] for broker in self.placement.replicas[item])

    def _moves(self, changed_disks: set[int]) -> tuple[Move, ...]:
        moves = []
        for item, part in enumerate(self.placement.partitions):
            if item in changed_disks or tuple(self.placement.replicas[item]) != self.placement.before[item]:
                after = self._after(item)
                moves.append(Move(part.topic, part.partition, part.replicas, after, part.leader, part.size_bytes))
        return tuple(sorted(moves))

    def _rate_loads(self) -> dict[int, RateLoad]:
        """Rates of the brokers before and after; {} without a sample."""
        if not self.rates:
            return {}
        pairs = []
        for replica_lists in (self.placement.before, self.placement.replicas):
            written, led = [0.0] * len(self.brokers.ids), [0.0] * len(self.brokers.ids)
            for item, replicas in enumerate(replica_lists):
                for broker in replicas:
                    written[broker] += self.rates[item]
                if replicas:
                    led[replicas[0]] += self.rates[item]
            pairs.append((written, led))
        (written_before, led_before), (written_after, led_after) = pairs
        return {
            broker: RateLoad((written_before[at], written_after[at]), (led_before[at], led_after[at]))
            for at, broker in enumerate(self.brokers.ids)
        }

    def _spreads(self) -> dict[str, tuple[Spread | None, Spread | None]]:
        """The spread of each measure over the brokers that take part."""
        measures: dict[str, tuple[Sequence[float], bool]] = {
            "bytes": (self.placement.sizes, False),
            "replicas": ([1] * len(self.placement.sizes), False),
            "leaders": ([1] * len(self.placement.sizes), True),
        }
        if self.rates:
            measures |= {"rate": (self.rates, False), "leader_rate": (self.rates, True)}
        return {
            name: (
                self._spread(self.placement.before, weights, leaders_only=is_led),
                self._spread(self.placement.replicas, weights, leaders_only=is_led),
            )
            for name, (weights, is_led) in measures.items()
        }

    def _spread(
        self, replica_lists: Sequence[Sequence[int]], weights: Sequence[float], *, leaders_only: bool
    ) -> Spread | None:
        loads = [0.0] * len(self.brokers.ids)
        for weight, replicas in zip(weights, replica_lists, strict=True):
            for broker in replicas[:1] if leaders_only else replicas:
                loads[broker] += weight
        return spread_of([loads[broker] for broker in self.brokers.taking_part])


class _Renumbered:
    """The rules of a placement for bins that are numbered by their position among the brokers that take part."""

    def __init__(self, placement: Placement, taking_part: Sequence[int]) -> None:
        self._placement, self._taking_part = placement, taking_part

    def refusal(self, item: int, source: int, target: int) -> int:
        return self._placement.refusal(item, self._taking_part[source], self._taking_part[target])

    def cost(self, item: int, source: int, target: int) -> int:
        return self._placement.cost(item, self._taking_part[source], self._taking_part[target])

    def affords(self, cost: int) -> bool:
        return self._placement.affords(cost)

    def move(self, item: int, source: int, target: int) -> None:
        self._placement.move(item, self._taking_part[source], self._taking_part[target])
