"""What kt consumer-groups does beyond Kafka's tool: undo files, lag in time, conditions, watching, partial failures."""

from __future__ import annotations

import json
import pathlib
import re
import shlex
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from admin_tools import described_offsets
from support.kt import Ran, run_kt
from support.live_groups import ClassicMember, GroupClient
from support.raw_transactions import RawProducer
from support.scripted_broker import ScriptedBroker, partition
from support.unit_admin import coordinator_of_all

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.exit_status import ExitStatus

_MINUTE_MS = 60_000


@pytest.fixture
def kt(bootstrap: str, tmp_path: pathlib.Path) -> Callable[..., Ran]:
    def run(*args: str, terminal: bool = False) -> Ran:
        return run_kt("consumer-groups", "--bootstrap-server", bootstrap, *args, cwd=tmp_path, terminal=terminal)

    return run


def _topic(client: GroupClient, name: str, partitions: int = 1, ages_min: tuple[int, ...] = ()) -> int:
    """A topic with a record of each age in partition 0; when it was written."""
    now_ms = time.time_ns() // 1_000_000
    client.create_topic(name, partitions)
    for age in ages_min:
        client.produce_rows(name, 0, [(now_ms - age * _MINUTE_MS, None, b"value", ())])
    return now_ms


def _reset(group: str, topic: str, *args: str) -> list[str]:
    return ["--reset-offsets", "--group", group, "--topic", topic, "--to-latest", "--execute", *args]


# -- undo --


def test_a_reset_is_undone_with_its_undo_file(
    client: GroupClient, kt: Callable[..., Ran], tmp_path: pathlib.Path
) -> None:
    _topic(client, "undo", 2, ages_min=(3, 2, 1))
    client.commit("undo-g", {("undo", 0): 1})
    done = kt(*_reset("undo-g", "undo"))
    assert done.status == ExitStatus.OK
    files = list(tmp_path.iterdir())
    assert len(files) == 1
    assert re.fullmatch(r"undo-g-\d{8}T\d{6}Z\.undo\.csv", files[0].name)
    saved, command = done.err.removesuffix("\n").split(". To restore them: ")
    assert saved == f"The previous offsets are saved in {files[0].name}"
    assert files[0].read_text() == "undo-g,undo,0,1\nundo-g,undo,1,none\n"
    assert described_offsets(kt, "undo-g") == {("undo", 0): 3, ("undo", 1): 0}
    words = shlex.split(command)
    assert words[:3] == ["kt", "consumer-groups", "--bootstrap-server"]
    back = kt(*words[4:], "--no-undo-file")
    assert (back.status, back.err) == (ExitStatus.OK, "")
    assert sorted(back.out.splitlines()[2:]) == [
        "undo-g          undo            0          1",
        "undo-g          undo            1          none",
    ]
    assert described_offsets(kt, "undo-g") == {("undo", 0): 1}


def test_json_names_the_undo_file_too(client: GroupClient, kt: Callable[..., Ran], tmp_path: pathlib.Path) -> None:
    _topic(client, "undo-json")
    client.commit("undo-json-g", {("undo-json", 0): 0})
    done = kt(*_reset("undo-json-g", "undo-json", "--json"))
    assert done.status == ExitStatus.OK
    [file] = tmp_path.iterdir()
    assert json.loads(done.err) == {"undo_file": file.name}


def test_undo_of_a_group_that_was_not_there_leaves_none(
    client: GroupClient, kt: Callable[..., Ran], tmp_path: pathlib.Path
) -> None:
    _topic(client, "undo-none")
    kt(*_reset("undo-new", "undo-none", "--undo-file", "u.csv"))
    assert "undo-new" in kt("--list").out.split()
    back = kt("--reset-offsets", "--all-groups", "--from-file", "u.csv", "--execute", "--no-undo-file")
    assert back.status == ExitStatus.OK
    left = kt("--describe", "--group", "undo-new", "--json")
    assert left.status == ExitStatus.FAILED or json.loads(left.out)["partitions"] == []


