"""kt reassign-partitions plan: goals, tables, files and refusals, against brokers that answer from a script."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest
from support.kt import Ran, run_kt
from support.scripted_cluster import ScriptedCluster

from kafkatools.exit_status import ExitStatus


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """Three brokers in two racks; topics of two and of one replicas."""
    racks = {1: "a", 2: "b", 3: "a"}
    with ScriptedCluster(racks, {"orders": [[1, 2], [2, 3], [3, 2]], "pay": [[3], [1]]}).running() as running:
        yield running


def plan(cluster: ScriptedCluster, *words: str) -> Ran:
    return run_kt("reassign-partitions", "plan", *words, "--bootstrap-server", cluster.bootstrap)


def test_plan_goes_to_stdout_as_kafkas_json_and_tables_to_stderr(cluster: ScriptedCluster) -> None:
    ran = plan(cluster, "drain", "--brokers", "3")
    assert ran.status == ExitStatus.OK, ran.err
    assert json.loads(ran.out) == {
        "version": 1,
        "partitions": [
            {"topic": "orders", "partition": 1, "replicas": [2, 1], "log_dirs": ["any", "any"]},
            {"topic": "orders", "partition": 2, "replicas": [1, 2], "log_dirs": ["any", "any"]},
            {"topic": "pay", "partition": 0, "replicas": [2], "log_dirs": ["any"]},
        ],
    }
    lines = ran.err.splitlines()
    assert lines[0].split() == ["BROKER", "RACK", "REPLICAS", "LEADERS", "BYTES", "TO", "RECEIVE", "TO", "SEND"]
    assert lines[3].split("  ")[0] == "3"
    assert lines[-1] == "3 partitions to change; replicas to copy: 3 (3 KB)."


def test_out_and_undo_files_hold_plan_and_present_replicas(cluster: ScriptedCluster, tmp_path: pathlib.Path) -> None:
    out, undo = tmp_path / "plan.json", tmp_path / "undo.json"
    ran = plan(cluster, "drain", "--brokers", "3", "--topics", "pay", "--out", str(out), "--undo-file", str(undo))
    assert ran.status == ExitStatus.OK, ran.err
    assert ran.out.splitlines()[-1] == "1 partition to change; replicas to copy: 1 (1 KB)."
    assert [part["replicas"] for part in json.loads(out.read_text())["partitions"]] == [[2]]
    assert [part["replicas"] for part in json.loads(undo.read_text())["partitions"]] == [[3]]
    lost = plan(cluster, "drain", "--brokers", "3", "--out", str(tmp_path / "none" / "plan.json"))
    assert lost.status is ExitStatus.USAGE and f"there is no directory {tmp_path / 'none'}" in lost.err
    again = plan(cluster, "drain", "--brokers", "3", "--out", str(out), "--undo-file", str(undo))
    assert again.status == ExitStatus.FAILED
    assert "File exists" in again.err


def test_json_has_partitions_brokers_and_the_files(cluster: ScriptedCluster) -> None:
    ran = plan(cluster, "set-rf", "--replication-factor", "2", "--topics", "pay", "--json")
    assert ran.status == ExitStatus.OK, ran.err
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["type"] for row in rows] == ["partition"] * 2 + ["broker"] * 3 + ["plan"]
    assert rows[0] == {
        "type": "partition",
        "topic": "pay",
        "partition": 0,
        "replicas_before": [3],
        "replicas_after": [3, 2],
        "added": [2],
        "removed": [],
        "bytes": 1000,
    }
    receiving = {row["broker"]: (row["bytes_to_receive"], row["bytes_to_send"]) for row in rows[2:5]}
    assert receiving == {1: (0, 1000), 2: (2000, 0), 3: (0, 1000)}
    assert rows[-1]["bytes_to_move"] == 2000
    assert [part["replicas"] for part in rows[-1]["current"]["partitions"]] == [[3], [1]]


def test_nothing_to_move_is_an_empty_plan(cluster: ScriptedCluster) -> None:
    ran = plan(cluster, "set-rf", "--replication-factor", "1", "--topics", "pay")
    assert (ran.status, json.loads(ran.out)) == (ExitStatus.OK, {"version": 1, "partitions": []})
    assert ran.err.splitlines()[-1] == "Nothing to move."


def test_new_broker_gets_replicas(cluster: ScriptedCluster) -> None:
    cluster.replicas = {("t", number): [1] for number in range(6)}
    cluster.racks = dict.fromkeys(cluster.racks)
    ran = plan(cluster, "add", "--brokers", "2,3")
    moved = [part["replicas"] for part in json.loads(ran.out)["partitions"]]
    assert sorted(moved) == [[2], [2], [3], [3]]


def test_partition_without_a_replica_in_sync_is_named(cluster: ScriptedCluster) -> None:
    cluster.out_of_sync["pay", 0] = {3}
    ran = plan(cluster, "drain", "--brokers", "3")
    assert ran.status == ExitStatus.FAILED
    assert "pay-0 is left unchanged: no live replica is in sync, so there is nothing to copy from" in ran.err
    assert {part["topic"] for part in json.loads(ran.out)["partitions"]} == {"orders"}


def test_partitions_on_the_move_are_no_start_for_a_plan(cluster: ScriptedCluster) -> None:
    cluster.moving["pay", 0] = [1]
    ran = plan(cluster, "balance")
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert "1 of the chosen partitions is being moved: pay-0\n" in ran.err
    assert plan(cluster, "balance", "--topics", "orders").status == ExitStatus.OK


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), ExitStatus.USAGE, "The plan must be one of drain, add, set-rf, balance"),
        (("tidy",), ExitStatus.USAGE, "The plan must be one of drain, add, set-rf, balance, not 'tidy'"),
        (("drain",), ExitStatus.USAGE, "plan drain needs --brokers"),
        (("set-rf",), ExitStatus.USAGE, "plan set-rf needs --replication-factor"),
        (("set-rf", "--replication-factor", "0"), ExitStatus.USAGE, "must be at least 1, not 0"),
        (("set-rf", "--replication-factor", "-1"), ExitStatus.USAGE, "must be at least 1, not -1"),
        (("add", "--brokers", "x"), ExitStatus.USAGE, "Cannot parse argument 'x' of option brokers"),
        (
            ("balance", "--replication-factor", "2"),
            ExitStatus.USAGE,
            "--replication-factor can only be used with plan set-rf, not with plan balance",
        ),
        (("balance", "--topics", "["), ExitStatus.USAGE, "[ is an invalid regex."),
        (("balance", "--topics", "none"), ExitStatus.FAILED, "No topic matches --topics"),
        (("drain", "--brokers", "9"), ExitStatus.FAILED, "Cannot drain broker 9: not a live broker"),
        (("set-rf", "--replication-factor", "4"), ExitStatus.FAILED, "orders-0 needs"),
    ],
)
def test_refusals(cluster: ScriptedCluster, words: tuple[str, ...], status: ExitStatus, message: str) -> None:
    ran = plan(cluster, *words)
    assert (ran.status, ran.out) == (status, "")
    assert message in ran.err
