"""The states of share partitions: combined, written as snapshots and updates, read back, pruned."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.broker.coordinators.share_state.coordinator import ShareCoordinator
from kafkatools.core.broker.coordinators.share_state.share_state import (
    Record,
    ShareKey,
    ShareUpdate,
    StateBatch,
    combined,
)
from kafkatools.core.errors import (
    CoordinatorNotAvailable,
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    UnknownTopicOrPartition,
)
from kafkatools.core.protocol.schemas.share_group_state import decode_record

KEY = ShareKey("g", uuid.UUID(int=1 << 70), 0)


@pytest.mark.parametrize(
    ("known", "said", "start", "expected"),
    [
        ([], [(0, 9, 0, 1)], 0, [(0, 9, 0, 1)]),
        ([(0, 9, 0, 1)], [(3, 5, 2, 1)], 0, [(0, 2, 0, 1), (3, 5, 2, 1), (6, 9, 0, 1)]),
        ([(0, 4, 2, 1)], [(5, 9, 2, 1)], 0, [(0, 9, 2, 1)]),
        ([(0, 4, 2, 1)], [(5, 9, 2, 2)], 0, [(0, 4, 2, 1), (5, 9, 2, 2)]),
        ([(0, 4, 0, 1), (8, 9, 0, 1)], [(3, 8, 4, 2)], 0, [(0, 2, 0, 1), (3, 8, 4, 2), (9, 9, 0, 1)]),
        ([(0, 9, 0, 1)], [], 4, [(4, 9, 0, 1)]),
        ([(0, 3, 0, 1)], [(0, 9, 2, 1)], 5, [(5, 9, 2, 1)]),
    ],
)
def test_what_is_said_later_lies_over_what_was_known(known: Any, said: Any, start: int, expected: Any) -> None:
    assert combined([StateBatch(*row) for row in known], [StateBatch(*row) for row in said], start) == tuple(expected)


class Topic:
    """A log in memory."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.pruned: list[tuple[int, int]] = []
        self.refused: set[ShareKey] = set()

    def append(self, key: ShareKey, record: Record) -> tuple[int, None]:
        if key in self.refused:
            raise CoordinatorNotAvailable()
        self.records.append(record)
        return len(self.records) - 1, None

    def index_of(self, key: ShareKey) -> int:
        return 0

    def prune(self, index: int, before_offset: int) -> None:
        self.pruned.append((index, before_offset))

    def names(self) -> list[str]:
        return [type(decode_record(*record)[0]).__schema__.name for record in self.records]


@pytest.fixture
def topic() -> Topic:
    return Topic()


def open_coordinator(topic: Topic, clock: ManualClock | None = None) -> ShareCoordinator:
    made = ShareCoordinator(
        topic,
        clock or ManualClock(),
        lambda key: key.partition < 4,
        updates_per_snapshot=3,
        cold_interval_ms=1000,
    )
    made.load((offset, *decode_record(*record)) for offset, record in enumerate(topic.records))
    return made


def update(first: int, last: int, state: int = 2, *, state_epoch: int = 1, leader_epoch: int = 0) -> ShareUpdate:
    return ShareUpdate(state_epoch, leader_epoch, -1, 5, [StateBatch(first, last, state, 1)])


def test_states_outlive_the_coordinator_over_snapshots_and_updates(topic: Topic) -> None:
    states = open_coordinator(topic)
    states.initialize(KEY, 1, 10)
    for offset in range(10, 16):
        states.write(KEY, update(offset, offset, 2 if offset != 13 else 0))
    assert topic.names() == ["ShareSnapshotKey", *["ShareUpdateKey"] * 3, "ShareSnapshotKey", *["ShareUpdateKey"] * 2]
    known = states.read(KEY, 0)
    assert known.batches == ((10, 12, 2, 1), (13, 13, 0, 1), (14, 15, 2, 1))
    assert (known.start_offset, known.delivery_complete_count, known.snapshot_epoch) == (10, 5, 1)
    assert open_coordinator(topic).read(KEY, 0) == known


def test_older_epochs_are_fenced_and_a_new_leader_is_remembered(topic: Topic) -> None:
    states = open_coordinator(topic)
    states.initialize(KEY, 3, 0)
    with pytest.raises(FencedStateEpoch):
        states.initialize(KEY, 2, 0)
    with pytest.raises(FencedStateEpoch):
        states.write(KEY, update(0, 1, state_epoch=2))
    states.read(KEY, 5)
    with pytest.raises(FencedLeaderEpoch):
        open_coordinator(topic).write(KEY, update(0, 1, state_epoch=3, leader_epoch=4))
    with pytest.raises(FencedLeaderEpoch):
        states.read(KEY, 4)


def test_what_has_no_state_cannot_be_read_or_written(topic: Topic) -> None:
    states = open_coordinator(topic)
    with pytest.raises(InvalidRequest, match="Read operation on uninitialized"):
        states.read(KEY, 0)
    with pytest.raises(InvalidRequest, match="Write operation on uninitialized"):
        states.write(KEY, update(0, 1))
    with pytest.raises(UnknownTopicOrPartition):
        states.initialize(KEY._replace(partition=9), 1, 0)
    with pytest.raises(InvalidRequest):
        states.initialize(KEY._replace(partition=-1), 1, 0)
    assert states.summary(KEY) is None
    assert topic.records == []


def test_a_deleted_state_stays_deleted(topic: Topic) -> None:
    states = open_coordinator(topic)
    states.initialize(KEY, 1, 0)
    states.delete(KEY)
    assert topic.records[-1][1] is None
    assert open_coordinator(topic).summary(KEY) is None


def test_pruning_writes_idle_states_again_and_keeps_the_oldest_snapshot(topic: Topic) -> None:
    clock = ManualClock()
    states = open_coordinator(topic, clock)
    other = KEY._replace(partition=1)
    states.initialize(KEY, 1, 0)
    states.initialize(other, 1, 0)
    for offset in range(4):
        states.write(other, update(offset, offset))
    states.prune()
    clock.set_wall_ms(clock.wall_ms() + 1000)
    states.prune()
    assert topic.pruned == [(0, 0), (0, 6)]
    assert open_coordinator(topic).summary(KEY) == states.summary(KEY)


def test_states_that_cannot_be_written_keep_nobody_from_the_others(topic: Topic) -> None:
    clock = ManualClock()
    states = open_coordinator(topic, clock)
    keys = [KEY._replace(partition=index) for index in range(3)]
    for key in keys:
        states.initialize(key, 1, 0)
    clock.set_wall_ms(clock.wall_ms() + 1000)
    topic.refused = {keys[0]}
    with pytest.raises(CoordinatorNotAvailable):
        states.prune()
    assert (len(topic.records), topic.pruned) == (5, [(0, 0)])
    with pytest.raises(CoordinatorNotAvailable):
        states.forget_topic(KEY.topic_id)
    topic.refused = set()
    assert [states.summary(key) is None for key in keys] == [False, True, True]
