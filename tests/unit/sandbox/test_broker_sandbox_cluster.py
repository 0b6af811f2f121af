"""A sandbox of three nodes as processes: what happens to one of them, and to all of them together."""

import json
import os
import pathlib
import re
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.kt import Ran, run_kt
from support.manual_clock import ManualClock
from support.waiting import eventually

from kafkatools import EmbeddedCluster
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import IllegalState
from kafkatools.sandbox import single as sandbox
from kafkatools.sandbox.cluster import ClusterOptions, SandboxCluster, start_cluster
from kafkatools.sandbox.process import log_line
from kafkatools.sandbox.run_files import RunFile
from kafkatools.sandbox.spawn import SandboxError

Kt = Callable[..., Ran]
QUICK = ("broker.session.timeout.ms=2000", "controller.quorum.election.timeout.ms=500")
START = ("sandbox", "start", "--nodes", "3", "--port", "0", "--rack", "a,b", *(f"--set={pair}" for pair in QUICK))
DEAD = "Node 2 does not run; start it with kt sandbox restart 2"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def kt(home: pathlib.Path) -> Iterator[Kt]:
    """`kt` on a sandbox of three nodes."""

    def run(*words: str, stdin: bytes = b"", sandbox_is: str = "on") -> Ran:
        return run_kt(*words, stdin=stdin, environ={"KT_HOME": str(home), "KT_SANDBOX": sandbox_is})

    started = run(*START, "--json")
    assert started.status == 0, started.err
    assert json.loads(started.out)["state"] == "started"
    assert run("topics", "--create", "--topic", "seen", "--replication-factor", "3").status == 0
    yield run
    assert run("sandbox", "stop").status == 0


def rows(kt: Kt) -> dict[int, dict[str, object]]:
    """The nodes by their ids."""
    ran = kt("sandbox", "status", "--json")
    assert ran.status == 0, ran.err
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert lines[0]["state"] == "running" and lines[0]["nodes"] == 3
    return {line["node"]: line for line in lines[1:]}


def states(kt: Kt) -> list[object]:
    return [row["state"] for row in rows(kt).values()]


def refused(ran: Ran, status: int = 1) -> str:
    assert ran.status == status, ran
    assert ran.out == ""
    return ran.err.splitlines()[0]


def test_every_node_has_an_address_and_one_leads_the_quorum(kt: Kt, home: pathlib.Path) -> None:
    found = rows(kt)
    assert [row["node"] for row in found.values()] == [1, 2, 3]
    assert len({row["pid"] for row in found.values()}) == 3
    assert sorted(str(row["role"]) for row in found.values()) == ["leader", "voter", "voter"]
    assert [row["rack"] for row in found.values()] == ["a", "b", "a"]
    first = int(str(found[1]["address"]).rpartition(":")[2])
    assert [row["address"] for row in found.values()] == [f"127.0.0.1:{first + 10 * index}" for index in range(3)]
    assert [row["controller"] for row in found.values()] == [
        f"127.0.0.1:{first + 10 * index + 1}" for index in range(3)
    ]
    text = kt("sandbox", "status").out.splitlines()
    assert text[0].endswith(f"(3 nodes, data in {home}/sandbox/nodes)")
    assert text[1].split() == ["NODE", "PID", "ADDRESS", "CONTROLLER", "LEADS", "STATE"]
    assert [line.split()[5] for line in text[2:]] == ["running"] * 3
    for folder, _, files in os.walk(home / "sandbox"):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700, folder
        assert not [name for name in files if stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) != 0o600]


def test_commands_use_all_nodes(kt: Kt) -> None:
    described = kt("topics", "--describe", "--topic", "seen").out
    assert re.search(r"Replicas: [123],[123],[123]\t", described)
    assert sum(int(str(row["leaders"])) for row in rows(kt).values()) == 1


def test_a_node_is_killed_and_comes_back(kt: Kt) -> None:
    pid = rows(kt)[2]["pid"]
    assert kt("sandbox", "kill", "2").out == f"Killed node 2 (pid {pid})\n"
    assert states(kt) == ["running", "dead", "running"]
    assert refused(kt("sandbox", "kill", "2")) == DEAD
    assert refused(kt("sandbox", "pause", "2")) == DEAD
    assert refused(kt("sandbox", "resume", "2")) == DEAD
    assert refused(kt("sandbox", "stop", "2")) == DEAD
    assert (
        len(kt("sandbox", "start", "--nodes", "3", "--json").out.split('"bootstrap":"')[1].split('"')[0].split(","))
        == 2
    )
    restarted = kt("sandbox", "restart", "2")
    assert re.fullmatch(r"Started node 2 \(pid \d+\)\n", restarted.out) and restarted.err == ""
    assert states(kt) == ["running"] * 3


