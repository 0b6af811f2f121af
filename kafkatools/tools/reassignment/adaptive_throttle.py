"""Adapt the throttle of a supervised reassignment to its effect, from samples of the cluster and without I/O.

The first rule that applies is used once per time window:
1. Replicas that are not being moved fell out of sync: the moves take too much bandwidth, so the limit is halved.
2. The remaining bytes of the same moves did not decrease. Nothing is copied, or records arrive as fast as they are
   copied. The moves would never end, so the limit is doubled.
3. A broker sent or received four fifths of the limit or more: the limit slows the moves down and no replica is out of
   sync, so it grows by half.
The limit stays within its bounds. It does not grow while replicas are out of sync.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_BUSY = 0.8


class Sample(NamedTuple):
    """One sample of the cluster during a reassignment. `flows`: bytes copied so far, by ("from" or "to", broker id).
    `moving`: the partitions that are being moved, without those that wait for a broker that is down; `left_bytes`:
    their remaining bytes. `out_of_sync`: how many replicas that are not being moved are out of sync."""

    now_ms: int
    flows: Mapping[tuple[str, int], int]
    left_bytes: int
    moving: frozenset[tuple[str, int]]
    out_of_sync: int


class Change(NamedTuple):
    """A new throttle in bytes per second, and the reason for it."""

    rate: int
    reason: str


@dataclass(eq=False, repr=False)
class AdaptiveThrottle:
    """The throttle of every broker in bytes per second, with its bounds. It changes at most once in `window_ms`."""

    rate: int
    minimum: int
    maximum: int
    window_ms: int
    _start: Sample | None = field(default=None, init=False)

    def observe(self, sample: Sample) -> Change | None:
        """Update `rate` from a sample, at the end of each time window. Returns the change. Returns None if the rate
        stays, for the first sample, and within a window."""
        start = self._start
        if start is None:
            self._start = sample
            return None
        elapsed_ms = sample.now_ms - start.now_ms
        if elapsed_ms < self.window_ms:
            return None
        self._start = sample
        unbounded, reason = self._judge(start, sample, elapsed_ms)
        rate = min(max(unbounded, self.minimum), self.maximum)
        if rate == self.rate:
            return None
        self.rate = rate
        return Change(rate, reason)

    @property
    def is_at_maximum(self) -> bool:
        """Return whether the limit has reached its maximum."""
        return self.rate >= self.maximum

    def _judge(self, start: Sample, sample: Sample, elapsed_ms: int) -> tuple[int, str]:
        if sample.out_of_sync:
            return self.rate // 2, f"{sample.out_of_sync} replicas that are not being moved are out of sync"
        if is_stalled(start, sample):
            return self.rate * 2, "the remaining bytes do not decrease"
        copied = max((count - start.flows.get(flow, 0) for flow, count in sample.flows.items()), default=0)
        if copied * 1000 >= _BUSY * self.rate * elapsed_ms:
            return self.rate + self.rate // 2, "the limit is used up and all other replicas are in sync"
        return self.rate, ""


def is_stalled(start: Sample, sample: Sample) -> bool:
    """Return whether the same partitions move as in the earlier sample and their remaining bytes did not decrease.
    False if none moves."""
    return bool(sample.moving) and sample.moving == start.moving and sample.left_bytes >= start.left_bytes
