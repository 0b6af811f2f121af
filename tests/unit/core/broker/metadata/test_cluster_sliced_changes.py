"""Changes of many topics at the active controller of a cluster: others are answered meanwhile, each topic changes as a
whole, and a controller that loses the leadership in between does not say that all was done."""

from __future__ import annotations

import pathlib
import uuid
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.cluster_nodes import ClusterNodes, has_response

from kafkatools.core.broker.server.slow_lane import SlowLane

METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, ALTER_CONFIGS = 3, 18, 19, 20, 37, 44
ASSIGN_REPLICAS_TO_DIRS = 73
NONE, REQUEST_TIMED_OUT, TOPIC_ALREADY_EXISTS, STALE_BROKER_EPOCH = 0, 7, 36, 77
CLIENT = {"client_software_name": "a", "client_software_version": "1"}
NAMES = [f"topic-{number}" for number in range(60)]
VERSIONS = {CREATE_TOPICS: 4, DELETE_TOPICS: 5, CREATE_PARTITIONS: 3, ALTER_CONFIGS: 1}  # 4: without settings


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


class CountingLane(SlowLane):
    """A slow lane with the shortest slices, which counts them."""

    def __init__(self) -> None:
        super().__init__(slice_ns=0)
        self.slices = 0

    def turn(self) -> None:
        self.slices += self.is_busy
        super().turn()


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Iterator[ClusterNodes]:
    made = ClusterNodes(tmp_path).start()
    yield made
    made.close()


def body(api_key: int) -> dict[str, Any]:
    """A request that changes all the topics."""
    if api_key == CREATE_TOPICS:
        topics: list[Any] = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in NAMES]
        return {"topics": topics, "timeout": 30_000}
    if api_key == DELETE_TOPICS:
        return {"topic_names": NAMES, "timeout": 30_000}
    if api_key == CREATE_PARTITIONS:
        topics = [{"name": name, "count": 2, "assignments": None} for name in NAMES]
        return {"topics": topics, "timeout": 30_000, "validate_only": False}
    configs = [{"name": "retention.ms", "config_operation": 0, "value": "1000"}]
    return {"resources": [{"resource_type": 2, "resource_name": name, "configs": configs} for name in NAMES]}


def codes(api_key: int, answer: Any) -> list[int]:
    names = {CREATE_TOPICS: "topics", CREATE_PARTITIONS: "results"}
    return [int(each.error_code) for each in getattr(answer, names.get(api_key, "responses"))]


def changed(cluster: ClusterNodes, node_id: int, api_key: int) -> int:
    """How many topics the controller of a node has changed."""
    image = cluster.nodes[node_id].controller.image
    if api_key == CREATE_TOPICS:
        return len(image.topics)
    if api_key == DELETE_TOPICS:
        return len(NAMES) - len(image.topics)
    if api_key == CREATE_PARTITIONS:
        return sum(len(topic.partitions) == 2 for topic in image.topics.values())
    return sum("retention.ms" in image.topic_configs(name) for name in NAMES)


def begin(cluster: ClusterNodes, asked: int, api_key: int) -> tuple[BrokerClient, HeldLane]:
    """Send a request, turn until a part of the topics is changed, and hold it there."""
    active = cluster.controller
    lane = active.listener.lane = HeldLane()
    client = cluster.client(asked)
    client.socket.sendall(client.frame(api_key, VERSIONS[api_key], body(api_key)))
    cluster.run_until(lambda: changed(cluster, active.node_id, api_key) > 0)
    lane.is_held = True
    assert changed(cluster, active.node_id, api_key) < len(NAMES)
    return client, lane


def finish(cluster: ClusterNodes, client: BrokerClient, api_key: int) -> list[int]:
    cluster.run_until(lambda: has_response(client))
    return codes(api_key, client.receive(api_key, VERSIONS[api_key]))


@pytest.mark.slow
@pytest.mark.parametrize("api_key", [CREATE_TOPICS, CREATE_PARTITIONS, ALTER_CONFIGS, DELETE_TOPICS])
@pytest.mark.parametrize("is_forwarded", [False, True])
def test_the_controller_answers_others_between_the_topics_of_a_change(
    cluster: ClusterNodes, api_key: int, is_forwarded: bool
) -> None:
    active = cluster.controller.node_id
    asked = next(node_id for node_id in cluster.ids if (node_id != active) == is_forwarded)
    if api_key != CREATE_TOPICS:
        made = cluster.ask(asked, CREATE_TOPICS, VERSIONS[CREATE_TOPICS], **body(CREATE_TOPICS))
        assert codes(CREATE_TOPICS, made) == [NONE] * len(NAMES)
    client, lane = begin(cluster, asked, api_key)
    done = changed(cluster, active, api_key)
    with BrokerClient("127.0.0.1", cluster.ports[active][0]) as other:
        other.socket.sendall(other.frame(API_VERSIONS, 3, CLIENT))
        cluster.run_until(lambda: has_response(other))
    assert changed(cluster, active, api_key) == done
    lane.is_held = False
    assert finish(cluster, client, api_key) == [NONE] * len(NAMES)
    assert changed(cluster, active, api_key) == len(NAMES)


