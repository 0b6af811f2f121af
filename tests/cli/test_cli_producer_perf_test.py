"""kt producer-perf-test against the recordings of kafka-producer-perf-test.sh, and what only ours does."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Sequence

import admin_tools
import perf_transcripts
import pytest
import transcripts
from support.kt import run_kt
from transcripts import Case, Difference, Expected

from kafkatools.exit_status import ExitStatus

_PROGRAM = "kafka-producer-perf-test: error:"
_DIFFERENCES = {
    "018": Difference("usage", status=ExitStatus.USAGE),
    "021": Difference(
        "argparse-numbers", stderr=f"{_PROGRAM} argument --num-records: could not convert 'ten' to a number"
    ),
    "022": Difference(
        "perf-failures",
        status=ExitStatus.FAILED,
        stderr="3 records failed: Topic perf not present in metadata after 1500 ms.",
    ),
    "024": Difference("help", status=ExitStatus.USAGE, own_words=True),
    "025": Difference("help", status=ExitStatus.OK, own_words=True),
}
_QUICKER = {"1200": "120", "1000": "100"}


def _words(case: Case) -> Sequence[str]:
    """002 with a tenth of the records, and of the time between reports."""
    return [_QUICKER.get(word, word) for word in case.args] if case.number == "002" else case.args


def _expect(case: Case, wanted: Expected) -> Expected:
    if case.number == "002":
        lines = wanted.stdout.splitlines(keepends=True)
        return wanted._replace(stdout="".join(lines[:1] * 5 + lines[-1:]).replace("1200 records", "120 records"))
    return wanted


def _shown(text: str) -> str:
    """How many windows a slow machine gets in is left open."""
    lines = perf_transcripts.form(text).splitlines(keepends=True)
    return "".join(line for index, line in enumerate(lines) if index == 0 or line != lines[index - 1])


@pytest.mark.slow
def test_producer_perf_test_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker()
    admin_tools.send(bootstrap, "perf", 2, [])
    failures = perf_transcripts.failures(
        "producer-perf-test", bootstrap, tmp_path, _DIFFERENCES, shown=_shown, words=_words, adapt=_expect
    )
    assert not failures, "\n".join(failures)

    words = ("--bootstrap-server", bootstrap, "--topic", "numbers", "--throughput", "-1", "--num-records")
    ran = run_kt("producer-perf-test", *words, "1203", "--payload-monotonic", "--warmup-records", "200", "--json")
    assert ran.status == ExitStatus.OK, ran.err
    total, steady = [json.loads(line) for line in ran.out.splitlines()]
    assert (total["event"], total["records"]) == ("total", 1203)
    assert total["bytes"] == 10 + 90 * 2 + 900 * 3 + 203 * 4
    assert (steady["event"], steady["records"], steady["bytes"]) == ("steady_state", 1003, 800 * 3 + 203 * 4)
    assert 0 <= total["p50_latency_ms"] <= total["p999_latency_ms"] <= total["max_latency_ms"]
    spread = run_kt(
        *("producer-perf-test", *words[:2], "--topic", "perf", "--throughput", "-1", "--num-records", "1203"),
        *("--record-size", "100", "--command-property", "partitioner.class=RoundRobinPartitioner", "--json"),
    )
    assert json.loads(spread.out)["bytes"] == 1203 * 100, spread.err
    read = run_kt(
        *("console-consumer", "--bootstrap-server", bootstrap, "--topic", "numbers", "--from-beginning"),
        "--exit-at-end",
    )
    assert sorted(map(int, read.out.split())) == list(range(1203))

    (tmp_path / "payloads").write_bytes(b"||one||\xff||")
    ran = run_kt(
        *("producer-perf-test", *words[:2], "--topic", "drawn", "--throughput", "-1", "--num-records", "500"),
        *("--payload-file", "payloads", "--payload-delimiter", "[|]+", "--transaction-duration-ms", "1"),
        cwd=tmp_path,
    )
    assert ran.status == ExitStatus.OK, ran.err
    assert "Number of records read: 2" in ran.out
    read = run_kt(
        *("console-consumer", "--bootstrap-server", bootstrap, "--topic", "drawn", "--from-beginning", "--exit-at-end"),
        *("--isolation-level", "read_committed"),
    )
    values = read.stdout.split()
    assert len(values) == 500
    assert set(values) == {b"one", b"\xff"}

    ran = run_kt(
        *("producer-perf-test", *words, "30", "--record-size", "3000", "--command-property", "max.request.size=2000")
    )
    assert ran.status == ExitStatus.FAILED
    assert ran.out.startswith("0 records sent, 0.000000 records/sec")
    assert "Traceback" not in ran.err
    assert ran.err.startswith("30 records failed: The message is ")


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in _DIFFERENCES.values()} <= transcripts.documented_keys()
