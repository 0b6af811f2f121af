"""What is done, what failed and what was not tried, against brokers that go away or refuse in the middle."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator

import pytest
from support.embedded import embedded_broker
from support.manual_clock import ManualClock

from kafkatools.core.admin.acls import Acl
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition
from kafkatools.tools.configs.changes import Difference, Setting
from kafkatools.tools.declared.carry_out import DONE, FAILED, Outcome, carry_out, validate, wait_until_visible
from kafkatools.tools.declared.model import TOPICS, Declaration
from kafkatools.tools.declared.plan import (
    ACL,
    CHANGE,
    CREATE,
    DELETE,
    IMPOSSIBLE,
    PASSWORD,
    QUOTA,
    TOPIC,
    USER,
    Change,
    Plan,
    make_plan,
)
from kafkatools.tools.declared.present import read_present

_SECONDS = {"default.api.timeout.ms": 2000, "request.timeout.ms": 1000}
_USER = Change(USER, ("alice", "SCRAM-SHA-256"), CREATE, (Difference("iterations", Setting(), 4096.0),))
_NEW_TOPIC = Change(TOPIC, "new", CREATE)
_ACL = Change(ACL, Acl("TOPIC", "new", "User:alice", "READ"), CREATE)
_QUOTA = Change(QUOTA, (("user", "alice"),), CREATE, (Difference("producer_byte_rate", Setting(), 5.0),))
_DELETION = Change(TOPIC, "old", DELETE)


@contextlib.contextmanager
def _admin(bootstrap: str) -> Iterator[AdminClient]:
    with AdminClient(bootstrap, _SECONDS, SystemClock()) as admin:
        yield admin


def _password(_: tuple[str, str]) -> str:
    return "open sesame"


def test_what_a_dead_broker_leaves_is_told(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path) as bootstrap:
        admin = AdminClient(bootstrap, _SECONDS, SystemClock())
        outcomes = carry_out(admin, [_DELETION, _QUOTA, _ACL, _NEW_TOPIC, _USER], _password)
        done = next(outcomes)
    rest = list(outcomes)  # the broker is gone
    admin.close()
    assert (done.change, done.state) == (_USER, "done")
    assert [(outcome.change, outcome.state) for outcome in rest] == [
        (_NEW_TOPIC, "failed"), (_ACL, "not tried"), (_QUOTA, "not tried"), (_DELETION, "not tried"),
    ]  # fmt: skip
    assert rest[0].error is not None and rest[1].error is None


def test_a_refused_change_stops_deletions_only(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path) as bootstrap, _admin(bootstrap) as admin:  # without an authorizer
        outcomes = list(carry_out(admin, [_DELETION, _QUOTA, _ACL, _NEW_TOPIC, _USER], _password))
    assert [(outcome.change, outcome.state) for outcome in outcomes] == [
        (_USER, "done"), (_NEW_TOPIC, "done"), (_ACL, "failed"), (_QUOTA, "done"), (_DELETION, "not tried"),
    ]  # fmt: skip
    assert outcomes[2].error is not None and outcomes[2].error.name == "SECURITY_DISABLED"


def test_what_a_broker_would_refuse_is_impossible(tmp_path: pathlib.Path) -> None:
    absent = Change(TOPIC, "absent", CHANGE, (Difference("retention.ms", Setting(), "1"),))
    wide = Change(TOPIC, "wide", CREATE, (Difference("replication", Setting(), 3.0),))
    with embedded_broker(tmp_path) as bootstrap, _admin(bootstrap) as admin:
        changes = validate(admin, [absent, _NEW_TOPIC, wide, _QUOTA])
        assert [change.action for change in changes] == [IMPOSSIBLE, CREATE, IMPOSSIBLE, CREATE]
        assert "topic" in changes[0].reason and "replicate" in changes[2].reason
        assert list(carry_out(admin, [changes[0], changes[2]], _password)) == []


def _wait_with(
    done: list[Outcome], plans: Callable[[int], list[Change]], *, planning_ms: int = 0
) -> tuple[bool, int, int]:
    """Wait with these plans, which get the ms since the beginning. Returns the result, the number of plans and the ms
    that it took."""
    clock = ManualClock()
    began_ms, count = clock.now_ms(), 0

    def replan() -> Plan:
        nonlocal count
        count += 1
        clock.advance_ms(planning_ms)
        return Plan(plans(clock.now_ms() - began_ms))

    with AdminClient("127.0.0.1:1", _SECONDS, clock) as admin:
        return wait_until_visible(admin, done, replan), count, clock.now_ms() - began_ms


_RETENTION = Change(TOPIC, "new", CHANGE, (Difference("retention.ms", Setting(), "1"),))
_CLEANUP = Change(TOPIC, "new", CHANGE, (Difference("cleanup.policy", Setting(), "compact"),))


def test_changes_are_waited_for_until_no_plan_repeats_them() -> None:
    done = [Outcome(_ACL, DONE), Outcome(_QUOTA, DONE), Outcome(_RETENTION, DONE), Outcome(_CLEANUP, FAILED)]
    is_visible, _, waited_ms = _wait_with(done, lambda ms: [_ACL, _QUOTA, _RETENTION] if ms < 700 else [_CLEANUP])
    assert is_visible and 700 <= waited_ms < 3_000
    assert _wait_with([Outcome(_CLEANUP, FAILED)], lambda _: [_CLEANUP]) == (True, 0, 0)


def test_the_wait_ends_10_s_after_the_last_progress() -> None:
    done = [Outcome(_ACL, DONE), Outcome(_QUOTA, DONE)]
    is_visible, _, waited_ms = _wait_with(done, lambda ms: [_ACL, _QUOTA] if ms < 9_000 else [_QUOTA])
    assert not is_visible and 19_000 <= waited_ms < 22_000


def test_a_plan_that_takes_long_is_made_again() -> None:
    is_visible, count, _ = _wait_with([Outcome(_ACL, DONE)], lambda ms: [_ACL] * (ms < 20_000), planning_ms=15_000)
    assert is_visible and count == 2


def test_a_topic_that_a_broker_does_not_know_yet_is_waited_for() -> None:
    def plan(ms: int) -> list[Change]:
        if ms < 500:
            raise UnknownTopicOrPartition("new")
        return []

    assert _wait_with([Outcome(_NEW_TOPIC, DONE)], plan)[0]


def test_passwords_are_not_waited_for() -> None:
    password = Change(USER, ("alice", "SCRAM-SHA-256"), CHANGE, (Difference(PASSWORD, Setting(), ""),))
    assert _wait_with([Outcome(password, DONE)], lambda _: [password]) == (True, 0, 0)


def test_after_a_lost_connection_nothing_is_waited_for(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path) as bootstrap:
        admin = AdminClient(bootstrap, _SECONDS, SystemClock())
        outcomes = carry_out(admin, [_NEW_TOPIC, _USER], _password)
        done = [next(outcomes)]
    done += outcomes
    admin.close()
    assert [outcome.state for outcome in done] == [DONE, FAILED]
    assert _wait_with(done, lambda _: [_USER]) == (True, 0, 0)


def test_brokers_that_cannot_be_asked_are_an_error(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path) as bootstrap:
        admin = AdminClient(bootstrap, _SECONDS, SystemClock())
        outcomes = list(carry_out(admin, [_NEW_TOPIC], _password))
    with pytest.raises(KafkaError):
        wait_until_visible(admin, outcomes, lambda: make_plan(Declaration(), read_present(admin, {TOPICS})))
    admin.close()
