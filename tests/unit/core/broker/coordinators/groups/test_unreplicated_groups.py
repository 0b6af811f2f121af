"""What is asked of groups while their changes are not replicated, beside the answers of Apache Kafka."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from support import unreplicated_groups
from support.broker_client import BrokerClient
from support.cluster_nodes import ClusterNodes

from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.classic.group import Group
from kafkatools.core.broker.coordinators.groups.classic.states import GroupState
from kafkatools.core.broker.coordinators.groups.modern.consumer_changes import GroupEpochChange, MemberChange
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import ConsumerGroup
from kafkatools.core.broker.coordinators.groups.modern.consumer_member import ConsumerMember
from kafkatools.core.broker.coordinators.groups.replaced_offsets import ReplacedOffsets
from kafkatools.core.broker.coordinators.groups.replaced_values import Progress
from kafkatools.core.broker.coordinators.groups.replicated_groups import MAX_STATES, ReplicatedGroups


class Cluster:
    """Three nodes in this process, of which the second one can stand still."""

    def __init__(self, root: pathlib.Path) -> None:
        self.nodes = ClusterNodes(root, settings=unreplicated_groups.SETTINGS).start()
        self._clients: list[BrokerClient] = []

    def call(self, api_key: int, version: int, **fields: Any) -> Any:
        return self.nodes.ask(1, api_key, version, **fields)

    def send(self, api_key: int, version: int, **fields: Any) -> None:
        self._clients.append(BrokerClient("127.0.0.1", self.nodes.ports[1][0]))
        self._clients[-1].socket.sendall(self._clients[-1].frame(api_key, version, fields))
        self.nodes.run_for(50)

    def pause_follower(self) -> None:
        self.nodes.run_for(1100)  # beyond group.consumer.assignment.interval.ms, as on the recorded cluster
        self.nodes.paused.add(2)

    def resume_follower(self) -> None:
        self.nodes.paused.clear()

    def eventually(self, is_true: Callable[[], bool]) -> None:
        self.nodes.run_until(is_true)

    def close(self) -> None:
        for client in self._clients:
            client.close()
        self.nodes.close()


@pytest.mark.slow
def test_groups_are_shown_as_replicated(tmp_path: pathlib.Path) -> None:
    cluster = Cluster(tmp_path)
    try:
        assert unreplicated_groups.tell(cluster) == unreplicated_groups.golden()
    finally:
        cluster.close()


class Log:
    """A partition with one batch a record; `high_watermark` moves when the test says so."""

    def __init__(self) -> None:
        self.end = self.high_watermark = 0
        self.groups: dict[str, AnyGroup] = {}
        self.replicated = ReplicatedGroups(self.groups, lambda group_id: Progress(self.end, self.high_watermark))

    def write(self, change: Callable[[], None]) -> None:
        self.end += 1
        self.replicated.note_append("g")
        change()

    def epoch(self) -> int | None:
        group = self.replicated.of("g")
        assert group is None or isinstance(group, ConsumerGroup)
        return None if group is None else group.group_epoch


@pytest.fixture
def log() -> Log:
    return Log()


def _create(log: Log) -> ConsumerGroup:
    group = ConsumerGroup("g")
    log.write(lambda: log.groups.update(g=group))
    return group


def test_each_batch_is_shown_when_it_is_below_the_high_watermark(log: Log) -> None:
    group = _create(log)
    for epoch in (2, 3, 4):
        log.write(lambda epoch=epoch: group.apply(GroupEpochChange(epoch)))  # type: ignore[misc]
    seen = []
    for log.high_watermark in range(5):
        seen.append(log.epoch())
    assert seen == [None, 1, 2, 3, 4]
    assert log.replicated.of("g") is group


def test_members_of_an_earlier_state_are_its_own(log: Log) -> None:
    group = _create(log)
    log.high_watermark = log.end
    log.write(lambda: group.apply(MemberChange("m", ConsumerMember("m"))))
    (shown,) = log.replicated.all()
    assert (list(shown.members), list(group.members)) == ([], ["m"])


def test_a_deleted_group_is_there_until_that_is_replicated(log: Log) -> None:
    group = _create(log)
    log.high_watermark = log.end
    log.write(lambda: log.groups.clear())
    assert [each.group_id for each in log.replicated.all()] == [group.group_id]
    log.high_watermark = log.end
    assert list(log.replicated.all()) == []


def test_a_classic_group_has_its_newest_state_between_creation_and_deletion(log: Log) -> None:
    group = Group("g", 0)
    log.write(lambda: log.groups.update(g=group))
    assert log.replicated.of("g") is None
    log.high_watermark = log.end
    assert log.replicated.of("g") is group
    log.write(lambda: group.transition_to(GroupState.DEAD, 1))
    (shown,) = log.replicated.all()
    assert shown.state_name == "Empty"


def test_of_very_many_changes_the_newest_are_kept(log: Log) -> None:
    group = _create(log)
    for epoch in range(2, 2 + MAX_STATES):
        log.write(lambda epoch=epoch: group.apply(GroupEpochChange(epoch)))  # type: ignore[misc]
    assert log.epoch() == 1  # the group without its creation
    log.high_watermark = 3
    assert log.epoch() == 3


def test_nothing_is_kept_of_a_group_that_another_broker_coordinates(log: Log) -> None:
    _create(log)
    log.groups.clear()
    log.replicated.release(lambda group_id: group_id == "g")
    assert list(log.replicated.all()) == []


def test_copies_of_replicated_groups_do_not_pile_up_where_nobody_lists_groups() -> None:
    end = 0
    replicated = ReplicatedGroups({}, lambda group_id: Progress(end, end - 1))
    held = []
    for number in range(100):
        end += 1
        replicated.note_append(f"g{number}")
        held.append(replicated.copies)
    assert max(held) <= 4


def test_replaced_offsets_that_are_replicated_do_not_pile_up_where_nobody_fetches_them() -> None:
    end = 0
    replaced = ReplacedOffsets(lambda group_id: Progress(end, end - 1))
    held = []
    for number in range(200):
        end += 1
        values = replaced.batch(f"g{number}" if number < 100 else "busy")
        assert values is not None
        values["t", 0] = None
        held.append(replaced.batches)
    assert max(held) <= 4
