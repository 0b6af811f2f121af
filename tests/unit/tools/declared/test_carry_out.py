"""What is done, what failed and what was not tried, against brokers that go away or refuse in the middle."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator

from support.embedded import embedded_broker
from support.skipping_clock import FastClock

from kafkatools.core.admin.acls import Acl
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import SystemClock
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


def _waited(bootstrap: str, outcomes: list[Outcome], plans: list[list[Change]]) -> tuple[bool, int, int]:
    """What the wait returns with these plans (the last one again and again), the number of plans, and its ms."""
    clock = FastClock()
    asked: list[Plan] = []

    def replan() -> Plan:
        asked.append(Plan(plans[min(len(asked), len(plans) - 1)]))
        return asked[-1]

    with AdminClient(bootstrap, _SECONDS, clock) as admin:
        began_ms = clock.now_ms()
        return wait_until_visible(admin, outcomes, replan), len(asked), clock.now_ms() - began_ms


def test_changes_are_waited_for_until_no_plan_repeats_them(tmp_path: pathlib.Path) -> None:
    retention = Change(TOPIC, "new", CHANGE, (Difference("retention.ms", Setting(), "1"),))
    cleanup = Change(TOPIC, "new", CHANGE, (Difference("cleanup.policy", Setting(), "compact"),))
    done = [Outcome(_ACL, DONE), Outcome(_QUOTA, DONE), Outcome(retention, DONE), Outcome(cleanup, FAILED)]
    with embedded_broker(tmp_path) as bootstrap:
        assert _waited(bootstrap, done, [[_ACL, _QUOTA, retention, cleanup], [_QUOTA], [cleanup]])[:2] == (True, 3)
        assert _waited(bootstrap, [Outcome(cleanup, FAILED)], [[cleanup]])[:2] == (True, 0)
        is_visible, _, waited_ms = _waited(bootstrap, done, [[_ACL, _QUOTA]] * 3 + [[_QUOTA]])
    assert not is_visible and waited_ms >= 10_000  # no broker reports the quota


def test_passwords_are_not_waited_for(tmp_path: pathlib.Path) -> None:
    password = Change(USER, ("alice", "SCRAM-SHA-256"), CHANGE, (Difference(PASSWORD, Setting(), "***"),))
    with embedded_broker(tmp_path) as bootstrap:
        assert _waited(bootstrap, [Outcome(password, DONE)], [[password]])[:2] == (True, 0)


def test_the_wait_ends_when_brokers_cannot_be_asked(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path) as bootstrap:
        admin = AdminClient(bootstrap, _SECONDS, SystemClock())
        outcomes = list(carry_out(admin, [_NEW_TOPIC], _password))
    assert not wait_until_visible(admin, outcomes, lambda: make_plan(Declaration(), read_present(admin, {TOPICS})))
    admin.close()
