"""Partitions that are created a few at a time: others are answered meanwhile, and all are made whatever happens in
between. The times are processor time, with wide margins."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from support.broker_client import batch
from support.broker_turns import Turns

from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.server.slow_lane import SlowLane

FIND_COORDINATOR, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 10, 18, 19, 20, 37
OTHER = {"client_software_name": "a", "client_software_version": "1"}
COUNT = 40


def new_topics(*names: str, count: int = COUNT) -> dict[str, Any]:
    topics = [{"name": name, "num_partitions": count, "replication_factor": 1} for name in names]
    return {"topics": topics, "timeout": 5000}


def made(broker: Turns, name: str = "t") -> int:
    return len(broker.node.replicas.partitions.get(name, ()))


def begin(broker: Turns, *names: str) -> Any:
    """Send a request that creates topics, and turn until a part of the partitions is there."""
    broker.node.listener.lane = SlowLane(slice_ns=0)
    client = broker.connect()
    broker.send(client, client.frame(CREATE_TOPICS, 5, new_topics(*names)))
    broker.turn_until(lambda: made(broker, names[0]) > 0)
    assert made(broker, names[0]) < COUNT
    return client


def codes(broker: Turns, client: Any) -> list[int]:
    return [int(topic.error_code) for topic in broker.receive(client, CREATE_TOPICS, 5).topics]


def test_others_are_answered_while_a_topic_is_created_and_its_creator_when_all_partitions_are_there(
    broker: Turns,
) -> None:
    client = begin(broker, "t")
    broker.call(broker.connect(), API_VERSIONS, 3, OTHER)
    assert made(broker) < COUNT
    assert broker.turn_until_readable(client) == [client.socket]
    assert made(broker) == COUNT
    assert codes(broker, client) == [0]
    assert broker.longest < broker.total / 3


def test_partitions_that_are_added_are_created_in_slices(broker: Turns) -> None:
    client = broker.connect()
    broker.call(client, CREATE_TOPICS, 5, new_topics("t", count=1))
    broker.node.listener.lane = SlowLane(slice_ns=0)
    broker.longest = broker.total = 0
    more = {"topics": [{"name": "t", "count": COUNT, "assignments": None}], "timeout": 5000, "validate_only": False}
    assert [int(each.error_code) for each in broker.call(client, CREATE_PARTITIONS, 1, more).results] == [0]
    assert made(broker) == COUNT
    assert broker.longest < broker.total / 3


@pytest.mark.parametrize(("key_type", "topic"), [(0, "__consumer_offsets"), (1, "__transaction_state")])
@pytest.mark.parametrize("version", [3, 4])
def test_the_first_look_up_of_a_coordinator_creates_its_topic_in_slices(
    broker: Turns, version: int, key_type: int, topic: str
) -> None:
    client = broker.connect()
    broker.node.listener.lane = SlowLane(slice_ns=0)
    keys = {"coordinator_keys": ["a", "b"]} if version >= 4 else {"key": "a"}
    answer = broker.call(client, FIND_COORDINATOR, version, {**keys, "key_type": key_type})
    found = answer.coordinators if version >= 4 else [answer]
    assert {(int(each.error_code), int(each.node_id)) for each in found} == {(0, broker.node.node_id)}
    assert made(broker, topic) == 50
    assert broker.longest < broker.total / 2


def test_a_topic_that_is_deleted_while_it_is_created_leaves_nothing(broker: Turns, tmp_path: pathlib.Path) -> None:
    client, other = begin(broker, "t"), broker.connect()
    deleted = broker.call(other, DELETE_TOPICS, 5, {"topic_names": ["t"], "timeout": 5000})
    assert [int(each.error_code) for each in deleted.responses] == [0]
    assert codes(broker, client) == [0]
    assert made(broker) == 0
    assert not broker.node.logs.logs
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("t-") and path.suffix == ""] == []


@pytest.mark.slow
def test_changes_of_two_clients_are_applied_in_their_order(broker: Turns) -> None:
    first = begin(broker, "t")
    second, third = begin_more(broker, "u"), begin_more(broker, "v")
    assert [codes(broker, client) for client in (first, second, third)] == [[0], [0], [0]]
    assert [made(broker, name) for name in "tuv"] == [COUNT] * 3


def begin_more(broker: Turns, name: str) -> Any:
    client = broker.connect()
    broker.send(client, client.frame(CREATE_TOPICS, 5, new_topics(name)))
    return client


def test_a_change_outside_of_the_lane_comes_after_the_one_under_way(broker: Turns) -> None:
    client = begin(broker, "t")
    broker.node.controller.create_topics([NewTopic("u", 3, 1)])
    assert made(broker, "u") == 0
    assert codes(broker, client) == [0]
    assert (made(broker), made(broker, "u")) == (COUNT, 3)


def test_partitions_are_created_though_the_client_has_gone(broker: Turns) -> None:
    begin(broker, "t")
    next(each for each in broker.node.listener.connections if each.is_muted).close()
    broker.turn_until(lambda: made(broker) == COUNT)
    writer = broker.connect()
    data = [{"name": "t", "partition_data": [{"index": COUNT - 1, "records": batch([b"v"])}]}]
    fields = {"transactional_id": None, "acks": 1, "timeout": 5000, "topic_data": data}
    answer = broker.call(writer, 0, 9, fields).responses[0].partition_responses[0]
    assert (int(answer.error_code), int(answer.base_offset)) == (0, 0)


def test_a_new_partition_has_the_files_of_an_opened_one(broker: Turns, tmp_path: pathlib.Path) -> None:
    broker.call(broker.connect(), CREATE_TOPICS, 5, new_topics("t", count=1))
    assert sorted(path.name for path in (tmp_path / "t-0").iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]
