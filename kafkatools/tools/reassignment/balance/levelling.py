"""Level the loads of bins by moving items: replicas between brokers, or between the log directories of a broker.

Strategy: the bin that is furthest above its upper bound gives to the bin with the lowest load, then the bin furthest
below its lower bound takes from the bin with the highest load. Of the items the one moves that just suffices, else the
largest one that overshoots neither bin. Where no single item fits, two items are exchanged.

Invariants:
- After a move its target has less load than its source had before: the highest load never grows.
- The order of choices depends on loads and numbers only, so that equal input gives equal moves.
- Bins are kept in order of load and items in order of weight: a move costs two binary searches in each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

_LOOKS = 128  # items of a bin that are tried for one target
_EXCHANGES = 32  # items of a source that are tried for an exchange
_PARTNERS = 16  # items of a target that are tried in exchange for one item
_CHOICES = 24  # allowed items among which the cheapest one moves

ALLOWED = 0


class Bound(NamedTuple):
    """The load that a bin should have, and the range in which it may stay."""

    center: float
    low: float
    high: float


def even_bound(center: float, tolerance: float) -> Bound:
    """The range around a load; `tolerance` is a fraction of it."""
    return Bound(center, center * (1 - tolerance), center * (1 + tolerance))


def full_bound(limit: float) -> Bound:
    """The range of a load that only has an upper limit."""
    return Bound(limit, float("-inf"), limit)


class Rules(Protocol):
    """The constraints of the moves, and the moves themselves."""

    def refusal(self, item: int, source: int, target: int) -> int:
        """Return ALLOWED, or a number from 1 to 31 for the reason why the item may not move."""

    def cost(self, item: int, source: int, target: int) -> int:
        """Return the bytes that the move adds to the plan; negative if it takes back another move."""

    def affords(self, cost: int) -> bool:
        """Return whether the plan may copy this many bytes more."""

    def move(self, item: int, source: int, target: int) -> None:
        """Move the item."""


class _Stage(NamedTuple):
    """A kind of step: the largest weight that may pass from a source to a target, and whether items are exchanged."""

    room: Callable[[int, int], float]
    is_exchange: bool = False


class Levelling:
    """Bins with bounds and loads, and for each bin the items that may leave it. `weights` and `sizes` are by item;
    `sizes` decide between equal weights. `refusals` collects for each bin the reasons that kept its items, as bits."""

    def __init__(
        self,
        weights: Sequence[float],
        sizes: Sequence[int],
        bounds: Sequence[Bound],
        loads: Sequence[float],
        items: Sequence[Sequence[int]],
        rules: Rules,
    ) -> None:
        self._weights = weights
        self._sizes = sizes
        self._bounds = bounds
        self.loads = list(loads)
        self._items = [sorted(bin_items, key=self._key) for bin_items in items]
        self._rules = rules
        self.refusals = [0] * len(bounds)
        self._order = sorted((self._ratio(number, load), number) for number, load in enumerate(loads))
        self._failed: set[tuple[int, int, int]] = set()
        self._stuck: set[tuple[str, int]] = set()
        self._has_moved = False
        self._steps_left = 10 * sum(map(len, self._items)) + 10  # an end also where rounding defeats the invariants
        self._giving = (
            _Stage(self._to_centers),
            _Stage(self._within),
            _Stage(self._within, is_exchange=True),
            _Stage(self._half),
            _Stage(self._most),
        )
        self._taking = (
            _Stage(self._to_centers),
            _Stage(self._within),
            _Stage(self._within, is_exchange=True),
            _Stage(self._half),
        )

    def level(self) -> None:
        """Move items until every bin is within its bounds or nothing more can be moved."""
        while self._steps_left > 0:
            self._steps_left -= 1
            if self._relieve() or self._fill():
                self._has_moved = True
                continue
            if not (self._stuck and self._has_moved):
                return
            self._stuck.clear()  # other items have moved since: try again
            self._failed.clear()
            self._has_moved = False

    def heaviest(self, number: int) -> int | None:
        """Return the movable item of a bin with the largest weight; None without one."""
        return self._items[number][-1] if self._items[number] else None

    def weight(self, item: int) -> float:
        """Return the weight of an item."""
        return self._weights[item]

    def has_refused(self, reason: int) -> bool:
        """Return whether this reason kept an item of any bin."""
        return any(refusals >> reason & 1 for refusals in self.refusals)

    def _key(self, item: int) -> tuple[float, int, int]:
        """The order of items: by weight, of equal weights the one with the smallest size last, since items are
        tried from the end."""
        return self._weights[item], -self._sizes[item], -item

    # -- choosing bins --

    def _relieve(self) -> bool:
        """Move something out of the most loaded bin above its bound. Returns False if no bin can give."""
        for ratio, source in reversed(self._order):
            if self.loads[source] <= self._bounds[source].high:
                return False
            if ("gives", source) in self._stuck:
                continue
            for number, stage in enumerate(self._giving):
                targets = (target for other, target in self._order if other < ratio and target != source)
                if any(self._step(source, target, number, stage, self._excess(source)) for target in targets):
                    return True
            self._stuck.add(("gives", source))
        return False

    def _fill(self) -> bool:
        """Move something into the least loaded bin below its bound. Returns False if no bin can take."""
        for ratio, target in self._order:
            if self.loads[target] >= self._bounds[target].low:
                return False
            if ("takes", target) in self._stuck:
                continue
            need = self._bounds[target].low - self.loads[target]
            for number, stage in enumerate(self._taking):
                sources = (source for other, source in reversed(self._order) if other > ratio and source != target)
                if any(self._step(source, target, ~number, stage, need) for source in sources):
                    return True
            self._stuck.add(("takes", target))
        return False

    def _step(self, source: int, target: int, number: int, stage: _Stage, need: float) -> bool:
        """Make one move of a stage between two bins, if there is one."""
        room = stage.room(source, target)
        if room <= 0 or (source, target, number) in self._failed:
            return False
        if stage.is_exchange:
            pair = self._exchange(source, target, need, room)
            if pair is not None:
                self._move(pair[0], source, target)
                self._move(pair[1], target, source)
                return True
        else:
            item = self._pick(source, target, need, room)
            if item is not None:
                self._move(item, source, target)
                return True
        self._failed.add((source, target, number))
        return False

    def _ratio(self, number: int, load: float) -> float:
        center = self._bounds[number].center
        if center > 0:
            return load / center
        return float("inf") if load > 0 else 0.0

    def _excess(self, source: int) -> float:
        return self.loads[source] - self._bounds[source].high

    def _to_centers(self, source: int, target: int) -> float:
        bound = self._bounds[source]
        if bound.low == float("-inf"):
            return self._within(source, target)  # only the upper limit counts
        return min(self.loads[source] - bound.center, self._bounds[target].center - self.loads[target])

    def _within(self, source: int, target: int) -> float:
        """The load that brings the source to its lower bound, or the target to its upper bound. Since one of them is
        outside, this is less than their difference."""
        return min(self.loads[source] - self._bounds[source].low, self._bounds[target].high - self.loads[target])

    def _half(self, source: int, target: int) -> float:
        """The load that makes both equal, also where that leaves one of them outside of its bounds."""
        return self._most(source, target) / 2

    def _most(self, source: int, target: int) -> float:
        """The difference of two loads, less the tolerance: up to this, a move lowers the higher one noticeably."""
        slack = self._bounds[source].high - self._bounds[source].center
        difference = self.loads[source] - self.loads[target] - slack
        is_lower = self._ratio(target, self.loads[target] + difference) < self._ratio(source, self.loads[source])
        return difference if is_lower else 0

    # -- choosing items --

    def _pick(self, source: int, target: int, need: float, room: float) -> int | None:
        """The item to move: the lightest that suffices, else the heaviest with room; of several the cheapest for its
        weight."""
        best: tuple[float, int, int] | None = None
        for place, item in enumerate(self._candidates(source, target, need, room)):
            price = self._rules.cost(item, source, target) / self._weights[item]
            if best is None or (price, place) < best[:2]:
                best = (price, place, item)
            if place + 1 >= _CHOICES or price <= 0:
                break
        return None if best is None else best[2]

    def _candidates(self, source: int, target: int, need: float, room: float) -> Iterator[int]:
        items, weights = self._items[source], self._weights
        first = bisect_left(items, need, key=weights.__getitem__)
        end = bisect_right(items, room, key=weights.__getitem__)
        is_found = False
        for item in self._ascending(items, first, end):
            if self._is_allowed(item, source, target):
                is_found = True
                yield item
        if is_found:
            return
        start = min(first, end)
        for item in reversed(items[max(0, start - _LOOKS) : start]):
            if self._is_allowed(item, source, target):
                yield item

    def _ascending(self, items: Sequence[int], first: int, end: int) -> Sequence[int]:
        """The items from `first` to `end`, at most `_LOOKS`; of the items with the first weight the smallest first."""
        if first >= end:
            return ()
        last = min(end, bisect_right(items, self._weights[items[first]], key=self._weights.__getitem__))
        return [*reversed(items[max(first, last - _LOOKS) : last]), *items[last : min(end, first + _LOOKS)]]

    def _is_allowed(self, item: int, source: int, target: int) -> bool:
        refusal = self._rules.refusal(item, source, target)
        if refusal != ALLOWED:
            self.refusals[source] |= 1 << refusal
        return refusal == ALLOWED

    def _exchange(self, source: int, target: int, need: float, room: float) -> tuple[int, int] | None:
        """The items to exchange: an item of the source for a lighter one of the target. Of those tried the
        cheapest for the load that passes."""
        items, partners, weights = self._items[source], self._items[target], self._weights
        first = bisect_left(items, min(need, room), key=weights.__getitem__)
        stride = max(1, -(-(len(items) - first) // _EXCHANGES))
        least = min(need, room) / 4
        best: tuple[float, int, int] | None = None
        for item in items[first::stride]:
            if not self._is_allowed(item, source, target):
                continue
            start = bisect_left(partners, weights[item] - room, key=weights.__getitem__)
            for partner in partners[start : start + _PARTNERS]:
                gain = weights[item] - weights[partner]
                if gain < least or gain <= 0:
                    break
                if partner == item or self._rules.refusal(partner, target, source) != ALLOWED:
                    continue
                cost = self._rules.cost(item, source, target) + self._rules.cost(partner, target, source)
                if self._rules.affords(cost) and (best is None or (cost / gain, item, partner) < best):
                    best = (cost / gain, item, partner)
                break
        return None if best is None else best[1:]

    def _move(self, item: int, source: int, target: int) -> None:
        self._rules.move(item, source, target)
        items = self._items[source]
        del items[bisect_left(items, self._key(item), key=self._key)]
        insort(self._items[target], item, key=self._key)
        self._change_load(source, -self._weights[item])
        self._change_load(target, self._weights[item])

    def _change_load(self, number: int, difference: float) -> None:
        before = (self._ratio(number, self.loads[number]), number)
        del self._order[bisect_left(self._order, before)]
        self.loads[number] += difference
        insort(self._order, (self._ratio(number, self.loads[number]), number))
