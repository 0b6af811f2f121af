"""CoordinatorLookup turned by hand: the versions of FindCoordinator, back-offs and errors."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kafkatools.core.errors import (
    CoordinatorNotAvailable,
    Disconnected,
    GroupAuthorizationFailed,
    NotCoordinator,
    UnsupportedVersion,
)
from kafkatools.core.group.coordinator import CoordinatorKind, CoordinatorLookup
from kafkatools.core.net.metadata import Node

NOW = 1_000_000


def found(code: int = 0, key: str = "g") -> SimpleNamespace:
    return SimpleNamespace(key=key, error_code=code, error_message=None, node_id=3, host="h", port=9)


def test_each_version_asks_in_its_way() -> None:
    group = CoordinatorLookup(CoordinatorKind.GROUP, "g")
    assert group.request_fields(0) == {"key": "g"}
    assert group.request_fields(3) == {"key": "g", "key_type": 0}
    assert group.request_fields(4) == {"key_type": 0, "coordinator_keys": ["g"]}
    transaction = CoordinatorLookup(CoordinatorKind.TRANSACTION, "t")
    assert transaction.request_fields(6) == {"key_type": 1, "coordinator_keys": ["t"]}
    with pytest.raises(UnsupportedVersion):
        transaction.request_fields(0)


def test_both_shapes_of_the_answer_are_read() -> None:
    for entity in (found(), SimpleNamespace(coordinators=(found(key="x"), found()))):
        lookup = CoordinatorLookup(CoordinatorKind.GROUP, "g")
        lookup.note_sent()
        assert lookup.handle_response(entity, NOW) is None
        assert lookup.endpoint == Node(3, "h", 9)
        assert not lookup.should_send(NOW)


def test_one_question_at_a_time_and_a_back_off_after_each_that_failed() -> None:
    lookup = CoordinatorLookup(CoordinatorKind.GROUP, "g")
    assert lookup.should_send(NOW)
    lookup.note_sent()
    assert not lookup.should_send(NOW)
    assert lookup.handle_response(found(15), NOW) is None
    assert not lookup.should_send(NOW)
    assert 0 < lookup.delay_ms(NOW) <= 120
    assert lookup.should_send(NOW + 120)
    lookup.note_sent()
    assert lookup.handle_failure(Disconnected("gone"), NOW) is None
    assert lookup.should_send(NOW + 240)


def test_what_waiting_does_not_cure_is_told() -> None:
    lookup = CoordinatorLookup(CoordinatorKind.GROUP, "g")
    assert isinstance(lookup.handle_response(found(30), NOW), GroupAuthorizationFailed)
    assert isinstance(lookup.handle_failure(UnsupportedVersion("old"), NOW), UnsupportedVersion)


def test_why_there_is_no_coordinator_is_known_until_there_is_one() -> None:
    lookup = CoordinatorLookup(CoordinatorKind.GROUP, "g")
    assert lookup.problem is None
    lookup.handle_response(found(15), NOW)
    assert isinstance(lookup.problem, CoordinatorNotAvailable)
    lookup.handle_response(found(), NOW)
    assert lookup.problem is None


def test_a_coordinator_that_refuses_again_and_again_is_a_problem_until_it_accepts() -> None:
    lookup = CoordinatorLookup(CoordinatorKind.GROUP, "g")
    told = []
    for _ in range(4):
        lookup.mark_unknown(NotCoordinator())
        lookup.handle_response(found(), NOW)
        told.append(isinstance(lookup.problem, NotCoordinator))
    assert told == [False, False, True, True]
    lookup.note_success()
    assert lookup.problem is None
