"""Forwarded changes are made at most once; the client gets an error when the outcome is not known."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.cluster_nodes import ClusterNodes, has_response

from kafkatools.core.broker.node import Node
from kafkatools.core.broker.server.authorizer import STANDARD_AUTHORIZER
from kafkatools.core.protocol.schemas.metadata import decode_record
from kafkatools.core.records.batch import read_batches

ALTER_CONFIGS, TOPIC, SET = 44, 2, 0
DELETE_ACLS, CREATE_ACLS = 31, 30
NONE, REQUEST_TIMED_OUT = 0, 7
RETENTION = "retention.ms"


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[ClusterNodes]:
    made = ClusterNodes(tmp_path).start()
    made.create_topic("t")
    yield made
    made.close()


def frame(client: BrokerClient, value: str) -> bytes:
    """A request for a retention time of the topic."""
    configs = [{"name": RETENTION, "config_operation": SET, "value": value}]
    resources = [{"resource_type": TOPIC, "resource_name": "t", "configs": configs}]
    return client.frame(ALTER_CONFIGS, 1, {"resources": resources, "validate_only": False})


def answer(cluster: ClusterNodes, client: BrokerClient) -> Any:
    """The one resource of the next answer."""
    cluster.run_until(lambda: has_response(client))
    return client.receive(ALTER_CONFIGS, 1).responses[0]


def alter(cluster: ClusterNodes, node_id: int, value: str) -> int:
    client = cluster.client(node_id)
    client.socket.sendall(frame(client, value))
    return int(answer(cluster, client).error_code)


def written(node: Node) -> list[str]:
    """Every retention time that was ever committed, in order."""
    log = node.raft.log
    data = log.log.read(log.start_offset, 1 << 24, max_offset=node.raft.high_watermark).read()
    records = [
        decode_record(record.value)
        for each in read_batches(data)
        if not each.is_control
        for record in each.records()
        if record.value is not None
    ]
    return [record.value for record in records if getattr(record, "name", None) == RETENTION]


def roles(cluster: ClusterNodes) -> tuple[int, int, int]:
    """The controller, the node that clients ask, and the third one."""
    active = cluster.controller.node_id
    asked, third = (node_id for node_id in cluster.ids if node_id != active)
    return active, asked, third


@pytest.mark.slow
def test_a_change_that_outlives_its_controller_is_made_once(cluster: ClusterNodes) -> None:
    """The controller is killed when a follower has the record and the client no answer: the follower, elected, commits
    it. Nobody asks for it again but the client."""
    active, asked, third = roles(cluster)
    client = cluster.client(asked)
    assert alter(cluster, asked, "1000") == NONE
    end = cluster.nodes[third].raft.end_offset
    client.socket.sendall(frame(client, "2000"))
    cluster.run_until(lambda: cluster.nodes[active].raft.end_offset > end)
    cluster.paused = {active, asked}
    cluster.run_until(lambda: cluster.nodes[third].raft.end_offset > end)
    cluster.paused = set()
    cluster.kill(active)
    refused = answer(cluster, client)
    assert int(refused.error_code) == REQUEST_TIMED_OUT
    assert refused.error_message.startswith("Whether the change was made is not known: ")
    cluster.run_until(lambda: any(node.controller.is_active for node in cluster.nodes.values()))
    cluster.run_for(2000)
    assert written(cluster.nodes[third]) == ["1000", "2000"]
    assert alter(cluster, asked, "3000") == NONE
    cluster.run_for(12_000)
    assert written(cluster.nodes[third]) == ["1000", "2000", "3000"]


@pytest.mark.slow
@pytest.mark.parametrize("is_gone", [True, False])
def test_a_change_that_waits_for_a_controller_ends_with_its_client(cluster: ClusterNodes, is_gone: bool) -> None:
    active, asked, third = roles(cluster)
    client = BrokerClient("127.0.0.1", cluster.ports[asked][0])
    assert alter(cluster, third, "1000") == NONE
    cluster.kill(active)
    cluster.paused = {third}
    client.socket.sendall(frame(client, "2000"))
    cluster.run_for(200)
    if is_gone:
        client.close()
    cluster.paused = set()
    cluster.run_until(lambda: any(node.controller.is_active for node in cluster.nodes.values()))
    if is_gone:
        cluster.run_for(12_000)
        assert written(cluster.nodes[third]) == ["1000"]
    else:
        assert int(answer(cluster, client).error_code) == NONE
        assert written(cluster.nodes[third]) == ["1000", "2000"]
        client.close()


@pytest.mark.slow
def test_what_is_asked_behind_a_request_that_waits_is_not_done_when_the_client_has_gone(
    cluster: ClusterNodes,
) -> None:
    active, asked, third = roles(cluster)
    client = BrokerClient("127.0.0.1", cluster.ports[asked][0])
    client.socket.sendall(frame(client, "1000") + frame(client, "2000"))
    end = cluster.nodes[active].raft.end_offset
    cluster.run_until(lambda: cluster.nodes[active].raft.end_offset > end)
    client.close()
    cluster.run_for(2000)
    assert written(cluster.nodes[third]) == ["1000"]


@pytest.mark.slow
def test_changes_of_acls_that_no_controller_accepts_have_an_error_for_each(tmp_path: pathlib.Path) -> None:
    authorizer = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    cluster = ClusterNodes(tmp_path, settings=authorizer).start()
    try:
        active, asked, third = roles(cluster)
        cluster.kill(active)
        cluster.paused = {third}
        # of a topic (2) with a literal name (3): READ (3), ALLOW (3)
        kinds = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 3, "permission_type": 3}
        filters = [{**kinds, "resource_name_filter": name} for name in ("a", "b")]
        deleted = cluster.ask(asked, DELETE_ACLS, 3, filters=filters)
        assert [int(each.error_code) for each in deleted.filter_results] == [REQUEST_TIMED_OUT] * 2
        assert deleted.filter_results[0].error_message.startswith("The request timed out: ")
        acl = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
        creations = [{**acl, "resource_name": name, "principal": "User:u", "host": "*"} for name in ("a", "b")]
        created = cluster.ask(asked, CREATE_ACLS, 3, creations=creations)
        assert [int(each.error_code) for each in created.results] == [REQUEST_TIMED_OUT] * 2
    finally:
        cluster.close()
