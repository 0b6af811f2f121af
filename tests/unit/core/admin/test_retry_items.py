"""Results of AdminClient.retry_items when some items never succeed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.ports import free_port

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import (
    ConnectionFailed,
    KafkaError,
    LeaderNotAvailable,
    NotController,
    ThrottlingQuotaExceeded,
    Timeout,
)
from kafkatools.core.net import requests


def test_time_that_is_over_amid_a_retry_loses_no_earlier_result() -> None:
    calls = 0

    def once(items: list[str], deadline_ms: int) -> Mapping[str, int | KafkaError]:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise Timeout("No answer came within 0 ms")
        return {"known": 7, "away": LeaderNotAvailable()}

    with AdminClient("127.0.0.1:1", {}, SystemClock()) as admin:
        found = admin.retry_items(["known", "away"], once, 60_000, lambda error: True)
    assert found["known"] == 7
    assert isinstance(found["away"], LeaderNotAvailable)


def test_error_of_a_retry_is_that_of_the_items_that_were_tried_again() -> None:
    calls = 0

    def once(items: list[str], deadline_ms: int) -> Mapping[str, int | KafkaError]:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise ConnectionFailed("gone")
        return {"known": 7, "away": ThrottlingQuotaExceeded()}

    with AdminClient("127.0.0.1:1", {}, SystemClock()) as admin:
        found = admin.retry_items(["known", "away"], once, 60_000)
    assert (found["known"], str(found["away"])) == (7, "gone")


def test_controller_that_cannot_be_looked_up_loses_no_earlier_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "UNREACHABLE_PATIENCE_MS", 200)

    def once(items: list[str], deadline_ms: int) -> Mapping[str, int | KafkaError]:
        return {"known": 7, "away": NotController()}

    with AdminClient(f"127.0.0.1:{free_port()}", {}, SystemClock()) as admin:
        found = admin.retry_items(["known", "away"], once, 60_000)
    assert found["known"] == 7
    assert isinstance(found["away"], ConnectionFailed)


def test_time_that_is_over_before_any_result_is_an_error() -> None:
    def once(items: list[str], deadline_ms: int) -> Mapping[str, int | KafkaError]:
        raise Timeout("No answer came within 0 ms")

    with AdminClient("127.0.0.1:1", {}, SystemClock()) as admin, pytest.raises(Timeout):
        admin.retry_items(["known"], once, 60_000, lambda error: True)
