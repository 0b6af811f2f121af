"""Three nodes that are one cluster: they find each other, forward, lose each other, leave and come back."""

from __future__ import annotations

import errno
import os
import pathlib
from collections.abc import Iterator

import pytest
from support import cluster_nodes
from support.cluster_nodes import ClusterNodes
from support.ports import free_port

from kafkatools.core.broker.metadata.feature_levels import METADATA_LEVELS
from kafkatools.core.broker.metadata.lifecycle import State
from kafkatools.core.broker.node import start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.errors import ConfigError

METADATA, CREATE_TOPICS, DESCRIBE_CLUSTER, INIT_PRODUCER_ID, API_VERSIONS = 3, 19, 60, 22, 18
DELETE_TOPICS, DESCRIBE_QUORUM, UPDATE_FEATURES, UNREGISTER_BROKER = 20, 55, 57, 64
NOT_LEADER_OR_FOLLOWER = 6
UNKNOWN_TOPIC, REQUEST_TIMED_OUT, INVALID_REPLICATION_FACTOR = 3, 7, 38


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[ClusterNodes]:
    made = ClusterNodes(tmp_path)
    yield made
    made.close()


@pytest.fixture
def running(cluster: ClusterNodes) -> ClusterNodes:
    return cluster.start()


def test_nodes_elect_a_controller_and_every_broker_is_known_to_all(running: ClusterNodes) -> None:
    controllers = {node.controller_id for node in running.nodes.values()}
    assert len(controllers) == 1
    assert [node.controller.is_active for node in running.nodes.values()].count(True) == 1
    for node_id in running.ids:
        answer = running.ask(node_id, METADATA, 12, topics=[])
        assert [(each.node_id, each.port) for each in answer.brokers] == [
            (each, running.ports[each][0]) for each in running.ids
        ]
        described = running.ask(node_id, DESCRIBE_CLUSTER, 2)
        assert (described.cluster_id, len(described.brokers)) == (running.cluster_id, 3)
    assert running.lines == []


def test_until_it_has_joined_a_broker_refuses_clients(cluster: ClusterNodes) -> None:
    cluster.start_node(1)
    cluster.run_for(3000)
    assert not cluster.nodes[1].is_ready
    with pytest.raises(ConnectionRefusedError):
        cluster.client(1)


@pytest.mark.slow
def test_any_broker_takes_a_change_and_answers_when_it_is_committed(running: ClusterNodes) -> None:
    for node_id in running.ids:
        topics = [{"name": f"from-{node_id}", "num_partitions": 3, "replication_factor": 3}]
        answer = running.ask(node_id, CREATE_TOPICS, 7, topics=topics, timeout=5000)
        [created] = answer.topics
        assert (int(created.error_code), created.num_partitions, created.replication_factor) == (0, 3, 3)
        topic_id = created.topic_id
        holders = [node for node in running.nodes.values() if topic_id in node.image.topics_by_id]
        assert running.controller in holders
    running.run_until(
        lambda: all(len(node.replicas.partitions.get("from-3", {})) == 3 for node in running.nodes.values())
    )


def test_more_replicas_than_brokers(running: ClusterNodes) -> None:
    topics = [{"name": "wide", "num_partitions": 1, "replication_factor": 4}]
    [refused] = running.ask(2, CREATE_TOPICS, 7, topics=topics, timeout=5000).topics
    assert int(refused.error_code) == INVALID_REPLICATION_FACTOR
    assert refused.error_message == (
        "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached because "
        "only 3 broker(s) are registered or some brokers have all their log directories cordoned."
    )


def test_a_topic_is_made_for_a_client_that_asks_for_it(running: ClusterNodes) -> None:
    wanted = [{"name": "auto"}]
    [first] = running.ask(1, METADATA, 12, topics=wanted, allow_auto_topic_creation=True).topics
    assert int(first.error_code) == UNKNOWN_TOPIC
    running.run_until(lambda: "auto" in running.nodes[1].image.topics)
    [second] = running.ask(1, METADATA, 12, topics=wanted, allow_auto_topic_creation=True).topics
    assert (int(second.error_code), len(second.partitions)) == (0, 1)


