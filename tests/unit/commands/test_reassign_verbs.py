"""kt reassign-partitions against scripted brokers: what Kafka's recordings do not show, above all what goes wrong."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from support.kt import Ran, run_kt
from support.scripted_cluster import ScriptedCluster

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.exit_status import ExitStatus

_LEADER_RATE = "leader.replication.throttled.rate"
_LEADER_REPLICAS = "leader.replication.throttled.replicas"
_FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
_BROKER, _TOPIC = 4, 2


class Desk:
    """A cluster of three brokers, a directory with plans, and kt."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.cluster = ScriptedCluster({1: "a", 2: "a", 3: "b"}, {"orders": [[1, 2], [2, 1]], "pay": [[1], [2]]})

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def plan(self, topic: str, *placement: Sequence[int], **more: Any) -> None:
        parts = [{"topic": topic, "partition": n, "replicas": list(to), **more} for n, to in enumerate(placement)]
        self.write("plan.json", json.dumps({"version": 1, "partitions": parts}))

    def kt(self, *words: str) -> Ran:
        return run_kt("reassign-partitions", *words, "--bootstrap-server", self.cluster.bootstrap, cwd=self.directory)

    def with_plan(self, action: str, *words: str) -> Ran:
        return self.kt(action, "--reassignment-json-file", "plan.json", *words)


