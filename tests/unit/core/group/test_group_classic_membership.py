"""ClassicMembership turned by hand: every answer of a coordinator and what it leads to (AbstractCoordinator)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.errors import (
    Disconnected,
    FencedInstanceId,
    GroupAuthorizationFailed,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidSessionTimeout,
    KafkaError,
    UnsupportedVersion,
    known_codes,
)
from kafkatools.core.group.classic_membership import ClassicMembership, Generation, MemberState, Step
from kafkatools.core.group.coordinator import CoordinatorKind, CoordinatorLookup
from kafkatools.core.group.heartbeat_timers import Heartbeat
from kafkatools.core.group.requests import GroupRequest
from kafkatools.core.net.metadata import Node

CODES = {error.name: code for code, error in known_codes().items()}
SETTINGS = Config(
    CONSUMER,
    {
        "group.id": "g",
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 3000,
        "max.poll.interval.ms": 60_000,
    },
)
NOW = 1_000_000


class Turned:
    """A membership whose coordinator is known, and the crank."""

    def __init__(self, **settings: Any) -> None:
        self.lookup = CoordinatorLookup(CoordinatorKind.GROUP, "g")
        self.find()
        self.heartbeat = Heartbeat(3000, 10_000, 60_000)
        self.heartbeat.reset(NOW)
        config = SETTINGS.replace({name.replace("_", "."): value for name, value in settings.items()})
        self.member = ClassicMembership(config, self.lookup, self.heartbeat)

    def find(self) -> None:
        self.lookup.endpoint = Node(1, "h", 1)

    def join(self) -> GroupRequest:
        if self.member.next_step(NOW) is Step.PREPARE:
            self.member.prepared()
        assert self.member.next_step(NOW) is Step.JOIN
        return self.member.join_request([("range", b"me")], NOW)

    def joined(self, leader: str = "other", generation: int = 5) -> Turned:
        self.join().answered(awaiting_join_callback(leader=leader, generation_id=generation), NOW)
        return self

    def stable(self) -> Turned:
        self.joined()
        self.member.sync_request({}, NOW).answered(awaiting_sync_callback(), NOW)
        assert self.member.next_step(NOW) is Step.COMPLETE
        self.member.completed()
        assert self.member.next_step(NOW) is Step.NOTHING
        return self

    def beat(self, code: str = "", after_ms: int = 3000) -> None:
        request = self.member.heartbeat_request(NOW + after_ms)
        assert request is not None
        request.answered(SimpleNamespace(error_code=CODES.get(code, 0)), NOW + after_ms)


def awaiting_join_callback(code: str = "", **fields: Any) -> SimpleNamespace:
    given: dict[str, Any] = {
        "error_code": CODES.get(code, 0),
        "generation_id": 5,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader": "other",
        "member_id": "me-1",
        "members": (),
        "skip_assignment": False,
    }
    return SimpleNamespace(**{**given, **fields})


def awaiting_sync_callback(code: str = "", assignment: bytes = b"mine") -> SimpleNamespace:
    return SimpleNamespace(error_code=CODES.get(code, 0), assignment=assignment)


def fields(request: GroupRequest | None, version: int) -> dict[str, Any]:
    assert request is not None
    return dict(request.fields(version) if callable(request.fields) else request.fields)


def test_a_new_member_takes_the_id_it_is_given_and_joins_at_once() -> None:
    turned = Turned()
    request = turned.join()
    assert fields(request, 9)["member_id"] == ""
    assert turned.member.state is MemberState.PREPARING_REBALANCE
    request.answered(awaiting_join_callback("MEMBER_ID_REQUIRED", member_id="me-7"), NOW)
    assert turned.member.next_step(NOW) is Step.JOIN
    assert fields(turned.join(), 9)["member_id"] == "me-7"


def test_a_follower_syncs_and_is_stable() -> None:
    turned = Turned().joined()
    assert turned.member.state is MemberState.COMPLETING_REBALANCE
    assert turned.member.next_step(NOW) is Step.SYNC
    request = turned.member.sync_request({}, NOW)
    sent = fields(request, 5)
    assert (sent["generation_id"], sent["member_id"], sent["protocol_name"]) == (5, "me-1", "range")
    assert "protocol_name" not in fields(request, 4)
    assert "group_instance_id" not in fields(request, 2)
    request.answered(awaiting_sync_callback(), NOW)
    assert turned.member.state is MemberState.STABLE
    assert turned.member.assignment == b"mine"
    assert turned.member.group_metadata() == ("g", 5, "me-1", None)


def test_a_leader_assigns_what_the_members_said() -> None:
    turned = Turned()
    said = (SimpleNamespace(member_id="me-1", group_instance_id=None, metadata=b"a"),)
    turned.join().answered(awaiting_join_callback(leader="me-1", members=said), NOW)
    assert turned.member.next_step(NOW) is Step.ASSIGN
    assert turned.member.joined is not None
    assert turned.member.joined.members == (("me-1", None, b"a"),)
    request = turned.member.sync_request({"me-1": b"all"}, NOW)
    assert fields(request, 5)["assignments"] == [{"member_id": "me-1", "assignment": b"all"}]


def test_a_static_leader_that_came_back_leaves_the_assignment_as_it_is() -> None:
    turned = Turned(group_instance_id="one")
    said = (SimpleNamespace(member_id="me-1", group_instance_id="one", metadata=b"a"),)
    request = turned.join()
    assert fields(request, 5)["group_instance_id"] == "one"
    request.answered(awaiting_join_callback(leader="me-1", members=said, skip_assignment=True), NOW)
    assert turned.member.next_step(NOW) is Step.SYNC


@pytest.mark.parametrize("code", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"])
def test_a_join_at_the_wrong_coordinator_looks_for_the_right_one(code: str) -> None:
    turned = Turned()
    turned.join().answered(awaiting_join_callback(code), NOW)
    assert not turned.lookup.is_known
    assert turned.member.next_step(NOW) is Step.WAIT
    turned.find()
    assert turned.member.next_step(NOW) is Step.JOIN


@pytest.mark.parametrize("code", ["COORDINATOR_LOAD_IN_PROGRESS", "REBALANCE_IN_PROGRESS"])
def test_a_join_that_comes_too_early_backs_off(code: str) -> None:
    turned = Turned()
    turned.join().answered(awaiting_join_callback(code), NOW)
    assert turned.lookup.is_known
    assert turned.member.next_step(NOW) is Step.WAIT
    assert turned.member.next_step(NOW + 120) is Step.JOIN


def test_an_unknown_member_joins_as_a_new_one_after_it_reported_its_partitions_lost() -> None:
    turned = Turned().stable()
    turned.member.request_rejoin("test")
    turned.join().answered(awaiting_join_callback("UNKNOWN_MEMBER_ID"), NOW)
    assert turned.member.next_step(NOW) is Step.PREPARE
    assert turned.member.generation == Generation()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("GROUP_MAX_SIZE_REACHED", GroupMaxSizeReached),
        ("INCONSISTENT_GROUP_PROTOCOL", InconsistentGroupProtocol),
        ("INVALID_SESSION_TIMEOUT", InvalidSessionTimeout),
        ("GROUP_AUTHORIZATION_FAILED", GroupAuthorizationFailed),
        ("UNSUPPORTED_VERSION", UnsupportedVersion),
    ],
)
def test_what_no_other_try_cures_is_raised_once(code: str, error: type[KafkaError]) -> None:
    turned = Turned()
    turned.join().answered(awaiting_join_callback(code), NOW)
    assert isinstance(turned.member.failure_to_raise(), error)
    assert turned.member.failure_to_raise() is None


def test_a_group_of_another_type_is_an_error() -> None:
    turned = Turned()
    turned.join().answered(awaiting_join_callback(protocol_type="connect"), NOW)
    assert isinstance(turned.member.failure_to_raise(), InconsistentGroupProtocol)


@pytest.mark.parametrize(
    ("code", "step", "member_id"),
    [
        ("REBALANCE_IN_PROGRESS", Step.JOIN, "me-1"),
        ("UNKNOWN_MEMBER_ID", Step.PREPARE, ""),
        ("ILLEGAL_GENERATION", Step.PREPARE, "me-1"),
        ("COORDINATOR_LOAD_IN_PROGRESS", Step.WAIT, "me-1"),
        ("NOT_COORDINATOR", Step.WAIT, "me-1"),
    ],
)
def test_a_sync_that_fails_joins_again(code: str, step: Step, member_id: str) -> None:
    turned = Turned().joined()
    turned.member.sync_request({}, NOW).answered(awaiting_sync_callback(code), NOW)
    assert turned.member.next_step(NOW) is step
    assert turned.member.member_id == member_id
    assert turned.member.state is not MemberState.STABLE


def test_a_fenced_instance_gives_up() -> None:
    turned = Turned(group_instance_id="one").joined()
    turned.member.sync_request({}, NOW).answered(awaiting_sync_callback("FENCED_INSTANCE_ID"), NOW)
    assert isinstance(turned.member.failure_to_raise(), FencedInstanceId)


def test_a_lost_connection_looks_for_the_coordinator_and_joins_again() -> None:
    turned = Turned()
    turned.join().failed(Disconnected("gone"), NOW)
    assert not turned.lookup.is_known
    turned.find()
    assert turned.member.next_step(NOW + 120) is Step.JOIN


def test_a_heartbeat_is_sent_every_interval_and_one_at_a_time() -> None:
    turned = Turned().stable()
    turned.beat()
    assert turned.member.heartbeat_request(NOW + 5999) is None
    assert turned.member.heartbeat_request(NOW + 6000) is not None
    assert turned.member.heartbeat_request(NOW + 9000) is None


def test_the_first_heartbeat_waits_for_the_interval_after_joining() -> None:
    turned = Turned()
    turned.join().answered(awaiting_join_callback(), NOW + 40_000)  # a rebalance may take longer than an interval
    assert turned.member.heartbeat_request(NOW + 42_999) is None
    assert turned.member.heartbeat_request(NOW + 43_000) is not None


def test_a_heartbeat_that_hears_of_a_rebalance_joins_again_and_keeps_the_generation() -> None:
    turned = Turned().stable()
    turned.beat("REBALANCE_IN_PROGRESS")
    assert turned.member.next_step(NOW) is Step.PREPARE
    assert turned.member.has_generation
    assert turned.member.state is MemberState.STABLE


@pytest.mark.parametrize(("code", "member_id"), [("UNKNOWN_MEMBER_ID", ""), ("ILLEGAL_GENERATION", "me-1")])
def test_a_heartbeat_that_is_refused_loses_the_generation(code: str, member_id: str) -> None:
    turned = Turned().stable()
    turned.beat(code)
    assert not turned.member.has_generation
    assert turned.member.member_id == member_id
    assert turned.member.state is not MemberState.STABLE
    assert turned.member.next_step(NOW) is Step.PREPARE


def test_a_refused_heartbeat_of_an_old_generation_means_nothing() -> None:
    turned = Turned().stable()
    late = turned.member.heartbeat_request(NOW + 3000)
    assert late is not None
    turned.member.request_rejoin("test")
    turned.joined(generation=6)
    late.answered(SimpleNamespace(error_code=CODES["ILLEGAL_GENERATION"]), NOW + 3001)
    assert turned.member.generation.generation_id == 6
    assert turned.member.next_step(NOW) is Step.SYNC


def test_a_fenced_heartbeat_is_raised() -> None:
    turned = Turned(group_instance_id="one").stable()
    turned.beat("FENCED_INSTANCE_ID")
    assert turned.member.state is not MemberState.STABLE
    for _ in range(2):
        assert isinstance(turned.member.failure_to_raise(), FencedInstanceId)
    turned.member.leave_request("unsubscribed")
    assert turned.member.failure_to_raise() is None


def test_a_heartbeat_that_is_forbidden_is_raised_and_the_member_joins_again() -> None:
    turned = Turned().stable()
    turned.beat("GROUP_AUTHORIZATION_FAILED")
    assert isinstance(turned.member.failure_to_raise(), GroupAuthorizationFailed)
    assert turned.member.failure_to_raise() is None
    assert turned.member.next_step(NOW) is Step.PREPARE


def test_a_silent_coordinator_is_looked_up_again_after_the_session() -> None:
    turned = Turned().stable()
    assert turned.member.heartbeat_request(NOW + 10_000) is None
    assert not turned.lookup.is_known


def test_a_member_that_does_not_poll_leaves_and_loses_its_partitions() -> None:
    turned = Turned().stable()
    request = turned.member.poll_expired()
    sent = fields(request, 5)
    assert [(each["member_id"], each["reason"]) for each in sent["members"]] == [
        ("me-1", "consumer poll timeout has expired.")
    ]
    assert fields(request, 1) == {"group_id": "g", "member_id": "me-1"}
    assert not turned.member.is_in_group
    assert turned.member.next_step(NOW) is Step.PREPARE


def test_a_static_member_stays_when_it_closes() -> None:
    assert Turned(group_instance_id="one").stable().member.leave_request("closed") is None
    assert Turned(group_instance_id="one").stable().member.leave_request("closed", True) is not None


def test_a_dynamic_member_leaves_unless_it_remains() -> None:
    """CloseOptions of KIP-1092."""
    assert Turned().stable().member.leave_request("closed") is not None
    assert Turned().stable().member.leave_request("closed", False) is None


def test_the_answer_to_a_join_after_leaving_is_ignored() -> None:
    turned = Turned()
    request = turned.join()
    turned.member.leave_request("unsubscribed")
    request.answered(awaiting_join_callback(), NOW)
    assert turned.member.state is MemberState.UNJOINED
    assert turned.member.joined is None
