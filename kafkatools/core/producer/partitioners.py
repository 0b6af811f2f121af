"""Partitioners: which partition a record goes to.

Rules (DefaultPartitioner's heirs in Kafka 4.x: BuiltInPartitioner, KIP-480, KIP-794; RoundRobinPartitioner):
- a keyed record goes to positive(murmur2(key)) % partitions, whatever is available, so that equal keys stay together;
- unkeyed records stick to one partition until batch.size bytes were produced to it and its batches are full (or twice
  batch.size in any case), then another is drawn: by the lengths of the partitions' queues when
  partitioner.adaptive.partitioning.enable is on (a long queue is drawn less often), uniformly among the available ones
  otherwise;
- a partition whose leader has been slow to take batches for partitioner.availability.timeout.ms is left out of the
  draw;
- Kafka 4.x no longer calls a partitioner on new batches (on_new_batch and the second append it led to are gone); so
  here.

State of a StickyPartitioner is guarded by the accumulator's lock.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Protocol

from kafkatools.core.errors import ConfigError
from kafkatools.core.records import kernel

UNKNOWN_PARTITION = -1


class Cluster(Protocol):
    """What a partitioner asks of the cluster (core.net.metadata.ClusterView has it)."""

    def partition_count(self, topic: str) -> int | None: ...

    def available_partitions(self, topic: str) -> Sequence[int]: ...


class Partitioner(Protocol):
    """What may be passed to Producer(partitioner=...)."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int: ...


def random_int31() -> int:
    """A random number of 31 bits; drawn once per switch of partition, so the system's source is cheap enough."""
    return int.from_bytes(os.urandom(4), "little") & 0x7FFFFFFF


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Kafka's default for keyed records: Utils.toPositive(Utils.murmur2(key)) % partitions."""
    return (kernel.murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitionInfo:
    """The partition records stick to now, and how much went there."""

    __slots__ = ("partition", "produced_bytes")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.produced_bytes = 0


class StickyPartitioner:
    """The built-in partitioner of one topic for records without a key (Kafka's BuiltInPartitioner)."""

    def __init__(self, topic: str, sticky_batch_size: int, draw: Callable[[], int] = random_int31) -> None:
        if sticky_batch_size < 1:
            raise ValueError("sticky_batch_size must be > 0")
        self.topic = topic
        self.sticky_batch_size = sticky_batch_size
        self._draw = draw
        self._current: StickyPartitionInfo | None = None
        self._cumulative: list[int] | None = None
        self._partition_ids: list[int] = []

    def peek(self, cluster: Cluster) -> StickyPartitionInfo:
        """The partition to use now; draws one on first use."""
        if self._current is None:
            self._current = StickyPartitionInfo(self.next_partition(cluster))
        return self._current

    def update(
        self, info: StickyPartitionInfo | None, appended_bytes: int, cluster: Cluster, enable_switch: bool = True
    ) -> None:
        """Counts what was appended and moves on when the partition has had its share.

        `enable_switch` is false while the partition's last batch is only part full: switching then would leave small
        batches behind.
        """
        if info is None:
            return
        info.produced_bytes += appended_bytes
        produced = info.produced_bytes
        if (produced >= self.sticky_batch_size and enable_switch) or produced >= self.sticky_batch_size * 2:
            self._current = StickyPartitionInfo(self.next_partition(cluster))

    def next_partition(self, cluster: Cluster) -> int:
        """Draws a partition."""
        number = self._draw()
        if self._cumulative is not None:
            weighted = number % self._cumulative[-1]
            return self._partition_ids[bisect_right(self._cumulative, weighted)]
        available = cluster.available_partitions(self.topic)
        if available:
            return available[number % len(available)]
        return number % (cluster.partition_count(self.topic) or 1)

    def update_load_stats(self, queue_sizes: list[int] | None, partition_ids: list[int], partition_count: int) -> None:
        """Takes the queue lengths of the partitions that are available now; None turns the adaptive draw off.

        With queues 0, 3, 1 the chances are 4 : 1 : 3 (the longest plus one, minus the own length), kept as running
        sums.
        """
        if queue_sizes is None or not queue_sizes or partition_count < 2:
            self._cumulative = None
            return
        if len(queue_sizes) == partition_count and min(queue_sizes) == max(queue_sizes):
            self._cumulative = None
            return
        longest_plus_one = max(queue_sizes) + 1
        total = 0
        cumulative = []
        for size in queue_sizes:
            total += longest_plus_one - size
            cumulative.append(total)
        self._partition_ids = list(partition_ids)
        self._cumulative = cumulative


class RoundRobinPartitioner:
    """Each record to the next available partition of its topic, keys or not (Kafka's RoundRobinPartitioner)."""

    def __init__(self) -> None:
        self._counters: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        turn = self._counters.get(topic, 0)
        self._counters[topic] = (turn + 1) & 0x7FFFFFFF
        available = cluster.available_partitions(topic)
        if available:
            return available[turn % len(available)]
        return turn % (cluster.partition_count(topic) or 1)


PARTITIONERS: dict[str, Callable[[], Partitioner]] = {
    "RoundRobinPartitioner": RoundRobinPartitioner,
}

_PACKAGE = "org.apache.kafka.clients.producer."


def partitioner_for(partitioner: Partitioner | str | None) -> Partitioner | None:
    """The partitioner that partitioner.class names, or an object that was passed in; None means the built-in one."""
    if partitioner is None or partitioner == "":
        return None
    if not isinstance(partitioner, str):
        return partitioner
    make = PARTITIONERS.get(partitioner.removeprefix(_PACKAGE))
    if make is None:
        raise ConfigError(
            f"Invalid value {partitioner} for configuration partitioner.class: Class {partitioner} could not be found. "
            f"Known here: {', '.join(PARTITIONERS)}"
        )
    return make()