@pytest.fixture
def desk(tmp_path: pathlib.Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    with made.cluster.running():
        yield made


def rows(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.out.splitlines()]


# -- throttles --


def test_a_broker_that_is_down_does_not_keep_the_throttles_of_the_others(desk: Desk) -> None:
    desk.plan("orders", [1, 4])
    for broker in (1, 2, 3):
        desk.cluster.configs[_BROKER, str(broker)] = {_LEADER_RATE: "1000"}
    desk.cluster.configs[_TOPIC, "orders"] = {_LEADER_REPLICAS: "0:1"}
    ran = desk.with_plan("--cancel")
    assert ran.status == ExitStatus.FAILED
    assert "Clearing broker-level throttles on brokers 1,2,3,4\n" in ran.out
    assert "The throttle of broker 4 could not be changed: Broker 4 is not there" in ran.err
    assert desk.cluster.throttles == {}


def test_a_source_that_is_down_gets_no_throttle_and_stops_nothing(desk: Desk) -> None:
    desk.cluster.replicas["orders", 0] = [4, 2]
    desk.plan("orders", [3, 2])
    ran = desk.with_plan("--execute", "--throttle", "1000")
    assert ran.status == ExitStatus.OK, ran.err
    assert "Broker 4 is not running and gets no throttle." in ran.err
    assert desk.cluster.throttles[_TOPIC, "orders"] == {_LEADER_REPLICAS: "0:2,0:4", _FOLLOWER_REPLICAS: "0:3"}
    assert sorted(name for kind, name in desk.cluster.throttles if kind == _BROKER) == ["2", "3"]


def test_cancel_leaves_the_throttle_of_what_else_is_moving(desk: Desk) -> None:
    desk.cluster.steps = 99
    desk.plan("pay", [3])
    desk.with_plan("--execute", "--throttle", "1000")
    desk.plan("orders", [1, 3])
    desk.with_plan("--execute", "--additional", "--throttle", "1000")
    ran = desk.with_plan("--cancel")
    assert ran.status == ExitStatus.OK, ran.err
    assert ran.out == (
        "Successfully cancelled partition reassignment for: orders-0\n"
        "None of the specified partition moves are active.\n"
        "Clearing topic-level throttles on topic orders\n"
    )
    assert "1 other partition is still being moved (see --list), so the throttles of the brokers stay" in ran.err
    assert (_TOPIC, "orders") not in desk.cluster.throttles
    assert desk.cluster.throttles[_TOPIC, "pay"] == {_LEADER_REPLICAS: "0:1", _FOLLOWER_REPLICAS: "0:3"}
    assert desk.cluster.throttles[_BROKER, "1"][_LEADER_RATE] == "1000"


def test_moves_are_looked_at_first_and_taken_back_with_the_undo_file(desk: Desk) -> None:
    desk.cluster.steps = 99
    before = dict(desk.cluster.replicas)
    desk.plan("orders", [3, 1], [2, 1])
    assert desk.with_plan("--execute", "--dry-run").out == "orders-0: 1,2 -> 3,1\n"
    (row,) = rows(desk.with_plan("--execute", "--dry-run", "--json"))
    assert row == {"topic": "orders", "partition": 0, "replicas": [3, 1], "outcome": "planned"}
    desk.write("there.json", "")
    refused = desk.with_plan("--execute", "--undo-file", "there.json")
    assert (refused.status, desk.cluster.alterations) == (ExitStatus.FAILED, [])
    assert "The undo file there.json cannot be written, so nothing was changed: File exists" in refused.err

    assert desk.with_plan("--execute", "--undo-file", "back.json").status == ExitStatus.OK
    noted = json.loads((desk.directory / "back.json").read_text())["partitions"]
    assert [(one["partition"], one["replicas"]) for one in noted] == [(0, [1, 2]), (1, [2, 1])]

    assert desk.with_plan("--cancel", "--dry-run").out == "orders-0 would return to its previous replicas\n"
    assert rows(desk.with_plan("--cancel", "--dry-run", "--json")) == [
        {"topic": "orders", "partition": 0, "outcome": "planned"}
    ]
    assert list(desk.cluster.moving) == [("orders", 0)]
    assert desk.with_plan("--cancel", "--undo-file", "again.json").status == ExitStatus.OK
    assert not desk.cluster.moving
    assert desk.cluster.replicas == before
    (partition,) = json.loads((desk.directory / "again.json").read_text())["partitions"]
    assert partition["replicas"] == [3, 1]
    nothing = desk.with_plan("--cancel", "--dry-run")
    assert (nothing.out, nothing.err) == ("", "Nothing would change.\n")


def test_verify_says_why_throttles_stay(desk: Desk) -> None:
    desk.cluster.steps = 99
    desk.cluster.configs[_BROKER, "1"] = {_LEADER_RATE: "1000"}
    desk.plan("pay", [3])
    desk.with_plan("--execute")
    desk.plan("orders", [1, 2])
    ran = desk.with_plan("--verify")
    assert (ran.status, "Clearing" in ran.out) == (ExitStatus.OK, False)
    assert "1 other partition is still being moved (see --list), so the throttles stay." in ran.err
    assert desk.cluster.values(_LEADER_RATE) == {"1000"}


def test_moves_of_which_some_are_refused_keep_their_throttle(desk: Desk) -> None:
    desk.cluster.refused["orders", 1] = (39, "No, not this one.")
    desk.plan("orders", [3, 2], [3, 1])
    ran = desk.with_plan("--execute", "--throttle", "1000")
    assert ran.status == ExitStatus.FAILED
    assert ran.out.endswith("Successfully started partition reassignment for orders-0\n")
    assert ran.err == "Error reassigning partition(s):\norders-1: No, not this one.\n"
    assert desk.cluster.values(_LEADER_RATE) == {"1000"}


def test_moves_that_are_all_refused_leave_no_throttle(desk: Desk) -> None:
    desk.cluster.refused["pay", 0] = (39, "No.")
    desk.plan("pay", [3])
    ran = desk.with_plan("--execute", "--throttle", "1000")
    assert (ran.status, desk.cluster.throttles) == (ExitStatus.FAILED, {})
    assert ran.err.splitlines()[-1] == "The throttles were removed again."


def test_moves_that_began_though_the_answer_was_lost_keep_their_throttle(desk: Desk) -> None:
    desk.cluster.steps = 99
    desk.cluster.refused["pay", 0] = (7, None)
    desk.cluster.on_alteration = lambda: desk.cluster.moving.update({("pay", 0): [3]})
    desk.plan("pay", [3])
    ran = desk.with_plan("--execute", "--throttle", "1000")
    assert (ran.status, desk.cluster.values(_LEADER_RATE)) == (ExitStatus.FAILED, {"1000"})
    assert ran.err.splitlines()[-1].startswith("A reassignment may be in progress, so the throttles stay")


# -- verify --


def test_brokers_that_do_not_tell_what_is_moving_are_no_completion(desk: Desk) -> None:
    for broker in desk.cluster._brokers.values():
        broker.answers[ApiKey.LIST_PARTITION_REASSIGNMENTS] = lambda header, request: {"error_code": 31}
    desk.plan("orders", [1, 2])
    ran = desk.with_plan("--verify")
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert ran.err.startswith("Error: ")


def test_a_broker_that_is_behind_is_asked_again(desk: Desk) -> None:
    asked = []
    present = desk.cluster._describe_topics

    def behind(header: Any, request: Any) -> Any:
        asked.append(request)
        if len(asked) == 3:
            desk.cluster.replicas["orders", 0] = [1, 3]
        return present(header, request)

    for broker in desk.cluster._brokers.values():
        broker.answers[ApiKey.DESCRIBE_TOPIC_PARTITIONS] = behind
    desk.cluster.replicas["orders", 0] = [1, 3, 2]
    desk.plan("orders", [1, 3])
    ran = desk.with_plan("--verify")
    assert (ran.status, len(asked)) == (ExitStatus.OK, 3)
    assert "Reassignment of partition orders-0 is completed.\n" in ran.out


def test_a_replica_that_is_not_in_sync_is_a_finding(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkatools.tools.reassignment.partition_states._BEHIND_MS", 0)
    desk.cluster.out_of_sync["orders", 0] = {2}
    desk.plan("orders", [1, 2])
    ran = desk.with_plan("--verify", "--json")
    assert ran.status == ExitStatus.FINDINGS
    assert rows(ran)[0] == {
        "topic": "orders",
        "partition": 0,
        "state": "out_of_sync",
        "replicas": [1, 2],
        "target": [1, 2],
        "out_of_sync": [2],
    }
    assert json.loads(ran.err) == {"note": "orders-0: not in sync: 2"}


def test_a_plan_that_is_under_way_is_told_partition_by_partition(desk: Desk) -> None:
    desk.cluster.steps = 99
    desk.plan("orders", [1, 3], [3, 1])
    started = desk.with_plan("--execute", "--json")
    assert [row.get("outcome") for row in rows(started)] == [None, "started", "started"]
    assert rows(started)[0]["current"]["partitions"][0] == {
        "topic": "orders",
        "partition": 0,
        "replicas": [1, 2],
        "log_dirs": ["/data1", "/data2"],
    }
    desk.plan("orders", [1, 3])
    ran = desk.with_plan("--verify", "--json")
    assert (ran.status, [row["state"] for row in rows(ran)]) == (ExitStatus.FINDINGS, ["in_progress"])
    listed = rows(desk.kt("--list", "--json"))
    assert listed[0] == {"topic": "orders", "partition": 0, "replicas": [1, 3, 2], "adding": [3], "removing": [2]}


# -- generate --


def test_racks_are_used_and_may_be_ignored(desk: Desk) -> None:
    desk.write("topics.json", '{"topics": [{"topic": "orders"}]}')
    words = ("--generate", "--topics-to-move-json-file", "topics.json", "--broker-list", "1,2,3", "--json")
    for _ in range(5):
        proposed = rows(desk.kt(*words))[0]["proposed"]["partitions"]
        assert all(3 in part["replicas"] for part in proposed), "one replica in each of the two racks"
    desk.cluster.racks[3] = None
    assert desk.kt(*words).status == ExitStatus.FAILED
    assert "Not all brokers have rack information." in desk.kt(*words[:-1]).err
    assert desk.kt(*words, "--disable-rack-aware").status == ExitStatus.OK


def test_brokers_that_there_are_not_are_named(desk: Desk) -> None:
    desk.write("topics.json", '{"topics": [{"topic": "pay"}]}')
    ran = desk.kt("--generate", "--topics-to-move-json-file", "topics.json", "--broker-list", "1,2,8,9")
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert ran.err == "Error: Unknown broker ids 8,9\nThe live brokers are 1,2,3.\n"


def test_partitions_with_different_factors_are_named(desk: Desk) -> None:
    desk.cluster.replicas["pay", 1] = [2, 1]
    desk.write("topics.json", '{"topics": [{"topic": "pay"}]}')
    ran = desk.kt("--generate", "--topics-to-move-json-file", "topics.json", "--broker-list", "1,2,3")
    assert ran.status == ExitStatus.OK
    assert "The partitions of pay have different numbers of replicas; all are to get" in ran.err


# -- files and command lines --


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            '{"version": 1,\n "partitions": [}',
            "Error: The input string is not a valid JSON\nplan.json, line 2, column 17: Expecting value\n",
        ),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1]}, {"topic": "b", "partition": "0"}]}',
            'Error: Expected `Integer` value, received "0"\nplan.json: entry 2 of "partitions"\n',
        ),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "replicas": [1], "log_dirs": "/data"}]}',
            'Error: Expected JSON array, received "/data"\nplan.json: entry 1 of "partitions"\n',
        ),
        ("[]", "Error: Expected JSON object, received []\nplan.json\n"),
        ('{"version": "1"}', 'Error: Expected `Integer` value, received "1"\nplan.json\n'),
        ('{"partitions": {}}', "Error: Expected JSON array, received {}\nplan.json\n"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_place(tmp_path: pathlib.Path, text: str, complaint: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    words = ("--verify", "--reassignment-json-file", "plan.json", "--bootstrap-server", "127.0.0.1:9")
    ran = run_kt("reassign-partitions", *words, cwd=tmp_path)
    assert (ran.status, ran.out, ran.err) == (ExitStatus.FAILED, "", complaint)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ("--execute", "--reassignment-json-file", "x", "--bootstrap-controller", "h:1"),
            'Option "[bootstrap-controller]" can\'t be used with action "[execute]"',
        ),
        (
            ("--execute", "--reassignment-json-file", "x", "--throttle", "-2", "--bootstrap-server", "h:1"),
            "--throttle takes a number of bytes per second, or -1 for none",
        ),
        (
            ("--generate", "--topics-to-move-json-file", "x", "--broker-list", "1,,2", "--bootstrap-server", "h:1"),
            'For input string: ""',
        ),
        (
            ("--generate", "--topics-to-move-json-file", "x", "--broker-list", "1,+-1", "--bootstrap-server", "h:1"),
            'For input string: "+-1"',
        ),
        (("--list", "--additional", "--bootstrap-server", "h:1"), 'Option "[additional]" can\'t be used with action'),
    ],
)
def test_a_wrong_command_line_contacts_nobody(words: tuple[str, ...], complaint: str) -> None:
    ran = run_kt("reassign-partitions", *words)
    assert (ran.status, ran.out) == (ExitStatus.USAGE, "")
    assert ran.err.startswith(complaint)


