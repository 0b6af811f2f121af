"""kt consumer-groups and share-groups: deletions looked at first, and taken back with their undo file."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import pytest
from admin_tools import described_offsets
from support.kt import Ran, run_kt
from support.live_groups import ClassicMember, GroupClient

from kafkatools.exit_status import ExitStatus

Kt = Callable[..., Ran]


@pytest.fixture
def kt(bootstrap: str, tmp_path: pathlib.Path) -> Kt:
    def run(*args: str, status: ExitStatus = ExitStatus.OK, command: str = "consumer-groups") -> Ran:
        ran = run_kt(command, "--bootstrap-server", bootstrap, *args, cwd=tmp_path)
        assert ran.status == status, (args, ran.out, ran.err)
        return ran

    return run


def test_a_deleted_group_comes_back_with_its_offsets(client: GroupClient, kt: Kt, tmp_path: pathlib.Path) -> None:
    client.create_topic("gone", 2)
    client.produce_rows("gone", 0, [(1, None, b"value", ())] * 7)
    client.commit("gone-g", {("gone", 0): 7, ("gone", 1): 0})
    delete = ("--delete", "--group", "gone-g")
    assert kt(*delete, "--dry-run").out == "Group 'gone-g' would be deleted, with 2 offsets.\n"
    row = json.loads(kt(*delete, "--dry-run", "--json").out)
    assert row == {"group": "gone-g", "deleted": False, "error": None, "offset_count": 2}

    (tmp_path / "there.csv").touch()
    refused = kt(*delete, "--undo-file", "there.csv", status=ExitStatus.FAILED)
    assert "The undo file there.csv cannot be written, so nothing was changed: File exists" in refused.err
    assert described_offsets(kt, "gone-g") == {("gone", 0): 7, ("gone", 1): 0}

    kt(*delete, "--undo-file", "u.csv")
    assert "gone-g" not in kt("--list").out.split()
    assert (tmp_path / "u.csv").read_text() == "gone-g,gone,0,7\ngone-g,gone,1,0\n"
    kt("--reset-offsets", "--all-groups", "--from-file", "u.csv", "--execute", "--no-undo-file")
    assert described_offsets(kt, "gone-g") == {("gone", 0): 7, ("gone", 1): 0}


def test_deleted_offsets_come_back(client: GroupClient, kt: Kt, tmp_path: pathlib.Path) -> None:
    client.create_topic("forgotten", 2)
    client.create_topic("kept", 1)
    client.commit("forgetful", {("forgotten", 1): 0, ("kept", 0): 0})
    delete = ("--delete-offsets", "--group", "forgetful", "--topic", "forgotten")
    seen = kt(*delete, "--dry-run").out.splitlines()
    assert [line.split() for line in seen] == [["TOPIC", "PARTITION", "OFFSET"], ["forgotten", "1", "0"]]
    row = json.loads(kt(*delete, "--dry-run", "--json").out)
    assert row == {
        "group": "forgetful",
        "topic": "forgotten",
        "partition": 1,
        "deleted": False,
        "error": None,
        "offset": 0,
    }
    kt(*delete, "--undo-file", "u.jsonl")
    assert json.loads((tmp_path / "u.jsonl").read_text())["topic"] == "forgotten"
    assert described_offsets(kt, "forgetful") == {("kept", 0): 0}
    assert kt(*delete, "--dry-run").err == "Nothing would change.\n"
    kt("--reset-offsets", "--group", "forgetful", "--from-file", "u.jsonl", "--execute", "--no-undo-file")
    assert described_offsets(kt, "forgetful") == {("forgotten", 1): 0, ("kept", 0): 0}


def test_what_cannot_be_deleted_is_foreseen(
    bootstrap: str, client: GroupClient, kt: Kt, tmp_path: pathlib.Path
) -> None:
    client.create_topic("busy", 1)
    client.commit("idle-g", {("busy", 0): 0})
    with ClassicMember(bootstrap, "member", "busy-g", {"busy": [0]}):
        words = ("--delete", "--group", "busy-g", "--group", "idle-g", "--group", "nobody")
        dry = kt(*words, "--dry-run", status=ExitStatus.FAILED)
        assert dry.out == "Group 'idle-g' would be deleted, with 1 offset.\n"
        foreseen = {line.removeprefix("Error: ") for line in dry.err.splitlines()}
        done = kt(*words, "--undo-file", "u.csv", status=ExitStatus.FAILED)
        assert foreseen == {line.removeprefix("* ") for line in done.err.splitlines()[1:]}
        assert (tmp_path / "u.csv").read_text() == "idle-g,busy,0,0\n"
    nobody = ("--delete-offsets", "--group", "nobody", "--topic", "busy", "--dry-run")
    assert kt(*nobody, status=ExitStatus.FAILED).out == ""


def test_share_groups_are_only_looked_at(client: GroupClient, kt: Kt) -> None:
    client.create_topic("jobs", 1)
    begin = ("--reset-offsets", "--group", "workers", "--topic", "jobs", "--to-earliest", "--execute")
    kt(*begin, command="share-groups")
    looks = (
        (("--delete", "--group", "workers"), "Group 'workers' would be deleted.\n"),
        (
            ("--delete-offsets", "--group", "workers", "--topic", "jobs"),
            "The offsets of group 'workers' for topic jobs would be deleted.\n",
        ),
    )
    for words, told in looks:
        assert kt(*words, "--dry-run", command="share-groups").out == told
        row = json.loads(kt(*words, "--dry-run", "--json", command="share-groups").out)
        assert (row["group"], row["deleted"], row["error"]) == ("workers", False, None)
    others = ("--delete-offsets", "--group", "workers", "--topic", "other", "--dry-run")
    assert kt(*others, command="share-groups").err == "Nothing would change.\n"
    none = ("--delete", "--group", "nobody", "--dry-run")
    refused = kt(*none, command="share-groups", status=ExitStatus.FAILED)
    assert refused.err == "Error: Group 'nobody' could not be deleted due to: Group 'nobody' is not a share group.\n"
    assert "workers" in kt("--list", command="share-groups").out
