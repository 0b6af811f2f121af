"""The leader of a classic group, with a scripted broker whose cluster has racks: what makes it join again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.scripted_broker import ScriptedBroker
from support.waiting import eventually

from kafkatools import Consumer
from kafkatools.core.group.subscription_protocol import Assignment, encode_assignment
from kafkatools.core.protocol.api_versions import ApiKey

METADATA_TURNS = 2


class RackedBroker(ScriptedBroker):
    """A broker and coordinator with the only member of a group as its leader. `racks` has the living brokers."""

    def __init__(self) -> None:
        super().__init__(
            {
                ApiKey.METADATA: self.say_cluster,
                ApiKey.FIND_COORDINATOR: self.say_coordinator,
                ApiKey.JOIN_GROUP: self.say_joined,
                ApiKey.SYNC_GROUP: lambda header, request: {"assignment": encode_assignment(Assignment((("t", 0),)))},
                ApiKey.HEARTBEAT: lambda header, request: {},
                ApiKey.LEAVE_GROUP: lambda header, request: {},
                ApiKey.OFFSET_FETCH: lambda header, request: {"error_code": 14},  # it loads for ever
            },
            versions={ApiKey.OFFSET_FETCH: (7, 7)},
        )
        self.racks = {1: "east", 2: "west"}
        self.partitions = 1

    def say_cluster(self, header: Any, request: Any) -> Any:
        brokers = [
            {"node_id": node, "host": "127.0.0.1", "port": self.port, "rack": rack} for node, rack in self.racks.items()
        ]
        partitions = [
            {"partition_index": index, "leader_id": 1, "leader_epoch": 0, "replica_nodes": (1, 2), "isr_nodes": (1, 2)}
            for index in range(self.partitions)
        ]
        return {"brokers": brokers, "topics": [{"name": "t", "partitions": partitions}], "controller_id": 1}

    def say_coordinator(self, header: Any, request: Any) -> Any:
        place = {"node_id": 1, "host": "127.0.0.1", "port": self.port}
        return {"coordinators": [{"key": key, **place} for key in request.coordinator_keys]}

    def say_joined(self, header: Any, request: Any) -> Any:
        [protocol, *_] = request.protocols
        return {
            "generation_id": 1,
            "protocol_type": "consumer",
            "protocol_name": protocol.name,
            "leader": "m",
            "member_id": "m",
            "members": [{"member_id": "m", "metadata": protocol.metadata}],
        }


@pytest.fixture
def broker() -> Iterator[RackedBroker]:
    with RackedBroker().in_background() as made:
        assert isinstance(made, RackedBroker)
        yield made


def leader(broker: RackedBroker, **settings: str) -> Consumer:
    quick = {"metadata_max_age_ms": 20, "retry_backoff_ms": 10, "retry_backoff_max_ms": 10}
    consumer = Consumer(bootstrap_servers=broker.bootstrap, group_id="g", enable_auto_commit=False, **quick, **settings)
    consumer.subscribe(["t"])
    eventually(lambda: bool(consumer.poll(10) or consumer.assignment()))
    return consumer


def refresh(broker: RackedBroker, consumer: Consumer) -> None:
    """Poll until the consumer has had fresh metadata several times."""
    done = broker.count(ApiKey.METADATA) + METADATA_TURNS
    eventually(lambda: bool(consumer.poll(10) or broker.count(ApiKey.METADATA) >= done))


def test_a_broker_that_goes_and_comes_back_is_no_reason_to_rebalance(broker: RackedBroker) -> None:
    with leader(broker) as consumer:
        assert broker.count(ApiKey.JOIN_GROUP) == 1
        del broker.racks[2]
        refresh(broker, consumer)
        broker.racks[2] = "west"
        refresh(broker, consumer)
        assert broker.count(ApiKey.JOIN_GROUP) == 1


def test_racks_of_replicas_count_for_a_leader_with_a_rack_and_partitions_always(broker: RackedBroker) -> None:
    with leader(broker, client_rack="west") as consumer:
        joins = broker.count(ApiKey.JOIN_GROUP)
        broker.racks[2] = "north"
        eventually(lambda: bool(consumer.poll(10) or broker.count(ApiKey.JOIN_GROUP) > joins))
    with leader(broker) as consumer:
        joins = broker.count(ApiKey.JOIN_GROUP)
        broker.partitions = 2
        eventually(lambda: bool(consumer.poll(10) or broker.count(ApiKey.JOIN_GROUP) > joins))
