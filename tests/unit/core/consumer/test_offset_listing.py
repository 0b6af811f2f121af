"""Looking up offsets at a broker whose ListOffsets responses have other partitions than the request."""

from __future__ import annotations

from typing import Any

import pytest
from support.scripted_broker import ScriptedBroker, partition

import kafkatools
from kafkatools.core.errors import NotLeaderOrFollower, RequestTimedOut
from kafkatools.core.protocol.api_versions import ApiKey

TIMEOUT_MS = 500


def listed(*offsets: tuple[str, int]) -> dict[str, Any]:
    """A ListOffsets response: the offset of partition 0 of each topic."""
    return {
        "topics": [
            {"name": name, "partitions": [{"partition_index": 0, "offset": offset, "timestamp": -1}]}
            for name, offset in offsets
        ]
    }


def end_offset(broker: ScriptedBroker) -> dict[tuple[str, int], int]:
    settings = {"default.api.timeout.ms": TIMEOUT_MS, "retry.backoff.ms": 10}
    with (
        broker.in_background(),
        kafkatools.Consumer(settings, bootstrap_servers=broker.bootstrap) as consumer,
    ):
        return dict(consumer.end_offsets([("orders", 0)]))


def test_partitions_that_were_not_asked_for_are_left_out() -> None:
    broker = ScriptedBroker({ApiKey.LIST_OFFSETS: lambda header, request: listed(("other", 7), ("orders", 3))})
    broker.topics = [{"name": "orders", "partitions": [partition(0)]}]
    assert end_offset(broker) == {("orders", 0): 3}


def test_a_lookup_ends_in_time_when_the_leader_is_lost_and_only_others_are_listed() -> None:
    def answer(header: Any, request: Any) -> Any:
        broker.topics = [{"name": "orders", "partitions": [partition(0, leader=-1)]}]
        refused = {"name": "orders", "partitions": [{"partition_index": 0, "error_code": NotLeaderOrFollower.code}]}
        return {"topics": [*listed(("other", 7))["topics"], refused]}

    broker = ScriptedBroker({ApiKey.LIST_OFFSETS: answer})
    broker.topics = [{"name": "orders", "partitions": [partition(0)]}]
    with pytest.raises(RequestTimedOut, match="orders-0"):
        end_offset(broker)