def test_a_node_is_paused_and_goes_on(kt: Kt) -> None:
    assert kt("sandbox", "pause", "3").out == f"Paused node 3 (pid {rows(kt)[3]['pid']})\n"
    assert states(kt) == ["running", "running", "paused"]
    assert refused(kt("sandbox", "pause", "3")) == "Node 3 is paused already"
    assert refused(kt("sandbox", "restart", "3")) == "Node 3 is paused: resume it first, or kill it"
    assert kt("sandbox", "resume", "3").status == 0
    assert refused(kt("sandbox", "resume", "3")) == "Node 3 is not paused"
    assert states(kt) == ["running"] * 3


def test_a_wiped_node_gets_its_replicas_again(kt: Kt) -> None:
    directory = pathlib.Path(str(rows(kt)[3]["directory"]))
    before = (directory / "meta.properties").read_text()
    assert refused(kt("sandbox", "wipe", "3")).startswith("Node 3 is running: stop it first with kt sandbox stop 3")
    question = f"Remove all data of node 3 in {directory}? (y/n)\n"
    silent = kt("sandbox", "wipe", "3", "--stop")
    assert (silent.status, silent.out) == (1, question)
    assert silent.err.startswith("Nothing was removed: stdin ended before an answer.")
    assert kt("sandbox", "wipe", "3", "--stop", stdin=b"n\n").status == 1
    assert states(kt) == ["running"] * 3 and directory.exists()
    wiped = kt("sandbox", "wipe", "3", "--stop", stdin=b"y\n")
    assert (wiped.status, wiped.out) == (0, f"{question}Wiped node 3 ({directory})\n")
    assert not directory.exists()
    assert kt("sandbox", "restart", "3").status == 0
    after = (directory / "meta.properties").read_text()
    assert re.search("cluster.id=(.*)", after)[1] == re.search("cluster.id=(.*)", before)[1]  # type: ignore[index]
    assert re.search("directory.id=(.*)", after)[1] != re.search("directory.id=(.*)", before)[1]  # type: ignore[index]
    eventually(lambda: (directory / "seen-0").is_dir())


def test_what_cannot_be_asked_of_a_sandbox_that_runs(kt: Kt) -> None:
    running = "A sandbox of 3 nodes is running on 127.0.0.1"
    assert refused(kt("sandbox", "start", "--nodes", "2")).startswith(running)
    assert refused(kt("sandbox", "start", "--nodes", "1")).startswith("The sandbox already runs on 127.0.0.1")
    assert refused(kt("sandbox", "start", "--nodes", "3", "--port", "1")).startswith("The sandbox already runs")
    assert refused(kt("sandbox", "start", "--idle-minutes", "7")).startswith("The sandbox already runs")
    assert kt("sandbox", "start", "--idle-minutes", "30").out.startswith("Already running on 127.0.0.1")
    assert refused(kt("sandbox", "start", "--idle-minutes=-1"), 2).startswith("kt sandbox: error: --idle-minutes")
    assert refused(kt("sandbox", "kill", "4")) == "There is no node 4: the nodes of the sandbox are 1 to 3"
    assert refused(kt("sandbox", "kill"), 2) == "kt sandbox kill: error: too few arguments: the node number is missing"
    assert (
        refused(kt("sandbox", "kill", "two"), 2)
        == "kt sandbox kill: error: 'two' is not a node number; nodes are numbered from 1"
    )
    assert refused(kt("sandbox", "kill", "1", "2"), 2) == "kt sandbox: error: unrecognized arguments: '2'"
    assert kt("sandbox", "start").out.startswith("Already running on 127.0.0.1")


def test_without_a_majority_a_node_starts_and_waits(kt: Kt, home: pathlib.Path) -> None:
    for node in (1, 2):
        assert kt("sandbox", "kill", str(node)).status == 0
    assert kt("sandbox", "kill", "3").status == 0
    status = kt("sandbox", "status")
    assert status.status == 1 and status.out.startswith("Not running: all nodes are dead")
    assert "All 3 nodes of the sandbox are dead: kt sandbox restart 1 brings" in refused(kt("topics", "--list"))
    assert refused(kt("sandbox", "start")).startswith("All 3 nodes of the sandbox are dead")
    alone = kt("sandbox", "restart", "2")
    assert (alone.status, alone.err) == (0, "Node 2 cannot join yet: 1 of 3 nodes running is no majority\n")
    assert kt("sandbox", "restart", "1").err == ""
    assert kt("sandbox", "restart", "3").err == ""
    assert states(kt) == ["running"] * 3