def test_producer_ids_of_two_brokers_differ(running: ClusterNodes) -> None:
    fields = {"transactional_id": None, "transaction_timeout": 1000}
    given = {running.ask(node_id, INIT_PRODUCER_ID, 4, **fields).producer_id for node_id in (1, 2, 3, 1, 2, 3)}
    assert len(given) == 6
    assert -1 not in given


def test_the_controllers_listener_lists_its_own_apis(running: ClusterNodes) -> None:
    described = {api.api_key for api in running.ask(1, API_VERSIONS, 0).api_keys}
    assert {52, 58, 62} & described == set()
    assert {19, 75} <= described


@pytest.mark.slow
def test_the_leader_of_the_quorum_dies_and_comes_back(running: ClusterNodes) -> None:
    lost = running.controller.node_id
    running.kill(lost)
    running.run_until(lambda: any(node.controller.is_active for node in running.nodes.values()))
    assert running.controller.raft.epoch > 1
    left = [node_id for node_id in running.ids if node_id != lost]

    def fenced() -> bool:
        return all(node.image.brokers[lost].is_fenced for node in running.nodes.values())

    running.run_until(fenced)
    for node_id in left:
        answer = running.ask(node_id, METADATA, 12, topics=[])
        assert [each.node_id for each in answer.brokers] == left
    node = running.start_node(lost)
    running.run_until(lambda: node.is_ready and not fenced())


@pytest.mark.slow
def test_a_controlled_shutdown_moves_leaders_at_once_and_says_so(running: ClusterNodes) -> None:
    running.create_topic("moved", 6)
    leaving = running.controller.node_id
    began = running.clock.now_ms()
    running.stop(leaving)
    running.run_until(lambda: any(node.controller.is_active for node in running.nodes.values()))
    assert running.clock.now_ms() - began < 500
    leaders = {part.leader for part in running.controller.controller.image.topics["moved"].partitions.values()}
    assert leaving not in leaders
    assert -1 not in leaders
    assert not [line for line in running.lines if line.startswith("WARN")]
    again = running.start_node(leaving)
    assert running.run_until(lambda: again.is_ready) < 1000  # it knows the epoch it left with: no session to wait for


@pytest.mark.slow
def test_without_a_majority_reads_go_on_and_changes_say_why_they_wait(running: ClusterNodes) -> None:
    running.create_topic("stays")
    for node_id in (2, 3):
        running.kill(node_id)
    running.run_until(lambda: running.nodes[1].raft.leader_id is None)
    [topic] = running.ask(1, METADATA, 12, topics=[{"name": "stays"}]).topics
    assert topic.name == "stays"
    topics = [{"name": "late", "num_partitions": 1, "replication_factor": 1}]
    [refused] = running.ask(1, CREATE_TOPICS, 7, topics=topics, timeout=1000).topics
    assert int(refused.error_code) == REQUEST_TIMED_OUT
    assert refused.error_message == (
        "The request timed out: the quorum of 3 controllers has no majority, unreachable: 2, 3"
    )
    named = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    [quorum] = running.ask(1, DESCRIBE_QUORUM, 2, topics=named).topics[0].partitions
    assert int(quorum.error_code) == NOT_LEADER_OR_FOLLOWER
    assert quorum.error_message == (
        "Node 1 does not lead the quorum: the quorum of 3 controllers has no majority, unreachable: 2, 3"
    )
    running.start_node(2)
    running.run_until(lambda: running.nodes[2].is_ready)
    running.create_topic("later", replication=1)


@pytest.mark.slow
def test_all_are_killed_and_start_again(running: ClusterNodes) -> None:
    running.create_topic("kept", 2)
    for node_id in running.ids:
        running.kill(node_id)
    running.start()
    assert all(len(node.image.topics["kept"].partitions) == 2 for node in running.nodes.values())
    running.run_until(lambda: running.leader("kept") > 0)


