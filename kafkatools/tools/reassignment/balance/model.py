"""Input, options and result of a plan that balances brokers by bytes, rate or leaders.

Partitions are named by their index in `ClusterState.partitions`, so that weights are lists and not dictionaries.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.reassignments import Replica, TopicPartition
from kafkatools.tools.reassignment.layout import ClusterState
from kafkatools.tools.reassignment.plan import BrokerLoad, Move

BYTES = "bytes"
RATE = "rate"
LEADERS = "leaders"


class Disk(NamedTuple):
    """An online log directory of a broker: its path, the size and the free space of its volume in bytes (-1: not
    reported), the partitions with a replica in it, and the bytes of these replicas."""

    path: str
    total_bytes: int
    usable_bytes: int
    partitions: tuple[int, ...] = ()
    replica_bytes: int = 0


class BalanceInput(NamedTuple):
    """The cluster to balance. `disks`: broker -> log directories, without brokers that did not report them. `rates`:
    bytes per second that producers write, by partition; None for an unknown rate. `rates` is None without a sample.
    `unknown_sizes`: the partitions whose size no broker reported."""

    cluster: ClusterState
    disks: Mapping[int, tuple[Disk, ...]]
    rates: Sequence[float | None] | None = None
    unknown_sizes: frozenset[int] = frozenset()


class BalanceOptions(NamedTuple):
    """Goal and limits of a plan. `tolerance` and `only_above` are fractions. `topics` are the topics whose partitions
    may move, `brokers` those that take part (None: all live ones), without `excluded`. `max_move_bytes` is the budget
    of copied bytes."""

    by: str = BYTES
    tolerance: float = 0.05
    topics: frozenset[str] | None = None
    brokers: frozenset[int] | None = None
    excluded: frozenset[int] = frozenset()
    rack_aware: bool = True
    disks: bool = False
    only_above: float | None = None
    max_move_bytes: int | None = None


class Spread(NamedTuple):
    """The inequality of loads: the highest load and the standard deviation, each divided by the mean."""

    highest: float
    deviation: float


class RateLoad(NamedTuple):
    """Bytes per second that are written to a broker's replicas, and to the partitions that it leads, each as a pair:
    before and after a plan."""

    written: tuple[float, float]
    led: tuple[float, float]


class DiskLoad(NamedTuple):
    """A log directory with the bytes of its replicas before and after a plan, and the size and the free space of its
    volume now (-1: not reported)."""

    broker: int
    path: str
    size_bytes: tuple[int, int]
    total_bytes: int
    usable_bytes: int


class BalancePlan(NamedTuple):
    """A plan that balances brokers. `moves` also has partitions that only change log directories. `log_dirs` are the
    target directories, `log_dirs_before` the present ones of replicas that change them. `spreads`: measure -> spread
    before and after, None for a mean of 0. `reasons`: why loads stay outside of the tolerance."""

    moves: tuple[Move, ...]
    brokers: tuple[BrokerLoad, ...]
    left_out: Mapping[TopicPartition, str]
    rates: Mapping[int, RateLoad]
    disks: tuple[DiskLoad, ...]
    log_dirs: Mapping[Replica, str]
    log_dirs_before: Mapping[Replica, str]
    bytes_between_disks: int
    spreads: Mapping[str, tuple[Spread | None, Spread | None]]
    reasons: tuple[str, ...]

    @property
    def bytes_between_brokers(self) -> int:
        """The bytes that new replicas copy from other brokers."""
        return sum(move.size_bytes * len(move.added) for move in self.moves)

    @property
    def replicas_to_move(self) -> int:
        """The number of replicas that get another broker."""
        return sum(len(move.added) for move in self.moves)

    @property
    def busiest_bytes(self) -> int:
        """The most bytes that a single broker receives, sends as a leader, or copies between its log directories; each
        of the three has a limit of its own in `run`."""
        sizes = {(move.topic, move.partition): move.size_bytes for move in self.moves}
        within = Counter[int]()
        for topic, partition, broker in self.log_dirs_before:
            within[broker] += sizes[topic, partition]
        flows = (max(load.bytes_in, load.bytes_out, within[load.broker]) for load in self.brokers)
        return max(flows, default=0)


def spread_of(loads: Collection[float]) -> Spread | None:
    """Return the spread of loads; None if there are none or their mean is 0."""
    mean = sum(loads) / len(loads) if loads else 0
    if mean <= 0:
        return None
    variance = sum((load - mean) ** 2 for load in loads) / len(loads)
    return Spread(max(loads) / mean, math.sqrt(variance) / mean)
