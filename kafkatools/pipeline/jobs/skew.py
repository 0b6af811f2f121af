"""Measures of how unevenly records are spread over keys."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Skew:
    """Measures of how unevenly `total` records are spread over `members` keys, each with at least one."""

    members: int
    total: int
    largest: int
    median: float
    p99: float
    gini: float

    @property
    def largest_share(self) -> float:
        """The largest key's fraction of all records, 0 if there are none."""
        return self.largest / self.total if self.total else 0.0

    @property
    def p99_to_median(self) -> float:
        """The ratio of the 99th percentile to the median, 0 if there are no keys."""
        return self.p99 / self.median if self.median else 0.0


def skew_of(histogram: Mapping[int, int]) -> Skew:
    """Compute skew from a histogram that maps a number of records to the number of keys that have that many. Median
    and percentile are by nearest rank."""
    pairs = sorted(histogram.items())
    members = sum(count for _, count in pairs)
    total = sum(number * count for number, count in pairs)
    if not members or not total:
        return Skew(members, total, 0, 0.0, 0.0, 0.0)
    weighted_sum = rank = 0
    ranks = []  # the highest rank of each number
    for number, count in pairs:
        weighted_sum += number * (count * rank + count * (count + 1) // 2)
        rank += count
        ranks.append(rank)
    gini = 2 * weighted_sum / (members * total) - (members + 1) / members
    median = float(pairs[bisect_left(ranks, -(-members // 2))][0])
    p99 = float(pairs[bisect_left(ranks, -(-members * 99 // 100))][0])
    return Skew(members, total, pairs[-1][0], median, p99, gini)
