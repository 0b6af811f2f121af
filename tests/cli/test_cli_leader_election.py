"""kt leader-election against the recordings of kafka-leader-election.sh.

One broker has nobody else to elect: what needs another replica stands in NEEDS_THREE. Kafka's tool prints the
partitions that failed on stdout; here they are expected on stderr, without the class of the exception.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

import admin_tools
import pytest
import transcripts
from support.kt import run_kt
from transcripts import Case, Difference, Expected

from kafkatools.exit_status import ExitStatus

NEEDS_THREE = {
    "003": "the preferred leader is another broker",
    "005": "the preferred leader is another broker",
    "013": "the preferred leader is another broker",
    "018": "a broker is down",
    "019": "a broker is down",
    "020": "a broker is down",
    "021": "a broker is down",
    "022": "a broker is down",
    "023": "a broker is down",
    "033": "the preferred leader is another broker",
}
_USAGE = Difference("usage", status=ExitStatus.USAGE)
_FAILED = Difference("election-failures")
DIFFERENCES = dict.fromkeys(("024", "028", "029", "030", "031"), _USAGE) | {
    "006": _FAILED,
    "007": _FAILED,
    "008": Difference("election-json"),
    "014": _FAILED,
    "015": _FAILED,
    "035": Difference("help", own_words=True),
    "036": _USAGE,
    "037": Difference("unreachable", stdout="", own_words=True),
    "041": Difference("nothing-ignored", status=ExitStatus.USAGE, own_words=True),
    "042": Difference("missing-file", stderr="absent.properties: no such properties file"),
    "044": Difference("help", status=ExitStatus.OK, own_words=True),
}
_NOTICE = re.compile(r"(Option --\S+ has been deprecated .*)\n")
_ERROR_LINE = re.compile(r"^(Error completing .*?: \S+: )(?:[a-z]\w*\.)+[A-Z]\w*: (.*)\n", re.MULTILINE)


def expect(case: Case, wanted: Expected) -> Expected:
    """Partitions that failed, and the notice on an old option, are for stderr."""
    notice = _NOTICE.match(wanted.stdout)
    if notice is not None:
        return wanted._replace(stdout=wanted.stdout[notice.end() :], error=notice[1])
    error = _ERROR_LINE.search(wanted.stdout)
    if error is None:
        return wanted
    return wanted._replace(stdout=_ERROR_LINE.sub("", wanted.stdout), error=error[1] + error[2])


@pytest.mark.slow
def test_leader_election_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker()
    admin_tools.send(bootstrap, "orders", 3, [])
    failures = admin_tools.failures(
        "leader-election", bootstrap, tmp_path, DIFFERENCES, not_here=NEEDS_THREE, adapt=expect
    )
    assert not failures, "\n".join(failures)

    (tmp_path / "two.json").write_text(
        '{"partitions": [{"topic": "ghost", "partition": 0}, {"topic": "orders", "partition": 1}]}'
    )
    words = ("--bootstrap-server", bootstrap, "--election-type", "preferred", "--path-to-json-file", "two.json")
    text = run_kt("leader-election", *words, cwd=tmp_path)
    assert text.err.splitlines()[-1] == "1 replica(s) could not be elected"
    ran = run_kt("leader-election", *words, "--json", cwd=tmp_path)
    assert ran.status == ExitStatus.FAILED
    ghost, orders = [json.loads(line) for line in ran.out.splitlines()]
    assert ghost == {
        "topic": "ghost",
        "partition": 0,
        "election_type": "PREFERRED",
        "outcome": "failed",
        "error": "No such topic as ghost",
    }
    assert (orders["topic"], orders["outcome"], orders["error"]) == ("orders", "not_needed", None)


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()