# -- moves between log directories --


class Directories:
    """Broker 1 with two directories; a move takes as many questions for it as `steps` says."""

    def __init__(self, desk: Desk) -> None:
        self.current = {("orders", 0): "/data1"}
        self.future: dict[tuple[str, int], str] = {}
        self.not_yet = 0
        self.asked: list[str] = []
        broker = desk.cluster._brokers[1]
        broker.answers[ApiKey.DESCRIBE_LOG_DIRS] = self._describe
        broker.answers[ApiKey.ALTER_REPLICA_LOG_DIRS] = self._alter

    def _describe(self, header: Any, request: Any) -> Any:
        return {"results": [self._directory(path) for path in ("/data1", "/more1")]}

    def _directory(self, path: str) -> dict[str, Any]:
        here = [(key, False) for key, at in self.current.items() if at == path]
        here += [(key, True) for key, at in self.future.items() if at == path]
        topics = [
            {"name": topic, "partitions": [{"partition_index": number, "partition_size": 1, "is_future_key": future}]}
            for (topic, number), future in here
        ]
        return {"log_dir": path, "topics": topics}

    def _alter(self, header: Any, request: Any) -> Any:
        results = []
        for directory in request.dirs:
            self.asked.append(directory.path)
            self.not_yet -= 1
            for topic in directory.topics:
                code = 9 if self.not_yet >= 0 else 0
                parts = [{"partition_index": number, "error_code": code} for number in topic.partitions]
                results.append({"topic_name": topic.name, "partitions": parts})
                self.future = {} if code else {(topic.name, number): directory.path for number in topic.partitions}
        return {"results": results}


