"""kt replica-verification against the recordings of kafka-replica-verification.sh, on one embedded broker."""

from __future__ import annotations

import json
import pathlib
import re
import signal
import time
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.kt import Ran, run_kt
from support.kt_process import error_lines, start_kt
from transcripts import Case, Difference

from kafkatools.exit_status import ExitStatus

_HELP = Difference("help", status=ExitStatus.OK, own_words=True)
DIFFERENCES = {
    "001": Difference("log-lines", status=ExitStatus.INTERRUPTED),
    "002": _HELP._replace(status=ExitStatus.USAGE),
    "004": Difference(
        "log-lines",
        stderr="No topics found. [topics-include] if specified, is either filtering out all topics or "
        "there is no topic.",
    ),
    "005": Difference("usage", status=ExitStatus.USAGE),
    "006": Difference("unreachable", status=ExitStatus.FAILED, own_words=True),
    "009": _HELP,
}
_TIME = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}: ", re.MULTILINE)


def until_two_reports(case: Case, bootstrap: str, home: pathlib.Path) -> Ran:
    """Runs the case in a process of its own, and stops it as the recorder did."""
    words = [*admin_tools.words(case, bootstrap), "--max-wait-ms", "20"]
    interval = words.index("--report-interval-ms") + 1
    words[interval] = "50"
    process = start_kt(home, "replica-verification", *words)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(5)]
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    error_lines(err)
    return Ran(ExitStatus(process.returncode), b"".join(lines), err)


def masked(text: str) -> str:
    return _TIME.sub("NOW: ", text)


@pytest.mark.slow
def test_replica_verification_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker()
    admin_tools.send(bootstrap, "orders", 3, [(0, 1), (1, 1)])
    admin_tools.send(bootstrap, "pay", 1, [(0, 1)])

    def run(case: Case) -> Ran:
        if case.number == "001":
            ran = until_two_reports(case, bootstrap, tmp_path)
        else:
            ran = run_kt("replica-verification", *admin_tools.words(case, bootstrap), cwd=tmp_path)
        return ran._replace(stdout=masked(ran.out).encode())

    failures = transcripts.replay(
        transcripts.load("replica-verification"),
        run,
        DIFFERENCES,
        lambda case, wanted: wanted._replace(stdout=masked(wanted.stdout)),
    )
    assert not failures, "\n".join(failures)

    started = time.monotonic()
    ran = run_kt("replica-verification", "--bootstrap-server", bootstrap, "--exit-at-end", "--json")
    assert time.monotonic() - started < 10
    assert ran.status == ExitStatus.OK, ran.err
    start, end = [json.loads(line) for line in ran.out.splitlines()]
    assert (start["event"], start["partitions"]) == ("start", 4)
    assert (end["event"], end["partitions"], end["complete"]) == ("end", 4, 4)


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()
