"""Results of AdminClient.retry_items when some items never succeed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError, LeaderNotAvailable, Timeout


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


def test_time_that_is_over_before_any_result_is_an_error() -> None:
    def once(items: list[str], deadline_ms: int) -> Mapping[str, int | KafkaError]:
        raise Timeout("No answer came within 0 ms")

    with AdminClient("127.0.0.1:1", {}, SystemClock()) as admin, pytest.raises(Timeout):
        admin.retry_items(["known"], once, 60_000, lambda error: True)