def _plan_of_directory(desk: Desk, path: str) -> None:
    desk.plan("orders", [1, 2], log_dirs=[path, "any"])


def test_a_move_between_directories_from_its_beginning_to_its_end(desk: Desk) -> None:
    there = Directories(desk)
    _plan_of_directory(desk, "/more1")
    ran = desk.with_plan("--execute", "--replica-alter-log-dirs-throttle", "500")
    assert ran.status == ExitStatus.OK, ran.err
    assert ran.out.endswith(
        "The replica-alter-dir throttle limit was set to 500 B/s\n"
        "Successfully started partition reassignment for orders-0\n"
        "Successfully started moving log directory to /more1 for replica orders-0 with broker 1 \n"
    )
    rate = "replica.alter.log.dirs.io.max.bytes.per.second"
    assert desk.cluster.throttles == {(_BROKER, "1"): {rate: "500"}}

    ran = desk.with_plan("--verify")
    assert (ran.status, desk.cluster.values(rate)) == (ExitStatus.FINDINGS, {"500"})
    assert ran.out.endswith("Reassignment of replica orders-0-1 is still in progress.\n")

    there.current, there.future = {("orders", 0): "/more1"}, {}
    ran = desk.with_plan("--verify")
    assert (ran.status, desk.cluster.throttles) == (ExitStatus.OK, {})
    assert "Reassignment of replica orders-0-1 completed successfully.\n" in ran.out


