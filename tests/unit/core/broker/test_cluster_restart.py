"""All nodes are killed and some come back: brokers in Metadata responses, and leaders."""

from __future__ import annotations

import itertools
import pathlib
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.cluster_nodes import ClusterNodes, has_response

METADATA, CREATE_TOPICS, DESCRIBE_CLUSTER = 3, 19, 60
PLACES = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [3, 2, 1], [2, 1, 3]]
SESSIONS_MS = 3000


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[ClusterNodes]:
    made = ClusterNodes(tmp_path).start()
    yield made
    made.close()


def _create(cluster: ClusterNodes, places: Sequence[Sequence[int]]) -> None:
    assignments = [{"partition_index": index, "broker_ids": list(place)} for index, place in enumerate(places)]
    topic = {"name": "t", "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
    [created] = cluster.ask(1, CREATE_TOPICS, 7, topics=[topic], timeout=30_000).topics
    assert int(created.error_code) == 0
    cluster.run_until(lambda: all(len(node.replicas.partitions.get("t", ())) == 6 for node in cluster.nodes.values()))


def _kill_all(cluster: ClusterNodes) -> None:
    for node_id in cluster.ids:
        cluster.kill(node_id)
    cluster.lines.clear()


def _first_answers(cluster: ClusterNodes) -> dict[int, Any]:
    """The Metadata response of each node to the first connection that it accepts."""
    clients: dict[int, BrokerClient] = {}
    answers: dict[int, Any] = {}

    def ask() -> bool:
        for node_id in cluster.ids:
            if node_id not in clients and _accepts(cluster.ports[node_id][0]):
                client = clients[node_id] = BrokerClient("127.0.0.1", cluster.ports[node_id][0])
                client.socket.sendall(client.frame(METADATA, 12, {"topics": None}))
            elif node_id in clients and node_id not in answers and has_response(clients[node_id]):
                answers[node_id] = clients[node_id].receive(METADATA, 12)
        return len(answers) == len(cluster.ids)

    cluster.run_until(ask)
    for client in clients.values():
        client.close()
    return answers


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 10).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.slow
def test_the_first_answer_of_a_restarted_broker_names_the_broker_and_all_topics(cluster: ClusterNodes) -> None:
    _create(cluster, PLACES)
    _kill_all(cluster)
    for node_id in cluster.ids:
        cluster.start_node(node_id)
    for node_id, answer in _first_answers(cluster).items():
        brokers = [broker.node_id for broker in answer.brokers]
        assert node_id in brokers, f"broker {node_id} is not in its own list {brokers}"
        assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("t", 6)]
        assert answer.cluster_id == cluster.cluster_id


def test_a_broker_names_itself_while_all_brokers_are_fenced(tmp_path: pathlib.Path) -> None:
    cluster = ClusterNodes(tmp_path)
    cluster.voters = (1,)
    try:
        cluster.start_node(1, cluster.controller_only(1))
        for node_id in (2, 3):
            cluster.start_node(node_id, cluster.broker_only(node_id))
        cluster.run_until(lambda: all(node.is_ready for node in cluster.nodes.values()))
        cluster.paused = {2, 3}
        cluster.run_until(lambda: all(each.is_fenced for each in cluster.nodes[1].image.brokers.values()))
        cluster.paused = set()
        node = cluster.nodes[2]
        while not all(each.is_fenced for each in node.image.brokers.values()):
            cluster.turn()
        client = cluster.client(2)
        client.socket.sendall(client.frame(METADATA, 12, {"topics": None}))
        node.run_once(0)
        node.run_once(0)
        assert all(each.is_fenced for each in node.image.brokers.values())
        named = client.receive(METADATA, 12).brokers
        assert [(each.node_id, each.port) for each in named] == [(2, cluster.ports[2][0])]
    finally:
        cluster.close()


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"min.insync.replicas": "2"}], ids=["min-isr-1", "min-isr-2"])
@pytest.mark.parametrize("pair", list(itertools.permutations((1, 2, 3), 2)), ids=str)
def test_any_two_of_three_killed_nodes_serve_all_partitions(
    tmp_path: pathlib.Path, pair: tuple[int, int], settings: dict[str, str]
) -> None:
    cluster = ClusterNodes(tmp_path, settings=settings).start()
    try:
        _create(cluster, PLACES)
        _kill_all(cluster)
        for node_id in pair:
            cluster.start_node(node_id)
            cluster.run_for(100)
        took_ms = cluster.run_until(lambda: _is_served_by(cluster, pair))
        assert took_ms < SESSIONS_MS
        fenced = [line for line in cluster.lines if "session has timed out" in line]
        [absent] = {1, 2, 3} - set(pair)
        assert [line.split()[3] for line in fenced][0] == str(absent)
    finally:
        cluster.close()


def _is_served_by(cluster: ClusterNodes, pair: Sequence[int]) -> bool:
    active = [node for node in cluster.nodes.values() if node.controller.is_active]
    if not active:
        return False
    partitions = active[0].controller.image.topics["t"].partitions.values()
    return all(each.leader in pair and set(each.isr) == set(pair) for each in partitions)
