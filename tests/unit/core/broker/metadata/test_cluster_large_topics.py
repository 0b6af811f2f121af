"""One topic of very many partitions in a cluster: the controller plans it and the brokers decode it while others are
answered; every node has all of the topic or nothing, whatever happens in between."""

from __future__ import annotations

import pathlib
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.cluster_nodes import ClusterNodes, has_response

from kafkatools.core.broker.metadata import metadata_follower, metadata_log
from kafkatools.core.broker.metadata.controller import client_changes
from kafkatools.core.broker.node import Node
from kafkatools.core.broker.server.slow_lane import SlowLane

METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, ALTER_REASSIGNMENTS = 3, 18, 19, 20, 37, 45
NONE, REQUEST_TIMED_OUT = 0, 7
CLIENT = {"client_software_name": "a", "client_software_version": "1"}
COUNT = 90


class HeldLane(SlowLane):
    """A slow lane with the shortest slices. A test holds its requests between two of them; later requests go on."""

    def __init__(self) -> None:
        super().__init__(slice_ns=0)
        self._held: deque[Any] = deque()

    @property
    def is_held(self) -> bool:
        return bool(self._held)

    @is_held.setter
    def is_held(self, is_held: bool) -> None:
        if is_held:
            self._held, self._active = self._active, deque()
        else:
            self._active.extend(self._held)
            self._held.clear()

    def close(self) -> None:
        self.is_held = False
        super().close()


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_changes, "PARTITIONS_AT_ONCE", 10)
    monkeypatch.setattr(client_changes, "CHANGES_AT_ONCE", 10)
    monkeypatch.setattr(metadata_follower, "RECORDS_AT_ONCE", 10)
    monkeypatch.setattr(metadata_log, "RECORDS_AT_ONCE", 10)


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[ClusterNodes]:
    made = ClusterNodes(tmp_path).start()
    yield made
    made.close()


def creation(count: int = COUNT, replication: int = 1) -> dict[str, Any]:
    topic = {"name": "t", "num_partitions": count, "replication_factor": replication}
    return {"topics": [topic], "timeout": 30_000}


def sizes(cluster: ClusterNodes) -> set[int]:
    """How many partitions of the topic the nodes have, in the images of brokers and controllers."""
    images = [node.image for node in cluster.nodes.values()]
    images += [node.controller.image for node in cluster.nodes.values() if node.controller.is_active]
    return {len(image.topics["t"].partitions) if "t" in image.topics else 0 for image in images}


def others(cluster: ClusterNodes) -> list[Node]:
    return [node for node in cluster.nodes.values() if not node.controller.is_active]


def begin(cluster: ClusterNodes, asked: int, api_key: int, version: int, fields: Any) -> tuple[BrokerClient, HeldLane]:
    """Send a request, turn until the controller has begun it, and hold it there."""
    lane = cluster.controller.listener.lane = HeldLane()
    client = cluster.client(asked)
    client.socket.sendall(client.frame(api_key, version, fields))
    cluster.run_until(lambda: cluster.controller.controller.is_amid_sliced_change)
    lane.is_held = True
    return client, lane


def codes(client: BrokerClient, cluster: ClusterNodes, api_key: int, version: int) -> list[int]:
    cluster.run_until(lambda: has_response(client))
    answer = client.receive(api_key, version)
    names = {CREATE_TOPICS: "topics", CREATE_PARTITIONS: "results"}
    return [int(each.error_code) for each in getattr(answer, names.get(api_key, "responses"))]


@pytest.mark.slow
@pytest.mark.parametrize("is_forwarded", [False, True])
@pytest.mark.parametrize("api_key", [CREATE_TOPICS, CREATE_PARTITIONS])
def test_the_controller_answers_others_while_it_plans_and_every_node_gets_the_whole_topic(
    cluster: ClusterNodes, api_key: int, is_forwarded: bool
) -> None:
    active = cluster.controller.node_id
    asked = next(node_id for node_id in cluster.ids if (node_id != active) == is_forwarded)
    fields = creation()
    before = 0
    if api_key == CREATE_PARTITIONS:
        cluster.create_topic("t", 1, 1)
        fields = {"topics": [{"name": "t", "count": COUNT, "assignments": None}], "timeout": 30_000}
        fields |= {"validate_only": False}
        before = 1
    version = 3 if api_key == CREATE_PARTITIONS else 4
    client, lane = begin(cluster, asked, api_key, version, fields)
    with BrokerClient("127.0.0.1", cluster.ports[active][0]) as other:
        other.socket.sendall(other.frame(API_VERSIONS, 3, CLIENT))
        cluster.run_until(lambda: has_response(other))
    assert sizes(cluster) == {before}
    lane.is_held = False
    seen: set[int] = set()
    cluster.run_until(lambda: seen.update(sizes(cluster)) or sizes(cluster) == {COUNT})
    assert seen == {before, COUNT}
    assert codes(client, cluster, api_key, version) == [NONE]


