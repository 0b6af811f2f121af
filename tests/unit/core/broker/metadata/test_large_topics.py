"""One topic of very many partitions: others are answered while it is created, grown, changed and deleted, and it is
there as a whole or not at all."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.broker_turns import Turns

from kafkatools.core.broker.metadata.controller import client_changes
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.replicas import log_tasks
from kafkatools.core.broker.server.slow_lane import SlowLane

API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = 18, 19, 20, 37
ELECT_LEADERS, ALTER_REASSIGNMENTS, ALTER_CONFIGS = 43, 45, 44
NONE, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, ELECTION_NOT_NEEDED = 0, 36, 37, 84
OTHER = {"client_software_name": "a", "client_software_version": "1"}
COUNT = 120


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_changes, "PARTITIONS_AT_ONCE", 10)
    monkeypatch.setattr(client_changes, "CHANGES_AT_ONCE", 10)


def creation(name: str = "t", count: int = COUNT, **options: Any) -> dict[str, Any]:
    topic = {"name": name, "num_partitions": count, "replication_factor": 1}
    return {"topics": [topic], "timeout": 5000, **options}


def growth(count: int, **options: Any) -> dict[str, Any]:
    topic = {"name": "t", "count": count, "assignments": None}
    return {"topics": [topic], "timeout": 5000, "validate_only": False, **options}


def partitions(broker: Turns, name: str = "t") -> list[int]:
    topic = broker.node.image.topics.get(name)
    return [] if topic is None else list(topic.partitions)


def begin(broker: Turns, api_key: int, version: int, fields: dict[str, Any]) -> BrokerClient:
    """Send a request whose slices are as short as can be, and turn until it has begun."""
    lane = broker.node.listener.lane = SlowLane(slice_ns=0)
    client = broker.connect()
    broker.send(client, client.frame(api_key, version, fields))
    broker.turn_until(lambda: lane.is_busy)
    return client


def create(broker: Turns, count: int = COUNT) -> None:
    broker.call(broker.connect(), CREATE_TOPICS, 4, creation(count=count))
    assert partitions(broker) == list(range(count))


def ask_another(broker: Turns) -> None:
    broker.call(broker.connect(), API_VERSIONS, 3, OTHER)


def test_others_are_answered_while_a_large_topic_is_planned_and_it_comes_as_a_whole(broker: Turns) -> None:
    client = begin(broker, CREATE_TOPICS, 4, creation())
    ask_another(broker)
    assert partitions(broker) == []
    broker.turn_until(lambda: partitions(broker))
    assert partitions(broker) == list(range(COUNT))
    assert [each.error_code for each in broker.receive(client, CREATE_TOPICS, 4).topics] == [NONE]
    assert len(broker.node.replicas.partitions["t"]) == COUNT


def test_a_large_topic_is_one_batch_that_a_restart_reads(broker: Turns) -> None:
    end = broker.node.metadata_offset
    create(broker)
    log = broker.node.metadata_log
    batches = [batch for batch in log.read_in_portions(end, broker.node.metadata_offset) if batch is not None]
    assert [len(batch.records) for batch in batches] == [COUNT + 1]
    replayed = {record.partition_id: tuple(record.replicas) for record in batches[0].records[1:]}
    assert replayed == {index: (broker.node.node_id,) for index in range(COUNT)}


def test_a_large_topic_that_is_only_validated_is_not_created(broker: Turns) -> None:
    answer = broker.call(broker.connect(), CREATE_TOPICS, 5, creation(validate_only=True)).topics[0]
    assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (NONE, COUNT, 1)
    assert partitions(broker) == []


def test_a_topic_that_another_client_creates_meanwhile_stays_as_that_client_made_it(broker: Turns) -> None:
    client = begin(broker, CREATE_TOPICS, 4, creation())
    ask_another(broker)
    broker.node.controller.create_topics([NewTopic("t", 2, 1)])
    assert [each.error_code for each in broker.receive(client, CREATE_TOPICS, 4).topics] == [TOPIC_ALREADY_EXISTS]
    assert partitions(broker) == [0, 1]


def test_a_large_topic_whose_client_has_gone_is_not_created_by_half(broker: Turns) -> None:
    begin(broker, CREATE_TOPICS, 4, creation())
    ask_another(broker)
    next(each for each in broker.node.listener.connections if each.is_muted).close()
    broker.turn_until(lambda: not broker.node.listener.lane.is_busy)
    assert partitions(broker) == []


def test_others_are_answered_while_many_partitions_are_added_and_they_come_together(broker: Turns) -> None:
    create(broker, 1)
    client = begin(broker, CREATE_PARTITIONS, 3, growth(COUNT))
    ask_another(broker)
    assert partitions(broker) == [0]
    broker.turn_until(lambda: len(partitions(broker)) > 1)
    assert partitions(broker) == list(range(COUNT))
    assert [each.error_code for each in broker.receive(client, CREATE_PARTITIONS, 3).results] == [NONE]
    assert len(broker.node.replicas.partitions["t"]) == COUNT


@pytest.mark.parametrize(("meanwhile", "error_code"), [(3, NONE), (COUNT + 1, INVALID_PARTITIONS)])
def test_partitions_that_another_client_adds_meanwhile_are_counted(
    broker: Turns, meanwhile: int, error_code: int
) -> None:
    create(broker, 1)
    client = begin(broker, CREATE_PARTITIONS, 3, growth(COUNT))
    ask_another(broker)
    broker.node.controller.create_partitions("t", meanwhile, None, validate_only=False)
    assert [each.error_code for each in broker.receive(client, CREATE_PARTITIONS, 3).results] == [error_code]
    assert partitions(broker) == list(range(max(COUNT, meanwhile)))
    assert len(broker.node.replicas.partitions["t"]) == max(COUNT, meanwhile)


def test_others_are_answered_while_the_partitions_of_a_topic_are_deleted(broker: Turns, tmp_path: pathlib.Path) -> None:
    create(broker)
    client = begin(broker, DELETE_TOPICS, 5, {"topic_names": ["t"], "timeout": 5000})
    broker.turn_until(lambda: len(broker.node.logs.logs) < COUNT)
    ask_another(broker)
    assert broker.node.logs.logs
    assert [each.error_code for each in broker.receive(client, DELETE_TOPICS, 5).responses] == [NONE]
    assert not broker.node.logs.logs
    assert "t" not in broker.node.replicas.partitions
    assert [path for path in tmp_path.iterdir() if path.name.startswith("t-") and path.suffix == ""] == []


@pytest.mark.slow
def test_a_topic_that_is_created_again_while_it_is_deleted_begins_empty(broker: Turns) -> None:
    create(broker)
    before = broker.node.image.topics["t"].topic_id
    deleting = begin(broker, DELETE_TOPICS, 5, {"topic_names": ["t"], "timeout": 5000})
    broker.turn_until(lambda: len(broker.node.logs.logs) < COUNT)
    creating = broker.connect()
    broker.send(creating, creating.frame(CREATE_TOPICS, 4, creation(count=COUNT)))
    assert [each.error_code for each in broker.receive(deleting, DELETE_TOPICS, 5).responses] == [NONE]
    assert [each.error_code for each in broker.receive(creating, CREATE_TOPICS, 4).topics] == [NONE]
    replicas = broker.node.replicas.partitions["t"]
    assert sorted(replicas) == list(range(COUNT))
    assert before not in {partition.topic_id for partition in replicas.values()}
    assert not any(partition.is_deleted or partition.log.is_closed for partition in replicas.values())


def test_the_files_of_deleted_partitions_are_removed_a_few_in_a_turn(
    broker: Turns, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tasks, "TASKS_AT_ONCE", 7)
    monkeypatch.setattr(log_tasks, "CHECK_MS", 0)
    topic = creation(count=20)["topics"][0] | {"configs": [{"name": "file.delete.delay.ms", "value": "0"}]}
    broker.call(broker.connect(), CREATE_TOPICS, 4, {"topics": [topic], "timeout": 5000})
    broker.node.controller.delete_topic("t", None)
    remaining = [len(deleted_directories(tmp_path))]
    while remaining[-1]:
        broker.turn()
        remaining.append(len(deleted_directories(tmp_path)))
    assert remaining[0] == 20
    assert max(before - after for before, after in zip(remaining, remaining[1:], strict=False)) == 7


def deleted_directories(directory: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in directory.iterdir() if path.name.endswith("-delete")]


@pytest.mark.parametrize("api_key", [ALTER_REASSIGNMENTS, ELECT_LEADERS])
def test_others_are_answered_while_many_partitions_are_reassigned_or_get_leaders(
    broker: Turns, api_key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(broker)
    portions: list[int] = []
    commit = broker.node.controller._commit
    monkeypatch.setattr(broker.node.controller, "_commit", lambda records: portions.append(1) or commit(records))
    client = begin(broker, api_key, 1, change(api_key))
    broker.turn_until(lambda: len(portions) > 1)
    ask_another(broker)
    assert len(portions) < COUNT / 10
    answer = broker.receive(client, api_key, 1)
    assert outcomes(api_key, answer) == {
        index: NONE if api_key == ALTER_REASSIGNMENTS else ELECTION_NOT_NEEDED for index in range(COUNT)
    }
    assert len(portions) == COUNT / 10 + 1


def change(api_key: int) -> dict[str, Any]:
    if api_key == ELECT_LEADERS:
        return {
            "election_type": 0,
            "topic_partitions": [{"topic": "t", "partitions": list(range(COUNT))}],
            "timeout": 5000,
        }
    moved = [{"partition_index": index, "replicas": [1]} for index in range(COUNT)]
    return {"topics": [{"name": "t", "partitions": moved}], "timeout": 5000}


def outcomes(api_key: int, answer: Any) -> dict[int, int]:
    if api_key == ELECT_LEADERS:
        results = answer.replica_election_results[0].partition_result
        return {each.partition_id: each.error_code for each in results}
    return {each.partition_index: each.error_code for each in answer.responses[0].partitions}
