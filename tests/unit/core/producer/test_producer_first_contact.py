"""Before the first metadata: an unreachable cluster is reported after 5 s, an error without a cure at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.errors import AuthenticationFailed, ConnectionFailed, KafkaError
from kafkatools.core.producer.first_contact import MetadataWait, await_update, reason_not_to_start

REFUSED = ConnectionFailed("Connection to a:1 failed: Connection refused")
WRONG_PASSWORD = AuthenticationFailed("Authentication failed: Invalid username or password")


class Cluster:
    """A sender and its metadata: connections with these errors, and metadata that arrive at a time or never."""

    def __init__(self, *connection_errors: KafkaError | None, answers_at_ms: int | None = None) -> None:
        self.clock = ManualClock()
        self.begun_ms = self.clock.now_ms()
        self.answers_at_ms = answers_at_ms
        self.waits: list[int] = []
        self.update_version = 0
        self.cluster = SimpleNamespace(nodes=range(len(connection_errors)), is_bootstrap=True)
        self.client = SimpleNamespace(connection_error=lambda node: connection_errors[node])

    @property
    def sender(self) -> Any:
        return SimpleNamespace(metadata=self, client=self.client)

    def await_update(self, version: int, timeout_ms: int) -> bool:
        self.waits.append(timeout_ms)
        self.clock.advance_ms(timeout_ms)
        if self.answers_at_ms is not None and self.elapsed_ms >= self.answers_at_ms:
            self.cluster.is_bootstrap = False
        return not self.cluster.is_bootstrap

    @property
    def elapsed_ms(self) -> int:
        return self.clock.now_ms() - self.begun_ms

    def start(self, max_block_ms: int = 60_000) -> Exception | None:
        return reason_not_to_start(self.sender, self.clock, max_block_ms)


def test_servers_that_refuse_are_tried_for_five_seconds() -> None:
    cluster = Cluster(REFUSED, REFUSED)
    assert cluster.start() is REFUSED
    assert cluster.elapsed_ms == 5000


def test_an_error_without_a_cure_is_reported_at_once() -> None:
    cluster = Cluster(WRONG_PASSWORD)
    assert cluster.start() is WRONG_PASSWORD
    assert cluster.elapsed_ms == 0


def test_a_server_that_may_still_answer_is_waited_for() -> None:
    cluster = Cluster(WRONG_PASSWORD, None, answers_at_ms=8000)
    assert cluster.start() is None
    assert cluster.elapsed_ms >= 8000


def test_one_error_that_may_pass_is_waited_for() -> None:
    cluster = Cluster(WRONG_PASSWORD, REFUSED)
    assert cluster.start() is WRONG_PASSWORD
    assert cluster.elapsed_ms == 5000


def test_a_start_does_not_wait_longer_than_the_first_record_would() -> None:
    cluster = Cluster(REFUSED)
    assert cluster.start(max_block_ms=5000) is None
    assert cluster.waits == []


def outcome(cluster: Cluster, timeout_ms: int) -> tuple[bool | str, list[int]]:
    """The result or the error of a wait for metadata, and the times that it waited."""
    steps = await_update(cluster.sender, 0, timeout_ms)
    waits: list[int] = []
    answer: Any = None
    try:
        while True:
            wait = steps.send(answer)
            assert isinstance(wait, MetadataWait)
            waits.append(wait.timeout_ms)
            cluster.clock.advance_ms(wait.timeout_ms)
            answer = cluster.answers_at_ms is not None and cluster.elapsed_ms >= cluster.answers_at_ms
    except StopIteration as end:
        return bool(end.value), waits
    except KafkaError as error:
        return f"{type(error).__name__}: {error}", waits


def test_a_record_waits_five_seconds_for_servers_that_refuse() -> None:
    result, waits = outcome(Cluster(REFUSED, ConnectionFailed("b:1 failed"), REFUSED), 60_000)
    assert result == "ConnectionFailed: Connection to a:1 failed: Connection refused; b:1 failed"
    assert sum(waits) == 5000


def test_a_record_fails_at_once_with_an_error_without_a_cure() -> None:
    result, waits = outcome(Cluster(WRONG_PASSWORD), 60_000)
    assert result == "AuthenticationFailed: Authentication failed: Invalid username or password"
    assert sum(waits) == 500


@pytest.mark.parametrize("timeout_ms", [700, 500])
def test_a_record_waits_no_longer_than_it_may(timeout_ms: int) -> None:
    result, waits = outcome(Cluster(None), timeout_ms)
    assert (result, sum(waits)) == (False, timeout_ms)


def test_metadata_that_arrive_end_the_wait() -> None:
    assert outcome(Cluster(REFUSED, answers_at_ms=1500), 60_000) == (True, [500, 500, 500])


def test_after_the_first_metadata_nothing_but_the_time_counts() -> None:
    cluster = Cluster(REFUSED)
    cluster.update_version = 1
    assert outcome(cluster, 60_000) == (False, [60_000])
