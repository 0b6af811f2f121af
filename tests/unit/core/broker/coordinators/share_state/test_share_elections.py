"""Share groups over a cluster: the group, the states of its partitions and the partitions themselves are each led by
another node, and move. The nodes are fakes around the real coordinators and handlers."""

from __future__ import annotations

from typing import Any

import pytest
from support.coordinator_cluster import NOBODY, CoordinatorCluster

from kafkatools.core.broker.coordinators.internal_topic import partition_for
from kafkatools.core.broker.coordinators.share_state.share_state import (
    ShareKey,
    ShareState,
    ShareUpdate,
    StateBatch,
    name_of,
)
from kafkatools.core.broker.replicas.share.partition import ACCEPT, Acknowledgement, Wish
from kafkatools.core.errors import CoordinatorNotAvailable, KafkaError

OFFSETS, STATES = "__consumer_offsets", "__share_group_state"
HEARTBEAT, DELETE_GROUPS, INITIALIZE, READ, WRITE, DESCRIBE, ALTER, DELETE = 76, 42, 83, 84, 85, 90, 91, 92
NOT_LEADER, NOT_AVAILABLE, NOT_COORDINATOR = 6, 15, 16
GROUP = "g"


class Shares(CoordinatorCluster):
    """The group is coordinated by node 1, its states are kept by node 2, partition 0 of `t` is led by node 3."""

    def __init__(self, **settings: str) -> None:
        super().__init__(**{"group_share_assignment_interval_ms": "0", **settings})
        self.topic = self.add_topic("t", 1, leader=3)
        self.add_topic(OFFSETS, 2, leader=1)
        self.add_topic(STATES, 2, leader=2)
        self.key = ShareKey(GROUP, self.topic.topic_id, 0)
        self.index = partition_for(name_of(self.key), 2)

    def move_states(self, leader: int) -> None:
        self.lead(STATES, self.index, leader)

    def persister(self, node_id: int) -> Any:
        return self.nodes[node_id].coordination.persister

    def beat(self, epoch: int, node_id: int = 1) -> Any:
        names = ["t"] if epoch == 0 else None
        fields = {"group_id": GROUP, "member_id": "m", "member_epoch": epoch, "subscribed_topic_names": names}
        asked = self.ask(node_id, HEARTBEAT, 1, **fields)
        self.settle()
        return asked.answer

    def joined(self) -> int:
        """A member that has its partition; its epoch."""
        first = self.beat(0)
        assert (first.error_code, len(first.assignment.topic_partitions)) == (0, 0)
        second = self.beat(first.member_epoch)
        assert [list(each.partitions) for each in second.assignment.topic_partitions] == [[0]]
        return int(second.member_epoch)

    def opened(self, node_id: int = 3) -> Any:
        """The share partition as its leader has it."""
        manager = self.nodes[node_id].share_partitions
        partition = manager.log_partition(self.key)
        assert manager._opened(self.key, partition) is None, "its coordinator is asked first"
        self.settle()
        return manager._opened(self.key, partition)

    def acknowledge(self, kind: int, first: int, last: int, node_id: int = 3) -> Any:
        return self.nodes[node_id].share_partitions.acknowledge(self.key, "m", [Acknowledgement(first, last, [kind])])


class Answers(list[tuple[int, ShareState | None]]):
    """What a persister was told."""

    def __call__(self, error: KafkaError | None, state: ShareState | None) -> None:
        self.append((0 if error is None else error.code, state))


def update(first: int, last: int, state: int = 2) -> ShareUpdate:
    return ShareUpdate(1, 0, 0, 0, [StateBatch(first, last, state, 1)])


# -- states ------------------------------------------------------------------------------------------------------------
def test_states_are_kept_by_their_coordinator_on_another_node() -> None:
    cluster, answers = Shares(), Answers()
    persister = cluster.persister(3)
    persister.initialize(cluster.key, 1, 0, answers)
    persister.write(cluster.key, update(0, 4), answers)
    persister.read(cluster.key, 3, answers)
    persister.summary(cluster.key, answers)
    persister.delete(cluster.key, answers)
    assert [sent.api_key for sent in cluster.sent] == [INITIALIZE], "one after the other"
    cluster.settle()
    assert [code for code, _ in answers] == [0, 0, 0, 0, 0]
    read, summary = answers[2][1], answers[3][1]
    assert read is not None and summary is not None
    assert (read.state_epoch, read.start_offset, read.batches) == (1, 0, (StateBatch(0, 4, 2, 1),))
    assert (summary.leader_epoch, summary.start_offset, summary.delivery_complete_count) == (3, 0, 0)