@pytest.mark.slow
def test_a_broker_answers_others_while_it_decodes_a_large_batch(cluster: ClusterNodes) -> None:
    follower = others(cluster)[0]
    client = cluster.client(cluster.ids[0])
    client.socket.sendall(client.frame(CREATE_TOPICS, 4, creation()))
    cluster.run_until(lambda: follower.member.follower.has_unreplayed or has_response(client))
    assert follower.member.follower.has_unreplayed
    cluster.paused.update(node_id for node_id in cluster.ids if node_id != follower.node_id)
    with BrokerClient("127.0.0.1", cluster.ports[follower.node_id][0]) as other:
        other.socket.sendall(other.frame(METADATA, 9, {"topics": None}))
        cluster.run_until(lambda: has_response(other))
        topics = other.receive(METADATA, 9).topics
    assert [len(topic.partitions) for topic in topics] in ([], [COUNT])
    cluster.paused.clear()
    cluster.run_until(lambda: sizes(cluster) == {COUNT})


@pytest.mark.slow
def test_a_controller_that_loses_the_leadership_while_it_plans_leaves_no_part_of_the_topic(
    cluster: ClusterNodes,
) -> None:
    active = cluster.controller
    client, lane = begin(cluster, active.node_id, CREATE_TOPICS, 4, creation())
    active.raft.resign(cluster.clock.now_ms())
    cluster.run_until(lambda: any(node.controller.is_active for node in cluster.nodes.values()))
    lane.is_held = False
    assert codes(client, cluster, CREATE_TOPICS, 4) == [REQUEST_TIMED_OUT]
    cluster.run_for(1000)
    assert sizes(cluster) == {0}


@pytest.mark.slow
def test_a_broker_that_is_fenced_while_a_topic_is_planned_leads_none_of_its_partitions(cluster: ClusterNodes) -> None:
    active = cluster.controller
    fenced = others(cluster)[0].node_id
    client, lane = begin(cluster, active.node_id, CREATE_TOPICS, 4, creation(replication=3))
    cluster.paused.add(fenced)
    cluster.run_until(lambda: active.controller.image.brokers[fenced].is_fenced)
    lane.is_held = False
    assert codes(client, cluster, CREATE_TOPICS, 4) == [NONE]
    partitions = active.controller.image.topics["t"].partitions.values()
    assert len(partitions) == COUNT
    assert not any(partition.leader == fenced or fenced in partition.isr for partition in partitions)
    cluster.paused.clear()


@pytest.mark.slow
def test_brokers_delete_the_partitions_of_a_topic_in_portions(
    cluster: ClusterNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("t", COUNT, 3)
    node = others(cluster)[0]
    cluster.run_until(lambda: len(node.replicas.partitions.get("t", ())) == COUNT)
    portions: list[int] = []
    apply = node.member.follower._node.apply_delta

    def counted(delta: Any) -> None:
        before = len(node.logs.logs)
        apply(delta)
        portions.append(before - len(node.logs.logs))

    monkeypatch.setattr(node.member.follower._node, "apply_delta", counted)
    deleted = cluster.ask(cluster.ids[0], DELETE_TOPICS, 5, topic_names=["t"], timeout=30_000)
    assert [int(each.error_code) for each in deleted.responses] == [NONE]
    cluster.run_until(lambda: not node.logs.logs)
    assert max(portions) == metadata_follower.SLICE_PARTITIONS
    assert "t" not in node.replicas.partitions


@pytest.mark.slow
def test_a_reassignment_of_many_partitions_is_written_in_portions(cluster: ClusterNodes) -> None:
    cluster.create_topic("t", COUNT, 1)
    active = cluster.controller
    targets = {
        index: [broker for broker in cluster.ids if broker not in state.replicas][:1]
        for index, state in active.controller.image.topics["t"].partitions.items()
    }
    moved = [{"partition_index": index, "replicas": replicas} for index, replicas in targets.items()]
    fields = {"topics": [{"name": "t", "partitions": moved}], "timeout": 30_000}
    client, lane = begin(cluster, active.node_id, ALTER_REASSIGNMENTS, 1, fields)
    lane.is_held = False
    cluster.run_until(lambda: reassigned(active) > 0)
    assert reassigned(active) < COUNT
    cluster.run_until(lambda: has_response(client))
    answer = client.receive(ALTER_REASSIGNMENTS, 1)
    assert [each.error_code for each in answer.responses[0].partitions] == [NONE] * COUNT
    cluster.run_until(lambda: current(active) == targets)


def reassigned(node: Node) -> int:
    """How many partitions have another replica list than at first."""
    return sum(len(state.replicas) > 1 for state in node.controller.image.topics["t"].partitions.values())


def current(node: Node) -> dict[int, list[int]]:
    return {index: list(state.replicas) for index, state in node.controller.image.topics["t"].partitions.items()}