def test_it_stops_as_a_whole_with_a_paused_node_and_is_found_again(home: pathlib.Path, kt: Kt) -> None:
    assert kt("sandbox", "pause", "1").status == 0
    assert kt("sandbox", "stop").out == "Stopped (3 nodes)\n"
    assert kt("sandbox", "status").out == "Not running\n"
    assert not (home / "sandbox" / "cluster.json").exists()
    for node in (1, 2, 3):
        assert (home / "sandbox" / "nodes" / str(node) / "data" / ".kafka_cleanshutdown").exists()
    assert refused(kt("sandbox", "start", "--nodes", "2")).startswith(f"{home}/sandbox/nodes was formatted for 3 nodes")
    assert kt(*START).status == 0
    assert "seen" in kt("topics", "--list").out.split()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--nodes", "0"], "kt sandbox: error: --nodes takes a number from 1 to 9, not 0"),
        (["--nodes", "10"], "kt sandbox: error: --nodes takes a number from 1 to 9, not 10"),
        (["--nodes", "three"], "kt sandbox: error: argument --nodes: could not convert 'three' to a number"),
        (
            ["--nodes", "2", "--rack", "a,b,c"],
            "kt sandbox: error: --rack names 3 racks, more than there are nodes (--nodes 2)",
        ),
        (
            ["--rack", "a", "--rack", "b"],
            "kt sandbox: error: --rack names 2 racks, more than there are nodes (--nodes 1)",
        ),
        (["--nodes", "2", "--rack", "a,"], "kt sandbox: error: --rack contains an empty name"),
        (["--nodes", "2", "--set", "no"], "--set takes KEY=VALUE, not no"),
        (["--set", "wrong=1"], "--set: Unknown broker config name: wrong"),
        (
            ["--nodes", "3", "--set", "num.partitions=x"],
            "--set: Invalid value x for configuration num.partitions: Not a number of type INT",
        ),
    ],
)
def test_what_no_sandbox_is(tmp_path: pathlib.Path, words: list[str], message: str) -> None:
    ran = run_kt("sandbox", "start", *words, environ={"KT_HOME": str(tmp_path)})
    assert refused(ran, 2) == message
    assert not list(tmp_path.iterdir())


def test_a_node_alone_is_told_how_to_become_several(tmp_path: pathlib.Path) -> None:
    ran = run_kt("sandbox", "kill", "1", environ={"KT_HOME": str(tmp_path)})
    assert refused(ran) == "No sandbox with several nodes is running. To start one: kt sandbox start --nodes 3"


@pytest.mark.slow
def test_a_start_that_fails_half_way_leaves_nothing(tmp_path: pathlib.Path) -> None:
    held = RunFile(str(tmp_path / "sandbox" / "nodes" / "2" / "run.json"))
    with pytest.raises(SandboxError, match="^node 2 did not start: another process of it is running$"):
        start_cluster(str(tmp_path), ClusterOptions(2, 0), SystemClock())
    held.remove()
    assert sandbox.status(str(tmp_path)) is None
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "sandbox/nodes/1/node.log",
        "sandbox/nodes/2/node.log",
    ]


@pytest.mark.slow
def test_a_setting_that_is_wrong_is_said(tmp_path: pathlib.Path) -> None:
    options = ClusterOptions(2, 0, settings={"num.partitions": "none"})
    with pytest.raises(SandboxError, match="Invalid value none for configuration num.partitions"):
        start_cluster(str(tmp_path), options, SystemClock())


def test_lines_of_a_nodes_log_have_their_time(capfd: pytest.CaptureFixture[str]) -> None:
    log_line(ManualClock(wall_ms=1_700_000_000_042), "WARN a line")
    said = capfd.readouterr().err
    assert re.fullmatch(r"\[2023-11-1[345] \d\d:\d\d:20,042\] WARN a line\n", said)


def ended(cluster: SandboxCluster) -> bool:
    return not cluster.is_running


@pytest.mark.slow
def test_nobody_uses_it_and_all_nodes_end_also_a_paused_one(tmp_path: pathlib.Path) -> None:
    cluster = start_cluster(str(tmp_path), ClusterOptions(3, 0, idle_ms=2000), SystemClock())
    try:
        cluster.pause(2)
        eventually(lambda: ended(cluster))
        eventually(lambda: not (tmp_path / "sandbox" / "cluster.json").exists())
    finally:
        cluster.close()


