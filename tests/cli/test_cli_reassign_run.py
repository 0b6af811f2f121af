"""kt reassign-partitions run: moves in batches, limits that go away however it ends, undo file and journal, against
brokers that answer from a script."""

from __future__ import annotations

import json
import pathlib
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest
from support.kt import Ran, run_kt
from support.kt_process import start_kt
from support.scripted_cluster import CLUSTER_ID, ScriptedCluster
from support.waiting import eventually

from kafkatools.exit_status import ExitStatus

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
TOPIC, BROKER = 2, 4


@pytest.fixture
def cluster() -> Iterator[ScriptedCluster]:
    """Three brokers; three partitions on the first two."""
    with ScriptedCluster(dict.fromkeys((1, 2, 3)), {"orders": [[1, 2], [2, 1], [1, 2]]}).running() as running:
        yield running


@pytest.fixture
def run(cluster: ScriptedCluster, tmp_path: pathlib.Path) -> Callable[..., Ran]:
    """Runs `kt reassign-partitions run` on a plan; its home and its directory are the test's."""

    def start(plan: dict[int, list[int]], *words: str) -> Ran:
        file = write_plan(tmp_path, plan)
        command = ("reassign-partitions", "run", "--reassignment-json-file", str(file), "--interval", "0.01")
        environ = {"KT_HOME": str(tmp_path / "home")}
        return run_kt(*command, "--bootstrap-server", cluster.bootstrap, *words, cwd=tmp_path, environ=environ)

    return start


def write_plan(directory: pathlib.Path, plan: dict[int, list[int]]) -> pathlib.Path:
    parts = [{"topic": "orders", "partition": number, "replicas": ids} for number, ids in plan.items()]
    path = directory / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": parts}))
    return path


def journal(directory: pathlib.Path) -> pathlib.Path:
    return directory / "home" / "reassignments" / f"{CLUSTER_ID}.json"


def test_partitions_arrive_and_no_throttle_is_left(
    cluster: ScriptedCluster, run: Callable[..., Ran], tmp_path: pathlib.Path
) -> None:
    seen: list[dict[tuple[int, str], dict[str, str]]] = []
    cluster.on_alteration = lambda: seen.append({key: dict(values) for key, values in cluster.throttles.items()})
    ran = run({0: [1, 3], 1: [3, 1]})
    assert ran.status == ExitStatus.OK, ran.err
    assert ran.out == "2 partitions have their new replicas; no throttle is left.\n"
    assert cluster.replicas == {("orders", 0): [1, 3], ("orders", 1): [3, 1], ("orders", 2): [1, 2]}
    rates = {LEADER_RATE: "50000000", FOLLOWER_RATE: "50000000"}
    assert seen[0] == {
        (TOPIC, "orders"): {LEADERS: "0:1,0:2,1:1,1:2", FOLLOWERS: "0:3,1:3"},
        (BROKER, "1"): rates,
        (BROKER, "2"): rates,
        (BROKER, "3"): rates,
    }
    assert cluster.throttles == {}
    assert not journal(tmp_path).exists()


def test_undo_file_is_a_plan_that_goes_back(
    cluster: ScriptedCluster, run: Callable[..., Ran], tmp_path: pathlib.Path
) -> None:
    assert run({0: [1, 3], 2: [1, 2]}).status == ExitStatus.OK
    (undo,) = tmp_path.glob("reassignment-*.undo.json")
    assert json.loads(undo.read_text())["partitions"] == [
        {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}
    ]
    words = ("reassign-partitions", "run", "--reassignment-json-file", str(undo), "--interval", "0.01")
    back = run_kt(
        *words,
        *("--no-undo-file", "--bootstrap-server", cluster.bootstrap),
        environ={"KT_HOME": str(tmp_path / "home")},
    )
    assert back.status == ExitStatus.OK, back.err
    assert cluster.replicas["orders", 0] == [1, 2]


