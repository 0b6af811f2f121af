"""Nodes of a cluster with several log directories: the controller knows where replicas are, and lets others lead what
lay in a directory that failed."""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterator

import pytest
from support.broker_client import batch
from support.cluster_nodes import ClusterNodes

from kafkatools.core.broker.metadata.formatter import FormatRequest, PlannedDirectory, random_uuid, write_directory
from kafkatools.core.broker.node import Node
from kafkatools.core.log.files import Buffer, RealFileSystem

PRODUCE, CREATE_TOPICS, ALTER_LOG_DIRS, ALTER_REASSIGNMENTS, STORAGE_ERROR, REPLICA_NOT_AVAILABLE = 0, 19, 34, 45, 56, 9


def fail_writes_below(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write to a file below the directory fails with EIO from now on."""
    write = os.pwrite

    def fail(descriptor: int, data: Buffer, position: int) -> int:
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(directory):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return write(descriptor, data, position)

    monkeypatch.setattr(os, "pwrite", fail)


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[ClusterNodes]:
    made = ClusterNodes(tmp_path)
    yield made
    made.close()


def start(cluster: ClusterNodes, node_id: int) -> None:
    """Start a node with two directories."""
    second = str(cluster.root / f"more-{node_id}")
    if not os.path.exists(second):
        request = FormatRequest(cluster.cluster_id, node_id, (second,), "", {"metadata.version": 29})
        planned = PlannedDirectory(second, "data directory", random_uuid())
        write_directory(RealFileSystem(), request, planned, cluster.clock.wall_ms())
    cluster.start_node(node_id, {"log.dirs": f"{cluster.root}/node-{node_id},{second}"})


def place_of(node: Node, topic: str, index: int) -> uuid.UUID | None:
    """The id of the directory of a replica, None while it is not there."""
    partition = node.replicas.partitions.get(topic, {}).get(index)
    return None if partition is None or node.keeper is None else node.keeper.directory_of(partition)


def knows_places(cluster: ClusterNodes) -> bool:
    """Whether the metadata has every replica where it is."""
    image = cluster.controller.image
    return all(
        state.directory(node.node_id) == place_of(node, topic.name, index)
        for node in cluster.nodes.values()
        for topic in image.topics.values()
        for index, state in topic.partitions.items()
        if node.keeper is not None and node.node_id in state.replicas
    )


def metadata_directory_id(cluster: ClusterNodes, node_id: int) -> uuid.UUID | None:
    """The id of the directory with the metadata log."""
    node = cluster.nodes[node_id]
    directory = node.logs.find_directory(node.log_directory)
    assert directory is not None
    return directory.directory_id


def produce(cluster: ClusterNodes, index: int, acks: int = 1) -> int:
    """One record to whoever leads; the error code."""
    data = [{"name": "t", "partition_data": [{"index": index, "records": batch([b"x"])}]}]
    fields = {"transactional_id": None, "acks": acks, "timeout": 5000, "topic_data": data}
    answer = cluster.ask(cluster.leader("t", index), PRODUCE, 9, **fields)
    return int(answer.responses[0].partition_responses[0].error_code)


@pytest.mark.slow
def test_others_lead_what_lay_in_a_directory_that_failed(
    cluster: ClusterNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for node_id in cluster.ids:
        start(cluster, node_id)
    cluster.run_until(lambda: all(node.is_ready for node in cluster.nodes.values()))
    assignments = [
        {"partition_index": index, "broker_ids": [2, 3, 1] if index & 2 else [1, 2, 3]} for index in range(8)
    ]
    topic = {"name": "t", "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
    assert cluster.ask(1, CREATE_TOPICS, 7, topics=[topic], timeout=30_000).topics[0].error_code == 0
    cluster.run_until(lambda: all("t" in node.image.topics for node in cluster.nodes.values()))
    cluster.run_until(lambda: knows_places(cluster))
    broken = str(cluster.root / "more-2")
    image = cluster.controller.image
    (lost_id,) = (each.directory_id for each in cluster.nodes[2].logs.directories if each.path == broken)
    lying = {index for index, state in image.topics["t"].partitions.items() if state.directory(2) == lost_id}
    led = {index for index in range(8) if cluster.leader("t", index) == 2}
    assert (lying, led) == ({1, 3, 5, 7}, {2, 3, 6, 7})
    fail_writes_below(broken, monkeypatch)
    assert produce(cluster, min(lying & led)) == STORAGE_ERROR
    cluster.run_until(lambda: all(cluster.leader("t", index) != 2 for index in lying))
    assert {index for index in range(8) if cluster.leader("t", index) == 2} == led - lying
    cluster.run_until(lambda: all(2 not in image.topics["t"].partitions[index].isr for index in lying))
    assert [produce(cluster, index) for index in range(8)] == [0] * 8
    assert image.brokers[2].log_dirs == (metadata_directory_id(cluster, 2),)
    cluster.run_for(2000)
    assert all(set(image.topics["t"].partitions[index].isr) == {1, 2, 3} for index in set(range(8)) - lying)


@pytest.mark.slow
def test_writes_do_not_wait_for_a_follower_whose_directory_failed(
    cluster: ClusterNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The follower is out of the ISR and fetches no more, so the high watermark must not wait for it."""
    for node_id in cluster.ids:
        start(cluster, node_id)
    cluster.run_until(lambda: all(node.is_ready for node in cluster.nodes.values()))
    assignments = [{"partition_index": index, "broker_ids": [1, 2, 3]} for index in range(4)]
    topic = {"name": "t", "num_partitions": -1, "replication_factor": -1, "assignments": assignments}
    assert cluster.ask(1, CREATE_TOPICS, 7, topics=[topic], timeout=30_000).topics[0].error_code == 0
    cluster.run_until(lambda: knows_places(cluster) and len(cluster.nodes[2].replicas.partitions.get("t", {})) == 4)
    assert [produce(cluster, index, acks=-1) for index in range(4)] == [0] * 4
    broken = str(cluster.root / "more-2")
    fail_writes_below(broken, monkeypatch)
    begun_ms = cluster.clock.now_ms()
    assert [produce(cluster, index, acks=-1) for index in range(4)] == [0] * 4
    states = cluster.controller.image.topics["t"].partitions.values()
    assert sorted(len(state.isr) for state in states) == [2, 2, 3, 3]
    assert cluster.clock.now_ms() - begun_ms < 2000


@pytest.mark.slow
def test_a_disk_that_was_wiped_is_filled_again_and_the_controller_hears_of_its_new_id(cluster: ClusterNodes) -> None:
    cluster.start()
    cluster.create_topic("t", 2)
    cluster.run_until(lambda: knows_places(cluster))
    old = metadata_directory_id(cluster, 3)
    assert [produce(cluster, index, acks=-1) for index in range(2)] == [0, 0]
    cluster.kill(3)
    shutil.rmtree(cluster.root / "node-3")
    cluster.run_until(lambda: all(cluster.leader("t", index) != 3 for index in range(2)))
    cluster.start_node(3)
    assert metadata_directory_id(cluster, 3) != old
    cluster.run_until(lambda: cluster.nodes[3].is_ready and knows_places(cluster))
    states = cluster.controller.image.topics["t"].partitions
    cluster.run_until(lambda: all(set(states[index].isr) == {1, 2, 3} for index in range(2)))
    ends = [cluster.nodes[3].replicas.partitions["t"][index].log.log_end_offset for index in range(2)]
    assert ends == [1, 1]


@pytest.mark.slow
def test_a_follower_moves_between_its_directories(cluster: ClusterNodes) -> None:
    for node_id in cluster.ids:
        start(cluster, node_id)
    cluster.run_until(lambda: all(node.is_ready for node in cluster.nodes.values()))
    cluster.create_topic("t", 1)
    for _ in range(5):
        assert produce(cluster, 0) == 0
    follower = next(node_id for node_id in cluster.ids if node_id != cluster.leader("t"))
    node = cluster.nodes[follower]
    path = str(cluster.root / f"more-{follower}")
    wanted = [{"path": path, "topics": [{"name": "t", "partitions": [0]}]}]
    answer = cluster.ask(follower, ALTER_LOG_DIRS, 2, dirs=wanted)
    assert answer.results[0].partitions[0].error_code == 0
    partition = node.replicas.partitions["t"][0]
    cluster.run_until(lambda: node.logs.directory_of(partition.log).path == path and knows_places(cluster))
    assert produce(cluster, 0) == 0
    cluster.run_until(lambda: partition.log.log_end_offset == 6)
    assert set(cluster.controller.image.topics["t"].partitions[0].isr) == {1, 2, 3}


@pytest.mark.slow
def test_a_broker_that_cannot_tell_of_a_failed_directory_ends(cluster: ClusterNodes) -> None:
    for node_id in cluster.ids:
        start(cluster, node_id)
    cluster.run_until(lambda: all(node.is_ready for node in cluster.nodes.values()))
    node = cluster.nodes[2]
    (directory,) = (each for each in node.logs.directories if each.path.endswith("more-2"))
    for other in (1, 3):
        cluster.kill(other)
    node.logs.note_failure(directory, OSError(errno.EIO, "Input/output error"))
    assert node.failure is None
    cluster.run_until(lambda: node.failure is not None)
    assert str(node.failure).startswith("Shutting down because couldn't communicate offline log dir ")


def test_without_the_metadatas_directory_a_node_ends(cluster: ClusterNodes) -> None:
    for node_id in cluster.ids:
        start(cluster, node_id)
    cluster.run_until(lambda: all(node.is_ready for node in cluster.nodes.values()))
    node = cluster.nodes[3]
    node.logs.note_failure(node.logs.directories[0], OSError(errno.EIO, "Input/output error"))
    cluster.run_until(lambda: node.failure is not None)
    assert str(node.failure) == f"Shutdown broker because the metadata log dir {node.log_directory} has failed"


@pytest.mark.slow
def test_a_new_replica_goes_where_it_was_said_that_it_should_be(cluster: ClusterNodes) -> None:
    """As the reassignment tool does it with log_dirs: the directory first, then the replica."""
    for node_id in cluster.ids:
        start(cluster, node_id)
    cluster.run_until(lambda: all(node.is_ready for node in cluster.nodes.values()))
    cluster.create_topic("t", 1, 1)
    assert produce(cluster, 0, acks=-1) == 0
    target = next(node_id for node_id in cluster.ids if node_id != cluster.leader("t"))
    path = str(cluster.root / f"more-{target}")
    wanted = [{"path": path, "topics": [{"name": "t", "partitions": [0]}]}]
    answer = cluster.ask(target, ALTER_LOG_DIRS, 2, dirs=wanted)
    assert answer.results[0].partitions[0].error_code == REPLICA_NOT_AVAILABLE
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [target]}]}]
    moved = cluster.ask(target, ALTER_REASSIGNMENTS, 0, topics=topics, timeout=30_000)
    assert (moved.error_code, moved.responses[0].partitions[0].error_code) == (0, 0)
    cluster.run_until(lambda: cluster.leader("t") == target and knows_places(cluster))
    log = cluster.nodes[target].replicas.partitions["t"][0].log
    assert (cluster.nodes[target].logs.directory_of(log).path, log.log_end_offset) == (path, 1)
