"""kt log-dirs against the recordings of kafka-log-dirs.sh.

Recorded with three brokers; the one embedded broker has all partitions. Their order, which is that of Kafka's hash
maps, follows from the recordings: broker 2 has pay-0, orders-0, orders-1 and broker 3 orders-1, orders-2, solo3-0.
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

_USAGE = Difference("usage", status=ExitStatus.USAGE)
_IGNORED = Difference("nothing-ignored", status=ExitStatus.USAGE, own_words=True)
DIFFERENCES = {
    "004": Difference(
        "log-dirs-missing", status=ExitStatus.FAILED, stderr="Topic 'ghost' is in none of these directories"
    ),
    "007": _USAGE,
    "010": Difference("help", own_words=True),
    "012": Difference("unreachable", own_words=True),
    "016": _IGNORED,
    "017": Difference("missing-file", stderr="absent.properties: no such properties file"),
    "019": Difference("help", status=ExitStatus.OK, own_words=True),
}
NOT_HERE = {
    "003": "of broker 2 alone",
    "005": "names three brokers",
    "006": "names three brokers",
    "015": "of broker 2 alone",
}
_ORDER = ("pay-0", "orders-0", "orders-1", "orders-2", "solo3-0")


def _merged(line: str, log_dir: str) -> str:
    """The recorded brokers' answers as one broker with all their partitions would give them."""
    recorded = json.loads(line)
    rows = [row for broker in recorded["brokers"] for each in broker["logDirs"] for row in each["partitions"]]
    by_name = {row["partition"]: row for row in rows}
    partitions = [by_name[name] for name in _ORDER if name in by_name]
    dirs = [{"partitions": partitions, "error": None, "logDir": log_dir}]
    return json.dumps({"brokers": [{"broker": 1, "logDirs": dirs}], "version": 1}, separators=(",", ":"))


@pytest.mark.slow
def test_log_dirs_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    log_dir = str(tmp_path / "data")
    bootstrap = start_broker({"log.dirs": log_dir})
    for topic, partitions, filled in (("orders", 3, (0, 1)), ("pay", 1, (0,)), ("solo3", 1, (0,))):
        admin_tools.send(bootstrap, topic, partitions, [(each, admin_tools.START) for each in filled], "ab")

    def expect(case: Case, wanted: Expected) -> Expected:
        stdout = wanted.stdout.replace("brokers 1,2,3", "brokers 1")
        return wanted._replace(stdout=re.sub(r"^\{.*", lambda match: _merged(match[0], log_dir), stdout, flags=re.M))

    failures = admin_tools.failures("log-dirs", bootstrap, tmp_path, DIFFERENCES, not_here=NOT_HERE, adapt=expect)
    assert not failures, "\n".join(failures)

    words = ("log-dirs", "--describe", "--bootstrap-server", bootstrap)
    for number in ("+-1", "99999999999"):
        ran = run_kt(*words, "--broker-list", f"1,{number}")
        assert (ran.status, ran.err.splitlines()[0]) == (ExitStatus.USAGE, f'For input string: "{number}"')
    unknown = run_kt(*words, "--broker-list", "1,9")
    assert unknown.status == ExitStatus.FAILED
    message = "ERROR: The given brokers do not exist from --broker-list: 9. Current existent brokers: 1\n"
    assert (unknown.out, unknown.err) == ("", message)
    row = json.loads(run_kt(*words, "--json", "--topic-list", "pay").out)
    assert (row["broker"], row["log_dir"], row["error"]) == (1, log_dir, None)
    replica = {"topic": "pay", "partition": 0, "size": 70, "offset_lag": 0, "is_future": False}
    assert row["partitions"] == [replica]
    assert row["total_bytes"] >= row["usable_bytes"] > 0


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in DIFFERENCES.values()} <= transcripts.documented_keys()
