"""Commands about all topics describe them at once: their names are not asked for first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.kt import run_kt
from support.scripted_broker import ScriptedBroker, partition

from kafkatools.core.protocol.api_versions import ApiKey


def _part(number: int, leader: int) -> dict[str, Any]:
    return {"partition_index": number, "leader_id": leader, "replica_nodes": (1, 2), "isr_nodes": (1, 2)}


def _offsets(header: Any, request: Any) -> dict[str, Any]:
    parts = {topic.name: [part.partition_index for part in topic.partitions] for topic in request.topics}
    told = [
        {"name": name, "partitions": [{"partition_index": number, "offset": 40 + number} for number in numbers]}
        for name, numbers in parts.items()
    ]
    return {"topics": told}


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """Two nodes at one address; topic `b` has a partition that its second replica leads."""
    described = [
        {"name": "a", "partitions": [_part(0, 1)]},
        {"name": "b", "partitions": [_part(0, 1), _part(1, 2)]},
    ]
    scripted = ScriptedBroker()
    nodes = [{"broker_id": node, "host": "127.0.0.1", "port": scripted.port} for node in (1, 2)]
    scripted.answers |= {
        ApiKey.DESCRIBE_CLUSTER: lambda header, request: {"brokers": nodes, "cluster_id": "c", "controller_id": 1},
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda header, request: {"topics": described, "next_cursor": None},
        ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda header, request: {"topics": []},
        ApiKey.DESCRIBE_LOG_DIRS: lambda header, request: {"results": []},
        ApiKey.LIST_OFFSETS: _offsets,
    }
    scripted.nodes = dict.fromkeys((1, 2), scripted.port)
    scripted.topics = [
        {"name": "a", "partitions": [partition(0, 1)]},
        {"name": "b", "partitions": [partition(0, 1), partition(1, 2)]},
    ]
    with scripted.in_background():
        yield scripted


def _asked_for_names(broker: ScriptedBroker) -> bool:
    """Whether a Metadata request was for all topics."""
    metadata = [request for header, request in broker.requests if header.api_key == ApiKey.METADATA]
    return any(request.topics is None for request in metadata)


def _requests_for_descriptions(broker: ScriptedBroker) -> list[list[str]]:
    return [
        [topic.name for topic in request.topics]
        for header, request in broker.requests
        if header.api_key == ApiKey.DESCRIBE_TOPIC_PARTITIONS
    ]


@pytest.mark.parametrize("options", [(), ("--partitions", "0,1"), ("--exclude-internal-topics",)])
def test_offsets_of_all_topics(broker: ScriptedBroker, options: tuple[str, ...]) -> None:
    ran = run_kt("get-offsets", "--bootstrap-server", broker.bootstrap, *options)
    assert ran.out.splitlines() == ["a:0:40", "b:0:40", "b:1:41"], ran.err
    assert not _asked_for_names(broker)
    assert _requests_for_descriptions(broker) == [[]]


@pytest.mark.parametrize("options", [("--topic", "b"), ("--topic-partitions", "b")])
def test_offsets_of_some_topics_are_asked_for_by_name(broker: ScriptedBroker, options: tuple[str, ...]) -> None:
    broker.answers[ApiKey.DESCRIBE_TOPIC_PARTITIONS] = lambda header, request: {
        "topics": [{"name": "b", "partitions": [_part(0, 1), _part(1, 2)]}],
        "next_cursor": None,
    }
    ran = run_kt("get-offsets", "--bootstrap-server", broker.bootstrap, *options)
    assert ran.out.splitlines() == ["b:0:40", "b:1:41"], ran.err
    assert _requests_for_descriptions(broker) == [["b"]]


def test_elections_of_all_partitions_that_would_be_held(broker: ScriptedBroker) -> None:
    words = ("--election-type", "preferred", "--all-topic-partitions", "--dry-run")
    ran = run_kt("leader-election", "--bootstrap-server", broker.bootstrap, *words)
    assert ran.out.splitlines() == ["b-1 would get another leader: 2 -> 1"], ran.err
    assert not _asked_for_names(broker)
    assert _requests_for_descriptions(broker) == [[]]


def test_a_plan_for_all_topics(broker: ScriptedBroker) -> None:
    words = ("reassign-partitions", "plan", "set-rf", "--replication-factor", "1")
    ran = run_kt(*words, "--bootstrap-server", broker.bootstrap)
    moves = json.loads(ran.out)["partitions"]
    assert [(move["topic"], move["partition"], len(move["replicas"])) for move in moves] == [
        ("a", 0, 1),
        ("b", 0, 1),
        ("b", 1, 1),
    ]
    assert not _asked_for_names(broker)
    assert _requests_for_descriptions(broker) == [[]]
