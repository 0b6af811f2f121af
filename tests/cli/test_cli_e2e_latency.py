"""kt e2e-latency against the recordings of kafka-e2e-latency.sh."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import admin_tools
import perf_transcripts
import pytest
import transcripts
from support.kt import run_kt
from transcripts import Difference

from kafkatools.exit_status import ExitStatus

_USAGE = Difference("usage", status=ExitStatus.USAGE)
_DIFFERENCES = {
    "004": _USAGE,
    "005": _USAGE,
    "007": _USAGE,
    "009": Difference("help", status=ExitStatus.USAGE, own_words=True),
    "010": Difference("help", status=ExitStatus.OK, own_words=True),
    "011": Difference("help", status=ExitStatus.OK, stdout="4.3.1\n", stderr=""),
}


@pytest.mark.slow
def test_e2e_latency_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker()
    admin_tools.send(bootstrap, "perf", 2, [])
    failures = perf_transcripts.failures("e2e-latency", bootstrap, tmp_path, _DIFFERENCES)
    assert not failures, "\n".join(failures)
    ran = run_kt(
        *("e2e-latency", "--bootstrap-server", bootstrap, "--topic", "perf", "--num-records", "3"),
        *("--producer-acks", "all", "--record-size", "5", "--record-header-size", "-1", "--num-headers", "2", "--json"),
    )
    assert ran.status == ExitStatus.OK, ran.err
    first, total = [json.loads(line) for line in ran.out.splitlines()]
    assert (first["event"], first["number"]) == ("record", 0)
    assert (total["event"], total["records"]) == ("total", 3)
    assert 0 < total["avg_latency_ms"] <= total["p999_latency_ms"] + 1
    listed = run_kt(
        *("console-consumer", "--bootstrap-server", bootstrap, "--topic", "perf", "--from-beginning", "--exit-at-end"),
        *("--json", "--max-messages", "63"),
    )
    records = [json.loads(line) for line in listed.out.splitlines()]
    assert sum(record["headers"] == [["", None], ["", None]] for record in records) == 3


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in _DIFFERENCES.values()} <= transcripts.documented_keys()
