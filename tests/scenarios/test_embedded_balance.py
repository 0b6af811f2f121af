"""kt reassign-partitions plan balance by bytes, rate and leaders on three embedded nodes in two racks, each with two
log directories: plans are executed, and the cluster is looked at afterwards."""

from __future__ import annotations

import json
import pathlib
import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from support.embedded_three_nodes import EmbeddedNodes
from support.kt import Ran, run_kt
from support.kt_process import start_kt
from support.waiting import eventually

from kafkatools import Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.log_dirs import describe_log_dirs
from kafkatools.core.admin.reassignments import active_reassignments, partitions_of
from kafkatools.core.admin.replication_throttles import LOG_DIR_RATE, find_throttles
from kafkatools.core.admin.topics import NewTopic, create_topics, delete_topics, list_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import UnknownTopicOrPartition
from kafkatools.exit_status import ExitStatus

pytestmark = pytest.mark.slow
_RACKS = {1: "a", 2: "b", 3: "b"}
_NOISE = random.Random(3).randbytes(50_000)


class Nodes(EmbeddedNodes):
    """Three nodes with racks and a second log directory each."""

    def _properties(self, node: int) -> pathlib.Path:
        path = super()._properties(node)
        directories = f"{self.log_dir(node)},{self.home / f'node{node}' / 'more'}"
        with path.open("a") as file:
            file.write(f"broker.rack={_RACKS[node]}\nlog.dirs={directories}\n")
        return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedNodes]:
    made = Nodes(tmp_path_factory.mktemp("balance"), 3, {"auto.leader.rebalance.enable": "false"})
    try:
        made.start()
        with AdminClient(made.bootstrap, {}, SystemClock()) as client:
            eventually(lambda: _knows_all(client))
        yield made
    finally:
        made.kill_all()


def _knows_all(client: AdminClient) -> bool:
    client.metadata_of((), client.deadline_ms())
    return tuple(client.brokers()) == (1, 2, 3)


@pytest.fixture
def admin(cluster: EmbeddedNodes) -> Iterator[AdminClient]:
    """A client; the topics of the test are deleted afterwards, since all of them count."""
    with AdminClient(cluster.bootstrap, {}, SystemClock()) as client:
        yield client
        delete_topics(client, [topic.name for topic in list_topics(client)])
        eventually(lambda: not _sizes(client))


def _sizes(client: AdminClient) -> list[object]:
    described = describe_log_dirs(client, [1, 2, 3]).values()
    return [replica for dirs in described if isinstance(dirs, tuple) for each in dirs for replica in each.replicas]


class Topic:
    """A topic with the given replicas, of which every node knows."""

    def __init__(self, cluster: EmbeddedNodes, admin: AdminClient, name: str, lists: Sequence[Sequence[int]]) -> None:
        self._bootstrap, self._admin, self.name = cluster.bootstrap, admin, name
        created = create_topics(admin, [NewTopic(name, replicas_assignments=dict(enumerate(lists)))])
        assert created[name].error is None, created
        eventually(lambda: self._is_ready(len(lists)))

    def _is_ready(self, partitions: int) -> bool:
        try:
            found = partitions_of(self._admin, [self.name])
        except UnknownTopicOrPartition:
            return False  # the controller has made it, this node has not heard of it
        return len(found) == partitions and all(set(part.isr) == set(part.replicas) for part in found.values())

    def write(self, records: Sequence[int]) -> None:
        """Write this many records of 50 KB to each partition."""
        with Producer(bootstrap_servers=self._bootstrap, acks="all", batch_size=60_000) as producer:
            for partition, count in enumerate(records):
                producer.send_many(self.name, [_NOISE] * count, partition=partition).result()

    def plan(self, *words: str) -> Ran:
        chosen = ("--topics", self.name, "--bootstrap-server", self._bootstrap)
        return run_kt("reassign-partitions", "plan", "balance", *words, *chosen)

    def lists(self) -> dict[int, tuple[int, ...]]:
        return {key[1]: tuple(part.replicas) for key, part in partitions_of(self._admin, [self.name]).items()}

    def directories(self) -> dict[tuple[int, int], str]:
        """(partition, broker) -> the name of the log directory, without moves in progress."""
        found: dict[tuple[int, int], str] = {}
        for broker, dirs in describe_log_dirs(self._admin, [1, 2, 3]).items():
            assert isinstance(dirs, tuple)
            for log_dir in dirs:
                for replica in log_dir.replicas:
                    if replica.topic == self.name and not replica.is_future:
                        found[replica.partition, broker] = pathlib.Path(log_dir.path).name
        return found

    def execute(self, plan: pathlib.Path) -> None:
        """Start the plan with --execute, and wait until --verify finds all of it done."""
        on_plan = ("--reassignment-json-file", str(plan), "--bootstrap-server", self._bootstrap)
        done = run_kt("reassign-partitions", "--execute", *on_plan)
        assert done.status is ExitStatus.OK, done.err
        eventually(lambda: not active_reassignments(self._admin))

        def is_complete() -> bool:
            verified = run_kt("reassign-partitions", "--verify", *on_plan)
            return verified.status is ExitStatus.OK and "still in progress" not in verified.out

        eventually(is_complete)


