"""kt delete-records against the recordings of kafka-delete-records.sh.

Kafka's tool prints the partitions that failed on stdout, with Java's names; here they are expected on stderr without.
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

_FAILED = Difference("delete-records-failures", status=ExitStatus.FAILED)
_MISSING = Difference("delete-records-missing", status=ExitStatus.FAILED)
_DIFFERENCES = {
    "005": _FAILED,
    "006": _FAILED,
    "007": _MISSING,
    "008": _MISSING,
    "009": _MISSING,
    "018": _FAILED,
    "021": Difference("help", own_words=True),
    "023": Difference("unreachable", status=ExitStatus.FAILED, own_words=True),
    "027": Difference("nothing-ignored", status=ExitStatus.USAGE, own_words=True),
    "028": Difference("missing-file", stderr="absent.properties: no such properties file"),
    "030": Difference("help", status=ExitStatus.OK, own_words=True),
}
_ERROR_LINE = re.compile(r"^(partition: .*\terror: )(?:[a-z]\w*\.)+[A-Z]\w*: (.*)\n", re.MULTILINE)
_NOWHERE = "This server does not host this topic-partition."


def _expect(case: Case, wanted: Expected) -> Expected:
    errors = _ERROR_LINE.findall(wanted.stdout)
    if not errors:
        return wanted
    start, reason = errors[0]
    if case.number in ("007", "008", "009"):
        reason = _NOWHERE
    return wanted._replace(stdout=_ERROR_LINE.sub("", wanted.stdout), error=start + reason)


@pytest.mark.slow
def test_delete_records_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker()
    admin_tools.send(bootstrap, "orders", 3, [(i % 3, admin_tools.START + i) for i in range(12)])
    admin_tools.send(bootstrap, "pay", 1, [(0, admin_tools.START + i) for i in range(4)])
    internal = ("--create", "--topic", "__consumer_offsets", "--config", "cleanup.policy=compact")
    assert run_kt("topics", "--bootstrap-server", bootstrap, *internal).status == ExitStatus.OK
    failures = admin_tools.failures("delete-records", bootstrap, tmp_path, _DIFFERENCES, adapt=_expect)
    assert not failures, "\n".join(failures)

    (tmp_path / "j.json").write_text('{"partitions": [{"topic": "orders", "partition": 0, "offset": 1}]}')
    words = ("--json", "--bootstrap-server", bootstrap, "--offset-json-file", "j.json")
    ran = run_kt("delete-records", *words, cwd=tmp_path)
    assert json.loads(ran.out) == {"topic": "orders", "partition": 0, "low_watermark": 1, "error": None}

    admin_tools.send(bootstrap, "ten", 10, [(number, admin_tools.START) for number in range(10)])
    offsets = [{"topic": "ten", "partition": number, "offset": 9 if number == 4 else 1} for number in range(10)]
    (tmp_path / "j.json").write_text(json.dumps({"partitions": offsets}))
    ran = run_kt("delete-records", *words, cwd=tmp_path)
    assert ran.status == ExitStatus.FAILED
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["partition"] for row in rows if row["low_watermark"] == 1] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert [row["partition"] for row in rows if row["error"] is not None] == [4]


def test_malformed_json_is_named_with_line_and_column(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bad.json").write_text('{"partitions": [\n  {"topic": orders}]}')
    words = ("--bootstrap-server", "127.0.0.1:9", "--offset-json-file", "bad.json")
    ran = run_kt("delete-records", *words, cwd=tmp_path)
    assert ran.status == ExitStatus.FAILED
    assert ran.err == "The input string is not a valid JSON\nbad.json, line 2, column 13: Expecting value\n"


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in _DIFFERENCES.values()} <= transcripts.documented_keys()
