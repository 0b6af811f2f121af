"""Moves of replicas and their throttles against scripted brokers: errors item by item, and old versions."""

from __future__ import annotations

from typing import Any

import pytest
from support.scripted_broker import ScriptedBroker
from support.unit_admin import fast_admin

from kafkatools.core import errors
from kafkatools.core.admin.reassignments import (
    PartitionReassignment,
    Replica,
    ReplicaLogDir,
    active_reassignments,
    alter_reassignments,
    partitions_of,
    replica_log_dirs,
)
from kafkatools.core.admin.replication_throttles import PartitionMove, brokers_of, find_throttles, partition_moves
from kafkatools.core.protocol.api_versions import ApiKey

_ALTER = ApiKey.ALTER_PARTITION_REASSIGNMENTS


def altering(*answers: Any, versions: tuple[int, int] = (0, 1)) -> ScriptedBroker:
    left = list(answers)
    return ScriptedBroker({_ALTER: lambda header, request: left.pop(0)}, {_ALTER: versions})


def result(partition: int, code: int = 0, message: str | None = None) -> dict[str, Any]:
    return {"partition_index": partition, "error_code": code, "error_message": message}


def test_partitions_are_begun_and_cancelled_item_by_item() -> None:
    said = {"responses": [{"name": "a", "partitions": [result(0), result(1, 85, "Nothing there."), result(2)]}]}
    broker = altering(said)
    with broker.in_background(), fast_admin(broker) as admin:
        found = alter_reassignments(admin, {("a", 0): [1, 2], ("a", 1): None, ("a", 2): (3,), ("b", 0): [1]})
    assert (found["a", 0], found["a", 2]) == (None, None)
    assert isinstance(found["a", 1], errors.NoReassignmentInProgress)
    assert isinstance(found["b", 0], errors.UnknownServerError), "an answer that leaves something out"
    request = next(entity for header, entity in broker.requests if header.api_key == _ALTER)
    requested = {
        (topic.name, part.partition_index): part.replicas for topic in request.topics for part in topic.partitions
    }
    assert requested == {("a", 0): (1, 2), ("a", 1): None, ("a", 2): (3,), ("b", 0): (1,)}


def test_an_error_of_the_whole_answer_is_that_of_each_partition() -> None:
    broker = altering({"error_code": 31, "error_message": "No.", "responses": ()})
    with broker.in_background(), fast_admin(broker) as admin:
        found = alter_reassignments(admin, {("a", 0): [1], ("b", 0): [1]})
    assert all(isinstance(error, errors.ClusterAuthorizationFailed) for error in found.values())
    assert len(found) == 2


def test_the_controller_that_moved_is_asked_again() -> None:
    broker = altering({"error_code": 41}, {"responses": [{"name": "a", "partitions": [result(0)]}]})
    with broker.in_background(), fast_admin(broker) as admin:
        assert alter_reassignments(admin, {("a", 0): [1]}) == {("a", 0): None}


def test_an_old_broker_cannot_refuse_another_factor() -> None:
    broker = altering({"responses": [{"name": "a", "partitions": [result(0)]}]}, versions=(0, 0))
    with broker.in_background(), fast_admin(broker) as admin:
        refused = alter_reassignments(admin, {("a", 0): [1]}, allow_replication_factor_change=False)
        assert isinstance(refused["a", 0], errors.UnsupportedVersion)
        assert broker.count(_ALTER) == 0
        assert alter_reassignments(admin, {("a", 0): [1]}) == {("a", 0): None}


def test_who_decides_by_what_is_moving_hears_that_a_broker_does_not_tell() -> None:
    broker = ScriptedBroker({ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda header, request: {"error_code": 31}})
    with (
        broker.in_background(),
        fast_admin(broker) as admin,
        pytest.raises(errors.ClusterAuthorizationFailed),
    ):
        active_reassignments(admin)


def test_a_topic_that_is_not_there_is_named() -> None:
    def describe(header: Any, request: Any) -> Any:
        return {"topics": [{"name": one.name, "error_code": 3} for one in request.topics], "next_cursor": None}

    broker = ScriptedBroker({ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe})
    with (
        broker.in_background(),
        fast_admin(broker) as admin,
        pytest.raises(errors.UnknownTopicOrPartition, match="^Topic ghost not found.$"),
    ):
        partitions_of(admin, ["ghost"])


def test_replicas_lie_in_live_directories_and_on_live_brokers() -> None:
    def directory(path: str, code: int, *parts: tuple[int, bool]) -> dict[str, Any]:
        found = [{"partition_index": n, "partition_size": 7, "is_future_key": future} for n, future in parts]
        return {"log_dir": path, "error_code": code, "topics": [{"name": "a", "partitions": found}]}

    said = {"results": [directory("/x", 0, (0, False)), directory("/y", 0, (0, True)), directory("/z", 56, (1, False))]}
    broker = ScriptedBroker({ApiKey.DESCRIBE_LOG_DIRS: lambda header, request: said})
    with broker.in_background(), fast_admin(broker) as admin:
        found = replica_log_dirs(admin, [Replica("a", 0, 1), Replica("a", 1, 1), Replica("a", 0, 9)])
    assert found[Replica("a", 0, 1)] == ReplicaLogDir("/x", 7, "/y", 7)
    assert found[Replica("a", 1, 1)] == ReplicaLogDir(), "its directory is offline"
    assert isinstance(found[Replica("a", 0, 9)], errors.BrokerNotAvailable)
    request = next(entity for header, entity in broker.requests if header.api_key == ApiKey.DESCRIBE_LOG_DIRS)
    assert [(one.topic, one.partitions) for one in request.topics] == [("a", (0, 1))]


def test_a_partition_that_moves_already_keeps_its_sources() -> None:
    active = {
        ("a", 0): PartitionReassignment((3, 2, 1), (3,), (1,)),
        ("other", 0): PartitionReassignment((1, 2), (2,), ()),
    }
    moves = partition_moves(active, {("a", 0): [4, 2], ("b", 0): [1, 2]}, {("a", 0): [3, 2, 1], ("b", 0): [1]})
    assert moves == {
        ("a", 0): PartitionMove(frozenset({1, 2}), frozenset({4})),
        ("other", 0): PartitionMove(frozenset({1}), frozenset({2})),
        ("b", 0): PartitionMove(frozenset({1}), frozenset({2})),
    }
    assert brokers_of(moves) == [1, 2, 4]


def test_throttles_are_those_set_on_a_resource_itself() -> None:
    rate = "leader.replication.throttled.rate"

    def describe(header: Any, request: Any) -> Any:
        def configs(name: str) -> list[dict[str, Any]]:
            sources = {"1": 2, "2": 4, "a": 1, "b": 5}
            return [{"name": rate, "value": "5", "config_source": sources[name]}]

        return {
            "results": [
                {"resource_type": one.resource_type, "resource_name": one.resource_name, "error_code": 3}
                if one.resource_name == "ghost"
                else {
                    "resource_type": one.resource_type,
                    "resource_name": one.resource_name,
                    "configs": configs(one.resource_name),
                }
                for one in request.resources
            ]
        }

    broker = ScriptedBroker({ApiKey.DESCRIBE_CONFIGS: describe})
    broker.nodes = {1: broker.port, 2: broker.port}
    with broker.in_background(), fast_admin(broker) as admin:
        found = find_throttles(admin, ["a", "b", "ghost"], [1, 2])
    assert (found.brokers, found.topics) == ({1: {rate: "5"}}, {"a": {rate: "5"}})
    assert isinstance(found.errors["ghost"], errors.UnknownTopicOrPartition)
