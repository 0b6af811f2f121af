"""A node of three whose disk is full: it ends, the others elect another controller and lead its partitions."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from support.cluster_nodes import ClusterNodes, has_response
from support.full_disk import FullDisk, watch_writes

LIMIT_MS = 6000
REQUEST_TIMED_OUT = 7
PARTITIONS = 6


@pytest.fixture
def cluster(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterNodes]:
    """Kafka's default times, so that a broker that merely dies is waited for longer than the limit."""
    defaults = {"broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "2000"}
    quorum = {"controller.quorum.election.timeout.ms": "1000", "controller.quorum.election.backoff.max.ms": "1000"}
    made = ClusterNodes(tmp_path, settings={**defaults, **quorum})
    disk = FullDisk()
    watch_writes(disk, monkeypatch)
    made.disks = dict.fromkeys(made.ids, disk)
    yield made.start()
    disk.is_full = lambda path: False
    made.close()


def fill(cluster: ClusterNodes, node_id: int) -> None:
    """From now on the node's disk has no room."""
    disk = cluster.disks[node_id]
    assert isinstance(disk, FullDisk)
    disk.is_full = lambda path: f"/node-{node_id}/" in path


def leaders(cluster: ClusterNodes) -> set[int]:
    """The leaders of the partitions in the metadata of every running node."""
    return {state.leader for node in cluster.nodes.values() for state in node.image.topics["t"].partitions.values()}


@pytest.mark.slow
@pytest.mark.parametrize("is_controller", [True, False])
def test_a_node_whose_disk_is_full_ends_and_the_others_go_on(cluster: ClusterNodes, is_controller: bool) -> None:
    cluster.create_topic("t", partitions=PARTITIONS)
    active = cluster.controller.node_id
    failing = active if is_controller else next(node_id for node_id in cluster.ids if node_id != active)
    assert failing in leaders(cluster)
    begun_ms = cluster.clock.now_ms()
    fill(cluster, failing)
    reason = cluster.end_failed(failing)
    assert "No space left on device" in reason and "__cluster_metadata-0" in reason
    cluster.run_until(lambda: failing not in leaders(cluster) and -1 not in leaders(cluster))
    assert cluster.controller.node_id != failing
    assert cluster.clock.now_ms() - begun_ms <= LIMIT_MS
    assert not [line for line in cluster.lines if "session has timed out" in line]
    remaining = next(iter(cluster.nodes))
    created = cluster.ask(
        remaining, 19, 7, topics=[{"name": "u", "num_partitions": 1, "replication_factor": 2}], timeout=5000
    )
    assert int(created.topics[0].error_code) == 0
    assert cluster.clock.now_ms() - begun_ms <= LIMIT_MS


@pytest.mark.slow
def test_a_controller_whose_disk_is_full_answers_a_change_through_its_successor(cluster: ClusterNodes) -> None:
    """The change that met the full disk was not made: it goes to the next controller."""
    active = cluster.controller.node_id
    other = next(node_id for node_id in cluster.ids if node_id != active)
    client = cluster.client(other)
    fill(cluster, active)
    topics = [{"name": "u", "num_partitions": 1, "replication_factor": 2}]
    client.socket.sendall(client.frame(19, 7, {"topics": topics, "timeout": 20_000}))
    cluster.end_failed(active)
    cluster.run_until(lambda: all("u" in node.image.topics for node in cluster.nodes.values()))
    cluster.run_for(100)
    assert [int(each.error_code) for each in client.receive(19, 7).topics] == [0]


@pytest.mark.slow
@pytest.mark.parametrize("is_asked_directly", [True, False])
@pytest.mark.parametrize("changed", [0, 1])
def test_a_change_of_several_resources_whose_controller_fails_has_one_outcome(
    cluster: ClusterNodes, changed: int, is_asked_directly: bool
) -> None:
    """The disk is full at the first resource: the next controller makes the change. It is full at the second one: the
    first record is in the log of a controller that leads no longer, so nobody knows what becomes of it."""
    for topic in ("t", "u"):
        cluster.create_topic(topic)
    active = cluster.controller.node_id
    controller = cluster.controller.controller
    asked = active if is_asked_directly else next(node_id for node_id in cluster.ids if node_id != active)
    disk = cluster.disks[active]
    assert isinstance(disk, FullDisk)
    client = cluster.client(asked)
    change = [{"name": "retention.ms", "config_operation": 0, "value": "1000"}]
    resources = [{"resource_type": 2, "resource_name": topic, "configs": change} for topic in ("t", "u")]
    client.socket.sendall(client.frame(44, 1, {"resources": resources, "validate_only": False}))

    def is_full(path: str) -> bool:
        changes = controller._image.configs if controller.is_active else {}
        return f"/node-{active}/" in path and (not changed or (2, "t") in changes)

    disk.is_full = is_full
    cluster.run_until(lambda: active not in cluster.nodes or has_response(client))
    found = client.receive(44, 1).responses
    codes = [int(resource.error_code) for resource in found]
    if changed:
        assert codes == [REQUEST_TIMED_OUT] * 2
        assert found[0].error_message.startswith("Whether the change was made is not known: ")
    else:
        assert codes == [0, 0]
