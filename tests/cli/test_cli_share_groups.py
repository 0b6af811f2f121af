"""kt share-groups against the recordings of kafka-share-groups.sh, and what only kt has: JSON, undo files, plans.

Kafka's tool prints failures on stdout and exits 0; here they are expected on stderr, without Java's names, exit 1.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import admin_tools
import pytest
import transcripts
from support.kt import Ran, run_kt
from transcripts import Case, Difference, Expected

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.clock import SystemClock
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.exit_status import ExitStatus

_HELP = Difference("help", status=ExitStatus.OK, own_words=True)
_FAILED = Difference("groups-failures", status=ExitStatus.FAILED)
_DIFFERENCES = {
    "004": Difference("usage", status=ExitStatus.USAGE),
    "009": _FAILED,
    "010": _FAILED,
    "019": Difference(
        "groups-failures",
        status=ExitStatus.FAILED,
        stderr="Error: topic ghost: This server does not host this topic-partition.",
    ),
    "022": Difference("usage", status=ExitStatus.USAGE),
    "023": _HELP._replace(status=ExitStatus.USAGE),
    "025": Difference("groups-unreachable", status=ExitStatus.FAILED, stdout="", own_words=True),
    "029": Difference("nothing-ignored", status=ExitStatus.USAGE, own_words=True),
    "030": Difference(
        "missing-file",
        status=ExitStatus.FAILED,
        stderr="Error: Executing share group command failed due to absent.properties: no such properties file",
    ),
    "032": _HELP,
}
_ERROR_LINE = re.compile(r"^\n(Error: .*? due to )(?:[a-z]\w*\.)+[A-Z]\w*: (.*)\n+(?s:.*)", re.MULTILINE)
_UNUSED_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def _expect(case: Case, wanted: Expected) -> Expected:
    failure = _ERROR_LINE.search(wanted.stdout)
    if failure is None or (case.number in _DIFFERENCES and _DIFFERENCES[case.number].stderr is not None):
        return wanted._replace(stdout=_ERROR_LINE.sub("", wanted.stdout))
    return wanted._replace(stdout=_ERROR_LINE.sub("", wanted.stdout), error=failure[1] + failure[2])


def _heartbeat(admin: AdminClient, group_id: str, epoch: int) -> Any:
    fields = {
        "group_id": group_id,
        "member_id": _UNUSED_ID,
        "member_epoch": epoch,
        "rack_id": None,
        "subscribed_topic_names": ("orders",) if epoch == 0 else None,
    }
    entity = admin.send(ApiKey.SHARE_GROUP_HEARTBEAT, fields)
    assert entity.error_code == 0, entity.error_message
    return entity


@pytest.mark.slow
def test_share_groups_behaves_as_recorded(start_broker: Callable[..., str], tmp_path: pathlib.Path) -> None:
    bootstrap = start_broker()
    records = [(partition, admin_tools.START + 10_000 + at) for partition in range(3) for at in range(4)]
    admin_tools.send(bootstrap, "orders", 3, records)
    starts = {0: 3, 1: 3, 2: 2}
    deletions = [{"topic": "orders", "partition": partition, "offset": at} for partition, at in starts.items()]
    (tmp_path / "deletions.json").write_text(json.dumps({"partitions": deletions}))
    server = ("--bootstrap-server", bootstrap)
    assert run_kt("delete-records", *server, "--offset-json-file", "deletions.json", cwd=tmp_path).status == 0
    reset = ("--reset-offsets", "--group", "g", "--topic", "orders", "--to-latest", "--execute", "--no-undo-file")
    assert run_kt("consumer-groups", *server, *reset, cwd=tmp_path).status == 0
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        _heartbeat(admin, "sg1", 0)
        _heartbeat(admin, "sg1", -1)

    def run(case: Case) -> Ran:
        transcripts.write_files(case, tmp_path)
        ran = run_kt("share-groups", *admin_tools.words(case, bootstrap), cwd=tmp_path)
        return ran._replace(stdout=re.sub(rf"{bootstrap} +\(1\) +", "BOOTSTRAP  (1)      ", ran.out).encode())

    failures = transcripts.replay(transcripts.load("share-groups"), run, _DIFFERENCES, _expect)
    assert not failures, "\n".join(failures)


def _share(bootstrap: str, *words: str, cwd: pathlib.Path, status: ExitStatus = ExitStatus.OK) -> Ran:
    ran = run_kt("share-groups", "--bootstrap-server", bootstrap, *words, cwd=cwd)
    assert ran.status == status, ran.err
    return ran


def _starts(bootstrap: str, group_id: str, cwd: pathlib.Path) -> dict[int, int | None]:
    (row,) = [
        json.loads(line)
        for line in _share(bootstrap, "--describe", "--group", group_id, "--json", cwd=cwd).out.splitlines()
    ]
    assert row["group"] == group_id
    return {part["partition"]: part["start_offset"] for part in row["partitions"]}


@pytest.mark.slow
def test_offsets_and_groups_come_back_from_the_undo_file(
    start_broker: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    bootstrap = start_broker()
    admin_tools.send(bootstrap, "orders", 2, [(0, 1), (0, 2), (0, 3), (1, 1)])
    group = ("--group", "workers", "--reset-offsets", "--topic")

    _share(bootstrap, *group, "orders:0", "--to-offset", "2", "--execute", cwd=tmp_path)
    _share(bootstrap, *group, "orders", "--to-latest", "--execute", "--undo-file", "u1.csv", cwd=tmp_path)
    assert (tmp_path / "u1.csv").read_text() == "workers,orders,0,2\nworkers,orders,1,none\n"
    assert _starts(bootstrap, "workers", tmp_path) == {0: 3, 1: 1}
    _share(bootstrap, "--reset-offsets", "--from-file", "u1.csv", "--execute", cwd=tmp_path)
    assert _starts(bootstrap, "workers", tmp_path) == {0: 2, 1: None}

    refused = _share(
        bootstrap, "--delete", "--group", "workers", "--undo-file", "u1.csv", cwd=tmp_path, status=ExitStatus.FAILED
    )
    assert "The undo file u1.csv cannot be written, so nothing was changed: File exists" in refused.err
    deleted = _share(bootstrap, "--delete", "--all-groups", "--undo-file", "u2.jsonl", cwd=tmp_path)
    assert deleted.err == "Deleting 1 group: workers.\n"
    assert _share(bootstrap, "--list", cwd=tmp_path).out == ""
    dry = _share(bootstrap, "--reset-offsets", "--from-file", "u2.jsonl", "--dry-run", "--json", cwd=tmp_path)
    rows = [json.loads(line) for line in dry.out.splitlines()]
    assert sorted((row["partition"], row["offset"], row["executed"]) for row in rows) == [
        (0, 2, False),
        (1, None, False),
    ]
    assert _share(bootstrap, "--list", cwd=tmp_path).out == ""
    _share(bootstrap, "--reset-offsets", "--from-file", "u2.jsonl", "--execute", cwd=tmp_path)
    assert _starts(bootstrap, "workers", tmp_path) == {0: 2, 1: None}

    forgotten = ("--delete-offsets", "--group", "workers", "--topic", "orders", "--undo-file", "u3.csv", "--json")
    gone = json.loads(_share(bootstrap, *forgotten, cwd=tmp_path).out)
    assert gone == {"group": "workers", "topic": "orders", "deleted": True, "error": None}
    assert _starts(bootstrap, "workers", tmp_path) == {}
    assert (tmp_path / "u3.csv").read_text() == "workers,orders,0,2\nworkers,orders,1,none\n"


@pytest.mark.slow
def test_group_with_a_member_is_described_and_left_alone(
    start_broker: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    bootstrap = start_broker()
    admin_tools.send(bootstrap, "orders", 2, [])
    with AdminClient(bootstrap, {"client.id": "c1"}, SystemClock()) as admin:
        _heartbeat(admin, "busy", 0)
        members = _share(bootstrap, "--describe", "--group", "busy", "--members", "--verbose", cwd=tmp_path)
        state = _share(bootstrap, "--describe", "--group", "busy", "--state", "--json", cwd=tmp_path)
        target = ("--topic", "orders", "--to-earliest", "--execute")
        reset = _share(bootstrap, "--reset-offsets", "--group", "busy", *target, cwd=tmp_path, status=ExitStatus.FAILED)
        delete = _share(
            bootstrap, "--delete", "--group", "busy", "--group", "no", cwd=tmp_path, status=ExitStatus.FAILED
        )
    header, row = members.out.splitlines()[1:]
    assert header.split() == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "MEMBER-EPOCH", "ASSIGNMENT"]
    group_id, member_id, _, client_id, count, _, assignment = row.split()
    assert (group_id, member_id, client_id, count, assignment) == ("busy", _UNUSED_ID, "c1", "2", "orders:0,1")
    told = json.loads(state.out)
    assert (told["state"], told["members"], told["coordinator"]["id"]) == ("Stable", 1, 1)
    assert reset.err.startswith("Share group 'busy' is not empty.\n")
    assert "* Group 'busy' could not be deleted due to: Share group 'busy' is not EMPTY.\n" in delete.err
    assert "* Group 'no' could not be deleted due to: Group 'no' is not a share group.\n" in delete.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--reset-offsets --group g --dry-run --to-latest", "Option [reset-offsets] takes one of these options: [all-topics], [topic]"),  # noqa: E501
        ("--reset-offsets --group g --dry-run --all-topics", "Option [reset-offsets] takes one of these options: [to-datetime], [to-earliest], [to-latest]"),  # noqa: E501
        ("--list --verbose", "Option(s) [verbose] are unavailable given other options on the command line"),  # noqa: E501
        ("--describe --group g --state Empty", "Option [describe] does not take a value for [state]"),  # noqa: E501
        ("--delete-offsets --group g --group h --topic t", "Found multiple arguments for option group, but you asked for only one"),  # noqa: E501
    ],
)  # fmt: skip
def test_refusals_have_the_words_of_kafka(words: str, message: str) -> None:
    ran = run_kt("share-groups", "--bootstrap-server", "127.0.0.1:9", *words.split())
    assert (ran.status, message in ran.err.splitlines()[0]) == (ExitStatus.USAGE, True), ran.err


def test_every_difference_is_documented() -> None:
    assert {difference.key for difference in _DIFFERENCES.values()} <= transcripts.documented_keys()
