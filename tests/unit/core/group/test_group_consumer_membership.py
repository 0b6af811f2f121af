"""ConsumerMembership turned by hand: heartbeats of KIP-848, what changes in them, and what answers lead to."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.errors import (
    Disconnected,
    FencedInstanceId,
    GroupAuthorizationFailed,
    GroupMaxSizeReached,
    InvalidRegularExpression,
    InvalidRequest,
    KafkaError,
    TopicAuthorizationFailed,
    UnreleasedInstanceId,
    UnsupportedAssignor,
    UnsupportedVersion,
    known_codes,
)
from kafkatools.core.group.consumer_membership import ConsumerMembership, MemberState
from kafkatools.core.group.coordinator import CoordinatorKind, CoordinatorLookup
from kafkatools.core.group.heartbeat_timers import Heartbeat
from kafkatools.core.group.requests import GroupRequest
from kafkatools.core.net.metadata import Node

CODES = {error.name: code for code, error in known_codes().items()}
TOPIC = uuid.UUID(int=7)
NOW = 1_000_000


def answer(code: str = "", epoch: int = 1, given: dict[uuid.UUID, tuple[int, ...]] | None = None) -> SimpleNamespace:
    assignment = None
    if given is not None:
        parts = [SimpleNamespace(topic_id=topic, partitions=indexes) for topic, indexes in given.items()]
        assignment = SimpleNamespace(topic_partitions=parts)
    return SimpleNamespace(
        error_code=CODES.get(code, 0),
        error_message="why" if code else None,
        member_id=None,
        member_epoch=epoch,
        heartbeat_interval=5000,
        assignment=assignment,
    )


class Turned:
    """A membership that wants topic t, and the crank."""

    def __init__(self, **settings: Any) -> None:
        self.lookup = CoordinatorLookup(CoordinatorKind.GROUP, "g")
        self.lookup.endpoint = Node(1, "h", 1)
        self.heartbeat = Heartbeat(3000, 45_000, 60_000)
        self.heartbeat.poll(NOW)
        given = {name.replace("_", "."): value for name, value in settings.items()}
        config = Config(CONSUMER, {"group.id": "g", **given})
        self.member = ConsumerMembership(config, self.lookup, self.heartbeat)
        self.member.subscribe(frozenset({"t"}), None)
        self.member.rejoin()

    def beat(self, at: int = NOW) -> GroupRequest:
        request = self.member.heartbeat_request(at)
        assert request is not None
        return request

    def sent(self, at: int = NOW) -> dict[str, Any]:
        return fields(self.beat(at))

    def stable(self) -> Turned:
        self.beat().answered(answer(given={TOPIC: (0, 1)}), NOW)
        self.member.acknowledge({TOPIC: (0, 1)})
        self.beat().answered(answer(), NOW)
        assert self.member.state is MemberState.STABLE
        return self


def fields(request: GroupRequest | None) -> dict[str, Any]:
    assert request is not None
    assert not callable(request.fields)
    return dict(request.fields)


def test_the_first_heartbeat_says_everything_and_later_ones_what_changed() -> None:
    turned = Turned(client_rack="r", group_remote_assignor="range", max_poll_interval_ms=60_000)
    request = turned.beat()
    first = fields(request)
    member = turned.member.member_id
    assert len(member) == 22
    assert first == {
        "group_id": "g",
        "member_id": member,
        "member_epoch": 0,
        "instance_id": None,
        "rebalance_timeout": 60_000,
        "rack_id": "r",
        "server_assignor": "range",
        "topic_partitions": [],
        "subscribed_topic_names": ["t"],
    }
    request.answered(answer(given={TOPIC: (1, 0)}), NOW)
    assert turned.member.state is MemberState.RECONCILING
    assert turned.member.target == {TOPIC: (0, 1)}
    turned.member.acknowledge({TOPIC: (0, 1)})
    request = turned.beat()  # at once, without waiting for the interval
    assert fields(request) == {
        "group_id": "g",
        "member_id": member,
        "member_epoch": 1,
        "instance_id": None,
        "topic_partitions": [{"topic_id": TOPIC, "partitions": [0, 1]}],
    }
    assert turned.member.state is MemberState.STABLE
    request.answered(answer(), NOW)
    assert turned.member.heartbeat_request(NOW + 4999) is None  # the interval is the coordinator's
    assert turned.sent(NOW + 5000).keys() == {"group_id", "member_id", "member_epoch", "instance_id"}


def test_a_new_subscription_is_told_at_once() -> None:
    turned = Turned().stable()
    turned.member.subscribe(frozenset({"t", "u"}), None)
    assert turned.sent(NOW + 1)["subscribed_topic_names"] == ["t", "u"]


def test_a_pattern_is_the_brokers_to_match() -> None:
    turned = Turned()
    turned.member.subscribe(frozenset(), "t.*")
    request = turned.beat()
    assert request.min_version == 1
    assert fields(request)["subscribed_topic_regex"] == "t.*"
    assert "subscribed_topic_names" not in fields(request)


def test_a_target_that_comes_while_another_is_acknowledged_is_reconciled_next() -> None:
    turned = Turned()
    turned.beat().answered(answer(given={TOPIC: (0,)}), NOW)
    turned.member.acknowledge({TOPIC: (0,)})
    turned.beat().answered(answer(epoch=2, given={TOPIC: (0, 1)}), NOW)
    assert turned.member.state is MemberState.RECONCILING
    assert turned.member.group_metadata().generation_id == 2


@pytest.mark.parametrize("code", ["FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"])
def test_a_fenced_member_still_says_who_it_was(code: str) -> None:
    turned = Turned()
    assert turned.member.group_metadata() == ("g", -1, "", None)
    turned.stable()
    turned.beat(NOW + 5000).answered(answer(epoch=4), NOW + 5000)
    before = turned.member.group_metadata()
    assert before == ("g", 4, turned.member.member_id, None)
    turned.beat(NOW + 10_000).answered(answer(code), NOW + 10_000)
    assert (turned.member.state, turned.member.group_metadata()) == (MemberState.FENCED, before)
    turned.member.rejoin()
    assert turned.member.group_metadata() == before
    turned.beat(NOW + 10_000).answered(answer(epoch=6), NOW + 10_000)
    assert turned.member.group_metadata().generation_id == 6
    turned.member.poll_expired()
    assert turned.member.group_metadata().generation_id == 6
    turned.member.leave_request()
    assert turned.member.group_metadata() == ("g", -1, "", None)


def test_a_member_that_is_to_have_nothing_has_to_say_so_too() -> None:
    turned = Turned()
    turned.beat().answered(answer(given={}), NOW)
    assert turned.member.state is MemberState.RECONCILING


@pytest.mark.parametrize("code", ["FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"])
def test_a_fenced_member_starts_over_with_the_same_id(code: str) -> None:
    turned = Turned().stable()
    member = turned.member.member_id
    turned.beat(NOW + 5000).answered(answer(code), NOW + 5000)
    assert turned.member.state is MemberState.FENCED
    assert not turned.member.has_epoch
    assert turned.member.heartbeat_request(NOW + 99_000) is None
    turned.member.rejoin()
    again = turned.sent(NOW + 99_000)
    assert (again["member_epoch"], again["member_id"], again["topic_partitions"]) == (0, member, [])
    assert again["subscribed_topic_names"] == ["t"]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("GROUP_AUTHORIZATION_FAILED", GroupAuthorizationFailed),
        ("INVALID_REQUEST", InvalidRequest),
        ("GROUP_MAX_SIZE_REACHED", GroupMaxSizeReached),
        ("UNSUPPORTED_ASSIGNOR", UnsupportedAssignor),
        ("UNRELEASED_INSTANCE_ID", UnreleasedInstanceId),
        ("FENCED_INSTANCE_ID", FencedInstanceId),
        ("INVALID_REGULAR_EXPRESSION", InvalidRegularExpression),
    ],
)
def test_what_no_other_try_cures_ends_the_membership(code: str, error: type[KafkaError]) -> None:
    turned = Turned()
    turned.beat().answered(answer(code), NOW)
    for _ in range(2):
        assert isinstance(turned.member.failure_to_raise(), error)
    assert turned.member.state is MemberState.FATAL
    assert turned.member.heartbeat_request(NOW + 99_000) is None


def test_a_forbidden_topic_is_raised_and_the_member_goes_on() -> None:
    turned = Turned()
    turned.beat().answered(answer("TOPIC_AUTHORIZATION_FAILED"), NOW)
    assert isinstance(turned.member.failure_to_raise(), TopicAuthorizationFailed)
    assert turned.sent(NOW + 200)["member_epoch"] == 0


@pytest.mark.parametrize("code", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"])
def test_the_wrong_coordinator_is_looked_up_again_and_told_everything(code: str) -> None:
    turned = Turned().stable()
    turned.beat(NOW + 5000).answered(answer(code), NOW + 5000)
    assert not turned.lookup.is_known
    turned.lookup.endpoint = Node(2, "h", 2)
    assert turned.sent(NOW + 5000)["subscribed_topic_names"] == ["t"]


def test_a_coordinator_that_loads_is_asked_after_the_back_off() -> None:
    turned = Turned()
    turned.beat().answered(answer("COORDINATOR_LOAD_IN_PROGRESS"), NOW)
    assert turned.member.heartbeat_request(NOW) is None
    assert turned.member.heartbeat_request(NOW + 120) is not None


def test_a_lost_connection_and_a_broker_without_the_protocol() -> None:
    turned = Turned()
    turned.beat().failed(Disconnected("gone"), NOW)
    assert not turned.lookup.is_known
    turned.lookup.endpoint = Node(1, "h", 1)
    turned.beat(NOW + 120).failed(UnsupportedVersion("no such API"), NOW + 120)
    failure = turned.member.failure_to_raise()
    assert isinstance(failure, UnsupportedVersion)
    assert "group.protocol=classic" in str(failure)


@pytest.mark.parametrize(
    ("instance", "leaves", "epoch"),
    [(None, None, -1), ("one", None, -2), (None, True, -1), ("one", True, -1), ("one", False, -2)],
)
def test_leaving_says_so_in_the_epoch(instance: str | None, leaves: bool | None, epoch: int) -> None:
    turned = Turned(group_instance_id=instance).stable()
    sent = fields(turned.member.leave_request(leaves))
    assert (sent["member_epoch"], sent["instance_id"]) == (epoch, instance)
    assert turned.member.leave_request() is None


def test_a_dynamic_member_that_remains_sends_nothing() -> None:
    turned = Turned().stable()
    assert turned.member.leave_request(False) is None
    assert not turned.member.is_in_group


def test_a_member_that_does_not_poll_leaves_and_is_stale_until_it_does() -> None:
    turned = Turned().stable()
    assert not turned.heartbeat.poll_expired(NOW + 59_999)
    assert turned.heartbeat.poll_expired(NOW + 60_000)
    late = turned.beat(NOW + 5000)
    assert fields(turned.member.poll_expired())["member_epoch"] == -1
    assert turned.member.state is MemberState.STALE
    late.answered(answer(epoch=9), NOW + 60_000)
    assert turned.member.state is MemberState.STALE
    assert not turned.member.has_epoch