def test_what_is_asked_of_the_own_node_is_answered_when_it_is_replicated() -> None:
    cluster, answers = Shares(), Answers()
    cluster.persister(2).initialize(cluster.key, 1, 0, answers)
    assert (answers, list(cluster.sent)) == ([], [])
    cluster.replicate()
    assert answers == [(0, None)]


@pytest.mark.parametrize("api_key", [INITIALIZE, READ, WRITE])
def test_a_node_that_does_not_lead_the_states_partition_is_not_its_coordinator(api_key: int) -> None:
    cluster = Shares()
    fields = {"partition": 0, "state_epoch": 1, "leader_epoch": 0, "start_offset": 0, "state_batches": []}
    topics = [{"topic_id": cluster.topic.topic_id, "partitions": [fields]}]
    asked = cluster.ask(3, api_key, 0, group_id=GROUP, topics=topics)
    assert asked.answer.results[0].partitions[0].error_code == NOT_COORDINATOR
    cluster.move_states(NOBODY)
    asked = cluster.ask(3, api_key, 0, group_id=GROUP, topics=topics)
    assert asked.answer.results[0].partitions[0].error_code == NOT_COORDINATOR


@pytest.mark.parametrize("leader", [1, 3])
def test_states_outlive_their_coordinator(leader: int) -> None:
    cluster, answers = Shares(), Answers()
    persister = cluster.persister(3)
    persister.initialize(cluster.key, 1, 0, answers)
    persister.write(cluster.key, update(0, 4), answers)
    cluster.settle()
    cluster.dead = {2}
    persister.write(cluster.key, update(7, 9), answers)
    cluster.deliver()
    cluster.move_states(NOBODY)
    cluster.advance(200)
    assert len(answers) == 2, "it is asked again"
    cluster.move_states(leader)
    cluster.settle()
    persister.read(cluster.key, 3, answers)
    cluster.settle()
    assert [code for code, _ in answers] == [0, 0, 0, 0]
    state = answers[3][1]
    assert state is not None
    assert state.batches == (StateBatch(0, 4, 2, 1), StateBatch(7, 9, 2, 1))


def test_a_coordinator_that_never_comes_is_not_waited_for_for_ever() -> None:
    cluster, answers = Shares(share_coordinator_write_timeout_ms="1000"), Answers()
    cluster.move_states(NOBODY)
    cluster.persister(3).initialize(cluster.key, 1, 0, answers)
    cluster.advance(900)
    assert answers == []
    cluster.advance(300)
    assert answers == [(NOT_AVAILABLE, None)]


@pytest.mark.parametrize("node_id", [2, 3])
def test_a_state_that_too_few_replicas_take_is_asked_for_again(node_id: int) -> None:
    cluster, answers = Shares(), Answers()
    partition = cluster.nodes[2].replicas.partitions[STATES][cluster.index]
    partition.is_under_min_isr = True
    cluster.persister(node_id).initialize(cluster.key, 1, 0, answers)
    cluster.settle()
    assert answers == []
    partition.is_under_min_isr = False
    cluster.settle()
    assert answers == [(0, None)]


def test_who_waits_for_a_state_that_moves_asks_its_new_coordinator() -> None:
    cluster, answers = Shares(), Answers()
    cluster.persister(3).initialize(cluster.key, 1, 5, answers)
    cluster.deliver()
    cluster.logs[STATES, cluster.index].truncate_to_high_watermark()
    cluster.move_states(1)
    cluster.settle()
    assert answers == [(0, None)]
    assert cluster.nodes[1].share_partitions.states().summary(cluster.key).start_offset == 5
    assert cluster.nodes[2].share_partitions.states()._states == {}


# -- groups ------------------------------------------------------------------------------------------------------------
def test_members_get_partitions_when_their_states_are_made_elsewhere() -> None:
    cluster = Shares()
    cluster.joined()
    assert cluster.nodes[2].share_partitions.states().summary(cluster.key).start_offset == -1
    assert cluster.nodes[1].failures == []


def test_a_state_that_could_not_be_made_is_asked_for_again() -> None:
    cluster = Shares(share_coordinator_write_timeout_ms="100")
    cluster.dead = {2}
    first = cluster.beat(0)
    cluster.advance(300)
    assert cluster.beat(first.member_epoch).assignment is None
    cluster.dead = set()
    cluster.beat(first.member_epoch)
    cluster.settle()
    last = cluster.beat(first.member_epoch)
    assert [list(each.partitions) for each in last.assignment.topic_partitions] == [[0]]