def test_undo_file_that_cannot_be_written_changes_nothing(cluster: ScriptedCluster, run: Callable[..., Ran]) -> None:
    ran = run({0: [1, 3]}, "--undo-file", "/nowhere/undo.json")
    assert ran.status == ExitStatus.FAILED
    assert "cannot be written, so nothing was changed" in ran.err
    assert (cluster.alterations, cluster.throttles) == ([], {})


def test_no_more_than_a_batch_moves_at_the_same_time(cluster: ScriptedCluster, run: Callable[..., Ran]) -> None:
    assert run({0: [1, 3], 1: [3, 1], 2: [3, 2]}, "--batch-size", "1").status == ExitStatus.OK
    assert cluster.most_at_once == 1
    assert [list(each) for each in cluster.alterations] == [[("orders", number)] for number in range(3)]


def test_json_tells_progress_partitions_and_the_end(cluster: ScriptedCluster, run: Callable[..., Ran]) -> None:
    ran = run({0: [1, 3]}, "--json", "--no-undo-file")
    assert (ran.status, ran.err) == (ExitStatus.OK, "")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    moved = [row["moved_bytes"] for row in rows if row["type"] == "progress"]
    assert moved == sorted(moved) and moved[-1] == 1000 and 0 < moved[0] < 1000
    assert {row["total_bytes"] for row in rows if row["type"] == "progress"} == {1000}
    assert {"type": "partition", "topic": "orders", "partition": 0, "done": True, "error": None} in rows
    assert rows[-1] == {"type": "end", "done": 1, "failed": 0, "moving": 0, "waiting": 0, "throttles_left": False}


def test_refused_partition_is_named_and_the_others_arrive(cluster: ScriptedCluster, run: Callable[..., Ran]) -> None:
    cluster.refused["orders", 0] = (87, "not this one")
    ran = run({0: [1, 3], 1: [3, 1]})
    assert ran.status == ExitStatus.FAILED
    assert "orders-0: not this one" in ran.err
    assert ran.out == "1 partition has its new replicas, 1 failed; no throttle is left.\n"
    assert cluster.throttles == {}


def test_throttles_of_others_are_put_back_or_taken_away(cluster: ScriptedCluster, run: Callable[..., Ran]) -> None:
    cluster.configs[BROKER, "1"] = {LEADER_RATE: "77"}
    ran = run({0: [1, 3]})
    assert "Throttles that this run did not set are restored at the end: leader.replication.throttled.rate" in ran.err
    assert cluster.throttles == {(BROKER, "1"): {LEADER_RATE: "77"}}
    assert run({0: [1, 2]}, "--clear-throttles").status == ExitStatus.OK
    assert cluster.throttles == {}


def test_throttle_that_somebody_changed_meanwhile_is_left(cluster: ScriptedCluster, run: Callable[..., Ran]) -> None:
    cluster.on_alteration = lambda: cluster.configs[BROKER, "3"].update({FOLLOWER_RATE: "123"})
    ran = run({0: [1, 3]})
    assert ran.status == ExitStatus.OK, ran.err
    assert cluster.throttles == {(BROKER, "3"): {FOLLOWER_RATE: "123"}}
    assert "Kept because another user has changed it: broker 3" in ran.err


def test_throttles_that_brokers_have_not_heard_of_yet_are_taken_away_too(
    cluster: ScriptedCluster, run: Callable[..., Ran]
) -> None:
    def hide() -> None:
        cluster.stale_answers = 4  # of the topic, and of each broker

    cluster.on_alteration = hide
    assert run({0: [1, 3]}).status == ExitStatus.OK
    assert cluster.stale_answers <= 0
    assert cluster.throttles == {}


def test_moves_that_stand_still_get_a_larger_limit_within_its_bounds(
    cluster: ScriptedCluster, run: Callable[..., Ran]
) -> None:
    cluster.steps = 10**9
    ran = run(
        {0: [1, 3]}, "--throttle", "1k", "--min-throttle", "1k", "--max-throttle", "3k", "--timeout", "0.6", "--json"
    )
    assert ran.status == ExitStatus.FAILED
    assert cluster.rates == ["1000", "2000", "3000"]
    assert cluster.throttles == {}
    assert json.loads(ran.out.splitlines()[-1])["moving"] == 1
    reasons = {row["reason"] for row in map(json.loads, ran.out.splitlines()) if row["type"] == "throttle"}
    assert reasons == {"the remaining bytes do not decrease"}


