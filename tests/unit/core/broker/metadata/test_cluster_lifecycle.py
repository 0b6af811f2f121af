"""A broker's registration and heartbeats, one request at a time, with a controller that answers when a test says so."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.broker.metadata.lifecycle import BrokerLifecycle, Identity, State

INTERVAL_MS = 2000
OK = {"error_code": 0, "is_caught_up": True, "is_fenced": False, "should_shut_down": False, "broker_epoch": 5}


class Link:
    """A `ControllerChannel`."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.waiting: list[Callable[[Any], None]] = []

    def send(self, _api_key: int, fields: Any, on_response: Callable[[Any], None], *, timeout_ms: int = 0) -> None:
        self.sent.append({**fields, "timeout_ms": timeout_ms})
        self.waiting.append(on_response)

    def answer(self, entity: Any = OK) -> None:
        self.waiting.pop(0)(None if entity is None else SimpleNamespace(**entity))


class Broker:
    """A lifecycle that is RUNNING, with its next heartbeat due."""

    def __init__(self) -> None:
        self.link, self.clock = Link(), ManualClock()
        self.lifecycle = BrokerLifecycle(
            Identity(1, "cluster", [], [], []),
            self.link,  # type: ignore[arg-type]
            self.clock,
            lambda: 10,
            heartbeat_interval_ms=INTERVAL_MS,
            registration_timeout_ms=60_000,
        )
        while self.lifecycle.state is not State.RUNNING:
            self.wait(100)
            self.link.answer()
        self.wait(INTERVAL_MS)
        assert len(self.link.waiting) == 1

    def wait(self, duration_ms: int) -> None:
        self.clock.advance_ms(duration_ms)
        self.lifecycle.tick(self.clock.now_ms())


@pytest.mark.parametrize("answer", [OK, None])
def test_what_is_urgent_while_a_heartbeat_is_on_its_way_goes_with_the_next_one_at_once(answer: Any) -> None:
    broker = Broker()
    failed = uuid.UUID(int=7)
    broker.lifecycle.offline_log_dirs.append(failed)
    broker.lifecycle.heartbeat_now()
    count = len(broker.link.sent)
    broker.link.answer(answer)
    broker.wait(0 if answer else 100)
    assert [each["offline_log_dirs"] for each in broker.link.sent[count:]] == [[failed]]
    broker.link.answer()
    broker.wait(INTERVAL_MS - 1)
    assert broker.link.waiting == [], "and those after it at their times"


def test_contact_is_lost_after_two_intervals_without_an_answer() -> None:
    broker = Broker()
    broker.link.answer(None)
    broker.wait(INTERVAL_MS)
    assert broker.lifecycle.has_contact
    broker.wait(1)
    assert not broker.lifecycle.has_contact
    broker.wait(100)
    broker.link.answer()
    assert broker.lifecycle.has_contact
