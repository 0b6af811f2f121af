"""The quorum's APIs over a socket, in every version that Apache Kafka 4.3 speaks."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.raft_node import RaftNode
from support.waiting import eventually

from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidRequest,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.schemas.metadata import TopicRecord
from kafkatools.core.protocol.uuids import METADATA_TOPIC_ID
from kafkatools.core.records.batch import read_batches

VOTE, BEGIN, END, FETCH, FETCH_SNAPSHOT, DESCRIBE_QUORUM = 52, 53, 54, 1, 59, 55
TOPIC = "__cluster_metadata"
CLUSTER = "cluster-a"


def versions(api_key: int, lowest: int | None = None) -> range:
    known = ApiKey(api_key)
    return range(known.first_version if lowest is None else lowest, known.last_version + 1)


def _node(directory: pathlib.Path, others: int) -> RaftNode:
    voters = {1: ("127.0.0.1", 0), **{node: ("127.0.0.1", 1) for node in range(2, 2 + others)}}
    return RaftNode(1, voters, directory, RaftSettings(CLUSTER, election_timeout_ms=100_000 if others else 0))


@pytest.fixture
def follower(tmp_path: pathlib.Path) -> Iterator[RaftNode]:
    node = _node(tmp_path, 2)
    yield node
    node.close()


@pytest.fixture(scope="module")
def leader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RaftNode]:
    """A quorum of one with two records and a snapshot of them."""
    node = _node(tmp_path_factory.mktemp("leader"), 0)
    eventually(lambda: node.leaders[-1:] == [(1, 1)])
    node.work(lambda: node.raft.append([TopicRecord(name="a"), TopicRecord(name="b")], 1000))
    eventually(lambda: len(node.records) == 2)
    node.work(lambda: node.raft.log.take_snapshot(node.records, 0))
    yield node
    node.close()


def ask(node: RaftNode, api_key: int, version: int, fields: dict[str, Any]) -> Any:
    client = BrokerClient("127.0.0.1", node.listener.port)
    try:
        client.socket.sendall(client.frame(api_key, version, fields))
        return client.receive(api_key, version)
    finally:
        client.socket.close()


def about(partition: dict[str, Any], **fields: Any) -> dict[str, Any]:
    topics = [{"topic_name": TOPIC, "partitions": [{"partition_index": 0, **partition}]}]
    return {"cluster_id": CLUSTER, "topics": topics, **fields}


@pytest.mark.parametrize("version", versions(VOTE))
def test_vote(follower: RaftNode, version: int) -> None:
    asked = {"replica_epoch": 3, "replica_id": 2, "last_offset_epoch": 0, "last_offset": 0}
    answer = ask(follower, VOTE, version, about(asked)).topics[0].partitions[0]
    assert (answer.error_code, answer.vote_granted, answer.leader_id, answer.leader_epoch) == (0, True, -1, 3)
    answer = ask(follower, VOTE, version, about({**asked, "replica_id": 3})).topics[0].partitions[0]
    assert (answer.error_code, answer.vote_granted) == (0, False)
    response = ask(follower, VOTE, version, {**about(asked), "cluster_id": "other"})
    assert (response.error_code, response.topics) == (InconsistentClusterId.code, ())
    other_topic = about(asked)
    other_topic["topics"][0]["topic_name"] = "other"
    assert ask(follower, VOTE, version, other_topic).error_code == InvalidRequest.code


@pytest.mark.parametrize("version", versions(BEGIN))
def test_begin_and_end_quorum_epoch(follower: RaftNode, version: int) -> None:
    begin = about({"leader_id": 2, "leader_epoch": 5})
    answer = ask(follower, BEGIN, version, begin).topics[0].partitions[0]
    assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (0, 2, 5)
    older = about({"leader_id": 3, "leader_epoch": 4})
    assert ask(follower, BEGIN, version, older).topics[0].partitions[0].error_code == FencedLeaderEpoch.code
    successors: dict[str, Any] = {"preferred_successors": [1, 3]}
    if version > 0:
        successors = {"preferred_candidates": [{"candidate_id": each} for each in (1, 3)]}
    response = ask(follower, END, version, about({"leader_id": 2, "leader_epoch": 5, **successors}))
    answer = response.topics[0].partitions[0]
    assert (answer.error_code, answer.leader_id) == (0, 2)
    eventually(lambda: type(follower.raft.state).__name__ == "Prospective")  # the first successor, at once
    if version > 0:
        assert [(each.node_id, each.host, each.port) for each in response.node_endpoints] == [(2, "127.0.0.1", 1)]


def _fetch(version: int, **changes: Any) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": 1,
        "fetch_offset": 1,
        "last_fetched_epoch": 1,
        "partition_max_bytes": 0,
        **changes,
    }
    named = {"topic_id": METADATA_TOPIC_ID} if version >= 13 else {"topic": TOPIC}
    fields: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "max_wait": 0,
        "min_bytes": 0,
        "topics": [{**named, "partitions": [partition]}],
        "forgotten_topics_data": [],
    }
    replica = {"replica_state": {"replica_id": 9, "replica_epoch": -1}} if version >= 15 else {"replica_id": 9}
    return {**fields, **replica}


@pytest.mark.parametrize("version", versions(FETCH, 12))
def test_fetch(leader: RaftNode, version: int) -> None:
    answer = ask(leader, FETCH, version, _fetch(version)).responses[0].partitions[0]
    [batch] = read_batches(answer.records)
    assert (answer.error_code, answer.high_watermark, batch.base_offset, batch.record_count) == (0, 3, 1, 2)
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 1)
    answer = ask(leader, FETCH, version, _fetch(version, fetch_offset=9)).responses[0].partitions[0]
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset, answer.records) == (1, 3, b"")
    fields = {**_fetch(version), "cluster_id": "other"}
    assert ask(leader, FETCH, version, fields).error_code == InconsistentClusterId.code


def test_a_fetch_that_waits_is_answered_over_its_connection(leader: RaftNode) -> None:
    begun_ms = leader.clock.now_ms()  # the clock that measures max_wait; a finer one can show a part of 1 ms less
    end = leader.work(lambda: leader.raft.end_offset)
    fields = {**_fetch(18, fetch_offset=end, high_watermark=end), "max_wait": 50}
    assert ask(leader, FETCH, 18, fields).responses[0].partitions[0].records == b""
    assert leader.clock.now_ms() - begun_ms >= 50


def test_a_follower_names_the_leader(follower: RaftNode) -> None:
    ask(follower, BEGIN, 1, about({"leader_id": 3, "leader_epoch": 5}))
    response = ask(follower, FETCH, 18, _fetch(18, current_leader_epoch=5))
    answer = response.responses[0].partitions[0]
    assert answer.error_code == NotLeaderOrFollower.code
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (3, 5)
    assert [each.node_id for each in response.node_endpoints] == [3]


@pytest.mark.parametrize("version", versions(FETCH_SNAPSHOT))
def test_fetch_snapshot(leader: RaftNode, version: int) -> None:
    path = next(leader.directory.glob("*.checkpoint"))
    end_offset, epoch = (int(part) for part in path.stem.split("-"))
    whole = path.read_bytes()

    def part(position: int, max_bytes: int) -> Any:
        wanted = {
            "partition": 0,
            "current_leader_epoch": 1,
            "snapshot_id": {"end_offset": end_offset, "epoch": epoch},
            "position": position,
        }
        topics = [{"name": TOPIC, "partitions": [wanted]}]
        fields = {"cluster_id": CLUSTER, "replica_id": 9, "max_bytes": max_bytes, "topics": topics}
        return ask(leader, FETCH_SNAPSHOT, version, fields).topics[0].partitions[0]

    first = part(0, 50)
    rest = part(50, 1 << 20)
    assert (first.size, len(first.unaligned_records)) == (len(whole), 50)
    assert bytes(first.unaligned_records) + rest.unaligned_records == whole


@pytest.mark.parametrize("version", versions(DESCRIBE_QUORUM))
def test_describe_quorum(leader: RaftNode, follower: RaftNode, version: int) -> None:
    asked = {"topics": [{"topic_name": TOPIC, "partitions": [{"partition_index": 0}]}]}
    ask(leader, FETCH, 18, _fetch(18))  # node 9 observes
    end = leader.work(lambda: leader.raft.end_offset)
    response = ask(leader, DESCRIBE_QUORUM, version, asked)
    found = response.topics[0].partitions[0]
    assert (response.error_code, found.error_code, found.leader_id, found.leader_epoch) == (0, 0, 1, 1)
    assert found.high_watermark == end
    [voter] = found.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (1, end)
    assert [each.replica_id for each in found.observers] == [9]
    if version > 0:
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp > 0
    if version > 1:
        [node] = response.nodes
        assert (node.node_id, [each.name for each in node.listeners]) == (1, ["CONTROLLER"])
    refused = ask(follower, DESCRIBE_QUORUM, version, asked).topics[0].partitions[0]
    assert (refused.error_code, refused.current_voters) == (NotLeaderOrFollower.code, ())
    if version > 1:
        assert refused.error_message == "Node 1 does not lead the quorum: nobody leads it"
    other = {"topics": [{"topic_name": "other", "partitions": [{"partition_index": 0}]}]}
    found = ask(leader, DESCRIBE_QUORUM, version, other).topics[0].partitions[0]
    assert found.error_code == UnknownTopicOrPartition.code


def test_who_may_not_act_for_the_cluster_is_refused(follower: RaftNode) -> None:
    follower.denies = True
    asked = {"replica_epoch": 3, "replica_id": 2, "last_offset_epoch": 0, "last_offset": 0}
    assert ask(follower, VOTE, 2, about(asked)).error_code == ClusterAuthorizationFailed.code
    assert ask(follower, FETCH, 18, _fetch(18)).error_code == ClusterAuthorizationFailed.code
    assert follower.raft.epoch == 0
