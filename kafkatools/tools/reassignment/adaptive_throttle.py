"""How the limit of a supervised reassignment follows what it does: pure, one step for each look at the cluster.

The rule, once in a window of time (the first that applies):
1. Replicas that are not being moved fell out of sync: the moves take too much, the limit is halved.
2. What is left to copy of the same moves did not become less (nothing is copied, or records come in as fast as they
   are copied): the moves would never end, the limit is doubled.
3. A broker sent or received four fifths of the limit or more: the limit is what the moves wait for, and nobody suffers:
   it grows by half.
Always within the bounds. While replicas are out of sync it does not grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_BUSY = 0.8


class Sample(NamedTuple):
    """One look: bytes that new replicas have got so far, by a name for each flow (a broker's sending or receiving);
    what is left to copy of the partitions that move now, and which these are; settled replicas out of sync."""

    now_ms: int
    flows: Mapping[tuple[str, int], int]
    left_bytes: int
    moving: frozenset[tuple[str, int]]
    out_of_sync: int


class Change(NamedTuple):
    """A new limit and why."""

    rate: int
    reason: str


class AdaptiveThrottle:
    """The limit in bytes per second of every broker, and the bounds it stays in."""

    def __init__(self, rate: int, minimum: int, maximum: int, window_ms: int) -> None:
        self.rate = rate
        self._minimum = minimum
        self._maximum = maximum
        self._window_ms = window_ms
        self._start: Sample | None = None

    def observe(self, sample: Sample) -> Change | None:
        """The change that a look brings about, if any; `rate` is then the new one."""
        start = self._start
        if start is None:
            self._start = sample
            return None
        elapsed_ms = sample.now_ms - start.now_ms
        if elapsed_ms < self._window_ms:
            return None
        self._start = sample
        wanted, reason = self._judge(start, sample, elapsed_ms)
        rate = min(max(wanted, self._minimum), self._maximum)
        if rate == self.rate:
            return None
        self.rate = rate
        return Change(rate, reason)

    @property
    def is_at_maximum(self) -> bool:
        """Whether it cannot grow."""
        return self.rate >= self._maximum

    def _judge(self, start: Sample, sample: Sample, elapsed_ms: int) -> tuple[int, str]:
        if sample.out_of_sync:
            return self.rate // 2, f"{sample.out_of_sync} replicas that are not being moved are out of sync"
        if is_stalled(start, sample):
            return self.rate * 2, "what is left to copy does not become less"
        copied = max((count - start.flows.get(flow, 0) for flow, count in sample.flows.items()), default=0)
        if copied * 1000 >= _BUSY * self.rate * elapsed_ms:
            return self.rate + self.rate // 2, "the limit is used up and all other replicas are in sync"
        return self.rate, ""


def is_stalled(start: Sample, sample: Sample) -> bool:
    """Whether the same partitions are being moved as at the start and there is not less to copy than then."""
    return bool(sample.moving) and sample.moving == start.moving and sample.left_bytes >= start.left_bytes
