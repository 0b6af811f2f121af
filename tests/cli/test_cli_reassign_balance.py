"""kt reassign-partitions plan balance --by: tables, files, reasons and refusals, against brokers that answer from a
script."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest
from support.kt import Ran, run_kt
from support.scripted_cluster import ScriptedCluster

from kafkatools.exit_status import ExitStatus

_G = 10**9


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """Three brokers without racks; broker 1 has 100 GB of the 150 GB, and leads all."""
    lists = {"orders": [[1], [1], [1], [1], [2], [3]], "pay": [[1, 2]]}
    with ScriptedCluster(dict.fromkeys((1, 2, 3)), lists).running() as running:
        running.sizes = {("orders", number): 20 * _G for number in range(6)} | {("pay", 0): 15 * _G}
        yield running


def plan(cluster: ScriptedCluster, *words: str) -> Ran:
    return run_kt("reassign-partitions", "plan", "balance", *words, "--bootstrap-server", cluster.bootstrap)


def test_plan_by_bytes_is_kafkas_json_and_tables_show_before_and_after(cluster: ScriptedCluster) -> None:
    # Loads are 95, 35 and 20 GB with a mean of 50 GB.
    ran = plan(cluster, "--by", "bytes", "--tolerance", "20%")
    assert ran.status is ExitStatus.OK, ran.err
    moved = json.loads(ran.out)["partitions"]
    assert [part["log_dirs"] for part in moved] == [["any"]] * len(moved)
    lines = ran.err.splitlines()
    assert lines[0].split() == ["BROKER", "RACK", "REPLICAS", "LEADERS", "BYTES", "TO", "RECEIVE", "TO", "SEND"]
    assert "95 GB -> 55 GB" in lines[1]
    assert "HIGHEST / MEAN" in lines[5]
    assert "1.900 -> 1.100" in ran.err
    assert "Estimated time at 50 MB/s for each broker: 13 min 20 s." in lines[-1]


def test_files_are_whole_and_the_undo_file_leads_back(cluster: ScriptedCluster, tmp_path: pathlib.Path) -> None:
    out, undo = tmp_path / "plan.json", tmp_path / "undo.json"
    out.write_text("older")
    ran = plan(cluster, "--by", "bytes", "--out", str(out), "--undo-file", str(undo), "--throttle", "1G")
    assert ran.status is ExitStatus.OK, ran.err
    there = {part["partition"]: part["replicas"] for part in json.loads(out.read_text())["partitions"]}
    back = {part["partition"]: part["replicas"] for part in json.loads(undo.read_text())["partitions"]}
    assert there.keys() == back.keys() != set()
    assert set(map(tuple, back.values())) <= {(1,), (1, 2)}
    assert "Estimated time at 1 GB/s" in ran.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.json", "undo.json"]


def test_json_has_spreads_and_the_reasons(cluster: ScriptedCluster) -> None:
    ran = plan(cluster, "--by", "bytes", "--max-move", "25G", "--json")
    assert ran.status is ExitStatus.OK, ran.err
    rows = [json.loads(line) for line in ran.out.splitlines()]
    spreads = {row["of"]: (row["before"], row["after"]) for row in rows if row["type"] == "spread"}
    assert spreads["bytes"][0]["highest"] == 1.9
    assert spreads["bytes"][1]["highest"] == 1.5
    reasons = [row["reason"] for row in rows if row["type"] == "unequal"]
    assert reasons == ["Broker 1 stays above: the budget of --max-move is spent"]
    assert (rows[-1]["bytes_to_move"], rows[-1]["estimated_seconds"], rows[-1]["by"]) == (20 * _G, 400, "bytes")


def test_nothing_to_do_is_said(cluster: ScriptedCluster) -> None:
    ran = plan(cluster, "--by", "bytes", "--tolerance", "95%")
    assert (ran.status, json.loads(ran.out)) == (ExitStatus.OK, {"version": 1, "partitions": []})
    assert ran.err.splitlines()[-1] == "Nothing to move: bytes are within 95% of the mean."


def test_only_brokers_above_a_use_give(cluster: ScriptedCluster) -> None:
    cluster.volumes = {1: (100 * _G, 4 * _G), 2: (100 * _G, 50 * _G), 3: (100 * _G, 70 * _G)}
    ran = plan(cluster, "--by", "bytes", "--only-above", "90%")
    (moved,) = json.loads(ran.out)["partitions"]
    assert moved["replicas"] in ([3], [3, 2])
    assert plan(cluster, "--by", "bytes", "--only-above", "97%").err.splitlines()[-1] == (
        "Nothing to move: no broker is above 97%."
    )


def test_unknown_use_and_unknown_sizes_are_said(cluster: ScriptedCluster) -> None:
    refused = plan(cluster, "--by", "bytes", "--only-above", "90%")
    assert refused.status is ExitStatus.FAILED
    assert "brokers 1,2,3 did not report the size of all volumes" in refused.err
    cluster.silent = {3}
    ran = plan(cluster, "--by", "bytes", "--tolerance", "20%")
    assert ran.status is ExitStatus.FAILED
    assert "Broker 3 did not report the sizes of its replicas" in ran.err
    assert "orders-5 is left unchanged: no broker reported its size" in ran.err


def test_leaders_change_their_order_only(cluster: ScriptedCluster) -> None:
    ran = plan(cluster, "--by", "leaders", "--max-move", "0", "--topics", "pay")
    assert json.loads(ran.out)["partitions"][0]["replicas"] == [2, 1]
    assert "only another order, copying nothing: 1 partition." in ran.err


def test_brokers_that_are_excluded_or_unknown(cluster: ScriptedCluster) -> None:
    ran = plan(cluster, "--by", "bytes", "--exclude-broker", "3", "--json")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert not any(3 in row["replicas_after"] and row["added"] == [3] for row in rows if row["type"] == "partition")
    unknown = plan(cluster, "--by", "bytes", "--exclude-broker", "7")
    assert unknown.status is ExitStatus.FAILED
    assert "Unknown broker id 7" in unknown.err
    assert plan(cluster, "--by", "bytes", "--brokers", "1,9").status is ExitStatus.FAILED
    none = plan(cluster, "--by", "bytes", "--exclude-broker", "1,2,3")
    assert "No live broker is left to balance" in none.err


def test_racks_of_only_some_brokers_are_refused(cluster: ScriptedCluster) -> None:
    cluster.racks[1] = "a"
    ran = plan(cluster, "--by", "bytes")
    assert ran.status is ExitStatus.FAILED
    assert "Not all brokers have a rack (not 2, 3)" in ran.err
    assert plan(cluster, "--by", "bytes", "--disable-rack-aware").status is ExitStatus.OK


def test_partitions_on_the_move_are_no_start_for_a_plan(cluster: ScriptedCluster) -> None:
    cluster.moving["pay", 0] = [1]
    ran = plan(cluster, "--by", "bytes")
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert "1 of the chosen partitions is being moved: pay-0" in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--by", "size"), "--by takes one of replicas, bytes, rate, leaders, not 'size'"),
        (("--tolerance", "5%"), "--tolerance can only be used with plan balance --by bytes, rate or leaders"),
        (("--by", "replicas", "--disks"), "--disks can only be used with plan balance --by bytes or rate"),
        (("--by", "leaders", "--disks"), "--disks can only be used with --by bytes or rate, not with --by leaders"),
        (("--by", "rate", "--only-above", "90%"), "--only-above can only be used with --by bytes, not with --by rate"),
        (
            ("--by", "bytes", "--sample", "5s"),
            "--sample can only be used with --by rate or leaders, not with --by bytes",
        ),
        (("--by", "rate", "--sample", "0"), "Cannot parse argument '0' of option sample"),
        (("--by", "bytes", "--tolerance", "5"), "--tolerance takes a percentage above 0% and below 100%, such as 5%"),
        (("--by", "bytes", "--tolerance", "0%"), "--tolerance takes a percentage above 0% and below 100%"),
        (("--by", "bytes", "--only-above", "100%"), "--only-above takes a percentage above 0% and below 100%"),
        (("--by", "bytes", "--only-above", "x%"), "such as 90%, not 'x%'"),
        (("--by", "bytes", "--max-move", "500GB"), "also with k, M, G, T or GiB, such as 500G, not '500GB'"),
        (("--by", "bytes", "--max-move", "-1"), "--max-move takes bytes"),
        (("--by", "bytes", "--exclude-broker", "a"), "Cannot parse argument 'a' of option exclude-broker"),
        (("--by", "bytes", "--topics", "("), "( is an invalid regex"),
    ],
)
def test_invalid_options_are_refused_before_a_broker_is_asked(words: tuple[str, ...], message: str) -> None:
    ran = run_kt("reassign-partitions", "plan", "balance", *words, "--bootstrap-server", "127.0.0.1:1")
    assert (ran.status, ran.out) == (ExitStatus.USAGE, "")
    assert message in ran.err


def test_by_belongs_to_balance() -> None:
    ran = run_kt(
        *("reassign-partitions", "plan", "drain", "--brokers", "1", "--by", "bytes"),
        *("--bootstrap-server", "127.0.0.1:1"),
    )
    assert ran.status is ExitStatus.USAGE
    assert "--by can only be used with plan balance, not with plan drain" in ran.err
