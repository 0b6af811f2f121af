"""ClusterView: the values found by one snapshot of a cluster, filled by `collector.py` and compared by `changes.py`.

Terms are Kafka's. Under-replicated: the ISR is smaller than the replicas, not counting those being added
(TopicCommand.PartitionDescription). Under or at min ISR: compared with min.insync.replicas, or with the replica count
if smaller (Partition.effectiveMinIsr). Offline: without a leader, which also counts as under min ISR (TopicCommand).
Values that no broker reported are None, with the reason among `problems`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple, TypeVar

from kafkatools.core.admin.log_dirs import LogDir
from kafkatools.core.admin.quorum import MetadataQuorum

TopicPartition = tuple[str, int]

N = TypeVar("N", int, float)

NO_BROKER = -1
NOT_REPORTED = -2
EMPTY = "Empty"


class BrokerView(NamedTuple):
    """A registered broker. `is_responding`: it responded in this snapshot. `log_dirs`: None if not reported."""

    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool
    is_responding: bool
    log_dirs: tuple[LogDir, ...] | None

    @property
    def is_alive(self) -> bool:
        """Return whether the broker is not fenced, so its heartbeats reach the controller."""
        return not self.is_fenced

    @property
    def log_bytes(self) -> int | None:
        """The size of all replicas in bytes, with copies being moved to another directory; None if not reported."""
        if self.log_dirs is None:
            return None
        return sum(replica.size_bytes for path in self.log_dirs for replica in path.replicas)

    @property
    def offline_log_dirs(self) -> tuple[str, ...]:
        """The paths of the broker's offline log directories."""
        return tuple(path.path for path in self.log_dirs or () if path.error is not None)


class PartitionView(NamedTuple):
    """A partition. `elr`: eligible leader replicas, None if not reported; `size_bytes`: of the leader's log;
    `start_offset`: None unless requested (`Scope.with_starts`)."""

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
        """The first replica's broker id, NO_BROKER without replicas."""
        return self.replicas[0] if self.replicas else NO_BROKER

    @property
    def is_preferred(self) -> bool:
        """Return whether the preferred leader leads the partition."""
        return self.leader == self.preferred_leader

    @property
    def is_offline(self) -> bool:
        """Return whether the partition has no leader."""
        return self.leader < 0

    @property
    def is_under_replicated(self) -> bool:
        """Return whether the ISR is smaller than the replicas, not counting those being added."""
        return len(self.isr) < len(self.replicas) - len(self.adding_replicas)

    @property
    def is_min_isr_known(self) -> bool:
        """Return whether `is_under_min_isr` and `is_at_min_isr` are certain: False if min.insync.replicas of a
        partition with a leader is unknown."""
        return self.min_isr is not None or self.is_offline

    @property
    def is_under_min_isr(self) -> bool:
        """Return whether the ISR is too small for acks=all; True without a leader, False if min.insync.replicas is
        unknown."""
        return self.is_offline or (self.min_isr is not None and len(self.isr) < min(self.min_isr, len(self.replicas)))

    @property
    def is_at_min_isr(self) -> bool:
        """Return whether the ISR is just large enough for acks=all; False without a leader or if min.insync.replicas is
        unknown."""
        if self.is_offline or self.min_isr is None:
            return False
        return len(self.isr) == min(self.min_isr, len(self.replicas))


class TopicView(NamedTuple):
    """A topic. `messages_in` and `bytes_in` are per second since the previous snapshot; None in the first snapshot of
    the topic or when unknown. `rates`: messages per second of each partition, in the order of `partitions`; empty in
    the first snapshot."""

    name: str
    topic_id: str | None
    is_internal: bool
    partitions: tuple[PartitionView, ...]
    messages_in: float | None = None
    bytes_in: float | None = None
    rates: tuple[float | None, ...] = ()

    @property
    def size_bytes(self) -> int | None:
        """The size of the leaders' logs in bytes; None when one is unknown."""
        return total(part.size_bytes for part in self.partitions)

    @property
    def is_min_isr_known(self) -> bool:
        """Return whether min.insync.replicas is known, or no partition has a leader."""
        return all(part.is_min_isr_known for part in self.partitions)

    @property
    def least_under_min_isr(self) -> int:
        """The number of partitions that are certainly under their min ISR."""
        return sum(part.is_under_min_isr for part in self.partitions)

    @property
    def under_min_isr(self) -> int | None:
        """The number of partitions under their min ISR; None when that is unknown."""
        return self.least_under_min_isr if self.is_min_isr_known else None

    @property
    def has_unknown_ends(self) -> bool:
        """Return whether the log end offset of a partition with a leader is unknown."""
        return any(part.end_offset is None and not part.is_offline for part in self.partitions)


class GroupPartition(NamedTuple):
    """A group's committed offset in a partition; `lag` is None when the end offset is unknown.

    `lag_ms`: age of the oldest unconsumed record, 0 without lag. None if the lag is unknown, or if the record is older
    than the first snapshot; then `least_lag_ms` is the least age that it has.
    """

    topic: str
    partition: int
    committed: int
    lag: int | None
    lag_ms: int | None = None
    least_lag_ms: int = 0


class Owner(NamedTuple):
    """The member of a group that a partition is assigned to. `host` is as brokers report it: /127.0.0.1."""

    member_id: str
    client_id: str
    host: str