def test_a_directory_of_another_cluster(running: ClusterNodes) -> None:
    running.kill(3)
    (running.root / "node-3").rename(running.root / "old")
    running.format(3, "anotherClusterId-abcde")
    stranger = running.start_node(3)
    running.run_until(lambda: stranger.failure is not None)
    del running.nodes[3]
    stranger.close()
    assert str(stranger.failure) == (
        f"{running.root}/node-3 belongs to cluster anotherClusterId-abcde, but the controllers of "
        "controller.quorum.voters belong to another one"
    )
    assert all(node.failure is None and node.is_ready for node in running.nodes.values())


@pytest.mark.slow
def test_a_wiped_disk_is_filled_again(running: ClusterNodes) -> None:
    running.create_topic("whole", 2)
    running.kill(3)
    (running.root / "node-3").rename(running.root / "old")
    node = running.start_node(3)
    running.run_until(lambda: node.is_ready)
    running.run_until(lambda: len(node.replicas.partitions.get("whole", {})) == 2)


def test_a_broker_alone_joins_the_controllers(cluster: ClusterNodes) -> None:
    """The first node is no voter: it follows the quorum of the others."""
    cluster.voters = (2, 3)
    cluster.start_node(2, cluster.controller_only(2))
    cluster.start_node(3, cluster.controller_only(3))
    broker = cluster.start_node(1, cluster.broker_only(1))
    cluster.run_until(lambda: all(node.is_ready for node in cluster.nodes.values()))
    assert broker.member.lifecycle is not None
    assert broker.member.lifecycle.state is State.RUNNING
    cluster.create_topic("small", replication=1)
    assert [cluster.nodes[2].member.lifecycle, cluster.nodes[3].member.lifecycle] == [None, None]
    cluster.ask(1, DELETE_TOPICS, 6, topics=[{"name": "small", "topic_id": None}], timeout=5000)
    cluster.run_until(lambda: not any(node.image.topics for node in cluster.nodes.values()))
    assert not any(cluster.nodes[node_id].image.delta.removed_topics for node_id in (2, 3))


def test_a_node_that_is_no_voter_must_not_be_a_controller(cluster: ClusterNodes) -> None:
    cluster.voters = (2, 3)
    with pytest.raises(ConfigError) as refused:
        cluster.start_node(1)
    assert str(refused.value) == (
        "If process.roles contains the 'controller' role, the node id 1 must be included in the set of voters "
        "controller.quorum.voters=Set(2, 3)"
    )


@pytest.mark.slow
def test_a_paused_leader_of_the_quorum_is_replaced_and_comes_back_as_a_follower(running: ClusterNodes) -> None:
    running.create_topic("paused", 3)
    lost = running.controller.node_id
    running.paused.add(lost)
    left = [node for node_id, node in running.nodes.items() if node_id != lost]
    running.run_until(lambda: any(node.controller.is_active for node in left))
    running.run_until(lambda: all(node.image.brokers[lost].is_fenced for node in left))
    running.paused.clear()
    node = running.nodes[lost]
    running.run_until(lambda: not node.controller.is_active and not left[0].image.brokers[lost].is_fenced)
    assert node.failure is None
    assert node.raft.leader_id != lost
    assert len({each.raft.leader_id for each in running.nodes.values()}) == 1


@pytest.mark.slow
def test_a_change_under_way_at_a_controller_that_is_paused_is_the_clients_to_ask_for_again(
    running: ClusterNodes,
) -> None:
    """The paused one may have made it: nobody else makes it a second time. The client hears so as soon as there is
    another controller."""
    lost = running.controller.node_id
    asked = next(node_id for node_id in running.ids if node_id != lost)
    first = [{"name": "first", "num_partitions": 1, "replication_factor": 1}]
    [created] = running.ask(asked, CREATE_TOPICS, 7, topics=first, timeout=30_000).topics  # opens the connection
    assert int(created.error_code) == 0
    running.paused.add(lost)
    topics = [{"name": "patient", "num_partitions": 1, "replication_factor": 2}]
    begun_ms = running.clock.now_ms()
    [created] = running.ask(asked, CREATE_TOPICS, 7, topics=topics, timeout=30_000).topics
    assert int(created.error_code) == REQUEST_TIMED_OUT
    assert created.error_message == (
        f"Whether the change was made is not known: the controller did not respond (unreachable controllers: {lost})"
    )
    assert running.clock.now_ms() - begun_ms < 5000
    [created] = running.ask(asked, CREATE_TOPICS, 7, topics=topics, timeout=30_000).topics
    assert int(created.error_code) == 0


