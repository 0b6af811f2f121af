"""ClusterView: what one look at a cluster found. Plain values; `collector.py` fills them, and compares each
look with the one before (`changes.py`).

Words are Kafka's. A partition is under-replicated when its ISR is smaller than the replicas it is to have, those that
it gets by a reassignment left out (TopicCommand.PartitionDescription); under or at its min ISR by min.insync.replicas,
or by the number of replicas where that is smaller (Partition.effectiveMinIsr); offline when it has no leader, which is
under its min ISR too (TopicCommand). What nobody told is None, and why is among `problems`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple, TypeVar

from kafkatools.core.admin.log_dirs import LogDir
from kafkatools.core.admin.quorum import MetadataQuorum

TopicPartition = tuple[str, int]

N = TypeVar("N", int, float)

NOBODY = -1
NOT_TOLD = -2
EMPTY = "Empty"


class BrokerView(NamedTuple):
    """A broker that is registered. `is_answering`: it answered what it was asked in this round (a fenced one is not
    asked). `log_dirs`: None when it did not tell."""

    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool
    is_answering: bool
    log_dirs: tuple[LogDir, ...] | None

    @property
    def is_alive(self) -> bool:
        """The controller hears of it."""
        return not self.is_fenced

    @property
    def log_bytes(self) -> int | None:
        if self.log_dirs is None:
            return None
        return sum(replica.size_bytes for path in self.log_dirs for replica in path.replicas)

    @property
    def offline_log_dirs(self) -> tuple[str, ...]:
        """The paths of directories that it cannot use."""
        return tuple(path.path for path in self.log_dirs or () if path.error is not None)


class PartitionView(NamedTuple):
    """A partition. `elr`: eligible leader replicas, None where brokers do not tell; `size_bytes`: the leader's log;
    `start_offset`: None unless it was asked for (`Scope.with_starts`)."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None
    offline_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    min_isr: int | None = None
    end_offset: int | None = None
    size_bytes: int | None = None
    start_offset: int | None = None

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else NOBODY

    @property
    def is_preferred(self) -> bool:
        """Is it led by its preferred leader?"""
        return self.leader == self.preferred_leader

    @property
    def is_offline(self) -> bool:
        """Nobody leads it."""
        return self.leader < 0

    @property
    def is_under_replicated(self) -> bool:
        """Some replica is not in sync."""
        return len(self.isr) < len(self.replicas) - len(self.adding_replicas)

    @property
    def is_under_min_isr(self) -> bool:
        """Too few are in sync for acks=all; without a leader always."""
        return self.is_offline or (self.min_isr is not None and len(self.isr) < min(self.min_isr, len(self.replicas)))

    @property
    def is_at_min_isr(self) -> bool:
        """One fewer in sync would be too few for acks=all."""
        if self.is_offline or self.min_isr is None:
            return False
        return len(self.isr) == min(self.min_isr, len(self.replicas))


class TopicView(NamedTuple):
    """A topic. Rates are per second, between this look and the one before; None in the first."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionView, ...]
    messages_in: float | None = None
    bytes_in: float | None = None

    @property
    def size_bytes(self) -> int | None:
        """The size of the leaders' logs; None when one of them is not known."""
        return total(part.size_bytes for part in self.partitions)

    @property
    def has_unknown_ends(self) -> bool:
        """Whether the leader of a partition did not tell the end of its log. A partition without a leader has none."""
        return any(part.end_offset is None and not part.is_offline for part in self.partitions)


class GroupPartition(NamedTuple):
    """What a group committed of a partition; the lag is None when the partition's end is not known."""

    topic: str
    partition: int
    committed: int
    lag: int | None