def test_replicas_that_fall_out_of_sync_halve_the_limit(cluster: ScriptedCluster, run: Callable[..., Ran]) -> None:
    cluster.steps = 10**9
    cluster.on_alteration = lambda: cluster.out_of_sync.update({("orders", 0): {2}})
    run({0: [1, 2, 3]}, "--throttle", "8k", "--max-throttle", "8k", "--min-throttle", "3k", "--timeout", "0.8")
    assert cluster.rates == ["8000", "4000", "3000"]


def test_throttle_of_a_broker_that_is_gone_is_left_for_the_next_run(
    cluster: ScriptedCluster, run: Callable[..., Ran], tmp_path: pathlib.Path
) -> None:
    cluster.on_alteration = lambda: cluster.away.add(2)
    ran = run({0: [1, 3]})
    assert ran.status == ExitStatus.FAILED
    assert f"{LEADER_RATE} of 2 is left for the next run to remove: the broker is down" in ran.err
    assert ran.out == "1 partition has its new replicas.\n"
    assert list(cluster.throttles) == [(BROKER, "2")]
    cluster.away.clear()
    assert run({0: [1, 3]}).status == ExitStatus.OK
    assert cluster.throttles == {}
    assert not journal(tmp_path).exists()


def test_new_replicas_of_a_broker_that_is_gone_are_waited_for(
    cluster: ScriptedCluster, run: Callable[..., Ran]
) -> None:
    cluster.steps = 10**9
    cluster.on_alteration = lambda: cluster.away.add(3)
    ran = run({0: [1, 3]}, "--throttle", "1k", "--min-throttle", "1k", "--timeout", "0.6")
    assert ran.status == ExitStatus.FAILED
    assert ran.err.count("Broker 3 is down; the moves of replicas to it wait.") == 1
    assert "still moving, without a throttle, after 0.6 s: 1; not started: 0" in ran.out
    assert cluster.rates == ["1000"], "when it is back, its replicas are copied under the limit that was asked"


def test_terminal_shows_a_bar(cluster: ScriptedCluster, tmp_path: pathlib.Path) -> None:
    file = write_plan(tmp_path, {0: [1, 3]})
    words = ("run", "--reassignment-json-file", str(file), "--interval", "0.01", "--no-undo-file")
    environ = {"KT_HOME": str(tmp_path / "home"), "COLUMNS": "120"}
    ran = run_kt("reassign-partitions", *words, "--bootstrap-server", cluster.bootstrap, environ=environ, terminal=True)
    assert ran.status == ExitStatus.OK, ran.err
    assert "1 KB of 1 KB (100%)" in ran.err and "partitions: 0 moving, 0 waiting, 1 done" in ran.err
    assert "━" in ran.err
    assert ran.out == "1 partition has its new replicas; no throttle is left.\n"


def test_dry_run_changes_nothing(cluster: ScriptedCluster, run: Callable[..., Ran], tmp_path: pathlib.Path) -> None:
    ran = run({0: [1, 3], 1: [1, 2]}, "--dry-run")
    assert ran.status == ExitStatus.OK, ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith("BROKER")
    expected = "2 partitions to change; replicas to copy: 1 (1 KB); only another order, copying nothing: 1 partition."
    assert lines[-1] == expected
    assert (cluster.alterations, cluster.throttles) == ([], {})
    assert not list(tmp_path.glob("*.undo.json"))


def test_nothing_to_move(cluster: ScriptedCluster, run: Callable[..., Ran]) -> None:
    ran = run({0: [1, 2]})
    assert (ran.status, ran.out) == (
        ExitStatus.OK,
        "Nothing to move: all partitions have the replicas of the plan.\n",
    )
    assert run({}).status == ExitStatus.OK
    assert (cluster.alterations, cluster.throttles) == ([], {})


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({9: [1, 2]}, "The plan names partitions that do not exist: orders-9"),
        ({0: [1, 7]}, "There is no live broker 7"),
        ({0: [1, 1]}, "Partition replica lists may not contain duplicate entries"),
        ({0: []}, "Partition replica list cannot be empty"),
    ],
)
def test_impossible_plans_are_refused(
    cluster: ScriptedCluster, run: Callable[..., Ran], plan: dict[int, list[int]], message: str
) -> None:
    ran = run(plan)
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert message in ran.err
    assert (cluster.alterations, cluster.throttles) == ([], {})


