"""Two log directories change hands: begun here, continued by Apache Kafka, taken back; with replicas half way between
the directories each time."""

from __future__ import annotations

import contextlib
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.apache_kafka import ApacheKafka
from support.broker_client import BrokerClient, batch
from support.embedded import WITHOUT_RETENTION
from support.waiting import eventually

from kafkatools.core.broker.node import Node, single_node_config, start_node
from kafkatools.core.broker.node_setup import NodeSetup
from kafkatools.core.clock import SystemClock

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
CREATE_TOPICS, ALTER_LOG_DIRS, DESCRIBE_LOG_DIRS, ALTER_CONFIGS, DESCRIBE_CONFIGS = 19, 34, 35, 44, 32
SET, DELETE = 0, 1


@contextlib.contextmanager
def own_broker(paths: str) -> Iterator[tuple[Node, BrokerClient]]:
    reports: list[str] = []
    config = single_node_config(paths, "127.0.0.1", 0, WITHOUT_RETENTION)
    setup = NodeSetup(config, SystemClock(), report=reports.append)
    node = start_node(setup, format_if_needed=True)
    thread = threading.Thread(target=node.run)
    thread.start()
    client = BrokerClient("127.0.0.1", node.listener.port)
    try:
        yield node, client
    finally:
        client.close()
        node.request_stop()
        thread.join()
        node.close()
    assert reports == []


def held(client: BrokerClient) -> dict[str, set[tuple[int, bool]]]:
    """By directory: (partition of t, is it a future replica)."""
    return {
        pathlib.Path(each.log_dir).name: {
            (partition.partition_index, partition.is_future_key)
            for topic in each.topics
            if topic.name == "t"
            for partition in topic.partitions
        }
        for each in client.call(DESCRIBE_LOG_DIRS, 4, topics=None).results
    }


def throttle(client: BrokerClient, operation: int) -> None:
    change = {"name": RATE, "config_operation": operation, "value": "1" if operation == SET else None}
    resources = [{"resource_type": 4, "resource_name": "1", "configs": [change]}]
    assert client.call(ALTER_CONFIGS, 1, resources=resources, validate_only=False).responses[0].error_code == 0


def is_throttled(client: BrokerClient) -> bool:
    resources = [{"resource_type": 4, "resource_name": "1", "configuration_keys": [RATE]}]
    answer = client.call(DESCRIBE_CONFIGS, 4, resources=resources)
    return [each.name for each in answer.results[0].configs if each.value == "1"] == [RATE]


def move(client: BrokerClient, path: pathlib.Path, index: int) -> None:
    wanted = [{"path": str(path), "topics": [{"name": "t", "partitions": [index]}]}]
    answer: Any = client.call(ALTER_LOG_DIRS, 2, dirs=wanted)
    assert answer.results[0].partitions[0].error_code == 0


def produce(client: BrokerClient, index: int, count: int) -> None:
    for number in range(count):
        records = batch([b"%d-%d" % (index, number) + bytes(100_000)])
        assert client.produce("t", records, partition=index).error_code == 0


def test_directories_and_half_moved_replicas_change_hands(
    new_kafka: Callable[..., ApacheKafka], tmp_path: pathlib.Path
) -> None:
    cluster = new_kafka()
    first, second = cluster.log_dir(), tmp_path / "more"
    paths = cluster.settings["log.dirs"] = f"{first},{second}"
    with own_broker(paths) as (node, client):
        topic = {"name": "t", "num_partitions": 4, "replication_factor": 1}
        assert client.call(CREATE_TOPICS, 7, topics=[topic], timeout=1000).topics[0].error_code == 0
        for index in range(4):
            produce(client, index, 12)
        throttle(client, SET)
        move(client, second, 0)
        assert held(client) == {"data": {(0, False), (2, False)}, "more": {(1, False), (3, False), (0, True)}}
        eventually(lambda: not node.keeper.assignments)
    cluster.start_node(1)
    with BrokerClient("127.0.0.1", cluster.ports[0]) as client:
        eventually(lambda: held(client)["more"] == {(1, False), (3, False), (0, True)})
        throttle(client, DELETE)
        eventually(lambda: held(client) == {"data": {(2, False)}, "more": {(1, False), (3, False), (0, False)}})
        produce(client, 0, 1)
        throttle(client, SET)
        eventually(lambda: is_throttled(client))
        move(client, first, 3)
        eventually(lambda: held(client)["data"] == {(2, False), (3, True)})
    cluster.stop()
    with own_broker(paths) as (node, client):
        assert node.logs.is_clean_start
        eventually(
            lambda: held(client) == {"data": {(2, False), (3, True)}, "more": {(1, False), (3, False), (0, False)}}
        )
        throttle(client, DELETE)
        eventually(lambda: held(client) == {"data": {(2, False), (3, False)}, "more": {(0, False), (1, False)}})
        eventually(lambda: not node.keeper.assignments)
        mine = node.replicas.partitions["t"]
        assert {index: partition.log.log_end_offset for index, partition in mine.items()} == {
            0: 13,
            1: 12,
            2: 12,
            3: 12,
        }
        states = node.image.topics["t"].partitions
        assert all(states[index].directories == (node.keeper.directory_of(mine[index]),) for index in mine)