class GroupView(NamedTuple):
    """A group. `members` and `partitions` are None when its coordinator did not tell; `consumed`: committed per second;
    `lag_ms`: how long ago the oldest record came in that it has not consumed, None when that was before the first look;
    `unknown`: why its lag, or a part of it, is not known."""

    group_id: str
    type: str
    state: str
    coordinator: int
    members: int | None
    partitions: tuple[GroupPartition, ...] | None
    consumed: float | None = None
    consumed_by_topic: Mapping[str, float] | None = None
    lag_ms: int | None = None
    unknown: str | None = None

    @property
    def is_lag_known(self) -> bool:
        """Whether the lag of each of its partitions is known."""
        return self.partitions is not None and all(part.lag is not None for part in self.partitions)

    @property
    def lag(self) -> int | None:
        """The sum over its partitions; None when a partition's lag is not known, or when it has no partitions."""
        return total(part.lag for part in self.partitions or ())

    @property
    def least_lag(self) -> int:
        """The sum over the partitions whose lag is known."""
        return sum(part.lag or 0 for part in self.partitions or ())

    def lag_by_topic(self) -> dict[str, int | None]:
        """The lag for each topic that it committed, None where a part of it is not known."""
        return self.total_by_topic("lag")

    def total_by_topic(self, field: str) -> dict[str, int | None]:
        """The sum of `lag` or `committed` over the partitions of each topic, None where a part of it is not known."""
        by_topic: dict[str, list[int | None]] = {}
        for part in self.partitions or ():
            by_topic.setdefault(part.topic, []).append(getattr(part, field))
        return {topic: total(numbers) for topic, numbers in by_topic.items()}


class Problem(NamedTuple):
    """Something that was asked for and not told: by a broker, or by any (NOBODY)."""

    broker: int
    what: str
    error: str

    @property
    def message(self) -> str:
        who = "" if self.broker == NOBODY else f"broker {self.broker}: "
        return f"{who}{self.what}: {self.error}"


class Event(NamedTuple):
    """A difference between two looks, noticed at `time_ms` (since 1970). `kind`: see `changes.KINDS`."""

    time_ms: int
    kind: str
    message: str
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    group: str | None = None


class Totals(NamedTuple):
    """The totals that show the health of a cluster. `lag`: None when a part of it is not known; `least_lag`: the known
    part."""

    brokers: int
    alive: int
    answering: int
    topics: int
    partitions: int
    offline: int
    under_replicated: int
    under_min_isr: int
    at_min_isr: int
    not_preferred: int
    moving: int
    offline_log_dirs: int
    groups: int
    lag: int | None
    least_lag: int
    messages_in: float | None
    bytes_in: float | None


class _Found(NamedTuple):
    time_ms: int
    clock_ms: int
    took_ms: int
    cluster_id: str | None
    controller: int
    brokers: tuple[BrokerView, ...]
    topics: tuple[TopicView, ...]
    quorum: MetadataQuorum | None
    groups: tuple[GroupView, ...]
    problems: tuple[Problem, ...]
    events: tuple[Event, ...] = ()
    unlisted: tuple[str, ...] = ()


class ClusterView(_Found):
    """One look. `time_ms` since 1970; `clock_ms` is the timers' time when the offsets were told; `controller` the
    active controller, NOBODY when there is none, NOT_TOLD when that is not known; `unlisted`: why groups may be missing
    from `groups`."""

    @cached_property
    def by_partition(self) -> dict[TopicPartition, PartitionView]:
        return {(part.topic, part.partition): part for topic in self.topics for part in topic.partitions}

    @property
    def partitions(self) -> Iterable[PartitionView]:
        """All partitions, topic by topic."""
        return self.by_partition.values()

    @cached_property
    def totals(self) -> Totals:
        """Counted over everything that was looked at."""
        parts = list(self.partitions)
        least_lag = sum(group.least_lag for group in self.groups)
        return Totals(
            brokers=len(self.brokers),
            alive=sum(broker.is_alive for broker in self.brokers),
            answering=sum(broker.is_answering for broker in self.brokers),
            topics=len(self.topics),
            partitions=len(parts),
            offline=sum(part.is_offline for part in parts),
            under_replicated=sum(part.is_under_replicated for part in parts),
            under_min_isr=sum(part.is_under_min_isr for part in parts),
            at_min_isr=sum(part.is_at_min_isr for part in parts),
            not_preferred=sum(not part.is_preferred for part in parts),
            moving=sum(bool(part.adding_replicas or part.removing_replicas) for part in parts),
            offline_log_dirs=sum(len(broker.offline_log_dirs) for broker in self.brokers),
            groups=len(self.groups),
            lag=None if self.unlisted or not all(group.is_lag_known for group in self.groups) else least_lag,
            least_lag=least_lag,
            messages_in=total(topic.messages_in for topic in self.topics),
            bytes_in=total(topic.bytes_in for topic in self.topics),
        )


def total(numbers: Iterable[N | None]) -> N | None:
    """The sum; None when a number is not known, or when there are none."""
    found = list(numbers)
    known = [number for number in found if number is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(found) else None
