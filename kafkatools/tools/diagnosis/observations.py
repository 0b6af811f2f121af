"""Observations: everything that `kt why` knows about a cluster when it looks for causes. Pure data.

`collecting.py` fills it. A source that failed leaves its field empty and adds a line to `unknown`, so a cause that
needs the field finds nothing, and the command ends with exit status 1 instead of calling the subject healthy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kafkatools.core.admin.acls import Acl
from kafkatools.core.admin.groups import GroupDescription
from kafkatools.core.admin.quotas import EntityQuotas
from kafkatools.core.admin.transactions import ProducerState, TransactionDescription
from kafkatools.tools.monitor.view import ClusterView, GroupPartition, GroupView, PartitionView

TopicPartition = tuple[str, int]

CLUSTER = "cluster"
GROUP = "group"
TOPIC = "topic"
PARTITION = "partition"
BROKER = "broker"
TRANSACTION = "transaction"
_LEAST_PAUSES = 3
KINDS = (GROUP, TOPIC, PARTITION, BROKER, TRANSACTION)


class Subject(NamedTuple):
    """The subject of an examination. `name` is the group, topic, broker id or transactional id, empty for the cluster;
    `partition` is -1 except for a partition."""

    kind: str
    name: str = ""
    partition: int = -1

    @property
    def text(self) -> str:
        """The subject in words: `group shop`, `partition orders-0`, `the cluster`."""
        if self.kind == CLUSTER:
            return "the cluster"
        return f"{self.kind} {self.name}" + (f"-{self.partition}" if self.kind == PARTITION else "")


class LogEnds(NamedTuple):
    """The high watermark and last stable offset of a partition, requested after the committed offsets."""

    high_watermark: int
    stable_offset: int


class NextBatch(NamedTuple):
    """The batch at a group's committed offset. `size_bytes` is the whole batch, `timestamp` in ms (-1 unknown) that of
    its first unread record, `offset` that record's offset (-1 without one), `damage` why it cannot be decoded,
    `next_offset` the offset after the batch. Without a record up to the high watermark, only transaction markers
    follow: `is_empty`."""

    size_bytes: int
    offset: int
    timestamp: int
    damage: str | None = None
    next_offset: int = -1

    @property
    def is_empty(self) -> bool:
        """Return whether there is no record at or after the committed offset."""
        return self.offset < 0 and self.damage is None


class CommitTimes(NamedTuple):
    """The times of the last commits of a group by partition, in ms since 1970, ascending. `since_ms`: older ones may be
    missing; None if there are none."""

    by_partition: Mapping[TopicPartition, tuple[int, ...]]
    since_ms: int | None

    def last_ms(self) -> int | None:
        """Return the time of the last commit, None if none is known."""
        return max((times[-1] for times in self.by_partition.values()), default=None)

    def usual_ms(self, key: TopicPartition | None = None) -> int | None:
        """Return the usual time between two commits of the group, or of one partition: the median of at least three
        pauses, else None."""
        chosen = self.by_partition.values() if key is None else [self.by_partition.get(key, ())]
        times = sorted({time_ms for times in chosen for time_ms in times})
        pauses = sorted(later - earlier for earlier, later in zip(times, times[1:], strict=False))
        return pauses[len(pauses) // 2] if len(pauses) >= _LEAST_PAUSES else None


class OpenProducer(NamedTuple):
    """A producer with an open transaction in a partition, and its transactional id if a coordinator lists the producer
    (`is_listed`)."""

    producer: ProducerState
    transactional_id: str | None
    is_listed: bool


class Observations(NamedTuple):
    """The snapshot or two snapshots, and the facts requested beside them. `earlier` is the first of two snapshots.

    `ends`: partitions in view. `batches`: by group and partition, where a group has lag. `producers`: open transactions
    of partitions whose last stable offset is behind the high watermark. `settings`: of topics in view. `throttled`:
    topics with replication throttles, `rates` those of brokers. `pending`: partitions with offsets in an open
    transaction, by group. `commits`: of the group of the subject, None if its log cannot be read. `principal`: whose
    ACLs to examine, empty for nobody's. `unknown`: what could not be seen.
    """

    subject: Subject
    view: ClusterView
    now_ms: int
    earlier: ClusterView | None = None
    descriptions: Mapping[str, GroupDescription] = {}
    earlier_descriptions: Mapping[str, GroupDescription] = {}
    ends: Mapping[TopicPartition, LogEnds] = {}
    batches: Mapping[tuple[str, TopicPartition], NextBatch] = {}
    producers: Mapping[TopicPartition, tuple[OpenProducer, ...]] = {}
    transactions: Mapping[str, TransactionDescription] = {}
    settings: Mapping[str, Mapping[str, str]] = {}
    rates: Mapping[int, Mapping[str, str]] = {}
    quotas: tuple[EntityQuotas, ...] = ()
    pending: Mapping[str, tuple[TopicPartition, ...]] = {}
    earlier_pending: Mapping[str, tuple[TopicPartition, ...]] = {}
    commits: CommitTimes | None = None
    acls: tuple[Acl, ...] | None = None
    principal: str = ""
    unknown: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """The seconds between the two snapshots, None with one."""
        return None if self.earlier is None else (self.view.clock_ms - self.earlier.clock_ms) / 1000

    def partition(self, key: TopicPartition) -> PartitionView | None:
        """Return a partition in view, None if it does not exist or is not in view."""
        return self.view.by_partition.get(key)

    def partitions(self) -> Iterator[PartitionView]:
        """Yield the partitions that the subject is about: its own, or all in view."""
        for part in self.view.partitions:
            is_other = self.subject.kind == PARTITION and part.partition != self.subject.partition
            if not is_other and not (self.subject.kind in (GROUP, TRANSACTION) and part.topic.startswith("__")):
                yield part

    def lagging(self, group: GroupView) -> list[GroupPartition]:
        """Return the partitions in which records wait for a group: those with lag, unless only transaction markers
        follow the committed offset."""
        found = [part for part in group.partitions or () if part.lag]
        batches = [self.batches.get((group.group_id, (part.topic, part.partition))) for part in found]
        return [part for part, batch in zip(found, batches, strict=True) if batch is None or not batch.is_empty]

    def offsets_of(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the committed offsets of a group, none if it is not in view."""
        return next((committed(group) for group in self.view.groups if group.group_id == group_id), {})

    def before(self, group_id: str) -> GroupView | None:
        """Return a group in the first of two snapshots."""
        groups = () if self.earlier is None else self.earlier.groups
        return next((group for group in groups if group.group_id == group_id), None)


def committed(group: GroupView) -> dict[TopicPartition, int]:
    """Return a group's committed offsets by partition."""
    return {(part.topic, part.partition): part.committed for part in group.partitions or ()}
