"""kt streams-groups against the recordings of kafka-streams-groups.sh, and what only kt has: JSON, undo files, plans.

tests/golden/groups/streams_tool.json was recorded on Apache Kafka 4.3.1 with the group of `streams_story.share_words`,
first with its members, then without. Kafka's tool prints failures on stdout after an empty line and exits 0; here they
are expected on stderr, without Java's names, with exit status 1, and usage errors with 2.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable

import pytest
from support import streams_story
from support.kt import Ran, run_kt
from support.why import why

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import delete_records
from kafkatools.core.clock import SystemClock
from kafkatools.exit_status import ExitStatus

RECORDED = pathlib.Path(__file__).parent.parent / "golden" / "groups" / "streams_tool.json"
CLASSES = re.compile(r"(due to: |due to )(?:[a-z]\w*\.)+[A-Z]\w*: ")
FAILURE = re.compile(r"^(\* |Error: )")
# The last recorded command finds its internal topics deleted. To kt they count as deleted.
GONE = ("Failed to delete internal topic", "Deletion of some associated internal", "Deletion of associated internal")


@pytest.fixture
def bootstrap(start_broker: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(streams_story, "SETTLING", 0)
    started = start_broker(streams_story.SETTINGS)
    streams_story.share_words(started)
    return started


def streams(bootstrap: str, *words: str, cwd: pathlib.Path | None = None) -> Ran:
    return run_kt("streams-groups", "--bootstrap-server", bootstrap, *words, cwd=cwd)


def split(stdout: str) -> tuple[list[str], list[str]]:
    """The lines of Kafka's tool, sorted: those of its tables, and its failures without Java's names and stack."""
    lines = [
        line for line in stdout.splitlines() if line.strip() and not line.startswith(("java.", "\tat", "Caused", *GONE))
    ]
    failures = [CLASSES.sub(r"\1", line) for line in lines if FAILURE.match(line)]
    return sorted(line for line in lines if not FAILURE.match(line)), sorted(failures)


@pytest.mark.slow
def test_output_is_that_of_kafkas_tool(bootstrap: str) -> None:
    phase = "live"
    for row in json.loads(RECORDED.read_text()):
        if row["phase"] != phase:
            streams_story.close_words(bootstrap)
            phase = row["phase"]
        ran = streams(bootstrap, *row["args"])
        name = " ".join(row["args"])
        is_usage_error = row["status"] and not row["stdout"]
        if is_usage_error:
            assert (ran.status, ran.out) == (ExitStatus.USAGE, ""), name
            # Kafka's tool lists the scenarios of a reset in any order.
            assert ran.err.split("[[")[0].splitlines()[0] == row["stderr"][0].split("[[")[0], name
            continue
        table, failures = split(row["stdout"])
        found = ran.out.replace(bootstrap, "HOST:PORT")
        assert split(found)[0] == table, name
        for failure in failures:
            if failure.startswith("* Internal topics"):
                continue
            assert failure.split(" It has")[0] in ran.err, name
        if failures and not {"--state", "--delete-all-internal-topics"} & set(row["args"]):
            assert ran.status == ExitStatus.FAILED, name


def test_a_deletion_of_all_groups_without_one_has_the_words_of_kafkas_tool(start_broker: Callable[..., str]) -> None:
    ran = streams(start_broker(), "--delete", "--all-groups")
    assert (ran.status, ran.out) == (ExitStatus.OK, "Deletion of requested streams groups ('') was successful.\n")


def test_offsets_come_back_from_the_undo_file(bootstrap: str, tmp_path: pathlib.Path) -> None:
    streams_story.close_words(bootstrap)
    group = ("--group", "wc")

    def offsets() -> list[str]:
        shown = streams(
            bootstrap, "--reset-offsets", *group, "--all-input-topics", "--to-current", "--dry-run", "--export"
        )
        return shown.out.split()

    assert offsets() == ["lines,0,1", "lines,1,1"]
    for change in (
        ("--reset-offsets", *group, "--all-input-topics", "--to-latest", "--execute"),
        ("--delete-offsets", *group, "--all-input-topics"),
    ):
        assert streams(bootstrap, *change, "--undo-file", f"{change[0]}.csv", cwd=tmp_path).status == 0
        assert offsets() != ["lines,0,1", "lines,1,1"]
        back = ("--reset-offsets", *group, "--from-file", f"{change[0]}.csv", "--execute")
        assert streams(bootstrap, *back, cwd=tmp_path).status == 0
        assert offsets() == ["lines,0,1", "lines,1,1"]


def test_deletion_is_looked_at_first(bootstrap: str) -> None:
    streams_story.close_words(bootstrap)
    delete = ("--delete", "--group", "wc", "--delete-all-internal-topics")
    looked = streams(bootstrap, *delete, "--dry-run")
    assert looked.out.splitlines() == [
        "Group 'wc' would be deleted.",
        "Internal topics of group 'wc' would be deleted: wc-words-repartition, wc-words-changelog",
    ]
    assert streams(bootstrap, "--list").out == "wc\n"
    assert streams(bootstrap, *delete).status == 0
    assert streams(bootstrap, "--list").out == ""
    topics = run_kt("topics", "--bootstrap-server", bootstrap, "--list").out.split()
    assert "lines" in topics and "wc-words-changelog" not in topics


def test_kt_why_names_commands_that_take_the_group(bootstrap: str) -> None:
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        delete_records(admin, {("lines", 0): 2})
    _, answer = why(bootstrap, "group", "wc", "--interval", "0")
    verdict = answer["verdict"]
    assert verdict["cause"] == "retention-passed"
    streams_story.close_words(bootstrap)
    for command, words in (
        (verdict["command"], "--describe --group wc --members --verbose"),
        (verdict["then"], "--reset-offsets --group wc --input-topic lines:0 --to-earliest --dry-run"),
    ):
        assert command == f"kt streams-groups --bootstrap-server {bootstrap} {words}"
        assert run_kt(*command.split()[1:]).status == ExitStatus.OK


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("--reset-offsets --group g --input-topic t:x --to-earliest --dry-run", "Invalid partition 'x'"),
        ("--reset-offsets --group g --input-topic t --by-duration soon --dry-run", "cannot be parsed to a Duration"),
        ("--reset-offsets --group g --from-file absent.csv --dry-run", "absent.csv"),
        ("--list --timeout -1", "--timeout must be 0 ms or more, not -1"),
        ("--delete --group g --undo-file u.csv --dry-run", "undo-file"),
        ("--list --state Broken", "Valid states are: Dead, Assigning, Reconciling, Empty, Stable, NotReady"),
        ("--delete-offsets --group g --group h --input-topic t", "Found multiple arguments for option group"),
    ],
)
def test_bad_words_are_refused_before_a_connection(words: str, problem: str) -> None:
    ran = streams("127.0.0.1:9", *words.split())
    assert ran.status in (ExitStatus.USAGE, ExitStatus.FAILED)
    assert problem in ran.err and "Connection" not in ran.err