def test_topics_that_changed_are_looked_at_again_when_that_could_not_be_written() -> None:
    cluster = Shares()
    epoch = cluster.joined()
    del cluster.image.topics["t"], cluster.image.topics_by_id[cluster.topic.topic_id]
    cluster.nodes[1].groups.share.note_topics(["t"])
    partition = cluster.nodes[1].replicas.partitions[OFFSETS][partition_for(GROUP, 2)]
    partition.is_under_min_isr = True
    assert cluster.beat(epoch).error_code == NOT_AVAILABLE
    partition.is_under_min_isr = False
    beat = cluster.beat(epoch)
    assert (beat.error_code, beat.member_epoch, list(beat.assignment.topic_partitions)) == (0, epoch + 1, [])


def test_a_share_group_goes_on_with_its_new_coordinator() -> None:
    cluster = Shares()
    epoch = cluster.joined()
    cluster.lead(OFFSETS, partition_for(GROUP, 2), 3)
    cluster.settle()
    assert cluster.beat(epoch).error_code == NOT_COORDINATOR
    again = cluster.beat(epoch, node_id=3)
    assert (again.error_code, again.member_epoch) == (0, epoch)


def test_offsets_are_set_described_and_forgotten_by_the_coordinators_of_the_states() -> None:
    cluster = Shares()
    wanted = [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 4}]}]
    altered = cluster.ask(1, ALTER, 0, group_id=GROUP, topics=wanted)
    assert altered.answer is None
    cluster.settle()
    assert (altered.answer.error_code, altered.answer.responses[0].partitions[0].error_code) == (0, 0)
    described = cluster.ask(1, DESCRIBE, 0, groups=[{"group_id": GROUP, "topics": None}])
    cluster.settle()
    (partition,) = described.answer.groups[0].topics[0].partitions
    assert (partition.start_offset, partition.error_code) == (4, 0)
    deleted = cluster.ask(1, DELETE, 0, group_id=GROUP, topics=[{"topic_name": "t"}])
    cluster.settle()
    assert (deleted.answer.error_code, deleted.answer.responses[0].error_code) == (0, 0)
    assert cluster.nodes[2].share_partitions.states().summary(cluster.key) is None
    elsewhere = cluster.ask(2, ALTER, 0, group_id=GROUP, topics=wanted)
    assert elsewhere.answer.error_code == NOT_COORDINATOR


def test_a_group_is_deleted_after_its_states() -> None:
    cluster = Shares()
    wanted = [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 4}]}]
    cluster.ask(1, ALTER, 0, group_id=GROUP, topics=wanted)
    cluster.settle()
    asked = cluster.ask(1, DELETE_GROUPS, 2, groups_names=[GROUP, "other"])
    assert asked.answer is None
    cluster.settle()
    assert [(each.group_id, each.error_code) for each in asked.answer.results] == [(GROUP, 0), ("other", 69)]
    assert cluster.nodes[2].share_partitions.states().summary(cluster.key) is None


def test_a_group_is_deleted_even_if_it_could_not_note_that_a_topic_was() -> None:
    cluster = Shares()
    wanted = [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 4}]}]
    cluster.ask(1, ALTER, 0, group_id=GROUP, topics=wanted)
    cluster.settle()
    partition = cluster.nodes[1].replicas.partitions[OFFSETS][partition_for(GROUP, 2)]
    partition.is_under_min_isr = True
    del cluster.image.topics["t"], cluster.image.topics_by_id[cluster.topic.topic_id]
    cluster.nodes[1].groups.share.forget_topics([cluster.topic.topic_id])
    partition.is_under_min_isr = False
    asked = cluster.ask(1, DELETE_GROUPS, 2, groups_names=[GROUP])
    cluster.settle()
    assert [each.error_code for each in asked.answer.results] == [0]


# -- share partitions --------------------------------------------------------------------------------------------------
def acquire(shared: Any, first: int, last: int, now_ms: int) -> None:
    shared.acquire(Wish("m", 100, 100), [(first, last)], first, now_ms)