def test_uneven_bytes_are_planned_run_and_even(
    cluster: EmbeddedNodes, admin: AdminClient, tmp_path: pathlib.Path
) -> None:
    topic = Topic(cluster, admin, "uneven", [[1, 2], [1, 2], [1, 2], [1, 2], [1, 3], [2, 1]])
    topic.write([4, 3, 2, 1, 1, 1])
    plan, undo = tmp_path / "plan.json", tmp_path / "undo.json"
    ran = topic.plan("--by", "bytes", "--tolerance", "12%", "--out", str(plan), "--json")
    assert ran.status is ExitStatus.OK, ran.err
    rows = [json.loads(line) for line in ran.out.splitlines()]
    # Rack a has one broker, which holds a replica of everything; brokers 2 and 3 can share the rest.
    assert {row["type"] for row in rows} == {"partition", "broker", "spread", "unequal", "plan"}
    (unequal,) = [row["reason"] for row in rows if row["type"] == "unequal"]
    assert unequal.startswith("Broker 1 stays above: its replicas may not move to another rack")
    moved = run_kt(
        *("reassign-partitions", "run", "--reassignment-json-file", str(plan), "--interval", "0.05"),
        *("--undo-file", str(undo), "--bootstrap-server", cluster.bootstrap),
    )
    assert moved.status is ExitStatus.OK, moved.err
    loads: Counter[int] = Counter()
    for partition, ids in topic.lists().items():
        assert {_RACKS[broker] for broker in ids} == {"a", "b"}
        for broker in ids:
            loads[broker] += [4, 3, 2, 1, 1, 1][partition]
    assert loads[1] == 12
    assert {loads[2], loads[3]} <= {5, 6, 7}
    again = topic.plan("--by", "bytes", "--tolerance", "12%")
    assert json.loads(again.out) == {"version": 1, "partitions": []}
    assert "Nothing can be moved." in again.err


def test_log_directories_are_evened_out(cluster: EmbeddedNodes, admin: AdminClient, tmp_path: pathlib.Path) -> None:
    topic = Topic(cluster, admin, "directories", [[3]] * 6)
    topic.write([2] * 6)
    crowded, plan = tmp_path / "crowded.json", tmp_path / "plan.json"
    everything = {"topic": topic.name, "replicas": [3], "log_dirs": [str(cluster.log_dir(3))]}
    crowded.write_text(json.dumps({"version": 1, "partitions": [{**everything, "partition": n} for n in range(6)]}))
    topic.execute(crowded)
    assert set(topic.directories().values()) == {"data"}
    words = ("--by", "bytes", "--disks", "--brokers", "3", "--out", str(plan), "--tolerance", "40%")
    ran = topic.plan(*words)
    assert ran.status is ExitStatus.OK, ran.err
    assert "LOG DIRECTORY" in ran.out
    assert "; between log directories: " in ran.out
    topic.execute(plan)
    assert set(Counter(topic.directories().values())) == {"data", "more"}
    assert topic.plan(*words).out.splitlines()[-1].startswith("Nothing to move")


