"""Which partition a record goes to. Hash values are those of Apache Kafka's UtilsTest; placements were recorded from
Apache Kafka 4.3.1."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafkatools.core.errors import ConfigError
from kafkatools.core.producer.partitioners import (
    RoundRobinPartitioner,
    StickyPartitioner,
    partition_for_key,
    partitioner_for,
)
from kafkatools.core.records import kernel


class FixedCluster:
    def __init__(self, count: int | None, available: Sequence[int] | None = None) -> None:
        self.count = count
        self.available = range(count or 0) if available is None else available

    def partition_count(self, topic: str) -> int | None:
        return self.count

    def available_partitions(self, topic: str) -> Sequence[int]:
        return self.available


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_kafkas_values(key: bytes, expected: int) -> None:
    assert kernel.murmur2(key) == expected


def test_keys_go_where_the_console_producer_of_kafka_put_them() -> None:
    placed = {0: [2, 5], 1: [3, 4, 6, 7], 2: [0, 1, 8, 9]}
    for partition, keys in placed.items():
        for key in keys:
            assert partition_for_key(f"k{key}".encode(), 3) == partition


def test_the_sticky_partition_changes_when_the_topic_has_it_no_longer() -> None:
    draws = iter([5, 6])
    sticky = StickyPartitioner("t", 100, lambda: next(draws))
    assert sticky.peek(FixedCluster(6)).partition == 5
    assert sticky.peek(FixedCluster(None)).partition == 5
    assert sticky.peek(FixedCluster(2)).partition == 0


def test_unkeyed_records_stick_until_the_batch_size_was_produced() -> None:
    draws = iter([2, 0])
    sticky = StickyPartitioner("t", 100, lambda: next(draws))
    cluster = FixedCluster(3)
    info = sticky.peek(cluster)
    assert info.partition == 2
    sticky.update(info, 99, cluster)
    assert sticky.peek(cluster) is info
    sticky.update(info, 1, cluster)
    assert sticky.peek(cluster).partition == 0


def test_a_part_full_batch_is_not_left_behind_until_twice_the_batch_size() -> None:
    draws = iter([1, 0])
    sticky = StickyPartitioner("t", 100, lambda: next(draws))
    cluster = FixedCluster(2)
    info = sticky.peek(cluster)
    sticky.update(info, 150, cluster, enable_switch=False)
    assert sticky.peek(cluster).partition == 1
    sticky.update(info, 50, cluster, enable_switch=False)
    assert sticky.peek(cluster).partition == 0


def test_long_queues_are_drawn_less_often() -> None:
    number = [0]
    sticky = StickyPartitioner("t", 100, lambda: number[0])
    sticky.update_load_stats([0, 3, 1], [5, 6, 7], 3)
    drawn = []
    for value in range(8):
        number[0] = value
        drawn.append(sticky.next_partition(FixedCluster(3)))
    assert drawn == [5, 5, 5, 5, 6, 7, 7, 7]


def test_equal_queues_are_drawn_uniformly() -> None:
    number = [4]
    sticky = StickyPartitioner("t", 100, lambda: number[0])
    sticky.update_load_stats([2, 2, 2], [0, 1, 2], 3)
    assert sticky.next_partition(FixedCluster(3)) == 1


def test_equal_queues_of_some_partitions_leave_the_missing_ones_out() -> None:
    sticky = StickyPartitioner("t", 100, lambda: 5)
    sticky.update_load_stats([2, 2], [0, 2], 3)
    assert sticky.next_partition(FixedCluster(3)) == 2


def test_partitions_without_a_leader_are_avoided_when_others_have_one() -> None:
    sticky = StickyPartitioner("t", 100, lambda: 1)
    assert sticky.next_partition(FixedCluster(4, available=[0, 3])) == 3
    assert sticky.next_partition(FixedCluster(4, available=[])) == 1


def test_round_robin_takes_turns_per_topic() -> None:
    partitioner = RoundRobinPartitioner()
    cluster = FixedCluster(3)
    assert [partitioner.partition("a", b"same key", None, cluster) for _ in range(4)] == [0, 1, 2, 0]
    assert partitioner.partition("b", None, None, cluster) == 0


def test_partitioner_names_are_a_closed_list() -> None:
    assert isinstance(partitioner_for("org.apache.kafka.clients.producer.RoundRobinPartitioner"), RoundRobinPartitioner)
    assert partitioner_for(None) is None
    with pytest.raises(ConfigError, match="partitioner.class"):
        partitioner_for("os.system")
