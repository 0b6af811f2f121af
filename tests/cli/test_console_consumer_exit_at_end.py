"""--exit-at-end: what can never be read to its end is an error, not a wait."""

from __future__ import annotations

import uuid

import pytest

from kafkatools.core.consumer.ends import Ends, EndUnreachable
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import ConnectionFailed, KafkaError

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Cluster:
    """A consumer's view of two partitions that ended at 100 and 50."""

    def __init__(self) -> None:
        self.ends = {P0: 100, P1: 50}
        self.positions = {P0: 40, P1: 50}
        self.ids: dict[str, uuid.UUID] = {"t": uuid.UUID(int=1)}
        self.problem: KafkaError | None = None
        self.asked: list[list[TopicPartition]] = []

    def assignment(self) -> list[TopicPartition]:
        return list(self.positions)

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append(list(partitions))
        return {part: self.ends[part] for part in partitions}

    def topic_id(self, topic: str) -> uuid.UUID | None:
        return self.ids.get(topic)

    def known_partitions(self) -> dict[str, list[int]]:
        return {topic: [0, 1] for topic in self.ids}

    def has_read_to(self, part: TopicPartition, end: int) -> bool:
        return self.positions[part] >= end

    def connection_problem(self) -> KafkaError | None:
        return self.problem


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def ends(cluster: Cluster) -> Ends:
    return Ends(cluster, [P0, P1])  # type: ignore[arg-type]


def test_ends_are_those_of_the_start(cluster: Cluster, ends: Ends) -> None:
    cluster.ends = {P0: 500, P1: 500}
    assert (ends.end_of(P0), ends.end_of(P1)) == (100, 50)
    assert ends.undone() == [P0]
    cluster.positions[P0] = 100
    assert ends.undone() == []


def test_partition_that_was_not_there_at_the_start_has_nothing_to_read(cluster: Cluster, ends: Ends) -> None:
    cluster.positions = {P1: 50, TopicPartition("t", 2): 0}
    assert ends.undone() == []


def test_slow_reading_is_no_error(cluster: Cluster, ends: Ends) -> None:
    cluster.ends[P0] = 120
    for _ in range(5):
        ends.ensure_reachable()
    assert cluster.asked[1:] == [[P0]] * 5, "only what is not done is asked about"


def test_deleted_topic_is_an_error_once_it_is_missing_twice(cluster: Cluster, ends: Ends) -> None:
    cluster.ids.clear()
    ends.ensure_reachable()
    with pytest.raises(EndUnreachable, match="Topic t was deleted before it was read to the end"):
        ends.ensure_reachable()


def test_topic_that_is_missing_for_a_moment_is_not_deleted(cluster: Cluster, ends: Ends) -> None:
    known = dict(cluster.ids)
    for _ in range(3):
        cluster.ids.clear()
        ends.ensure_reachable()
        cluster.ids.update(known)
        ends.ensure_reachable()


def test_deleted_topic_that_was_read_to_its_end_matters_to_nobody(cluster: Cluster, ends: Ends) -> None:
    cluster.positions[P0] = 100
    cluster.ids.clear()
    for _ in range(3):
        ends.ensure_reachable()


def test_topic_made_anew_is_another_topic(cluster: Cluster, ends: Ends) -> None:
    cluster.ids["t"] = uuid.UUID(int=2)
    with pytest.raises(EndUnreachable, match="Topic t was deleted and recreated"):
        ends.ensure_reachable()


def test_truncated_log_never_gets_to_the_end(cluster: Cluster, ends: Ends) -> None:
    cluster.ends[P0] = 60
    with pytest.raises(EndUnreachable, match="t-0 ends at offset 60 now, before offset 100"):
        ends.ensure_reachable()


def test_leader_that_cannot_be_reached_is_an_error(cluster: Cluster, ends: Ends) -> None:
    cluster.problem = ConnectionFailed("no way")
    with pytest.raises(ConnectionFailed):
        ends.ensure_reachable()