def test_run_moves_replicas_between_brokers_and_directories_and_back(
    cluster: EmbeddedNodes, admin: AdminClient, tmp_path: pathlib.Path
) -> None:
    topic = Topic(cluster, admin, "both", [[1, 2], [1, 2], [2, 1]])
    topic.write([2, 2, 2])
    lists, directories = topic.lists(), topic.directories()
    homes = {node: cluster.log_dir(node).parent for node in _RACKS}
    paths = {node: {name: str(home / name) for name in ("data", "more")} for node, home in homes.items()}
    other = {place: {"data": "more", "more": "data"}[name] for place, name in directories.items()}
    # Partition 0 moves within broker 1 and to broker 3, partition 1 within both brokers, 2 gets another order.
    targets = {(0, 1): other[0, 1], (0, 3): "more", (1, 1): other[1, 1], (1, 2): other[1, 2]}
    replicas = {0: [1, 3], 1: [1, 2], 2: [1, 2]}
    plan, undo = tmp_path / "plan.json", tmp_path / "undo.json"
    entries = [
        {
            "topic": topic.name,
            "partition": number,
            "replicas": brokers,
            "log_dirs": [
                paths[node][targets[number, node]] if (number, node) in targets else "any" for node in brokers
            ],
        }
        for number, brokers in replicas.items()
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    on_plan = ("--interval", "0.05", "--bootstrap-server", cluster.bootstrap, "--reassignment-json-file")
    command = ("reassign-partitions", "run")

    dry = run_kt(*command, *on_plan, str(plan), "--dry-run", "--json")
    rows = [json.loads(line) for line in dry.out.splitlines()]
    named = [(row["partition"], row["broker"], row["log_dir_before"]) for row in rows if row["type"] == "log_dir_move"]
    before = {place: paths[place[1]][name] for place, name in directories.items()}
    assert named == [(number, node, before.get((number, node))) for number, node in sorted(targets)]
    assert topic.lists() == lists and topic.directories() == directories

    ran = run_kt(*command, *on_plan, str(plan), "--batch-size", "1", "--undo-file", str(undo))
    assert ran.status is ExitStatus.OK, ran.err
    assert ran.out == "3 partitions have their new replicas and log directories; no throttle is left.\n"
    assert topic.lists() == {number: tuple(brokers) for number, brokers in replicas.items()}
    assert topic.directories().items() >= targets.items()
    assert not find_throttles(admin, [topic.name], (1, 2, 3)).brokers
    again = run_kt(*command, *on_plan, str(plan))
    assert again.out == "Nothing to move: all partitions have the replicas and log directories of the plan.\n"
    back = run_kt(*command, *on_plan, str(undo), "--no-undo-file")
    assert back.status is ExitStatus.OK, back.err
    assert topic.lists() == lists and topic.directories() == directories


def test_killed_run_knows_the_directories_from_before(
    cluster: EmbeddedNodes, admin: AdminClient, tmp_path: pathlib.Path
) -> None:
    topic = Topic(cluster, admin, "killed", [[3], [3]])
    topic.write([2, 60])
    before = topic.directories()
    paths = {"data": str(cluster.log_dir(3)), "more": str(cluster.home / "node3/more")}
    names = {number: {"data": "more", "more": "data"}[before[number, 3]] for number in range(2)}
    plan, undo = tmp_path / "plan.json", tmp_path / "undo.json"
    entry = {"topic": topic.name, "replicas": [3]}
    entries = [{**entry, "partition": number, "log_dirs": [paths[name]]} for number, name in names.items()]
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    words = ("run", "--reassignment-json-file", str(plan), "--interval", "0.05", "--undo-file", str(undo))
    on_cluster = ("--bootstrap-server", cluster.bootstrap)
    slow = ("--throttle", "50k", "--min-throttle", "50k", "--max-throttle", "50k")
    child = start_kt(tmp_path / "home", "reassign-partitions", *words, *on_cluster, *slow)
    eventually(lambda: topic.directories()[0, 3] == names[0])
    child.kill()
    child.communicate()
    assert {values[LOG_DIR_RATE] for values in find_throttles(admin, (), [3]).brokers.values()} == {"50000"}
    undo.unlink()
    ran = run_kt("reassign-partitions", *words, *on_cluster, environ={"KT_HOME": str(tmp_path / "home")})
    assert ran.status is ExitStatus.OK, ran.err
    assert topic.directories() == {(number, 3): name for number, name in names.items()}
    assert not find_throttles(admin, (), [3]).brokers
    saved = {part["partition"]: part["log_dirs"] for part in json.loads(undo.read_text())["partitions"]}
    assert saved == {number: [paths[before[number, 3]]] for number in range(2)}


def test_unknown_log_directory_is_refused_before_anything_changes(
    cluster: EmbeddedNodes, admin: AdminClient, tmp_path: pathlib.Path
) -> None:
    Topic(cluster, admin, "wrong", [[1]])
    plan = tmp_path / "plan.json"
    entry = {"topic": "wrong", "partition": 0, "replicas": [3], "log_dirs": ["/nowhere"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    words = ("run", "--reassignment-json-file", str(plan), "--bootstrap-server", cluster.bootstrap)
    ran = run_kt("reassign-partitions", *words, cwd=tmp_path)
    assert ran.status is ExitStatus.FAILED
    assert "Broker 3 has no online log directory /nowhere, where the plan puts wrong-0; it has " in ran.err
    assert list(tmp_path.iterdir()) == [plan]


def test_rates_are_measured_and_busy_partitions_part(cluster: EmbeddedNodes, admin: AdminClient) -> None:
    topic = Topic(cluster, admin, "busy", [[2], [2], [3]])
    idle = Topic(cluster, admin, "idle", [[3]])
    idle.write([6])
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            topic.write([1, 1, 0])
            stop.wait(0.02)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        chosen = ("--by", "rate", "--sample", "1500ms", "--brokers", "2,3", "--tolerance", "40%")
        ran = topic.plan(*chosen)
    finally:
        stop.set()
        writer.join()
    assert ran.status is ExitStatus.OK, ran.err
    assert "Measuring rates for 2 s." in ran.err
    assert "WRITTEN/S" in ran.err
    (moved,) = json.loads(ran.out)["partitions"]
    assert moved["partition"] in (0, 1)
    assert moved["replicas"] == [3]


def test_leaders_are_evened_out_by_order(cluster: EmbeddedNodes, admin: AdminClient, tmp_path: pathlib.Path) -> None:
    topic = Topic(cluster, admin, "led", [[1, 2], [1, 3], [1, 2], [1, 3]] * 3)
    plan = tmp_path / "leaders.json"
    ran = topic.plan("--by", "leaders", "--max-move", "0", "--out", str(plan))
    assert ran.status is ExitStatus.OK, ran.err
    topic.execute(plan)
    before = {number: {1, 2 + number % 2} for number in range(12)}
    assert {number: set(ids) for number, ids in topic.lists().items()} == before
    assert Counter(ids[0] for ids in topic.lists().values()) == {1: 4, 2: 4, 3: 4}
    assert json.loads(topic.plan("--by", "leaders").out)["partitions"] == []