@pytest.mark.slow
def test_a_stop_waits_for_a_start_and_stops_its_nodes(tmp_path: pathlib.Path) -> None:
    with ThreadPoolExecutor() as pool:
        started = pool.submit(sandbox.ensure_cluster, str(tmp_path), ClusterOptions(3, 0), SystemClock())
        eventually(lambda: (tmp_path / "sandbox" / "cluster.json").exists())
        stopped = sandbox.stop(str(tmp_path), SystemClock().sleep_ms)
        cluster, is_started = started.result()
    try:
        assert is_started and stopped is not None and stopped.nodes == 3
        assert [node.state for node in cluster.nodes] == ["dead"] * 3
    finally:
        cluster.close()


def test_faults_are_added_listed_and_removed(kt: Kt) -> None:
    added = kt("sandbox", "fault", "add", "clock-skew", "--skew=-1h30m", "--node", "3", "--for", "1h")
    assert added.out == "Added fault 1: clock-skew --skew=-5400000ms (node 3)\n"
    added = kt("sandbox", "fault", "add", "cut", "--after", "--api", "initproducerid", "--rate", "0.5", "--json")
    row = json.loads(added.out)
    assert (row["id"], row["nodes"], row["hits"], row["apis"]) == (2, [1, 2, 3], 0, ["InitProducerId"])
    kt("sandbox", "pause", "2")
    drop = kt("sandbox", "fault", "add", "drop", "--client", "nobody", "--node", "2")
    assert "A node that does not run or is paused has the fault when it runs again" in drop.err
    kt("sandbox", "resume", "2")
    listed = [json.loads(line) for line in kt("sandbox", "fault", "list", "--json").out.splitlines()]
    assert [(fault["id"], fault["nodes"]) for fault in listed] == [(1, [3]), (2, [1, 2, 3]), (3, [2])]
    assert "3 faults are active" in kt("sandbox", "status").err
    assert kt("sandbox", "fault", "remove", "2").out == "Removed fault 2\n"
    assert "There is no fault 2; there are 1, 3" in kt("sandbox", "fault", "remove", "2").err
    assert kt("sandbox", "fault", "remove", "--all").out == "Removed all faults\n"
    assert kt("sandbox", "fault", "list").err == "No faults.\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "the action is missing"),
        (("make",), "unknown action 'make'"),
        (("add",), "the kind of the fault is missing"),
        (("add", "slow"), "there is no fault 'slow'"),
        (("add", "delay", "--delay", "200"), "--delay: '200' is no duration"),
        (("add", "drop", "--for=-1s"), "--for: '-1s' is no duration"),
        (("add", "clock-skew", "--skew=--1h"), "--skew: '--1h' is no duration"),
        (("add", "drop", "--seed", "5"), "--seed needs --rate"),
        (("add", "drop", "--topic", ""), "The topic is empty"),
        (("add", "drop", "--node", "4"), "There is no node 4: the nodes are 1, 2, 3"),
        (("add", "drop", "--rate", "1.5"), "The rate is 1.5"),
        (("add", "drop", "--from", "me"), "senders"),
        (("list", "--rate", "1"), "--rate has no meaning here"),
        (("list", "1"), "unrecognized arguments: '1'"),
        (("remove",), "name the id of a fault, or --all"),
        (("remove", "one"), "'one' is no id of a fault"),
    ],
)
def test_a_wrong_fault_is_refused(kt: Kt, words: tuple[str, ...], text: str) -> None:
    ran = kt("sandbox", "fault", *words)
    assert ran.status in (1, 2) and text in ran.err


@pytest.mark.slow
def test_an_embedded_cluster_is_there_for_its_block_only() -> None:
    made = EmbeddedCluster(nodes=2, num_partitions=2, broker_session_timeout_ms=2000)
    with pytest.raises(IllegalState, match="was not started"):
        _ = made.bootstrap
    with made as cluster:
        assert cluster.bootstrap == f"{cluster.address(1)},{cluster.address(2)}"
        assert [cluster.state(node) for node in cluster.node_ids] == ["running", "running"]
        cluster.kill(2)
        with pytest.raises(IllegalState, match="Node 2 of the embedded cluster does not run"):
            cluster.pid(2)
        assert cluster.restart(2) is False or cluster.state(2) == "running"
        directory = pathlib.Path(cluster.directory(1))
        assert directory.is_dir()
    assert not directory.parent.exists()
    made.close()
