"""kt get-offsets against the recordings of kafka-get-offsets.sh, on the topics that were recorded."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.kt import run_kt
from transcripts import Case, Difference, Expected

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import delete_records
from kafkatools.core.clock import SystemClock
from kafkatools.exit_status import ExitStatus

_USAGE = Difference("usage", status=ExitStatus.USAGE)
DIFFERENCES = {
    "009": Difference("offsets-errors", status=ExitStatus.FAILED, own_words=True),
    "020": _USAGE,
    "021": _USAGE,
    "022": _USAGE,
    "032": _USAGE,
    "035": _USAGE,
    "036": _USAGE,
    "048": Difference("usage", status=ExitStatus.USAGE, own_words=True),
    "050": _USAGE,
    "051": _USAGE,
    "059": Difference("unreachable", own_words=True),
    "063": Difference("nothing-ignored", status=ExitStatus.USAGE, stdout="", own_words=True),
    "064": Difference("missing-file", stderr="Error occurred: absent.properties: no such properties file"),
    "066": Difference("help", status=ExitStatus.OK, own_words=True),
}
_START = 1_700_000_000_000


def _send(bootstrap: str, topic: str, partitions: int, records: list[tuple[int, int]]) -> None:
    """Creates a topic and sends records of (partition, timestamp), one at a time so that each is a batch."""
    create = ("--create", "--topic", topic, "--partitions", str(partitions))
    assert run_kt("topics", "--bootstrap-server", bootstrap, *create).status == ExitStatus.OK
    lines = "".join(json.dumps({"value": "v", "partition": p, "timestamp": t}) + "\n" for p, t in records)
    sent = run_kt(
        "console-producer", "--json", "--sync", "--bootstrap-server", bootstrap, "--topic", topic, stdin=lines.encode()
    )
    assert sent.status == ExitStatus.OK, sent.err


def _fill(bootstrap: str) -> None:
    _send(bootstrap, "orders", 3, [(i % 3, _START + i * 1000) for i in range(12)])
    _send(bootstrap, "pay", 1, [(0, _START + i * 1000) for i in (3, 2, 1, 0)])
    _send(bootstrap, "orders.eu", 2, [(1, _START)])
    _send(bootstrap, "empty", 1, [])
    create = ("--create", "--topic", "__consumer_offsets", "--partitions", "4", "--config", "cleanup.policy=compact")
    run_kt("topics", "--bootstrap-server", bootstrap, *create)
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        assert delete_records(admin, {("orders", 0): 2})["orders", 0].low_watermark == 2


def _nothing_committed(case: Case, wanted: Expected) -> Expected:
    """Here no group has committed, so the four partitions of its topic are empty."""
    return wanted._replace(stdout=wanted.stdout.replace("__consumer_offsets:3:4", "__consumer_offsets:3:0"))


@pytest.mark.slow
def test_get_offsets_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker()
    _fill(bootstrap)

    failures = admin_tools.failures("get-offsets", bootstrap, tmp_path, DIFFERENCES, adapt=_nothing_committed)
    assert not failures, "\n".join(failures)

    for none in ("", ","):
        all_of_orders = ("get-offsets", "--bootstrap-server", bootstrap, "--topic", "orders", "--partitions", none)
        assert run_kt(*all_of_orders).out.split() == ["orders:0:4", "orders:1:4", "orders:2:4"]
    nothing = run_kt("get-offsets", "--bootstrap-server", bootstrap, "--topic-partitions", ",")
    assert (nothing.status, nothing.out) == (ExitStatus.FAILED, "")
    assert nothing.err == "Error occurred: Could not match any topic-partitions with the specified filters\n"


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()