@pytest.mark.slow
def test_a_broker_of_a_cluster_reads_many_topics_in_slices(cluster: ClusterNodes) -> None:
    broker = cluster.controller
    broker.listener.lane = lane = CountingLane()
    made = cluster.ask(broker.node_id, CREATE_TOPICS, VERSIONS[CREATE_TOPICS], **body(CREATE_TOPICS))
    assert codes(CREATE_TOPICS, made) == [NONE] * len(NAMES)
    before = lane.slices
    topics = [{"name": name} for name in NAMES]
    answer = cluster.ask(broker.node_id, METADATA, 4, topics=topics, allow_auto_topic_creation=False)
    assert len(answer.topics) == len(NAMES)
    assert lane.slices - before > len(NAMES)


@pytest.mark.slow
def test_the_broker_that_forwards_a_long_change_keeps_its_session(cluster: ClusterNodes) -> None:
    active = cluster.controller
    asked = next(node_id for node_id in cluster.ids if node_id != active.node_id)
    epoch = cluster.nodes[asked].member.broker_epoch
    client, lane = begin(cluster, asked, CREATE_TOPICS)
    cluster.run_for(3 * int(cluster.settings["broker.session.timeout.ms"]))
    assert active.controller.image.brokers[asked].is_active
    assert cluster.nodes[asked].member.broker_epoch == epoch
    lane.is_held = False
    assert finish(cluster, client, CREATE_TOPICS) == [NONE] * len(NAMES)


def test_a_large_request_of_a_broker_to_the_controller_is_answered(cluster: ClusterNodes) -> None:
    topic = {"topic_id": uuid.UUID(int=1 << 70), "partitions": [{"partition_index": index} for index in range(5000)]}
    fields = {"broker_id": 1, "broker_epoch": -5, "directories": [{"id_": uuid.UUID(int=1 << 71), "topics": [topic]}]}
    with BrokerClient("127.0.0.1", cluster.ports[cluster.controller.node_id][1]) as broker:
        broker.socket.sendall(broker.frame(ASSIGN_REPLICAS_TO_DIRS, 0, fields))
        cluster.run_until(lambda: has_response(broker))
        assert int(broker.receive(ASSIGN_REPLICAS_TO_DIRS, 0).error_code) == STALE_BROKER_EPOCH


@pytest.mark.slow
def test_a_topic_that_another_client_creates_meanwhile_is_created_once(cluster: ClusterNodes) -> None:
    active = cluster.controller.node_id
    asked, other = (node_id for node_id in cluster.ids if node_id != active)
    client, lane = begin(cluster, asked, CREATE_TOPICS)
    name = next(name for name in NAMES if name not in cluster.controller.controller.image.topics)
    topic = {"name": name, "num_partitions": 3, "replication_factor": 1}
    rival = cluster.client(other)
    rival.socket.sendall(rival.frame(CREATE_TOPICS, 4, {"topics": [topic], "timeout": 30_000}))
    cluster.run_until(lambda: has_response(rival))
    assert codes(CREATE_TOPICS, rival.receive(CREATE_TOPICS, 4)) == [NONE]
    lane.is_held = False
    assert finish(cluster, client, CREATE_TOPICS) == [TOPIC_ALREADY_EXISTS if each == name else NONE for each in NAMES]
    assert len(cluster.controller.controller.image.topics[name].partitions) == 3


@pytest.mark.slow
@pytest.mark.parametrize("is_elected_again", [False, True])
def test_a_controller_that_lost_the_leadership_in_between_does_not_say_that_all_was_done(
    cluster: ClusterNodes, is_elected_again: bool
) -> None:
    active = cluster.controller
    client, lane = begin(cluster, active.node_id, CREATE_TOPICS)
    epoch = active.raft.epoch
    cluster.controller.raft.resign(cluster.clock.now_ms())
    cluster.run_until(lambda: any(node.controller.is_active for node in cluster.nodes.values()))
    while is_elected_again and not active.controller.is_active:
        for node in cluster.nodes.values():
            node.raft.resign(cluster.clock.now_ms())
        cluster.run_until(lambda: any(node.controller.is_active for node in cluster.nodes.values()))
    assert active.raft.epoch > epoch
    made = len(cluster.controller.controller.image.topics)
    lane.is_held = False
    assert finish(cluster, client, CREATE_TOPICS) == [REQUEST_TIMED_OUT] * len(NAMES)
    assert len(cluster.controller.controller.image.topics) == made < len(NAMES)
