"""A cluster whose controllers join and leave the quorum (KIP-853): through brokers that are not the leader, whoever
leads, and with what was written before."""

from __future__ import annotations

import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from support.cluster_nodes import ClusterNodes
from support.ports import free_port

from kafkatools.core.errors import DuplicateVoter, InconsistentClusterId, InvalidUpdateVersion, VoterNotFound

ADD_RAFT_VOTER, REMOVE_RAFT_VOTER, DESCRIBE_QUORUM, API_VERSIONS, UPDATE_FEATURES = 80, 81, 55, 18, 57
QUORUM = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[ClusterNodes]:
    """Node 1 is the only voter, nodes 2 and 3 find it by controller.quorum.bootstrap.servers."""
    made = ClusterNodes(tmp_path)
    made.settings |= {
        "controller.quorum.voters": "",
        "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for _, port in made.ports.values()),
    }
    made.format(1, made.cluster_id, standalone=True)
    try:
        yield made.start()
    finally:
        made.close()


def _directory(cluster: ClusterNodes, node_id: int) -> uuid.UUID:
    found = cluster.nodes[node_id].directories.metadata_id
    assert found is not None
    return found


def _add(cluster: ClusterNodes, node_id: int, *, by: int, **fields: Any) -> Any:
    listener = {"name": "CONTROLLER", "host": "127.0.0.1", "port": cluster.ports[node_id][1]}
    request = {
        "cluster_id": cluster.cluster_id,
        "timeout": 5000,
        "voter_id": node_id,
        "voter_directory_id": _directory(cluster, node_id),
        "listeners": [listener],
        **fields,
    }
    return cluster.ask(by, ADD_RAFT_VOTER, 1, **request)


def _remove(cluster: ClusterNodes, node_id: int, directory_id: uuid.UUID, *, by: int) -> Any:
    fields = {"cluster_id": cluster.cluster_id, "voter_id": node_id, "voter_directory_id": directory_id}
    return cluster.ask(by, REMOVE_RAFT_VOTER, 0, **fields)


def _quorum(cluster: ClusterNodes, by: int) -> Any:
    return cluster.ask(by, DESCRIBE_QUORUM, 2, topics=QUORUM).topics[0].partitions[0]


def _voters(cluster: ClusterNodes, by: int) -> dict[int, uuid.UUID | None]:
    return {voter.replica_id: voter.replica_directory_id for voter in _quorum(cluster, by).current_voters}


@pytest.mark.slow
def test_controllers_join_and_the_first_one_may_leave(cluster: ClusterNodes) -> None:
    directories = {node_id: _directory(cluster, node_id) for node_id in cluster.ids}
    assert _voters(cluster, 3) == {1: directories[1]}
    cluster.create_topic("before", replication=3)
    for node_id in (2, 3):
        added = _add(cluster, node_id, by=3)
        assert (added.error_code, added.error_message) == (0, None)
    assert _voters(cluster, 2) == directories

    cluster.kill(1)
    cluster.run_until(lambda: any(node.controller.is_active for node in cluster.nodes.values()))
    cluster.create_topic("after", replication=1)
    other = cluster.controller.node_id
    removed = _remove(cluster, 1, directories[1], by=5 - other)
    assert (removed.error_code, removed.error_message) == (0, None)
    del directories[1]
    assert _voters(cluster, other) == directories

    cluster.start_node(1)
    cluster.run_until(lambda: cluster.nodes[1].is_ready)
    assert cluster.nodes[1].image.topics.keys() >= {"before", "after"}
    assert not cluster.nodes[1].raft.is_voter
    assert cluster.nodes[1].raft.voter_set.by_id.keys() == {2, 3}


