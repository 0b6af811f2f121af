"""Ranges over tasks, what a trigger takes, Spark's JSON. The splits are those of Spark's KafkaOffsetRangeCalculator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.live import offsets as live_offsets
from kafkatools.pipeline.sources.live.offsets import SMALLEST_PART, OffsetRange, limit_rate, split_ranges

A, B, C = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition("c", 1)


def edges(ranges: list[OffsetRange]) -> list[tuple[str, int, int]]:
    return [(one.partition.topic, one.start, one.end) for one in ranges]


def test_empty_ranges_are_dropped_and_enough_ranges_are_left_alone() -> None:
    ranges = [OffsetRange(A, 0, 5), OffsetRange(B, 7, 7), OffsetRange(C, 1, 2)]
    assert edges(split_ranges(ranges, 8, 2, None)) == [("a", 0, 5), ("c", 1, 2)]


def test_one_range_is_split_into_so_many_parts() -> None:
    # KafkaOffsetRangeCalculatorSuite: N TopicPartitions to N or more offset ranges
    assert edges(split_ranges([OffsetRange(A, 1, 5)], 1, 3, None)) == [("a", 1, 2), ("a", 2, 3), ("a", 3, 5)]


def test_small_ranges_stay_whole_and_the_large_one_gets_the_other_tasks() -> None:
    ranges = [OffsetRange(A, 0, 2), OffsetRange(B, 0, 2), OffsetRange(C, 0, 100_000)]
    found = edges(split_ranges(ranges, 1, 6, None))
    assert found == [("a", 0, 2), ("b", 0, 2), *(("c", n * 25_000, n * 25_000 + 25_000) for n in range(4))]


def test_by_itself_only_what_is_large_is_split() -> None:
    assert len(split_ranges([OffsetRange(A, 0, 2 * SMALLEST_PART - 1)], 4, None, None)) == 1
    assert len(split_ranges([OffsetRange(A, 0, 2 * SMALLEST_PART)], 4, None, None)) == 2
    assert len(split_ranges([OffsetRange(A, 0, 100 * SMALLEST_PART)], 4, None, None)) == 4


def test_no_task_has_more_than_its_records() -> None:
    ranges = [OffsetRange(A, 10, 20), OffsetRange(B, 0, 3)]
    assert edges(split_ranges(ranges, 1, None, 4)) == [("a", 10, 13), ("a", 13, 16), ("a", 16, 20), ("b", 0, 3)]
    assert len(split_ranges(ranges, 1, 9, 4)) >= 8


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 20)), max_size=6),
    st.integers(1, 9),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1 << 12, 1 << 20),
)
def test_parts_cover_each_range_once(
    given_ranges: list[tuple[int, int]], cores: int, least: int | None, most: int | None
) -> None:
    ranges = [OffsetRange(TopicPartition("t", n), at, at + size) for n, (at, size) in enumerate(given_ranges)]
    parts = split_ranges(ranges, cores, least, most)
    assert all(part.size > 0 for part in parts)
    assert most is None or all(part.size <= most for part in parts)
    for one in ranges:
        mine = [(part.start, part.end) for part in parts if part.partition == one.partition]
        covered = [offset for bounds in mine for offset in bounds]
        # where one part ends the next begins
        assert covered[1:-1:2] == covered[2::2]
        assert (covered[:1], covered[-1:]) == (([one.start], [one.end]) if one.size else ([], []))


def test_a_trigger_takes_of_each_partition_its_share_and_starves_none() -> None:
    # KafkaMicroBatchStream.rateLimit: 10 of 90, 9 and 1 offsets
    taken = limit_rate(10, {A: 0, B: 100, C: 5}, {A: 90, B: 109, C: 6})
    assert taken == {A: 9, B: 101, C: 6}
    assert limit_rate(100, {A: 0, B: 0}, {A: 60, B: 40}) == {A: 60, B: 40}
    assert limit_rate(1, {A: 3, B: 8}, {A: 3, B: 8}) == {A: 3, B: 8}


@pytest.mark.slow
@given(st.integers(1, 50), st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=5))
def test_triggers_come_to_the_end(limit: int, partitions: list[tuple[int, int]]) -> None:
    start = {TopicPartition("t", n): at for n, (at, _) in enumerate(partitions)}
    latest = {TopicPartition("t", n): at + size for n, (at, size) in enumerate(partitions)}
    for _ in range(1000):
        if start == latest:
            return
        end = limit_rate(limit, start, latest)
        assert all(start[part] <= end[part] <= latest[part] for part in start)
        assert end != start
        assert sum(end.values()) - sum(start.values()) <= limit + len(start)
        start = end
    raise AssertionError("never came to the end")


def test_offsets_go_to_spark_and_back_in_one_order() -> None:
    offsets = {TopicPartition("b", 10): 4, TopicPartition("b", 2): 3, TopicPartition("a", 0): 5}
    told = live_offsets.to_json(offsets)
    assert str(told) == "{'a': {'0': 5}, 'b': {'2': 3, '10': 4}}"
    assert live_offsets.from_json(told) == offsets


def test_the_first_end_tells_where_the_stream_began_and_is_an_end_like_any_other() -> None:
    end = live_offsets.with_beginning({"a": {"0": 5}}, {"a": {"0": 2}})
    assert live_offsets.from_json(end) == {A: 5}
    assert live_offsets.beginning_of(end) == {"a": {"0": 2}}
    assert live_offsets.beginning_of({"a": {"0": 5}}) is None


def test_the_name_of_a_source_is_a_topic_without_partitions() -> None:
    """So Spark's Kafka source and earlier versions read the offsets, which have maps of partitions only."""
    named = live_offsets.with_source({"a": {"0": 5}}, "orders")
    assert named == {"a": {"0": 5}, "$source orders": {}}
    assert live_offsets.from_json(named) == {A: 5}
    assert live_offsets.source_of(named) == "orders"
    first = live_offsets.with_beginning(named, live_offsets.with_source({"a": {"0": 2}}, "orders"))
    assert (live_offsets.from_json(first), live_offsets.source_of(first)) == ({A: 5}, "orders")
    assert live_offsets.with_source({"a": {"0": 5}}, None) == {"a": {"0": 5}}
    assert live_offsets.source_of({"a": {"0": 5}}) is None


def test_a_checkpoint_of_another_source_is_refused() -> None:
    with pytest.raises(PipelineError, match="The checkpoint belongs to another source"):
        live_offsets.from_json({"logOffset": 3})