def test_json_keeps_epoch_and_metadata(client: GroupClient, kt: Callable[..., Ran], tmp_path: pathlib.Path) -> None:
    _topic(client, "lossless", ages_min=(1,))
    part = {
        "partition_index": 0, "committed_offset": 1, "committed_leader_epoch": 0, "committed_metadata": 'a "b"\n',
    }  # fmt: skip
    topics = [{"name": "lossless", "partitions": [part]}]
    fields = {"group_id": "lossless-g", "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
    client.find_coordinator("lossless-g")
    client.call(ApiKey.OFFSET_COMMIT, 8, fields)
    exported = kt("--reset-offsets", "--group", "lossless-g", "--all-topics", "--to-current", "--dry-run", "--json")
    row = {
        "group": "lossless-g", "topic": "lossless", "partition": 0, "offset": 1, "leader_epoch": 0,
        "metadata": 'a "b"\n', "executed": False,
    }  # fmt: skip
    assert json.loads(exported.out) == {**row, "current_offset": 1, "difference": 0}
    (tmp_path / "plan.jsonl").write_bytes(exported.stdout)
    kt("--delete-offsets", "--group", "lossless-g", "--topic", "lossless")
    again = kt("--reset-offsets", "--group", "lossless-g", "--from-file", "plan.jsonl", "--execute", "--json")
    assert json.loads(again.out) == {**row, "executed": True}
    exported = kt("--reset-offsets", "--group", "lossless-g", "--all-topics", "--to-current", "--dry-run", "--json")
    assert json.loads(exported.out) == {**row, "current_offset": 1, "difference": 0}


@pytest.mark.parametrize("path", ["there.csv", "missing/undo.csv"])
def test_without_an_undo_file_nothing_changes(
    client: GroupClient, kt: Callable[..., Ran], tmp_path: pathlib.Path, path: str
) -> None:
    name = f"kept-{path.split('.')[0].replace('/', '-')}"
    _topic(client, name, ages_min=(1,))
    client.commit(name, {(name, 0): 0})
    (tmp_path / "there.csv").write_text("mine")
    refused = kt(*_reset(name, name, "--undo-file", path))
    assert refused.status == ExitStatus.FAILED
    assert f"The undo file {path} cannot be written, so nothing was changed" in refused.err
    assert described_offsets(kt, name) == {(name, 0): 0}
    assert [one.name for one in tmp_path.iterdir()] == ["there.csv"]
    assert (tmp_path / "there.csv").read_text() == "mine"


def test_a_plan_with_a_mistake_in_line_7_changes_nothing(
    client: GroupClient, kt: Callable[..., Ran], tmp_path: pathlib.Path
) -> None:
    _topic(client, "seven", 8)
    client.commit("seven-g", {("seven", 0): 0})
    good = [f"seven,{number},0" for number in range(6)]
    (tmp_path / "plan.csv").write_text("\n".join([*good, "seven,6,zero"]))
    refused = kt("--reset-offsets", "--group", "seven-g", "--from-file", "plan.csv", "--execute")
    assert refused.status == ExitStatus.FAILED
    assert refused.err == (
        "Error: Executing consumer group command failed due to plan.csv, line 7, column 3: offset 'zero' is not "
        "a number or none\n"
    )
    (tmp_path / "plan.csv").write_text("\n".join([*good, "seven,9,0"]))
    refused = kt("--reset-offsets", "--group", "seven-g", "--from-file", "plan.csv", "--execute")
    assert refused.err.endswith("plan.csv, line 7: partition seven-9 does not exist\n")
    assert described_offsets(kt, "seven-g") == {("seven", 0): 0}
    assert [one.name for one in tmp_path.iterdir()] == ["plan.csv"]


# -- partial failures --


def test_a_group_that_cannot_be_described_is_an_error_without_a_table(
    client: GroupClient, kt: Callable[..., Ran]
) -> None:
    _topic(client, "nameless")
    ran = kt("--reset-offsets", "--group", "", "--topic", "nameless", "--to-earliest", "--execute")
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert ran.err == "Error: Executing consumer group command failed due to The group id is invalid.\n"


def test_one_group_of_three_with_a_member(bootstrap: str, client: GroupClient, kt: Callable[..., Ran]) -> None:
    _topic(client, "partial", ages_min=(1,))
    for group in ("partial-a", "partial-b"):
        client.commit(group, {("partial", 0): 0})
    with ClassicMember(bootstrap, "alive", "partial-m", {"partial": [0]}) as member:
        groups = ["--group", "partial-a", "--group", "partial-m", "--group", "partial-b", "--group", "partial-x"]
        described = kt("--describe", *groups)
        assert described.status == ExitStatus.FAILED
        assert "Error: Executing consumer group command failed due to Group partial-x not found." in described.err
        assert {line.split()[0] for line in described.out.splitlines() if line} == {
            "GROUP", "partial-a", "partial-b", "partial-m"
        }  # fmt: skip
        reset = kt("--reset-offsets", *groups[:6], "--topic", "partial", "--to-latest", "--execute", "--no-undo-file")
        assert reset.status == ExitStatus.FAILED
        assert reset.err.splitlines() == [
            "Error: Assignments can only be reset if the group 'partial-m' is inactive, but the current state is "
            "Stable.",
            f"  {member.member_id} (client.id alive, host /127.0.0.1) is assigned partial:0",
        ]
        member.leave()
    assert described_offsets(kt, "partial-a") == described_offsets(kt, "partial-b") == {("partial", 0): 1}


def test_a_topic_that_is_gone_does_not_end_the_others(tmp_path: pathlib.Path) -> None:
    """Offsets outlive their topic when a member commits them again; a scripted broker has such a group."""

    def described(header: Any, request: Any) -> Mapping[str, Any]:
        return {
            "groups": [
                {"group_id": name, "error_code": 0, "group_state": "Empty", "protocol_type": "consumer", "members": []}
                for name in request.groups
            ]
        }

    def committed(header: Any, request: Any) -> Mapping[str, Any]:
        parts = [{"partition_index": 0, "committed_offset": 4, "committed_leader_epoch": -1, "error_code": 0}]
        topics = [{"name": name, "partitions": parts} for name in ("gone", "here")]
        return {"groups": [{"group_id": one.group_id, "topics": topics, "error_code": 0} for one in request.groups]}

    def ends(header: Any, request: Any) -> Mapping[str, Any]:
        parts = [{"partition_index": 0, "offset": 6, "timestamp": -1, "error_code": 0}]
        return {"topics": [{"name": topic.name, "partitions": parts} for topic in request.topics]}

    broker = ScriptedBroker(
        {
            ApiKey.FIND_COORDINATOR: coordinator_of_all,
            ApiKey.DESCRIBE_GROUPS: described,
            ApiKey.OFFSET_FETCH: committed,
            ApiKey.LIST_OFFSETS: ends,
        },
        {ApiKey.CONSUMER_GROUP_DESCRIBE: (1, 0)},
    )
    broker.topics = [
        {"name": "gone", "error_code": 3, "partitions": []},
        {"name": "here", "error_code": 0, "partitions": [partition(0)]},
    ]
    with broker.in_background():
        ran = run_kt("consumer-groups", "--bootstrap-server", broker.bootstrap, "--describe", "--group", "g")
    assert ran.status == ExitStatus.OK
    assert [line.split()[1:6] for line in ran.out.splitlines()[2:]] == [
        ["gone", "0", "4", "-", "-"],
        ["here", "0", "4", "6", "2"],
    ]
    assert ran.err.splitlines()[0] == "Warning: committed offsets of topics or partitions that no longer exist: gone"


# -- lag in time, conditions, watching --


def test_lag_in_time(client: GroupClient, kt: Callable[..., Ran]) -> None:
    written_ms = _topic(client, "late", 2, ages_min=(60, 30, 10))
    client.commit("late-g", {("late", 0): 1, ("late", 1): 0})
    rows = json.loads(kt("--describe", "--group", "late-g", "--lag-time", "--json").out)["partitions"]
    late, done = rows
    since_ms = time.time_ns() // 1_000_000 - written_ms
    assert late["lag"] == 2
    assert 30 * _MINUTE_MS <= late["lag_ms"] <= 30 * _MINUTE_MS + since_ms
    assert late["behind_newest_ms"] == 20 * _MINUTE_MS
    assert (done["lag"], done["lag_ms"], done["behind_newest_ms"]) == (0, 0, 0)
    table = kt("--describe", "--group", "late-g", "--lag-time").out.splitlines()
    assert table[1].split()[5:8] == ["LAG", "LAG-TIME", "BEHIND-NEWEST"]
    assert re.fullmatch(r"30m\d\ds", table[2].split()[6])
    assert table[2].split()[7] == "20m00s"


def test_lag_in_time_finds_records_behind_markers_large_batches_and_deleted_ones(
    bootstrap: str, client: GroupClient, kt: Callable[..., Ran]
) -> None:
    now_ms = _topic(client, "odd", 5)
    with RawProducer(bootstrap, "odd-tx") as producer:
        producer.send("odd", 0, [now_ms - 9 * _MINUTE_MS])
        producer.end(committed=True)
    client.produce_rows("odd", 0, [(now_ms - 8 * _MINUTE_MS, None, b"behind the marker", ())])
    with RawProducer(bootstrap, "odd-tx2") as producer:
        producer.send("odd", 1, [now_ms - 9 * _MINUTE_MS])
        producer.end(committed=True)
    for age in (7, 6):
        client.produce_rows("odd", 2, [(now_ms - age * _MINUTE_MS, None, b"x" * 100_000, ())] * 2)
    client.produce_rows("odd", 3, [(now_ms - 5 * _MINUTE_MS, None, b"deleted", ())])
    client.produce_rows("odd", 3, [(now_ms - 4 * _MINUTE_MS, None, b"kept", ())])
    ages = ((5, b"deleted"), (4, b"kept in the same batch"))
    client.produce_rows("odd", 4, [(now_ms - age * _MINUTE_MS, None, value, ()) for age, value in ages])
    parts = [{"partition_index": number, "offset": 1} for number in (3, 4)]
    client.call(ApiKey.DELETE_RECORDS, 2, {"topics": [{"name": "odd", "partitions": parts}], "timeout": 30000})
    client.commit("odd-g", {("odd", 0): 1, ("odd", 1): 1, ("odd", 2): 1, ("odd", 3): 0, ("odd", 4): 0})
    rows = json.loads(kt("--describe", "--group", "odd-g", "--lag-time", "--json").out)["partitions"]
    assert [row["lag"] for row in rows] == [2, 1, 3, 2, 2]
    assert [row["lag_ms"] // _MINUTE_MS for row in rows] == [8, 0, 7, 4, 4]
    assert [row["behind_newest_ms"] // _MINUTE_MS for row in rows] == [8, 0, 1, 0, 0]  # the marker is the newest


@pytest.mark.parametrize(
    ("conditions", "findings"),
    [
        (["lag>1"], ["lag>1 holds for group failing-g, failing-0: lag is 2"]),
        (["lag>2"], []),
        (["lag>19m"], ["lag>19m holds for group failing-g, failing-0: lag is 20m"]),
        (["lag>1h", "behind>=10m"], ["behind>=10m holds for group failing-g, failing-0: behind is 10m00s"]),
        (["total=2", "members=0"], [
            "total=2 holds for group failing-g: total is 2", "members=0 holds for group failing-g: members is 0",
        ]),
        (["state!=Empty"], []),
    ],
)  # fmt: skip
def test_fail_if(kt: Callable[..., Ran], failing: None, conditions: list[str], findings: list[str]) -> None:
    ran = kt("--describe", "--group", "failing-g", *(word for one in conditions for word in ("--fail-if", one)))
    assert ran.status == (ExitStatus.FINDINGS if findings else ExitStatus.OK)
    said = [line for line in ran.err.splitlines() if "holds for" in line]
    assert [re.sub(r"(20m)\d\ds$", r"\1", line) for line in said] == findings
    assert "failing-g" in ran.out


@pytest.fixture(scope="module")
def failing(bootstrap: str) -> None:
    with GroupClient(bootstrap) as client:
        _topic(client, "failing", 2, ages_min=(30, 20, 10))
        client.commit("failing-g", {("failing", 0): 1, ("failing", 1): 0})


def test_a_bad_condition_is_refused_before_anything_is_asked() -> None:
    ran = run_kt(
        "consumer-groups", "--bootstrap-server", "127.0.0.1:9", "--describe", "--group", "g", "--fail-if", "lag>5x"
    )
    assert ran.status == ExitStatus.USAGE
    assert ran.err.startswith("--fail-if 'lag>5x': '5x' is not a number or a time such as 90s\n")


def test_watching_ends_when_a_condition_holds(client: GroupClient, kt: Callable[..., Ran]) -> None:
    now_ms = _topic(client, "watched", ages_min=(1,))
    client.commit("watched-g", {("watched", 0): 1})
    late = threading.Timer(0.4, client.produce_rows, ("watched", 0, [(now_ms, None, b"value", ())]))
    late.start()
    ran = kt("--describe", "--group", "watched-g", "--watch", "0.1", "--fail-if", "lag>0")
    late.join()
    assert ran.status == ExitStatus.FINDINGS
    turns = [json.loads(line) for line in ran.out.splitlines()]
    assert [turn["partitions"][0]["lag"] for turn in turns] == [0] * (len(turns) - 1) + [1]
    assert len(turns) > 1
    assert [turn["time"] for turn in turns] == sorted(turn["time"] for turn in turns)


def test_watching_on_a_terminal_draws_the_table(bootstrap: str, failing: None) -> None:
    words = ("--describe", "--group", "failing-g", "--watch", "--fail-if", "lag>0")
    at = ("--bootstrap-server", bootstrap)
    ran = run_kt("consumer-groups", *at, *words, terminal=True, environ={"TERM": "xterm"})
    assert ran.status == ExitStatus.FINDINGS
    assert ran.out.startswith("\x1b[H\x1b[2J")
    assert "failing-g: Empty (no members)" in ran.out
    assert re.search(r"^failing-g +failing +0 +1 +3 +2 ", ran.out, re.MULTILINE)


def test_watching_clears_no_dumb_terminal(bootstrap: str, failing: None) -> None:
    at = ("--bootstrap-server", bootstrap, "--describe", "--group", "failing-g")
    ran = run_kt(
        "consumer-groups",
        *at,
        "--watch",
        "--fail-if",
        "lag>0",
        terminal=True,
        environ={"TERM": "dumb", "NO_COLOR": "1"},
    )
    assert ran.status == ExitStatus.FINDINGS
    assert "\x1b" not in ran.out
    assert "failing-g: Empty (no members)" in ran.out


def test_watching_what_is_not_there_ends_at_once(kt: Callable[..., Ran], failing: None) -> None:
    ran = kt("--describe", "--group", "misspelled", "--watch", "0.1")
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert ran.err == "Error: Executing consumer group command failed due to Group misspelled not found.\n"
    ran = run_kt(
        "consumer-groups", "--bootstrap-server", "127.0.0.1:1", "--describe", "--group", "failing-g", "--watch"
    )
    assert ran.status == ExitStatus.FAILED
    assert "Connection to 127.0.0.1:1 failed" in ran.err.splitlines()[0]


# -- options --


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--list", "--export"], 'Option "[export]" can only be used with option "[reset-offsets]"'),
        (["--list", "--all-groups"],
         'Option "[all-groups]" can only be used with option "[describe]" or "[delete]" or "[reset-offsets]"'),
        (["--list", "--watch"], 'Option "[watch]" can only be used with option "[describe]"'),
        (["--describe", "--group", "g", "--members", "--lag-time"],
         'Option "[lag-time]" can\'t be used with option "[members]"'),
        (["--describe", "--group", "g", "--state", "Empty"], "Option [describe] does not take a value for [state]"),
        (["--describe", "--group", "g", "--watch", "0"], "Cannot parse argument '0' of option watch"),
        (["--delete-offsets", "--group", "a", "--group", "b", "--topic", "t"],
         "Found multiple arguments for option group, but you asked for only one"),
        (["--reset-offsets", "--group", "g", "--topic", "a:b:c", "--to-latest", "--dry-run"],
         "Invalid topic arg 'a:b:c', expected topic name and partitions"),
        (["--reset-offsets", "--group", "g", "--topic", "a", "--to-latest", "--dry-run", "--undo-file", "u"],
         'Option "[undo-file]" can only be used with option "[execute]" or "[delete]" or "[delete-offsets]"'),
    ],
)  # fmt: skip
def test_options_that_mean_nothing_are_refused(args: list[str], message: str) -> None:
    ran = run_kt("consumer-groups", "--bootstrap-server", "127.0.0.1:9", *args)
    assert ran.status == ExitStatus.USAGE
    assert ran.err.splitlines()[0].removeprefix("Error: Executing consumer group command failed due to ") == message


def test_shifting_without_a_commit(client: GroupClient, kt: Callable[..., Ran]) -> None:
    _topic(client, "shift")
    ran = kt("--reset-offsets", "--group", "shift-g", "--topic", "shift", "--shift-by", "1", "--dry-run")
    assert ran.status == ExitStatus.FAILED
    assert ran.err == (
        "Error: Executing consumer group command failed due to Cannot shift offset for partition shift-0 since there "
        "is no current committed offset\n"
    )


@pytest.mark.parametrize("text", ["2020-01-31", "2020-01-31T13:45"])
def test_a_date_without_time_is_refused_with_an_example_and_the_zone(kt: Callable[..., Ran], text: str) -> None:
    ran = kt("--reset-offsets", "--group", "g", "--topic", "t", "--to-datetime", text, "--dry-run")
    assert ran.status == ExitStatus.USAGE
    assert "such as 2026-01-31T13:45:00.000. Without a zone it is UTC" in ran.err


def test_the_command_that_restores_offsets_names_each_group(
    client: GroupClient, kt: Callable[..., Ran], tmp_path: pathlib.Path
) -> None:
    _topic(client, "restore", 1, ages_min=(2, 1))
    for group in ("first group", "second"):
        client.commit(group, {("restore", 0): 1})
    ran = kt(*_reset("first group", "restore", "--group", "second", "--undo-file", "my undo.csv"))
    assert ran.status == ExitStatus.OK, ran.err
    assert "--group 'first group' --group second --from-file 'my undo.csv' --execute" in ran.err
    back = kt(*shlex.split(ran.err.rstrip("\n").split(". To restore them: ")[1])[4:], "--no-undo-file")
    assert back.status == ExitStatus.OK, back.err
    assert described_offsets(kt, "second") == {("restore", 0): 1}