def test_a_leader_reads_and_writes_its_share_partition_at_the_coordinator() -> None:
    cluster = Shares()
    cluster.joined()
    shared = cluster.opened()
    acquire(shared, 0, 9, cluster.clock.now_ms())
    pending = cluster.acknowledge(ACCEPT, 0, 4)
    assert not pending.is_over
    cluster.settle()
    assert (pending.is_over, pending.error) == (True, None)
    state = cluster.nodes[2].share_partitions.states().summary(cluster.key)
    assert state.batches == (StateBatch(0, 4, 2, 1),)
    cluster.lead("t", 0, 1)
    assert cluster.nodes[3].share_partitions.find(cluster.key) is None
    next_leader = cluster.opened(1)
    assert (next_leader.start_offset, next_leader.next_fetch_offset()) == (5, 5)


def test_a_leader_of_an_earlier_epoch_is_fenced_and_reads_back() -> None:
    cluster = Shares()
    cluster.joined()
    shared = cluster.opened()
    acquire(shared, 0, 9, cluster.clock.now_ms())
    cluster.persister(1).read(cluster.key, 99, Answers())
    cluster.settle()
    pending = cluster.acknowledge(ACCEPT, 0, 4)
    cluster.settle()
    assert pending.error.code == NOT_LEADER
    assert cluster.nodes[3].share_partitions.find(cluster.key) is None


def test_what_could_not_be_kept_is_delivered_again() -> None:
    cluster = Shares(share_coordinator_write_timeout_ms="300")
    cluster.joined()
    shared = cluster.opened()
    acquire(shared, 0, 9, cluster.clock.now_ms())
    cluster.dead = {2}
    pending = cluster.acknowledge(ACCEPT, 0, 9)
    for _ in range(60):
        cluster.deliver()
        cluster.advance(10)
    assert pending.error.code == NOT_AVAILABLE
    cluster.dead = set()
    again = cluster.opened()
    assert again.next_fetch_offset() == again.start_offset


def test_a_share_partition_that_cannot_be_read_back_says_so_once() -> None:
    cluster = Shares(share_coordinator_write_timeout_ms="300")
    cluster.joined()
    cluster.move_states(NOBODY)
    manager = cluster.nodes[3].share_partitions
    assert manager.available_bytes(cluster.key, 1) == 0
    cluster.advance(500)
    wish = Wish("m", 10, 10)
    assert manager.read(cluster.key, 100, wish).error_code == NOT_AVAILABLE
    cluster.move_states(2)
    assert manager.read(cluster.key, 100, wish).error_code == 0


def test_only_the_leader_has_a_share_partition() -> None:
    cluster = Shares()
    cluster.joined()
    manager = cluster.nodes[1].share_partitions
    assert manager.read(cluster.key, 100, Wish("m", 10, 10)).error_code == NOT_LEADER


def test_locks_end_even_if_that_cannot_be_written_at_once() -> None:
    cluster = Shares()
    node = cluster.nodes[2]
    node.coordinate(None)  # on its own: nobody else is asked
    cluster.lead("t", 0, 2)
    manager = node.share_partitions
    manager.states().initialize(cluster.key, 1, 0)
    shared = manager._opened(cluster.key, manager.log_partition(cluster.key))
    acquire(shared, 0, 9, cluster.clock.now_ms())
    manager.watch_locks(cluster.key, shared)
    partition = node.replicas.partitions[STATES][cluster.index]
    partition.is_under_min_isr = True
    cluster.advance(30_000)
    assert [type(failure) for failure in node.failures] == [CoordinatorNotAvailable]
    partition.is_under_min_isr = False
    cluster.advance(490)
    assert shared.next_fetch_offset() == 10
    cluster.advance(10)
    assert shared.next_fetch_offset() == 0


def test_locks_end_in_a_share_partition_that_follows_a_dropped_one() -> None:
    cluster = Shares()
    cluster.move_states(3)  # so that a write fails at once
    cluster.joined()
    shared = cluster.opened()
    manager = cluster.nodes[3].share_partitions
    acquire(shared, 0, 9, cluster.clock.now_ms())
    manager.watch_locks(cluster.key, shared)
    cluster.nodes[3].coordination.share_states.initialize(cluster.key, 99, 0)
    assert cluster.acknowledge(ACCEPT, 0, 4).error.code == NOT_LEADER
    cluster.settle()
    cluster.advance(1000)
    again = manager._opened(cluster.key, manager.log_partition(cluster.key))
    assert again is not shared
    acquire(again, 0, 9, cluster.clock.now_ms())
    manager.watch_locks(cluster.key, again)
    cluster.advance(29_990)
    assert again.next_fetch_offset() == 10
    cluster.advance(10)
    assert again.next_fetch_offset() == 0