def test_a_move_between_directories_is_cancelled_by_moving_to_where_the_replica_lies(desk: Desk) -> None:
    there = Directories(desk)
    there.future = {("orders", 0): "/more1"}
    _plan_of_directory(desk, "/more1")
    assert desk.with_plan("--cancel", "--dry-run").out == "orders-0-1 would stay in /data1\n"
    ran = desk.with_plan("--cancel", "--preserve-throttles", "--undo-file", "again.json")
    assert (ran.status, there.asked) == (ExitStatus.OK, ["/data1"])
    (noted,) = json.loads((desk.directory / "again.json").read_text())["partitions"]
    assert dict(zip(noted["replicas"], noted["log_dirs"], strict=True))[1] == "/more1"
    assert ran.out == (
        "None of the specified partition reassignments are active.\n"
        "Successfully started moving log directory to /data1 for replica orders-0 with broker 1 \n"
    )


def test_a_broker_that_has_no_such_replica_yet_is_asked_again(desk: Desk) -> None:
    there = Directories(desk)
    there.not_yet = 2
    _plan_of_directory(desk, "/more1")
    assert desk.with_plan("--execute").status == ExitStatus.OK
    assert there.asked == ["/more1"] * 3


def test_moves_between_directories_have_a_time_to_begin(desk: Desk) -> None:
    there = Directories(desk)
    there.not_yet = 99
    _plan_of_directory(desk, "/more1")
    ran = desk.with_plan("--execute", "--timeout", "0")
    assert ran.status == ExitStatus.FAILED
    assert ran.err == "Timed out before log directory move could be started for: orders-0-1\n"


def test_a_directory_that_a_broker_does_not_have_is_found_before_anything_is_changed(desk: Desk) -> None:
    Directories(desk)
    desk.plan("orders", [1, 3], log_dirs=["/nowhere", "any"])
    ran = desk.with_plan("--execute", "--throttle", "1000")
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert ran.err == (
        "Error: Failed to alter dir for orders-0-1\n"
        "Broker 1 has no log directory /nowhere, it has /data1, /more1. Nothing was changed.\n"
    )
    assert (desk.cluster.alterations, desk.cluster.throttles) == ([], {})


@pytest.mark.parametrize(
    ("current", "future", "line", "state"),
    [
        ("/data1", "/data1", "orders-0 on broker 1 is being moved to log dir /data1 instead of /more1.", "elsewhere"),
        ("/data1", None, "orders-0 on broker 1 is not being moved from log dir /data1 to /more1.", "different"),
        (None, None, "orders-0 is not found in any live log dir on broker 1. There is likely an offline", "missing"),
    ],
)
def test_a_replica_that_is_not_where_it_shall_be_is_a_finding(
    desk: Desk, current: str | None, future: str | None, line: str, state: str
) -> None:
    there = Directories(desk)
    there.current = {("orders", 0): current} if current else {}
    there.future = {("orders", 0): future} if future else {}
    _plan_of_directory(desk, "/more1")
    ran = desk.with_plan("--verify", "--preserve-throttles")
    assert ran.status == ExitStatus.FINDINGS
    assert f"Partition {line}" in ran.out
    found = rows(desk.with_plan("--verify", "--preserve-throttles", "--json"))[1]
    assert found == {
        "topic": "orders",
        "partition": 0,
        "broker": 1,
        "state": state,
        "log_dir": current,
        "future_log_dir": future,
        "target_log_dir": "/more1",
        "error": None,
    }


@pytest.mark.parametrize("words", [("--execute",), ("run",)])
def test_a_protected_cluster_is_asked_for_before_replicas_move(tmp_path: pathlib.Path, words: tuple[str, ...]) -> None:
    (tmp_path / "config.toml").write_text('[profiles.prod]\nbootstrap_servers = "127.0.0.1:9"\nprotected = true\n')
    (tmp_path / "plan.json").write_text('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1]}]}')
    asked = ("reassign-partitions", *words, "--reassignment-json-file", "plan.json")
    ran = run_kt("--profile", "prod", *asked, environ={"KT_CONFIG": str(tmp_path / "config.toml")}, cwd=tmp_path)
    assert ran.status == ExitStatus.USAGE
    assert ran.err.startswith("The profile 'prod' is protected, and there is no terminal to prompt on")