def test_partition_on_its_way_elsewhere_is_refused(cluster: ScriptedCluster, run: Callable[..., Ran]) -> None:
    cluster.steps = 10**9
    cluster.moving["orders", 0] = [2, 3]
    ran = run({0: [1, 3]})
    assert ran.status == ExitStatus.FAILED
    assert "Already being reassigned to other replicas: orders-0" in ran.err
    assert (cluster.alterations, cluster.throttles) == ([], {})


def test_partition_on_its_way_there_is_waited_for(cluster: ScriptedCluster, run: Callable[..., Ran]) -> None:
    cluster.steps = 20
    cluster.moving["orders", 0] = [1, 3]
    ran = run({0: [1, 3]})
    assert ran.status == ExitStatus.OK, ran.err
    assert cluster.alterations == []
    assert cluster.throttles == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--throttle", "0"), "Cannot parse argument '0' of option throttle"),
        (("--throttle", "20"), "--throttle 20 is less than --min-throttle 1000000"),
        (("--throttle", "20", "--dry-run"), "Write a unit, such as --throttle 20M"),
        (("--throttle", "1x"), "Cannot parse argument '1x' of option throttle"),
        (("--throttle", "2M", "--max-throttle", "1M"), "--max-throttle is less than --throttle"),
        (("--no-throttle", "--throttle", "2M"), "can't be used with option"),
        (("--batch-size", "0"), "Cannot parse argument '0' of option batch-size"),
        (("--no-undo-file", "--undo-file", "x"), "can't be used with option"),
    ],
)
def test_usage_errors(run: Callable[..., Ran], words: tuple[str, ...], message: str) -> None:
    ran = run({0: [1, 3]}, *words)
    assert (ran.status, ran.out) == (ExitStatus.USAGE, "")
    assert message in ran.err


class Started:
    """`run` as a process of its own, with partitions that never arrive until the test lets them."""

    def __init__(self, cluster: ScriptedCluster, directory: pathlib.Path, *words: str) -> None:
        cluster.steps = 10**9
        self.cluster = cluster
        file = write_plan(directory, {0: [1, 3], 1: [3, 1], 2: [3, 2]})
        command = ("reassign-partitions", "run", "--reassignment-json-file", str(file), "--batch-size", "2")
        undo = ("--undo-file", str(directory / f"undo-{len(list(directory.iterdir()))}.json"))
        common = ("--bootstrap-server", cluster.bootstrap, "--interval", "0.05", *undo)
        self.child = start_kt(directory / "home", *command, *common, *words)
        eventually(lambda: len(cluster.moving) == 2)

    def end(self, number: signal.Signals) -> tuple[int, str]:
        self.child.send_signal(number)
        _, stderr = self.child.communicate(timeout=30)
        assert b"Traceback" not in stderr, stderr.decode()
        return self.child.returncode, stderr.decode()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_takes_throttles_away_and_lets_moves_go_on(
    cluster: ScriptedCluster, tmp_path: pathlib.Path, number: signal.Signals
) -> None:
    status, err = Started(cluster, tmp_path).end(number)
    assert status == ExitStatus.INTERRUPTED
    assert "Still moving in the cluster, without a throttle: 2 partitions; not begun: 1." in err
    assert cluster.throttles == {}
    assert len(cluster.moving) == 2
    assert not journal(tmp_path).exists()


@pytest.mark.slow
def test_interruption_cancels_when_asked_to(cluster: ScriptedCluster, tmp_path: pathlib.Path) -> None:
    status, err = Started(cluster, tmp_path, "--cancel-on-interrupt").end(signal.SIGINT)
    assert status == ExitStatus.INTERRUPTED
    assert "Cancellation requested: 2 partitions; not begun: 1." in err
    assert (cluster.throttles, cluster.moving) == ({}, {})


