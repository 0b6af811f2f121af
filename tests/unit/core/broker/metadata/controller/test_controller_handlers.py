"""The APIs that brokers ask of the active controller, as bytes in and bytes out."""

from __future__ import annotations

from typing import Any

import pytest
from support.quorum_controller import NEWEST, Cluster, directory, incarnation
from support.whole_messages import decode_all

from kafkatools.core.broker.server.apis import CONTROLLER_APIS
from kafkatools.core.broker.server.requests import Request
from kafkatools.core.errors import ClusterAuthorizationFailed
from kafkatools.core.protocol import messages

OF_BROKERS = {62: (0, 4), 63: (0, 2), 56: (2, 3), 67: (0, 0), 70: (0, 0), 73: (0, 0)}


class _Node:
    """What the handlers need of a node."""

    def __init__(self, cluster: Cluster, *, is_permitted: bool = True) -> None:
        self.controller, self.clock = cluster.controller, cluster.clock
        self._is_permitted = is_permitted

    def authorize_or_raise(self, request: Request, operation: int, resource_type: int, name: str) -> None:
        assert (operation, resource_type, name) == (9, 4, "kafka-cluster")
        if not self._is_permitted:
            raise ClusterAuthorizationFailed()


def _ask(node: _Node, api_key: int, entity: Any) -> Any:
    version = type(entity).__version__
    frame = memoryview(bytearray(messages.encode(entity)))
    request = Request(None, frame, (api_key, version, 7))  # type: ignore[arg-type]
    request.is_flexible = version >= CONTROLLER_APIS[api_key].flexible_since
    (part,) = CONTROLLER_APIS[api_key].load()(node, request)  # type: ignore[arg-type]
    assert isinstance(part, bytes)
    return decode_all(messages.response_type(api_key, version), part, 9 if request.is_flexible else 8)


@pytest.mark.parametrize("api_key", OF_BROKERS)
def test_the_table_says_what_kafka_says_and_headers_are_flexible_when_kafka_s_are(api_key: int) -> None:
    api = CONTROLLER_APIS[api_key]
    assert (api.lowest, api.highest) == OF_BROKERS[api_key]
    for version in range(api.lowest, api.highest + 1):
        flexible = messages.request_type(api_key, version).__flexible__
        assert flexible == (version >= api.flexible_since), version


def _requests(cluster: Cluster) -> dict[int, Any]:
    topic_id = cluster.image.topics["a"].topic_id
    broker = {"broker_id": 1, "broker_epoch": cluster.epochs[1]}
    isr = [{"broker_id": 1, "broker_epoch": -1}]
    partition = {"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0, "new_isr_with_epochs": isr}
    placed = [{"topic_id": topic_id, "partitions": [{"partition_index": 0}]}]
    beat = {"current_metadata_offset": 99, "want_fence": False, "want_shut_down": False, "offline_log_dirs": []}
    fields: dict[int, dict[str, Any]] = {
        63: {**broker, **beat, "cordoned_log_dirs": None},
        56: {**broker, "topics": [{"topic_id": topic_id, "partitions": [{**partition, "leader_recovery_state": 0}]}]},
        67: broker,
        70: {
            "controller_id": 1,
            "incarnation_id": incarnation(8),
            "zk_migration_ready": False,
            "listeners": [],
            "features": [],
        },
        73: {**broker, "directories": [{"id_": directory(1), "topics": placed}]},
    }
    made = {key: messages.build(messages.request_type(key, NEWEST.get(key, 0)), each) for key, each in fields.items()}
    return {62: cluster.registration(3), **made}


def _cluster() -> Cluster:
    cluster = Cluster([1, 2])
    cluster.create("a", [1, 2])
    return cluster


def test_each_is_answered_in_its_own_form() -> None:
    cluster = _cluster()
    requests, end = _requests(cluster), cluster.log.end_offset
    answers = {key: _ask(_Node(cluster), key, entity) for key, entity in requests.items()}
    assert {key: int(answer.error_code) for key, answer in answers.items()} == dict.fromkeys(OF_BROKERS, 0)
    assert answers[62].broker_epoch == end
    assert (answers[63].is_caught_up, answers[63].is_fenced, answers[63].should_shut_down) == (True, False, False)
    changed = answers[56].topics[0].partitions[0]
    assert (int(changed.error_code), changed.isr, changed.partition_epoch) == (0, (1,), 1)
    assert (answers[67].producer_id_start, answers[67].producer_id_len) == (0, 1000)
    assert int(answers[73].directories[0].topics[0].partitions[0].error_code) == 0


def test_without_the_right_to_act_for_the_cluster_nothing_is_done() -> None:
    cluster = _cluster()
    requests, end = _requests(cluster), cluster.log.end_offset
    node = _Node(cluster, is_permitted=False)
    codes = {int(_ask(node, key, entity).error_code) for key, entity in requests.items()}
    assert (codes, cluster.log.end_offset) == ({31}, end)


def test_a_controller_that_is_not_active_says_so() -> None:
    cluster = _cluster()
    requests = _requests(cluster)
    cluster.controller.deactivate()
    assert {int(_ask(_Node(cluster), key, entity).error_code) for key, entity in requests.items()} == {41}


def test_an_isr_without_epochs_is_taken_as_it_is() -> None:
    """Version 2 of AlterPartition, before KIP-903."""
    cluster = _cluster()
    topic_id = cluster.image.topics["a"].topic_id
    partition = {"partition_index": 0, "leader_epoch": 0, "partition_epoch": 0, "new_isr": [1]}
    topics = [{"topic_id": topic_id, "partitions": [{**partition, "leader_recovery_state": 0}]}]
    fields = {"broker_id": 1, "broker_epoch": cluster.epochs[1], "topics": topics}
    answer = _ask(_Node(cluster), 56, messages.build(messages.request_type(56, 2), fields))
    assert answer.topics[0].partitions[0].isr == (1,)
