"""The last requests of a closing consumer, with a scripted broker: it leaves its group, then pushes its metrics for the
last time, both within the time-out of close."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.scripted_broker import SILENCE, ScriptedBroker
from support.waiting import eventually

from kafkatools import Consumer, ShareConsumer
from kafkatools.core.broker.telemetry.otlp import decode_metrics
from kafkatools.core.net import telemetry
from kafkatools.core.protocol.api_versions import ApiKey

LIMIT_S = 30
LEAVE_EPOCH = -1
PATIENCE_MS = 3_600_000
HEARTBEATS = {Consumer: ApiKey.CONSUMER_GROUP_HEARTBEAT, ShareConsumer: ApiKey.SHARE_GROUP_HEARTBEAT}

Client = Consumer | ShareConsumer


class GroupBroker(ScriptedBroker):
    """A broker with a group coordinator that assigns nothing, and a subscription to all metrics."""

    def __init__(self) -> None:
        heartbeats = dict.fromkeys(HEARTBEATS.values(), self.say_heartbeat)
        super().__init__(
            {
                **heartbeats,
                ApiKey.FIND_COORDINATOR: self.say_coordinator,
                ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: self.say_subscription,
                ApiKey.PUSH_TELEMETRY: lambda header, request: {},
            }
        )

    def say_heartbeat(self, header: Any, request: Any) -> Any:
        assignment = {"topic_partitions": []}
        return {
            "member_id": request.member_id, "member_epoch": 1, "heartbeat_interval": 100, "assignment": assignment,
        }  # fmt: skip

    def say_coordinator(self, header: Any, request: Any) -> Any:
        place = {"node_id": 1, "host": "127.0.0.1", "port": self.port}
        return {"coordinators": [{"key": key, **place} for key in request.coordinator_keys]}

    def say_subscription(self, header: Any, request: Any) -> Any:
        return {
            "client_instance_id": uuid.UUID(int=7),
            "subscription_id": 5,
            "accepted_compression_types": [0],
            "push_interval": PATIENCE_MS,
            "requested_metrics": ["*"],
        }

    def requests_of(self, api_key: ApiKey) -> list[Any]:
        """The requests of an API in the order they came."""
        return [request for header, request in list(self.requests) if header.api_key == api_key]

    def last_steps(self) -> list[str]:
        """The steps of the close: requests to leave the group, and pushes."""
        steps = []
        for header, request in list(self.requests):
            if header.api_key in HEARTBEATS.values() and request.member_epoch == LEAVE_EPOCH:
                steps.append("leave")
            elif header.api_key == ApiKey.PUSH_TELEMETRY:
                steps.append("last push" if request.terminating else "push")
        return steps


@pytest.fixture
def broker() -> Iterator[GroupBroker]:
    with GroupBroker().in_background() as made:
        assert isinstance(made, GroupBroker)
        yield made


@pytest.fixture(params=[Consumer, ShareConsumer])
def member(request: pytest.FixtureRequest, broker: GroupBroker) -> Iterator[Client]:
    """A member of a group that has a subscription to metrics."""
    kind: Callable[..., Client] = request.param
    protocol = {"group_protocol": "consumer"} if kind is Consumer else {}
    client = kind(bootstrap_servers=broker.bootstrap, group_id="g", **protocol)
    client.subscribe(["t"])

    def has_joined() -> bool:
        client.poll(10)
        return broker.count(HEARTBEATS[request.param]) > 1  # a second one has the epoch of the first response

    eventually(has_joined, LIMIT_S)
    assert client.client_instance_id() is not None
    yield client
    client.close(0)


def test_closing_member_leaves_its_group_and_then_pushes_with_its_member_id(
    broker: GroupBroker, member: Client
) -> None:
    member.close()
    assert broker.last_steps() == ["leave", "last push"]
    resource, _ = decode_metrics(broker.requests_of(ApiKey.PUSH_TELEMETRY)[-1].metrics)
    assert resource["group_member_id"] == broker.requests_of(HEARTBEATS[type(member)])[-1].member_id


def test_close_with_a_time_out_ends_although_no_push_is_answered(
    broker: GroupBroker, member: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "LAST_PUSH_MS", PATIENCE_MS)
    broker.answers[ApiKey.PUSH_TELEMETRY] = lambda header, request: SILENCE
    member.close(500)  # an hour without the time-out
    assert broker.last_steps()[0] == "leave"


def test_close_without_time_leaves_and_pushes_nothing(broker: GroupBroker, member: Client) -> None:
    member.close(0)
    eventually(lambda: "leave" in broker.last_steps(), LIMIT_S)
    assert broker.last_steps() == ["leave"]
