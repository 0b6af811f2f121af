"""kt features against the recordings of kafka-features.sh, on one embedded broker.

Kafka's tool prints on stdout which features could not be changed; here they are expected on stderr.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.kt import Ran, run_kt
from transcripts import Case, Difference, Expected

from kafkatools.exit_status import ExitStatus

_HELP = Difference("help", status=ExitStatus.OK, own_words=True)
_USAGE = Difference("usage", status=ExitStatus.USAGE)
DIFFERENCES = dict.fromkeys(("009", "013", "018", "019", "021", "024", "030"), _USAGE) | {
    "011": Difference("features-failures"),
    "022": Difference("options-behind", status=ExitStatus.OK, own_words=True),
    "012": Difference("features-failures"),
    "016": Difference("features-failures"),
    "023": Difference("unreachable", own_words=True),
    "025": _HELP,
    "026": _HELP,
    "027": _HELP,
    "028": _HELP,
    "029": _HELP,
}
NOT_HERE = {
    "002": "the embedded broker has no listener for controllers",
}
_MOVED = re.compile(r"^(?:Could not| `metadata`) .*\n", re.MULTILINE)


def expect(case: Case, wanted: Expected) -> Expected:
    moved = _MOVED.findall(wanted.stdout)
    stdout = re.sub(r"Epoch: \d+", "Epoch: N", _MOVED.sub("", wanted.stdout))
    return wanted._replace(stdout=stdout, error=moved[0].rstrip("\n") if moved else wanted.error)


@pytest.mark.slow
def test_features_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker()

    def run(case: Case) -> Ran:
        transcripts.write_files(case, tmp_path)
        ran = run_kt("features", *admin_tools.words(case, bootstrap), cwd=tmp_path)
        return ran._replace(stdout=re.sub(rb"Epoch: \d+", b"Epoch: N", ran.stdout))

    cases = [case for case in transcripts.load("features") if case.number not in NOT_HERE]
    failures = transcripts.replay(cases, run, DIFFERENCES, expect)
    assert not failures, "\n".join(failures)

    server = ("features", "--bootstrap-server", bootstrap)
    rows = [json.loads(line) for line in run_kt(*server, "describe", "--json").out.splitlines()]
    (metadata,) = [row for row in rows if row["feature"] == "metadata.version"]
    assert (metadata["min_level"], metadata["max_level"], metadata["finalized_level"]) == (7, 30, 30)
    missing = run_kt(*server, "describe", "--node-id", "7")
    assert (missing.status, missing.out, missing.err) == (
        ExitStatus.FAILED,
        "",
        "There is no node 7: the nodes are 1\n",
    )
    negative = run_kt(*server, "upgrade", "--feature", "group.version=-1")
    assert (negative.status, negative.err.splitlines()[0]) == (
        ExitStatus.USAGE,
        "Cannot specify a negative version level.",
    )
    refused = run_kt(*server, "upgrade", "--feature", "no.such=1", "--json")
    assert (refused.status, json.loads(refused.out)["updated"]) == (ExitStatus.FAILED, False)
    done = run_kt(*server, "disable", "--feature", "share.version")
    assert (done.status, done.out) == (ExitStatus.OK, "share.version was disabled.\n"), done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("upgrade --feature group.version=1_0",
         "Can't parse feature=level string group.version=1_0: unable to parse 1_0 as a short."),
        ("upgrade --release-version 4.0 --feature group.version=1",
         "Can not specify `release-version` with other feature flags."),
        ("upgrade --release-version 4.0 --metadata 4.0", "Can not specify `release-version` with other feature flags."),
        ("upgrade --feature group.version=1 --feature group.version=1",
         "Feature group.version was specified more than once."),
        ("disable --feature group.version --feature group.version",
         "Feature group.version was specified more than once."),
        ("describe --node-id -1", "Invalid node id -1: must be non-negative."),
        ("--bootstrap-controller localhost:1 describe",
         "Command line error: argument --bootstrap-controller: not allowed with argument --bootstrap-server. "
         "Type --help for help."),
    ],
)  # fmt: skip
def test_features_are_refused_as_by_apache_kafka(words: str, message: str) -> None:
    # the messages of kafka-features.sh 4.3.1
    ran = run_kt("features", "--bootstrap-server", "localhost:9", *words.split())
    assert (ran.status, ran.out, ran.err.splitlines()[0]) == (ExitStatus.USAGE, "", message)


def test_dependencies_of_an_unknown_level_are_refused_as_by_apache_kafka() -> None:
    ran = run_kt("features", "feature-dependencies", "--feature", "group.version=9")
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert ran.err == "No feature:group.version with feature level 9\n"


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()