class GroupView(NamedTuple):
    """A group. `members` and `partitions` are None if the coordinator did not report them; `consumed`: committed
    offsets per second; `unknown`: why its lag is not completely known. `owners`: the members by assigned (topic,
    partition), None unless they were requested and reported."""

    group_id: str
    type: str
    state: str
    coordinator: int
    members: int | None
    partitions: tuple[GroupPartition, ...] | None
    consumed: float | None = None
    consumed_by_topic: Mapping[str, float] | None = None
    unknown: str | None = None
    owners: Mapping[tuple[str, int], Owner] | None = None

    @property
    def is_lag_known(self) -> bool:
        """Return whether the lag of every partition is known. False if the coordinator did not report offsets, True for
        a group without any."""
        return self.partitions is not None and all(part.lag is not None for part in self.partitions)

    @property
    def lag(self) -> int | None:
        """The total lag; None when a partition's lag is unknown or there are no partitions."""
        return total(part.lag for part in self.partitions or ())

    @property
    def least_lag(self) -> int:
        """The total lag of the partitions whose lag is known."""
        return sum(part.lag or 0 for part in self.partitions or ())

    @property
    def lag_ms(self) -> int | None:
        """The age in ms of the oldest unconsumed record, 0 without lag. None without partitions, or if the age is
        unknown in any of them."""
        ages = [part.lag_ms for part in self.partitions or ()]
        known = [age for age in ages if age is not None]
        return max(known) if known and len(known) == len(ages) else None

    @property
    def least_lag_ms(self) -> int:
        """The least age in ms that the oldest unconsumed record has."""
        ages = (part.least_lag_ms if part.lag_ms is None else part.lag_ms for part in self.partitions or ())
        return max(ages, default=0)

    def lag_by_topic(self) -> dict[str, int | None]:
        """Return the lag in each topic, None where a partition's lag is unknown."""
        return self.total_by_topic("lag")

    def total_by_topic(self, field: str) -> dict[str, int | None]:
        """Return the sum of `lag` or `committed` in each topic, None where a partition's value is unknown."""
        by_topic: dict[str, list[int | None]] = {}
        for part in self.partitions or ():
            by_topic.setdefault(part.topic, []).append(getattr(part, field))
        return {topic: total(numbers) for topic, numbers in by_topic.items()}


class Problem(NamedTuple):
    """Data that one broker, or any broker (NO_BROKER), did not report."""

    broker: int
    what: str
    error: str

    @property
    def message(self) -> str:
        """The broker, the missing data and the error in one line."""
        prefix = "" if self.broker == NO_BROKER else f"broker {self.broker}: "
        return f"{prefix}{self.what}: {self.error}"


class Event(NamedTuple):
    """A difference between two snapshots, noticed at `time_ms` (since 1970). `changes.KINDS` lists the kinds. `cause`:
    the same text for all events with the same cause (`causes.py`)."""

    time_ms: int
    kind: str
    message: str
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    group: str | None = None
    cause: str = ""


class AlertView(NamedTuple):
    """An alert of --alert at a place where its condition holds or is unknown. `state`: pending, firing or unknown;
    `since_ms` (since 1970): since when. `value` is the figure, None when unknown, then `reason` says why."""

    alert: str
    state: str
    since_ms: int
    message: str
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    directory: str | None = None
    value: float | None = None
    value_at_least: float | None = None
    reason: str | None = None


class Totals(NamedTuple):
    """The totals that show a cluster's health. `lag` is None when partly unknown; `least_lag` is its known part."""

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
    alerts: tuple[AlertView, ...] = ()


class ClusterView(_Found):
    """One snapshot of a cluster. `time_ms` is ms since 1970; `clock_ms` the monotonic time of the offsets. `controller`
    is the active controller, NO_BROKER for none, NOT_REPORTED for unknown; `unlisted`: why groups may be missing.
    `alerts`: the pending, firing and unknown ones."""

    @cached_property
    def by_partition(self) -> dict[TopicPartition, PartitionView]:
        """The partitions by topic and number."""
        return {(part.topic, part.partition): part for topic in self.topics for part in topic.partitions}

    @property
    def partitions(self) -> Iterable[PartitionView]:
        """All partitions, topic by topic."""
        return self.by_partition.values()

    @cached_property
    def is_min_isr_known(self) -> bool:
        """Return whether the counts of partitions under and at their min ISR are complete."""
        return all(part.is_min_isr_known for part in self.partitions)

    @property
    def under_min_isr(self) -> int | None:
        """The number of partitions under their min ISR; None when that is unknown."""
        return self.totals.under_min_isr if self.is_min_isr_known else None

    @cached_property
    def why_no_moves(self) -> str:
        """The reason why the reassignments are unknown; empty if they are known."""
        return next((problem.message for problem in self.problems if problem.what == "reassignments"), "")

    @cached_property
    def produced(self) -> Mapping[str, float | None]:
        """The messages per second of each topic, None where unknown."""
        return {topic.name: topic.messages_in for topic in self.topics}

    @cached_property
    def totals(self) -> Totals:
        """The counts and sums over everything in view."""
        parts = list(self.partitions)
        least_lag = sum(group.least_lag for group in self.groups)
        return Totals(
            brokers=len(self.brokers),
            alive=sum(broker.is_alive for broker in self.brokers),
            answering=sum(broker.is_responding for broker in self.brokers),
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
    """Return the sum of numbers; None when any is None or there are none."""
    values = list(numbers)
    summands = [number for number in values if number is not None]
    return sum(summands[1:], summands[0]) if summands and len(summands) == len(values) else None