@pytest.mark.slow
def test_run_after_a_kill_goes_on_and_takes_the_throttles_away(
    cluster: ScriptedCluster, run: Callable[..., Ran], tmp_path: pathlib.Path
) -> None:
    killed = Started(cluster, tmp_path, "--throttle", "7k", "--min-throttle", "7k")
    killed.end(signal.SIGKILL)
    assert cluster.values(LEADER_RATE) == {"7000"}
    assert journal(tmp_path).exists()
    cluster.steps = 2
    undo = tmp_path / "undo.json"
    ran = run({0: [1, 3], 1: [3, 1], 2: [3, 2]}, "--undo-file", str(undo))
    assert ran.status == ExitStatus.OK, ran.err
    assert ran.out == "3 partitions have their new replicas; no throttle is left.\n"
    assert cluster.throttles == {}
    assert not journal(tmp_path).exists()
    assert [part["replicas"] for part in json.loads(undo.read_text())["partitions"]] == [[1, 2], [2, 1], [1, 2]]


def test_run_of_something_else_after_a_kill_takes_the_throttles_away_too(
    cluster: ScriptedCluster, run: Callable[..., Ran], tmp_path: pathlib.Path
) -> None:
    Started(cluster, tmp_path).end(signal.SIGKILL)
    cluster.steps = 0
    eventually(lambda: cluster.advance() or not cluster.moving)
    cluster.configs[BROKER, "2"][LEADER_RATE] = "999"
    ran = run({0: [1, 3]})
    assert ran.status == ExitStatus.OK, ran.err
    assert "Removed the throttles of an interrupted run from topic orders, broker 1" in ran.err
    assert "Kept because another user has changed it: broker 2" in ran.err
    assert cluster.throttles == {(BROKER, "2"): {LEADER_RATE: "999"}}
    assert not journal(tmp_path).exists()


@pytest.mark.slow
def test_run_that_is_refused_after_a_kill_takes_the_throttles_away_too(
    cluster: ScriptedCluster, run: Callable[..., Ran], tmp_path: pathlib.Path
) -> None:
    Started(cluster, tmp_path).end(signal.SIGKILL)
    ran = run({0: [1, 7]})
    assert ran.status == ExitStatus.FAILED
    assert "There is no live broker 7" in ran.err
    assert cluster.throttles == {}
    assert not journal(tmp_path).exists()


@pytest.mark.slow
def test_second_run_on_the_same_cluster_is_refused(
    cluster: ScriptedCluster, run: Callable[..., Ran], tmp_path: pathlib.Path
) -> None:
    first = Started(cluster, tmp_path)
    ran = run({2: [3, 2]})
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert "Another kt reassign-partitions run on this machine is already working on this cluster" in ran.err
    first.end(signal.SIGTERM)


def test_damaged_journal_is_named(cluster: ScriptedCluster, run: Callable[..., Ran], tmp_path: pathlib.Path) -> None:
    journal(tmp_path).parent.mkdir(parents=True)
    journal(tmp_path).write_text("{")
    ran = run({0: [1, 3]})
    assert ran.status == ExitStatus.FAILED
    assert "the record of an interrupted run, is damaged" in ran.err and "its throttles are unknown" in ran.err
    assert cluster.alterations == []


@pytest.mark.slow
def test_plan_comes_through_a_pipe(cluster: ScriptedCluster, tmp_path: pathlib.Path) -> None:
    plan = write_plan(tmp_path, {0: [1, 3]}).read_bytes()
    words = ("reassign-partitions", "run", "--reassignment-json-file", "-", "--interval", "0.01", "--no-undo-file")
    child = start_kt(tmp_path / "home", *words, "--bootstrap-server", cluster.bootstrap, stdin=subprocess.PIPE)
    out, err = child.communicate(plan, timeout=30)
    assert (child.returncode, out) == (0, b"1 partition has its new replicas; no throttle is left.\n"), err
