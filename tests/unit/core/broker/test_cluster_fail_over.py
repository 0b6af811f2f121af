"""A broker of three is killed: how long its partitions have no leader, with Kafka's default times."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from support.broker_client import batch
from support.cluster_nodes import ClusterNodes, has_response

SESSION_MS = 9000
LIMIT_MS = SESSION_MS + 1000
PARTITIONS = 6
METADATA, PRODUCE = 3, 0


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[ClusterNodes]:
    brokers = {"broker.session.timeout.ms": str(SESSION_MS), "broker.heartbeat.interval.ms": "2000"}
    quorum = {"controller.quorum.election.timeout.ms": "1000", "controller.quorum.election.backoff.max.ms": "1000"}
    made = ClusterNodes(tmp_path, settings={**brokers, **quorum}).start()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("is_controller", [True, False])
def test_partitions_of_a_killed_leader_are_written_again_after_its_session_and_a_second(
    cluster: ClusterNodes, is_controller: bool
) -> None:
    cluster.create_topic("t", partitions=PARTITIONS)
    active = cluster.controller.node_id
    killed = active if is_controller else next(node_id for node_id in cluster.ids if node_id != active)
    partition = next(index for index in range(PARTITIONS) if cluster.leader("t", index) == killed)
    asked = next(node_id for node_id in cluster.ids if node_id != killed)
    begun_ms = cluster.clock.now_ms()
    cluster.kill(killed)
    while _produce(cluster, asked, partition) != 0:
        cluster.run_for(100)
    assert cluster.clock.now_ms() - begun_ms <= LIMIT_MS


def _produce(cluster: ClusterNodes, asked: int, partition: int) -> int:
    """The error code of a write with acks=all to the leader that a broker names; -1 if it names none that runs."""
    [topic] = cluster.ask(asked, METADATA, 12, topics=[{"name": "t"}]).topics
    leader = {int(each.partition_index): int(each.leader_id) for each in topic.partitions}[partition]
    if leader not in cluster.nodes:
        return -1
    client = cluster.client(leader)
    data = [{"name": "t", "partition_data": [{"index": partition, "records": batch([b"x"])}]}]
    fields = {"transactional_id": None, "acks": -1, "timeout": 30_000, "topic_data": data}
    client.socket.sendall(client.frame(PRODUCE, 9, fields))
    cluster.run_until(lambda: has_response(client))
    return int(client.receive(PRODUCE, 9).responses[0].partition_responses[0].error_code)