@pytest.mark.slow
def test_a_leader_that_is_removed_hands_over(cluster: ClusterNodes) -> None:
    assert _add(cluster, 2, by=1).error_code == 0
    directory_id = _directory(cluster, 1)
    assert _remove(cluster, 1, directory_id, by=3).error_code == 0
    cluster.run_until(lambda: cluster.nodes[2].controller.is_active)
    cluster.create_topic("t", replication=3)
    assert _voters(cluster, 1).keys() == {2}
    assert {observer.replica_id for observer in _quorum(cluster, 1).observers} >= {1}


@pytest.mark.slow
def test_a_leader_that_comes_back_on_another_port_reports_it_when_its_epoch_begins(cluster: ClusterNodes) -> None:
    for node_id in cluster.ids:
        cluster.kill(node_id)
    cluster.ports[1] = (cluster.ports[1][0], free_port())
    cluster.settings["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{cluster.ports[1][1]}"
    cluster.start()
    expected = {1: ("127.0.0.1", cluster.ports[1][1])}
    cluster.run_until(lambda: all(node.raft.voters == expected for node in cluster.nodes.values()))
    cluster.create_topic("t", replication=3)


def test_refused_changes_have_kafkas_codes_and_words(cluster: ClusterNodes) -> None:
    voter = cluster.nodes[1].raft.voter_set.voters[0]
    duplicate = _add(cluster, 1, by=2)
    assert duplicate.error_code == DuplicateVoter.code
    assert duplicate.error_message == (
        f"The voter id for {voter.key} is already part of the set of voters [{voter.key}]."
    )
    unknown = _remove(cluster, 1, uuid.UUID(int=7), by=2)
    assert unknown.error_code == VoterNotFound.code
    stranger = _add(cluster, 2, by=2, cluster_id="other")
    assert stranger.error_code == InconsistentClusterId.code
    assert stranger.error_message == f'The given id "other" doesn\'t match the cluster id "{cluster.cluster_id}"'
    assert _voters(cluster, 1).keys() == {1}


def test_the_kraft_version_is_finalized_at_one(cluster: ClusterNodes) -> None:
    response = cluster.ask(3, API_VERSIONS, 4, client_software_name="kt", client_software_version="1")
    levels = {feature.name: feature.max_version_level for feature in response.finalized_features}
    assert levels["kraft.version"] == 1


@pytest.mark.slow
def test_a_controller_may_join_by_itself(tmp_path: pathlib.Path) -> None:
    cluster = ClusterNodes(tmp_path)
    cluster.settings |= {
        "controller.quorum.voters": "",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{cluster.ports[1][1]}",
        "controller.quorum.auto.join.enable": "true",
    }
    cluster.format(1, cluster.cluster_id, standalone=True)
    try:
        cluster.start()
        cluster.run_until(lambda: _voters(cluster, 1).keys() == {1, 2, 3})
    finally:
        cluster.close()


@pytest.mark.slow
def test_a_static_quorum_becomes_a_dynamic_one(tmp_path: pathlib.Path) -> None:
    cluster = ClusterNodes(tmp_path).start()
    update = {"feature": "kraft.version", "max_version_level": 1, "upgrade_type": 1}

    def upgrade() -> tuple[int, str]:
        response = cluster.ask(2, UPDATE_FEATURES, 2, timeout=5000, feature_updates=[update], validate_only=False)
        return response.error_code, response.error_message or ""

    try:
        code, text = upgrade()
        if code:  # not every voter has reported its directory id and versions yet
            assert (code, "not all of the voters support it" in text) == (InvalidUpdateVersion.code, True)
            cluster.run_for(5000)
            assert upgrade() == (0, "")
        directories = {node_id: _directory(cluster, node_id) for node_id in cluster.ids}
        assert _voters(cluster, 1) == directories
        other = next(node_id for node_id in cluster.ids if node_id != cluster.controller.node_id)
        assert _remove(cluster, other, directories[other], by=other).error_code == 0
        cluster.stop(other)
        cluster.start_node(other)
        cluster.run_until(lambda: cluster.nodes[other].is_ready)
        assert not cluster.nodes[other].raft.is_voter  # although it is in controller.quorum.voters
    finally:
        cluster.close()
