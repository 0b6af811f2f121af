"""Partitioners: choose the partition of a record.

Rules (BuiltInPartitioner and RoundRobinPartitioner of Kafka 4.x, KIP-480, KIP-794):
- A record with a key goes to positive(murmur2(key)) % partitions, available or not, so equal keys stay together.
- Records without a key stay on one partition until batch.size bytes were produced to it and its last batch is full,
  or twice batch.size in any case. Then a partition is drawn at random, possibly the same.
- With partitioner.adaptive.partitioning.enable, partitions with long queues are drawn less often, once each partition
  of the topic has had a batch. Otherwise all available ones are equally likely.
- The adaptive draw leaves out partitions whose leader took no batches for partitioner.availability.timeout.ms, if that
  is above 0.

The accumulator's lock guards the state of a StickyPartitioner.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Protocol

from kafkatools.core.net.metadata import ClusterView
from kafkatools.core.producer.serializers import class_not_found
from kafkatools.core.records import kernel

UNKNOWN_PARTITION = -1


class Partitioner(Protocol):
    """The interface of the object in `Producer(partitioner=...)` (Kafka's Partitioner)."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: ClusterView) -> int:
        """Return the partition of a record by its topic and its serialized key and value; a negative one is an
        error."""


def random_numbers() -> Iterator[int]:
    """Yield random numbers of 31 bits from the system, which is asked for many at a time."""
    while True:
        for number in array("I", os.urandom(1024)):
            yield number & 0x7FFFFFFF


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a record with a key: Utils.toPositive(Utils.murmur2(key)) % partitions."""
    return (kernel.murmur2(key) & 0x7FFFFFFF) % partition_count


def _available_partition(topic: str, cluster: ClusterView, number: int) -> int:
    """Pick the partition at `number` modulo their count: among those with a leader if there are any, else among all of
    the topic."""
    available = cluster.available_partitions(topic)
    return available[number % len(available)] if available else number % (cluster.partition_count(topic) or 1)


class StickyPartitionInfo:
    """The current sticky partition and the bytes produced to it."""

    def __init__(self, partition: int, produced_bytes: int = 0) -> None:
        self.partition = partition
        self.produced_bytes = produced_bytes


class StickyPartitioner:
    """Kafka's BuiltInPartitioner: chooses the partition of one topic's records without a key."""

    def __init__(self, topic: str, sticky_batch_size: int, draw: Callable[[], int] | None = None) -> None:
        if sticky_batch_size < 1:
            raise ValueError("sticky_batch_size must be > 0")
        self.topic = topic
        self.sticky_batch_size = sticky_batch_size
        self._draw = random_numbers().__next__ if draw is None else draw
        self._current: StickyPartitionInfo | None = None
        self._cumulative: list[int] | None = None
        self._partition_ids: list[int] = []

    def peek(self, cluster: ClusterView) -> StickyPartitionInfo:
        """The current sticky partition of the topic; draws one on first use, and when the topic was created again with
        fewer partitions, since the records of the others would wait for a leader until they expire."""
        count = cluster.partition_count(self.topic)
        if self._current is None or (count and self._current.partition >= count):
            self._current = StickyPartitionInfo(self.next_partition(cluster))
        return self._current

    def update(
        self, info: StickyPartitionInfo | None, appended_bytes: int, cluster: ClusterView, enable_switch: bool = True
    ) -> None:
        """Count appended bytes and draw a new sticky partition after batch.size bytes if `enable_switch`, after twice
        that in any case. `info` None has no effect.

        `enable_switch` is False while the partition's last batch is only partly full, because a switch would leave
        small batches behind.
        """
        if info is None:
            return
        info.produced_bytes += appended_bytes
        produced = info.produced_bytes
        if (produced >= self.sticky_batch_size and enable_switch) or produced >= self.sticky_batch_size * 2:
            self._current = StickyPartitionInfo(self.next_partition(cluster))

    def next_partition(self, cluster: ClusterView) -> int:
        """Draw a random partition: weighted if `update_load_stats` set weights, else among the partitions with a
        leader, else among all."""
        number = self._draw()
        if self._cumulative is not None:
            weighted = number % self._cumulative[-1]
            return self._partition_ids[bisect_right(self._cumulative, weighted)]
        return _available_partition(self.topic, cluster, number)

    def update_load_stats(self, queue_sizes: list[int] | None, partition_ids: list[int], partition_count: int) -> None:
        """Set the weights of the adaptive draw from the queue lengths of the available partitions. The weight of a
        partition is the longest queue plus one, minus its own: queues 0, 3, 1 give 4 : 1 : 3.

        Removes the weights for None or no queue, for fewer than two partitions, and when all `partition_count`
        partitions have equal queues.
        """
        self._cumulative = None
        if not queue_sizes or partition_count < 2:
            return
        longest = max(queue_sizes)
        if len(queue_sizes) < partition_count or min(queue_sizes) < longest:
            self._partition_ids = list(partition_ids)
            self._cumulative = list(accumulate(longest + 1 - size for size in queue_sizes))


class RoundRobinPartitioner:
    """Sends each record to the next partition of its topic that has a leader, with or without a key (Kafka's
    RoundRobinPartitioner). Without any leader it counts through all partitions."""

    def __init__(self) -> None:
        self._counters: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: ClusterView) -> int:
        turn = self._counters.get(topic, 0)
        self._counters[topic] = (turn + 1) & 0x7FFFFFFF
        return _available_partition(topic, cluster, turn)


PARTITIONERS: dict[str, Callable[[], Partitioner]] = {"RoundRobinPartitioner": RoundRobinPartitioner}
_PACKAGE = "org.apache.kafka.clients.producer."


def partitioner_for(partitioner: Partitioner | str | None) -> Partitioner | None:
    """The partitioner of partitioner.class: by class name, by a caller's object, or None for the built-in one. Raises
    ConfigError for an unknown class name."""
    if partitioner is None or partitioner == "":
        return None
    if not isinstance(partitioner, str):
        return partitioner
    make = PARTITIONERS.get(partitioner.removeprefix(_PACKAGE))
    if make is None:
        raise class_not_found("partitioner.class", partitioner, PARTITIONERS)
    return make()
