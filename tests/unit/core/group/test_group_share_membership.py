"""ShareMembership turned by hand: heartbeats of share groups (KIP-932), what changes in them, and what answers do."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

import pytest

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.errors import Disconnected, GroupAuthorizationFailed, UnsupportedVersion, known_codes
from kafkatools.core.group.consumer_membership import MemberState
from kafkatools.core.group.coordinator import CoordinatorKind, CoordinatorLookup
from kafkatools.core.group.heartbeat_timers import Heartbeat
from kafkatools.core.group.share_membership import ShareMembership
from kafkatools.core.net.metadata import Node

CODES = {error.name: code for code, error in known_codes().items()}
TOPIC = uuid.UUID(int=7)
NOW = 1_000_000


def answer(code: str = "", epoch: int = 1, partitions: list[int] | None = None) -> SimpleNamespace:
    topics = [SimpleNamespace(topic_id=TOPIC, partitions=partitions)]
    return SimpleNamespace(
        error_code=CODES.get(code, 0),
        error_message="why" if code else None,
        member_epoch=epoch,
        heartbeat_interval=5000,
        assignment=None if partitions is None else SimpleNamespace(topic_partitions=topics),
    )


@pytest.fixture
def member() -> ShareMembership:
    lookup = CoordinatorLookup(CoordinatorKind.GROUP, "g")
    lookup.endpoint = Node(1, "b", 9092)
    config = Config(CONSUMER, {"bootstrap.servers": "b:1", "group.id": "g", "client.rack": "r"})
    member = ShareMembership(config, lookup, Heartbeat(3000, 45_000, 300_000))
    member.subscribe(frozenset({"b", "a"}))
    member.heartbeat.poll(NOW)
    return member


def test_the_first_heartbeat_has_all_fields_and_later_ones_what_changed(member: ShareMembership) -> None:
    joining = member.heartbeat_request(NOW)
    assert joining is not None and joining.fields == {
        "group_id": "g", "member_id": member.member_id, "member_epoch": 0, "rack_id": "r",
        "subscribed_topic_names": ["a", "b"],
    }  # fmt: skip
    assert member.heartbeat_request(NOW) is None
    joining.answered(answer(epoch=4, partitions=[2, 0]), NOW)  # type: ignore[arg-type]
    assert member.state is MemberState.STABLE and member.assignment == {TOPIC: (0, 2)}
    assert member.heartbeat_request(NOW + 4999) is None
    plain = member.heartbeat_request(NOW + 5000)
    assert plain is not None and plain.fields == {"group_id": "g", "member_id": member.member_id, "member_epoch": 4}
    plain.answered(answer(epoch=4), NOW + 5000)  # type: ignore[arg-type]
    assert member.assignment == {TOPIC: (0, 2)}
    member.subscribe(frozenset({"c"}))
    changed = member.heartbeat_request(NOW + 5001)
    assert changed is not None and changed.fields["subscribed_topic_names"] == ["c"]  # type: ignore[index]


@pytest.mark.parametrize("code", ["FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"])
def test_a_fenced_member_loses_its_partitions_and_joins_again(member: ShareMembership, code: str) -> None:
    identity = member.member_id
    request = member.heartbeat_request(NOW)
    assert request is not None
    request.answered(answer(partitions=[0]), NOW)  # type: ignore[arg-type]
    request = member.heartbeat_request(NOW + 5000)
    assert request is not None
    request.answered(answer(code), NOW + 5000)  # type: ignore[arg-type]
    assert member.state is MemberState.FENCED and member.assignment == {}
    member.maybe_rejoin()
    again = member.heartbeat_request(NOW + 5000)
    assert again is not None and again.fields["member_epoch"] == 0  # type: ignore[index]
    assert member.member_id == identity


def test_a_lost_coordinator_is_looked_up_and_fatal_errors_are_raised(member: ShareMembership) -> None:
    request = member.heartbeat_request(NOW)
    assert request is not None
    request.failed(Disconnected(), NOW)
    assert not member.lookup.is_known and member.failure_to_raise() is None
    member.lookup.endpoint = Node(1, "b", 9092)
    request = member.heartbeat_request(NOW + 1000)
    assert request is not None and "subscribed_topic_names" in request.fields  # type: ignore[operator]
    request.answered(answer("GROUP_AUTHORIZATION_FAILED"), NOW + 1000)  # type: ignore[arg-type]
    assert isinstance(member.failure_to_raise(), GroupAuthorizationFailed) and member.state is MemberState.FATAL


def test_an_old_broker_is_named(member: ShareMembership) -> None:
    request = member.heartbeat_request(NOW)
    assert request is not None
    request.failed(UnsupportedVersion("v"), NOW)
    assert "does not support the share group protocol" in str(member.failure_to_raise())


def test_leaving_sends_epoch_minus_one_and_late_answers_are_ignored(member: ShareMembership) -> None:
    request = member.heartbeat_request(NOW)
    assert request is not None
    leaving = member.leave_request()
    assert leaving is not None and leaving.fields["member_epoch"] == -1  # type: ignore[index]
    request.answered(answer(partitions=[0]), NOW)  # type: ignore[arg-type]
    assert member.assignment == {} and member.leave_request() is None


def test_a_member_that_does_not_poll_leaves_and_joins_with_the_next_poll(member: ShareMembership) -> None:
    assert member.heartbeat.poll_expired(NOW + 300_000)
    assert member.poll_expired() is not None and member.state is MemberState.STALE
    member.maybe_rejoin()
    request = member.heartbeat_request(NOW + 300_000)
    assert request is not None and request.fields["subscribed_topic_names"] == ["a", "b"]  # type: ignore[index]