@pytest.mark.slow
def test_a_node_that_missed_too_much_gets_a_snapshot(tmp_path: pathlib.Path) -> None:
    small = {
        "metadata.log.max.record.bytes.between.snapshots": "1",
        "internal.metadata.log.segment.bytes": "1024",
        "metadata.max.retention.bytes": "2048",
        "internal.metadata.delete.delay.millis": "0",
    }
    cluster = ClusterNodes(tmp_path, settings=small).start()
    try:
        cluster.create_topic("before", 2)
        cluster.kill(3)
        cluster.ask(1, DELETE_TOPICS, 6, topics=[{"name": "before"}], timeout=5000)
        for number in range(4):
            cluster.create_topic(f"later-{number}", 3, 2)
            cluster.run_for(2000)
        assert cluster.controller.raft.log.start_offset > 30
        node = cluster.start_node(3)
        cluster.run_until(lambda: node.is_ready)
        assert sorted(node.image.topics) == [f"later-{number}" for number in range(4)]
        assert "before" not in node.replicas.partitions
        assert node.image.features == cluster.controller.image.features
    finally:
        cluster.close()


@pytest.mark.slow
def test_two_brokers_with_one_id(cluster: ClusterNodes) -> None:
    cluster.voters = (2, 3)
    for node_id in (2, 3):
        cluster.start_node(node_id, cluster.controller_only(node_id))
    first = cluster.start_node(1, cluster.broker_only(1))
    cluster.run_until(lambda: first.is_ready)
    directory = cluster.root / "second"
    cluster.format(1, cluster.cluster_id, str(directory))
    setup = NodeSetup(
        cluster.config(
            1,
            {
                **cluster.broker_only(1),
                "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
                "log.dirs": str(directory),
                "initial.broker.registration.timeout.ms": "3000",
            },
        ),
        cluster.clock,
        report=cluster.lines.append,
    )
    twin = start_node(setup)
    cluster.nodes[4] = twin
    cluster.run_until(lambda: twin.failure is not None)
    assert str(twin.failure) == (
        "Broker 1 cannot register: another broker with this id is running. Stop it, or use another node.id."
    )
    assert cluster.lines == ["WARN Another broker is registered with id 1; waiting until its session expires"]
    assert first.is_ready


@pytest.mark.slow
def test_a_node_that_never_joined_leaves_its_logs_as_they_were(running: ClusterNodes) -> None:
    running.create_topic("untouched", 2)
    for node_id in (2, 3):
        running.stop(node_id)
    running.run_for(6000)
    running.stop(1)
    root = running.root / "node-1"
    names = ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".kafka_cleanshutdown"]
    before = {name: (root / name).read_bytes() for name in names}
    assert b"untouched" in before["replication-offset-checkpoint"]
    running.start_node(1)
    running.run_for(7000)
    running.nodes.pop(1).close()
    assert {name: (root / name).read_bytes() for name in names} == before


@pytest.mark.slow
def test_a_partition_that_went_while_its_broker_was_down_is_put_aside(running: ClusterNodes) -> None:
    running.create_topic("gone")
    running.run_until(lambda: (running.root / "node-3" / "gone-0").exists())
    running.kill(3)
    running.ask(1, DELETE_TOPICS, 6, topics=[{"name": "gone"}], timeout=5000)
    node = running.start_node(3)
    running.run_until(lambda: node.is_ready)
    names = [path.name for path in (running.root / "node-3").iterdir() if path.name.startswith("gone")]
    assert len(names) == 1
    assert names[0].endswith("-stray")
    assert any(line.endswith("renamed and kept as a stray") for line in running.lines)


