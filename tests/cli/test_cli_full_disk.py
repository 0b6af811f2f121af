"""A broker with a full disk, seen from the console tools: one clear line in time, the reason in its report."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest
from support.full_disk import FullBroker
from support.kt import run_kt

FULL = "[Errno 28] No space left on device: "


@pytest.fixture
def broker(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FullBroker]:
    """A broker with the topic t, which holds one record."""
    made = FullBroker(tmp_path, monkeypatch)
    assert run_kt("topics", "--bootstrap-server", made.bootstrap, "--create", "--topic", "t").status == 0
    sent = run_kt("console-producer", "--bootstrap-server", made.bootstrap, "--topic", "t", stdin=b"hello\n")
    assert sent.status == 0, sent.err
    yield made
    made.close()


def test_the_consumer_of_a_group_says_why_nothing_comes_and_reads_when_there_is_room(broker: FullBroker) -> None:
    broker.disk.is_full = lambda path: "__" in path
    command = ("console-consumer", "--bootstrap-server", broker.bootstrap, "--topic", "t", "--group", "g")
    ran = run_kt(*command, "--from-beginning", "--timeout-ms", "1000")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        "Processed a total of 0 messages",
        "Group g: The coordinator is not available.",
    ]
    (report,) = broker.reports
    assert "__cluster_metadata-0" in report and FULL in report
    broker.disk.is_full = lambda path: False
    ran = run_kt(*command, "--from-beginning", "--max-messages", "1")
    assert (ran.status, ran.out) == (0, "hello\n"), ran.err


def test_the_producer_in_transactions_says_why_it_timed_out(broker: FullBroker) -> None:
    broker.disk.is_full = lambda path: "__transaction_state" in path
    ran = run_kt(
        *("console-producer", "--bootstrap-server", broker.bootstrap, "--topic", "t", "--transactional-id", "x"),
        *("--command-property", "max.block.ms=500"),
        stdin=b"hey\n",
    )
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        "Timeout expired after 500ms while awaiting InitProducerId: The coordinator is not available.",
        "0 sent, 0 failed, 0 aborted",
    ]
    assert any("__transaction_state" in line and FULL in line for line in broker.reports)
