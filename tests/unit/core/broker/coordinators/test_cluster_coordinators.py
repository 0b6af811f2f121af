"""Groups, transactions and share groups of three real nodes, while the node that coordinates them is killed."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker_client import batch
from support.cluster_nodes import ClusterNodes

from kafkatools.core.broker.coordinators.internal_topic import partition_for

PRODUCE, COMMIT, FETCH, FIND, JOIN, BEAT, SYNC = 0, 8, 9, 10, 11, 12, 14
INIT, END, OFFSET_COMMIT, DESCRIBE, HEARTBEAT, LIST_GROUPS, SHARE_FETCH = 22, 26, 28, 65, 76, 16, 78
NOT_COORDINATOR, NOT_LEADER = 16, 6
GROUP, ID = "g", "x"
REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "min.insync.replicas": "2",
}


class Cluster(ClusterNodes):
    """Three nodes with a topic `t`."""

    def coordinator(self, key: str, kind: int, excluded: int = 0) -> int:
        """Who coordinates a key, when it is somebody else than `excluded`."""
        found: list[int] = []

        def is_found() -> bool:
            asked = min(self.nodes)
            (answer,) = self.ask(asked, FIND, 4, key_type=kind, coordinator_keys=[key]).coordinators
            found[:] = [] if answer.error_code or answer.node_id == excluded else [answer.node_id]
            return bool(found)

        self.run_until(is_found)
        return found[0]

    def ask_until(self, node_id: int, code_of: Any, *request: Any, **fields: Any) -> Any:
        """Ask again until the answer has no error any more."""
        answers: list[Any] = []

        def is_answered() -> bool:
            answers.append(self.ask(node_id, *request, **fields))
            return not code_of(answers[-1])

        self.run_until(is_answered)
        return answers[-1]

    def commit(self, node_id: int, offset: int) -> int:
        partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
        topics = [{"name": "t", "partitions": partitions}]
        fields = {"group_id": GROUP, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        return int(self.ask(node_id, COMMIT, 8, **fields).topics[0].partitions[0].error_code)

    def committed(self, node_id: int, *, is_stable: bool = True) -> Any:
        group = {"group_id": GROUP, "topics": [{"name": "t", "partition_indexes": [0]}]}
        (found,) = self.ask(node_id, FETCH, 8, groups=[group], require_stable=is_stable).groups
        if found.error_code:
            return int(found.error_code), -1
        (row,) = found.topics[0].partitions
        return int(row.error_code), row.committed_offset


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, settings=REPLICATED)
    made.start()
    made.create_topic("t", 3)
    yield made
    made.close()


@pytest.mark.slow
def test_a_group_goes_on_when_its_coordinator_is_killed(cluster: Cluster) -> None:
    first = cluster.coordinator(GROUP, 0)
    protocols = [{"name": "range", "metadata": b"subscription"}]
    join = {
        "group_id": GROUP,
        "session_timeout": 10_000,
        "rebalance_timeout": 60_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": protocols,
    }
    joined = cluster.ask(first, JOIN, 3, **join)
    assert int(joined.error_code) == 0
    member = {"group_id": GROUP, "generation_id": joined.generation_id, "member_id": joined.member_id}
    assignments = [{"member_id": joined.member_id, "assignment": b"all"}]
    assert int(cluster.ask(first, SYNC, 3, **member, assignments=assignments).error_code) == 0
    for node_id in cluster.ids:
        listed = cluster.ask(node_id, LIST_GROUPS, 4, states_filter=[]).groups
        assert [group.group_id for group in listed] == ([GROUP] if node_id == first else [])
        code = int(cluster.ask(node_id, BEAT, 3, **member).error_code)
        assert code == (0 if node_id == first else NOT_COORDINATOR)
    cluster.kill(first)
    second = cluster.coordinator(GROUP, 0, first)
    cluster.ask_until(second, lambda answer: answer.error_code, BEAT, 3, **member)
    synced = cluster.ask(second, SYNC, 3, **member, assignments=[])
    assert (int(synced.error_code), bytes(synced.assignment)) == (0, b"all")


@pytest.mark.slow
def test_what_was_committed_outlives_one_coordinator_after_the_other(cluster: Cluster) -> None:
    coordinator = cluster.coordinator(GROUP, 0)
    for offset in (5, 6):
        assert cluster.commit(coordinator, offset) == 0
        assert cluster.committed(coordinator) == (0, offset)
        killed = coordinator
        cluster.kill(killed)
        coordinator = cluster.coordinator(GROUP, 0, killed)
        cluster.run_until(lambda: cluster.committed(coordinator) == (0, offset))  # noqa: B023 - called at once
        cluster.start_node(killed)
        cluster.run_until(
            lambda: all(
                len(partition.isr) == 3
                for topic in cluster.controller.image.topics.values()
                for partition in topic.partitions.values()
            )
        )


def begin(cluster: Cluster, coordinator: int) -> tuple[int, int]:
    """A transaction with a record in each partition and an offset, its end not yet asked for."""
    fields = {"transactional_id": ID, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
    begun = cluster.ask_until(coordinator, lambda answer: answer.error_code, INIT, 4, **fields)
    producer = (begun.producer_id, begun.producer_epoch)
    for index in range(3):
        records = batch(
            [b"v"],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=0,
            is_transactional=True,
            partition_leader_epoch=0,
        )
        data = [{"name": "t", "partition_data": [{"index": index, "records": records}]}]
        fields = {"transactional_id": ID, "acks": -1, "timeout": 5000, "topic_data": data}
        answer = cluster.ask_until(cluster.leader("t", index), _produced, PRODUCE, 12, **fields)
        assert _produced(answer) == 0
    partitions = [{"partition_index": 0, "committed_offset": 9, "committed_metadata": None}]
    fields = {
        "transactional_id": ID,
        "group_id": GROUP,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "generation_id": -1,
        "member_id": "",
        "topics": [{"name": "t", "partitions": partitions}],
    }
    cluster.ask_until(
        cluster.coordinator(GROUP, 0), lambda a: a.topics[0].partitions[0].error_code, OFFSET_COMMIT, 5, **fields
    )
    return producer


def _produced(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


def markers(cluster: Cluster) -> list[int]:
    """How far readers of committed records may read each partition of `t`."""
    found = []
    for index in range(3):
        node = cluster.nodes.get(cluster.leader("t", index))
        partition = None if node is None else node.replicas.partitions["t"].get(index)
        found.append(-1 if partition is None else partition.log.last_stable_offset)
    return found


def state(cluster: Cluster, coordinator: int) -> str:
    (found,) = cluster.ask(coordinator, DESCRIBE, 0, transactional_ids=[ID]).transaction_states
    return str(found.transaction_state)


@pytest.mark.slow
def test_a_transaction_over_all_nodes_is_committed(cluster: Cluster) -> None:
    coordinator = cluster.coordinator(ID, 1)
    producer = begin(cluster, coordinator)
    assert {cluster.leader("t", index) for index in range(3)} == {1, 2, 3}
    assert (markers(cluster), state(cluster, coordinator)) == ([0, 0, 0], "Ongoing")
    assert cluster.committed(cluster.coordinator(GROUP, 0)) == (88, -1)
    fields = {"transactional_id": ID, "producer_id": producer[0], "producer_epoch": producer[1], "committed": True}
    assert int(cluster.ask(coordinator, END, 5, **fields).error_code) == 0
    cluster.run_until(lambda: state(cluster, coordinator) == "CompleteCommit")
    cluster.run_until(lambda: markers(cluster) == [2, 2, 2])
    assert cluster.committed(cluster.coordinator(GROUP, 0)) == (0, 9)


@pytest.mark.slow
def test_a_coordinator_that_is_killed_between_the_decision_and_the_markers(cluster: Cluster) -> None:
    """Nothing it sends arrives after the end is answered; the next coordinator writes the markers."""
    coordinator = cluster.coordinator(ID, 1)
    producer = begin(cluster, coordinator)
    channel: Any = cluster.nodes[coordinator].coordination.host.channel
    channel.send = lambda *_args, **_options: None
    fields = {"transactional_id": ID, "producer_id": producer[0], "producer_epoch": producer[1], "committed": True}
    assert int(cluster.ask(coordinator, END, 5, **fields).error_code) == 0
    cluster.run_for(500)
    assert state(cluster, coordinator) == "PrepareCommit"
    assert sorted(markers(cluster)) != [2, 2, 2]
    cluster.kill(coordinator)
    second = cluster.coordinator(ID, 1, coordinator)
    cluster.run_until(lambda: state(cluster, second) == "CompleteCommit")
    cluster.run_until(lambda: min(markers(cluster)) >= 2)
    groups = cluster.coordinator(GROUP, 0, coordinator)
    cluster.run_until(lambda: cluster.committed(groups) == (0, 9))
    again = cluster.ask(second, END, 5, **fields)
    assert (int(again.error_code), again.producer_epoch) == (0, producer[1] + 1), "the answer may have been lost"


@pytest.mark.slow
def test_a_share_group_gets_its_partitions_from_coordinators_on_other_nodes(cluster: Cluster) -> None:
    coordinator = cluster.coordinator(GROUP, 0)

    def beat(node_id: int, epoch: int) -> Any:
        names = ["t"] if epoch == 0 else None
        fields = {"group_id": GROUP, "member_id": "m", "member_epoch": epoch, "subscribed_topic_names": names}
        return cluster.ask(node_id, HEARTBEAT, 1, **fields)

    answer = beat(coordinator, 0)
    assert int(answer.error_code) == 0
    answers = [answer]

    def has_all() -> bool:
        answers.append(beat(coordinator, answers[-1].member_epoch))
        topics = answers[-1].assignment.topic_partitions if answers[-1].assignment is not None else ()
        return [sorted(each.partitions) for each in topics] == [[0, 1, 2]]

    cluster.run_until(has_all)
    epoch = answers[-1].member_epoch
    cluster.kill(coordinator)
    second = cluster.coordinator(GROUP, 0, coordinator)
    cluster.run_until(lambda: not beat(second, epoch).error_code)


@pytest.mark.slow
def test_coordinators_are_spread_over_the_nodes(cluster: Cluster) -> None:
    names = [f"group-{number}" for number in range(12)]
    found = {partition_for(name, 3): cluster.coordinator(name, 0) for name in names}
    topic = cluster.nodes[1].image.topics["__consumer_offsets"]
    assert found == {index: state.leader for index, state in topic.partitions.items()}
    assert set(found.values()) == {1, 2, 3}


def test_a_share_fetch_from_another_node_is_told_the_leader(cluster: Cluster) -> None:
    topic = cluster.nodes[1].image.topics["t"]
    leader = cluster.leader("t", 0)
    other = next(node_id for node_id in cluster.ids if node_id != leader)
    places = [{"topic_id": topic.topic_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}]
    fields = {"group_id": GROUP, "member_id": "m", "share_session_epoch": 0, "max_wait": 500, "topics": places}
    sizes = {"min_bytes": 1, "max_bytes": 1000, "max_records": 10, "batch_size": 10}
    answer = cluster.ask(other, SHARE_FETCH, 1, **fields, **sizes)
    (partition,) = answer.responses[0].partitions
    assert (int(partition.error_code), partition.current_leader.leader_id) == (NOT_LEADER, leader)
    assert partition.current_leader.leader_epoch == topic.partitions[0].leader_epoch
    (endpoint,) = answer.node_endpoints
    assert (endpoint.node_id, endpoint.port) == (leader, cluster.ports[leader][0])
