"""Committed offsets from a coordinator whose OffsetFetch response has other groups than the request."""

from __future__ import annotations

from typing import Any

import pytest
from support.scripted_broker import ScriptedBroker

import kafkatools
from kafkatools.core.errors import UnknownServerError
from kafkatools.core.protocol.api_versions import ApiKey


def offsets(group_id: str, offset: int) -> dict[str, Any]:
    """One group of an OffsetFetch response: the offset of partition 0 of a topic."""
    part = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "metadata": ""}
    return {"group_id": group_id, "topics": [{"name": "orders", "partitions": [part]}]}


def committed(*groups: dict[str, Any]) -> int | None:
    def find(header: Any, request: Any) -> dict[str, Any]:
        place = {"node_id": 1, "host": "127.0.0.1", "port": broker.port, "error_code": 0}
        return {"coordinators": [{**place, "key": key} for key in request.coordinator_keys]}

    broker = ScriptedBroker(
        {ApiKey.FIND_COORDINATOR: find, ApiKey.OFFSET_FETCH: lambda header, request: {"groups": groups}},
        {ApiKey.OFFSET_FETCH: (8, 9)},
    )
    settings = {"group.id": "billing", "default.api.timeout.ms": 5000}
    with (
        broker.in_background(),
        kafkatools.Consumer(settings, bootstrap_servers=broker.bootstrap) as consumer,
    ):
        found = consumer.committed([("orders", 0)])["orders", 0]
        return None if found is None else found.offset


def test_offsets_of_another_group_are_left_out() -> None:
    assert committed(offsets("other", 7), offsets("billing", 3)) == 3


@pytest.mark.parametrize("groups", [(), (offsets("other", 7),)], ids=["no group", "another group"])
def test_response_without_the_group_is_an_error(groups: Any) -> None:
    with pytest.raises(UnknownServerError, match="The response has no result for group billing"):
        committed(*groups)