@pytest.mark.slow
def test_a_broker_that_cannot_put_aside_what_is_not_its_own_says_so_and_ends(
    running: ClusterNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.create_topic("gone")
    running.run_until(lambda: (running.root / "node-3" / "gone-0").exists())
    running.kill(3)
    running.ask(1, DELETE_TOPICS, 6, topics=[{"name": "gone"}], timeout=5000)
    node = running.start_node(3)
    rename = node.files.rename

    def rename_or_not(source: str, target: str) -> None:
        if source.endswith("/gone-0"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), source)
        rename(source, target)

    monkeypatch.setattr(node.files, "rename", rename_or_not)
    running.run_until(lambda: node.failure is not None)
    assert str(node.failure).startswith(
        "Cannot set aside partition directories that this broker has no replica of: [Errno 5]"
    )


@pytest.mark.slow
def test_controllers_register_each_life_once(running: ClusterNodes) -> None:
    image = running.nodes[1].image
    running.run_until(lambda: len(image.controllers) == 3)
    before = {node_id: record.incarnation_id for node_id, record in image.controllers.items()}
    assert [(point.name, point.port) for point in image.controllers[2].end_points] == [
        ("CONTROLLER", running.ports[2][1])
    ]
    running.stop(2)
    running.start_node(2)
    running.run_until(lambda: image.controllers[2].incarnation_id != before[2])
    end = running.nodes[1].metadata_offset
    running.run_for(2000)
    registered = running.nodes[1].image.controllers
    assert registered[1].incarnation_id == before[1]
    assert running.nodes[1].metadata_offset - end < 12  # no-op records, no registrations again and again


def test_a_broker_that_was_unregistered_registers_again(running: ClusterNodes) -> None:
    lifecycle = running.nodes[3].member.lifecycle
    assert lifecycle is not None
    epoch = lifecycle.epoch
    answer = running.ask(1, UNREGISTER_BROKER, 0, broker_id=3)
    assert int(answer.error_code) == 0
    running.run_until(lambda: lifecycle.epoch > epoch)
    running.run_until(lambda: not running.nodes[1].image.brokers[3].is_fenced)


@pytest.mark.slow
def test_all_are_stopped_at_once(running: ClusterNodes) -> None:
    """The last ones have nobody to hand over to, and need not wait for it."""
    running.create_topic("last", 3)
    began = running.clock.now_ms()
    for node in running.nodes.values():
        node.member.begin_leaving()
    while running.nodes:
        running.run_until(lambda: any(node.member.has_left for node in running.nodes.values()), 3000)
        for node_id in [node_id for node_id, node in running.nodes.items() if node.member.has_left]:
            running.nodes.pop(node_id).close()
    assert running.clock.now_ms() - began < 2500
    running.start()
    running.run_until(lambda: running.leader("last") > 0)


def test_brokers_register_their_directories_when_the_metadata_version_comes_to_have_them(
    cluster: ClusterNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_nodes, "LATEST_RELEASE", "3.6-IV2")
    running = cluster.start()
    running.create_topic("old", 3)
    assert {broker.log_dirs for broker in running.nodes[1].image.brokers.values()} == {()}
    update = {"feature": "metadata.version", "max_version_level": METADATA_LEVELS["4.3-IV0"], "upgrade_type": 1}
    answer = running.ask(1, UPDATE_FEATURES, 1, feature_updates=[update], timeout=5000, validate_only=False)
    assert int(answer.error_code) == 0
    epochs = {broker.broker_id: broker.epoch for broker in running.nodes[1].image.brokers.values()}

    def has_directories() -> bool:
        image = running.nodes[1].image
        return all(broker.log_dirs for broker in image.brokers.values()) and all(
            image.topics["old"].partitions[0].directories
        )

    running.run_until(has_directories)
    assert {broker.broker_id: broker.epoch for broker in running.nodes[1].image.brokers.values()} == epochs
    assert not any(broker.is_fenced for broker in running.nodes[1].image.brokers.values())
