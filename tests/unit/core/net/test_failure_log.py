"""Lines about failed connections: the first at once, then at most one a minute of a node and kind of error."""

from __future__ import annotations

import logging

import pytest

from kafkatools.core.errors import ConnectionFailed, Disconnected, KafkaError
from kafkatools.core.net.failure_log import INTERVAL_MS, FailureLog

LOG = logging.getLogger("kafkatools.core.net.sample")
REFUSED = ConnectionFailed("Connection to 127.0.0.1:9 failed: Connection refused")


@pytest.fixture
def failures(caplog: pytest.LogCaptureFixture) -> FailureLog:
    caplog.set_level(logging.DEBUG, LOG.name)
    return FailureLog(LOG)


def shown(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG]


def test_an_hour_of_tries_is_a_line_a_minute(failures: FailureLog, caplog: pytest.LogCaptureFixture) -> None:
    for now_ms in range(0, 3_600_000, 1000):
        failures.failed(1, REFUSED, now_ms)
    lines = shown(caplog)
    assert lines[0] == str(REFUSED)
    assert set(lines[1:]) == {f"{REFUSED} (59 more failures in the last 60 s)"}
    assert len(lines) == 60
    assert len(caplog.records) == 3600


def test_each_node_and_each_kind_of_error_has_its_own_first_line(
    failures: FailureLog, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[KafkaError] = [REFUSED, Disconnected("gone")]
    for now_ms in range(3):
        for node in (1, 2, -1):
            for error in errors:
                failures.failed(node, error, now_ms)
    assert shown(caplog) == [str(error) for _ in range(3) for error in errors]


def test_a_failure_after_a_quiet_minute_is_a_line_without_a_count(
    failures: FailureLog, caplog: pytest.LogCaptureFixture
) -> None:
    for now_ms in (0, INTERVAL_MS, 5 * INTERVAL_MS):
        failures.failed(1, REFUSED, now_ms)
    assert shown(caplog) == [str(REFUSED)] * 3


def test_levels(failures: FailureLog, caplog: pytest.LogCaptureFixture) -> None:
    failures.failed(1, REFUSED, 0)
    failures.failed(2, REFUSED, 0, is_routine=True)
    failures.level = logging.ERROR
    failures.failed(3, REFUSED, 0)
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.INFO, logging.ERROR]
