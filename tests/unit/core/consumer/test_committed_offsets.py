"""Committed offsets: the order of commits, and a coordinator whose OffsetFetch response has other groups than the
request."""

from __future__ import annotations

from typing import Any

import pytest
from support.scripted_broker import Answer, ScriptedBroker

import kafkatools
from kafkatools.core.errors import UnknownServerError, UnknownTopicOrPartition
from kafkatools.core.protocol.api_versions import ApiKey

SETTINGS = {"group.id": "billing", "default.api.timeout.ms": 5000}


def offsets(group_id: str, offset: int) -> dict[str, Any]:
    """One group of an OffsetFetch response: the offset of partition 0 of a topic."""
    part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "metadata": ""}
    return {"group_id": group_id, "topics": [{"name": "orders", "partitions": [part]}]}


def coordinating(answers: dict[int, Answer], versions: dict[int, tuple[int, int]]) -> ScriptedBroker:
    """A broker that coordinates all groups."""

    def find(header: Any, request: Any) -> dict[str, Any]:
        place = {"node_id": 1, "host": "127.0.0.1", "port": broker.port, "error_code": 0}
        return {"coordinators": [{**place, "key": key} for key in request.coordinator_keys]}

    broker = ScriptedBroker({ApiKey.FIND_COORDINATOR: find, **answers}, versions)
    return broker


def committed(*groups: dict[str, Any]) -> int | None:
    broker = coordinating(
        {ApiKey.OFFSET_FETCH: lambda header, request: {"groups": groups}}, {ApiKey.OFFSET_FETCH: (8, 9)}
    )
    with broker.in_background(), kafkatools.Consumer(SETTINGS, bootstrap_servers=broker.bootstrap) as consumer:
        found = consumer.committed([("orders", 0)])["orders", 0]
        return None if found is None else found.offset


def test_offsets_of_another_group_are_left_out() -> None:
    assert committed(offsets("other", 7), offsets("billing", 3)) == 3


@pytest.mark.parametrize("groups", [(), (offsets("other", 7),)], ids=["no group", "another group"])
def test_response_without_the_group_is_an_error(groups: Any) -> None:
    with pytest.raises(UnknownServerError, match="The response has no result for group billing"):
        committed(*groups)


def test_an_automatic_commit_does_not_overtake_one_that_waits_for_the_coordinator() -> None:
    """The heartbeat thread finds the coordinator between the two steps of a poll."""
    committed_offsets: list[int] = []

    def commit(header: Any, request: Any) -> dict[str, Any]:
        (part,) = request.topics[0].partitions
        committed_offsets.append(part.committed_offset)
        return {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": 0}]}]}

    broker = coordinating({ApiKey.OFFSET_COMMIT: commit}, {ApiKey.OFFSET_COMMIT: (8, 9)})
    part = {"partition_index": 0, "leader_id": 1, "leader_epoch": -1, "replica_nodes": [1], "isr_nodes": [1]}
    broker.topics = [{"name": "orders", "error_code": 0, "partitions": [part]}]
    with broker.in_background(), kafkatools.Consumer(SETTINGS, bootstrap_servers=broker.bootstrap) as consumer:
        consumer.assign([("orders", 0)])
        consumer.seek(("orders", 0), 20)
        group = consumer._group
        assert group is not None
        consumer.commit_async({("orders", 0): 10})
        while not group._lookup.is_known:
            group.channel.tick(consumer._clock.now_ms())
            consumer._client.poll_background()
        group.commits.maybe_auto_commit(consumer._clock.now_ms() + 5000)
        consumer.commit_sync({("orders", 0): 30})
    assert committed_offsets[:3] == [10, 20, 30]


def test_an_automatic_commit_of_a_deleted_topic_waits_for_its_interval() -> None:
    part = {"partition_index": 0, "leader_id": 1, "leader_epoch": -1, "replica_nodes": [1], "isr_nodes": [1]}
    refused = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": 3}]}]}
    broker = coordinating({ApiKey.OFFSET_COMMIT: lambda header, request: refused}, {ApiKey.OFFSET_COMMIT: (8, 9)})
    broker.topics = [{"name": "orders", "error_code": 0, "partitions": [part]}]
    with broker.in_background(), kafkatools.Consumer(SETTINGS, bootstrap_servers=broker.bootstrap) as consumer:
        consumer.assign([("orders", 0)])
        consumer.seek(("orders", 0), 20)
        group = consumer._group
        assert group is not None
        while not group._lookup.is_known:
            group.channel.tick(consumer._clock.now_ms())
            consumer._client.poll(10)
        broker.topics = [{"name": "orders", "error_code": 3, "partitions": []}]
        consumer._client.leaders.request_update()
        while not consumer._client.is_absent("orders"):
            consumer._client.poll(10)
        due_ms = group.commits._next_auto_ms
        attempt = group.commits.start_auto_commit()
        while attempt is not None and not attempt.is_done:
            consumer._client.poll(10)
        assert attempt is not None
        assert (type(attempt.error), group.commits._next_auto_ms) == (UnknownTopicOrPartition, due_ms)
