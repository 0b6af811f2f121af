"""kt consumer-perf-test against the recordings of kafka-consumer-perf-test.sh, and what only ours does."""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Callable, Sequence

import admin_tools
import perf_transcripts
import pytest
import transcripts
from support.kt import run_kt
from transcripts import Case, Difference

import kafkatools
from kafkatools.exit_status import ExitStatus

_TIMEOUT = Difference("perf-timeout", status=ExitStatus.FAILED)
_USAGE = Difference("usage", status=ExitStatus.USAGE)
_DIFFERENCES = dict.fromkeys(("005", "011", "013", "014", "016"), _USAGE) | {
    "006": _TIMEOUT,
    "007": _TIMEOUT,
    "010": _TIMEOUT,
    "017": _TIMEOUT,
    "015": Difference("help", status=ExitStatus.USAGE, own_words=True),
    "021": Difference("nothing-ignored", status=ExitStatus.USAGE, own_words=True),
    "022": Difference("missing-file", stdout="", stderr="absent.properties: no such properties file"),
    "024": Difference("help", status=ExitStatus.OK, own_words=True),
}
_WITHOUT_RECORDS = {"007", "010", "017"}
"""Nothing arrives in these: they wait for their --timeout, which is shortened."""
_ENDS_BY_TIMEOUT = {"006": "10000"} | dict.fromkeys(_WITHOUT_RECORDS, "600")
_PATIENT = ("--timeout", "120000")
"""For runs that end with their last record: a busy machine may take longer than 10 s to join the group."""


def _words(case: Case) -> Sequence[str]:
    """Time-outs that are waited for are short, the others long."""
    if case.number in _ENDS_BY_TIMEOUT:
        return [_ENDS_BY_TIMEOUT[case.number] if word == "2000" else word for word in case.args]
    is_read = case.number not in _DIFFERENCES and {"--num-records", "--messages"} & {*case.args}
    if not is_read or "--timeout" in case.args:
        return ["120000" if word == "2000" else word for word in case.args]
    return [*case.args, *_PATIENT]


def _adapted(case: Case, wanted: transcripts.Expected) -> transcripts.Expected:
    timeout_ms = _ENDS_BY_TIMEOUT.get(case.number, "2000")
    return wanted._replace(stdout=wanted.stdout.replace("(2000 ms)", f"({timeout_ms} ms)"))


def _shown(text: str) -> str:
    """The form of the lines; adjacent equal ones as one, since the number of intervals depends on the speed."""
    return "".join(line for line, _ in itertools.groupby(perf_transcripts.form(text).splitlines(keepends=True)))


@pytest.mark.slow
def test_consumer_perf_test_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker(settings={"group.initial.rebalance.delay.ms": "0"})
    admin_tools.send(bootstrap, "perf", 2, [])
    words = ("--bootstrap-server", bootstrap, "--topic", "perf", "--num-records")
    sent = run_kt("producer-perf-test", *words, "23220", "--record-size", "100", "--throughput", "-1")
    assert sent.status == ExitStatus.OK, sent.err
    failures = perf_transcripts.failures(
        "consumer-perf-test", bootstrap, tmp_path, _DIFFERENCES, shown=_shown, words=_words, adapt=_adapted
    )
    assert not failures, "\n".join(failures)

    group = ("--group", "once", "--json")
    first = run_kt("consumer-perf-test", *words, "10010", *group, *_PATIENT)
    assert first.status == ExitStatus.OK, first.err
    [row] = [json.loads(line) for line in first.out.splitlines()]
    assert (row["event"], row["records"], row["bytes"]) == ("total", 10010, 1001000)
    assert row["elapsed_ms"] == row["rebalance_ms"] + row["fetch_ms"]
    second = run_kt("consumer-perf-test", *words, "13211", *group, "--timeout", "10000")
    assert second.status == ExitStatus.FAILED  # one more than the first run left: nothing is read twice, nothing lost
    assert json.loads(second.out)["records"] == 13210
    assert json.loads(second.err.splitlines()[0])["error"]["kind"] == "TIMEOUT"

    interval = ("--show-detailed-stats", "--reporting-interval", "1")
    detailed = run_kt("consumer-perf-test", *words, "23220", *interval, *_PATIENT)
    assert detailed.out.splitlines()[-1].split(", ")[4] == "23220"
    bad = run_kt("consumer-perf-test", *words, "1", "--date-format", "yyyy-bb")
    assert (bad.status, bad.err.splitlines()[0]) == (
        ExitStatus.USAGE,
        "--date-format: Illegal pattern character 'b'",
    )


def test_records_beyond_the_number_are_not_committed_although_they_came_in_several_batches(
    start_broker: Callable[..., str],
) -> None:
    bootstrap = start_broker(settings={"group.initial.rebalance.delay.ms": "0"})
    with kafkatools.Producer(bootstrap_servers=bootstrap, compression_type="gzip") as producer:
        for number in range(6):
            producer.send_many("batches", [b"%d" % number] * 4, partition=0).result()
    words = ("--bootstrap-server", bootstrap, "--topic", "batches", "--num-records", "10", "--group", "some")
    assert run_kt("consumer-perf-test", *words, *_PATIENT).status == ExitStatus.OK
    with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
        assert admin.group_offsets("some")["batches", 0].offset == 10


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in _DIFFERENCES.values()} <= transcripts.documented_keys()
