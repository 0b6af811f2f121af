"""Plans and supervised runs on three nodes of Apache Kafka while records come in: scale-out, decommission, a raised
replication factor, an interrupted and a killed run. Nothing acknowledged is lost or doubled, no throttle is left.

The cluster is that of all tests; every test has topics of its own.
"""

from __future__ import annotations

import functools
import json
import pathlib
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from support.kt import Ran, run_kt
from support.kt_process import start_kt
from support.three_nodes import ThreeNodes
from support.waiting import PATIENCE_S, eventually

from kafkatools import Consumer, Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.reassignments import active_reassignments, partitions_of
from kafkatools.core.admin.replication_throttles import LEADER_RATE, find_throttles
from kafkatools.core.admin.topics import NewTopic, create_topics
from kafkatools.core.clock import SystemClock
from kafkatools.exit_status import ExitStatus

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]
_BROKERS = (1, 2, 3)
_NOISE = random.Random(7).randbytes(1000)


@pytest.fixture
def kafka(three_nodes: ThreeNodes) -> ThreeNodes:
    return three_nodes


@pytest.fixture
def admin(kafka: ThreeNodes) -> Iterator[AdminClient]:
    with AdminClient(kafka.bootstrap, {}, SystemClock()) as client:
        yield client


class Load:
    """Records that go into a topic from the start to the end of the block, each one numbered; those acknowledged are
    looked for at the end."""

    def __init__(self, kafka: ThreeNodes, admin: AdminClient, topic: str, placement: Sequence[Sequence[int]]) -> None:
        created = create_topics(admin, [NewTopic(topic, replicas_assignments=dict(enumerate(placement)))])
        assert created[topic].error is None, created
        kafka.settle()
        self._bootstrap = kafka.bootstrap
        self._topic = topic
        self._partitions = len(placement)
        self._acknowledged: list[bytes] = []
        self._errors: list[object] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        with Producer(bootstrap_servers=kafka.bootstrap, acks="all") as producer:
            before = [b"before %d %s" % (number, _NOISE) for number in range(4000)]
            producer.send_many(topic, before).result()
        self._acknowledged += before

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0

        def heard(value: bytes, metadata: object, error: object) -> None:
            if error is None:
                self._acknowledged.append(value)
            else:
                self._errors.append(error)

        with Producer(bootstrap_servers=self._bootstrap, acks="all", linger_ms=20) as producer:
            while not self._stop.is_set():
                for _ in range(10):
                    value = b"during %d" % number
                    partition = number % self._partitions
                    callback = functools.partial(heard, value)
                    producer.send(self._topic, value, partition=partition, callback=callback)
                    number += 1
                time.sleep(0.02)

    def ensure_nothing_lost(self) -> None:
        """What was acknowledged is there, once."""
        assert self._errors == []
        with Consumer(bootstrap_servers=self._bootstrap) as consumer:
            consumer.assign([(self._topic, number) for number in range(self._partitions)])
            consumer.seek_to_beginning()
            found = Counter(record.value for record in consumer.read_to_end())
        assert sum(value.startswith(b"during") for value in self._acknowledged) > 10
        assert found == Counter(self._acknowledged)


def kt(kafka: ThreeNodes, directory: pathlib.Path, *words: str) -> Ran:
    common = ("--bootstrap-server", kafka.bootstrap)
    return run_kt("reassign-partitions", *words, *common, cwd=directory, environ={"KT_HOME": str(directory / "home")})


def plan(kafka: ThreeNodes, directory: pathlib.Path, *words: str) -> str:
    out = directory / "plan.json"
    ran = kt(kafka, directory, "plan", *words, "--out", str(out))
    assert ran.status == ExitStatus.OK, ran.err
    return str(out)


def replicas(admin: AdminClient, topic: str) -> list[tuple[int, ...]]:
    return [part.replicas for _, part in sorted(partitions_of(admin, [topic]).items())]


def ensure_no_throttles(admin: AdminClient, topic: str) -> None:
    found = None

    def none_is_left() -> bool:
        nonlocal found
        found = find_throttles(admin, [topic], _BROKERS)
        return not (found.brokers or found.topics or found.errors)

    try:
        eventually(none_is_left)
    except AssertionError:
        raise AssertionError(found) from None


def test_scale_out_decommission_and_a_raised_factor(
    kafka: ThreeNodes, admin: AdminClient, tmp_path: pathlib.Path
) -> None:
    run = ("run", "--interval", "0.2", "--reassignment-json-file")
    with Load(kafka, admin, "scale", [[1, 2], [2, 1], [1, 2]]) as load:
        file = plan(kafka, tmp_path, "add", "--brokers", "3", "--topics", "scale")
        ran = kt(kafka, tmp_path, *run, file, "--throttle", "20M", "--json")
        assert ran.status == ExitStatus.OK, ran.err
        rows = [json.loads(line) for line in ran.out.splitlines()]
        progress = [row for row in rows if row["type"] == "progress"]
        assert progress[-1]["moved_bytes"] == progress[-1]["total_bytes"] > 1_000_000
        eventually(lambda: Counter(each for ids in replicas(admin, "scale") for each in ids) == {1: 2, 2: 2, 3: 2})
        ensure_no_throttles(admin, "scale")
        verified = kafka.tool("reassign-partitions", "--verify", "--reassignment-json-file", file)
        assert verified.count("is completed.") == 2, verified

        file = plan(kafka, tmp_path, "set-rf", "--replication-factor", "3", "--topics", "scale")
        ran = kt(kafka, tmp_path, *run, file, "--throttle", "20M")
        assert ran.status == ExitStatus.OK, ran.err
        eventually(lambda: all(sorted(ids) == [1, 2, 3] for ids in replicas(admin, "scale")))
        ensure_no_throttles(admin, "scale")

        file = plan(kafka, tmp_path, "set-rf", "--replication-factor", "2", "--topics", "scale")
        assert kt(kafka, tmp_path, *run, file).status == ExitStatus.OK
        eventually(lambda: all(len(ids) == 2 for ids in replicas(admin, "scale")))
        file = plan(kafka, tmp_path, "drain", "--brokers", "2", "--topics", "scale")
        ran = kt(kafka, tmp_path, *run, file, "--throttle", "20M", "--batch-size", "1")
        assert ran.status == ExitStatus.OK, ran.err
        eventually(lambda: all(sorted(ids) == [1, 3] for ids in replicas(admin, "scale")))
        ensure_no_throttles(admin, "scale")
    load.ensure_nothing_lost()


def test_killed_run_is_taken_up_and_its_throttles_go(
    kafka: ThreeNodes, admin: AdminClient, tmp_path: pathlib.Path
) -> None:
    with Load(kafka, admin, "killed", [[1, 2], [2, 1]]) as load:
        file = plan(kafka, tmp_path, "drain", "--brokers", "2", "--topics", "killed")
        command = ("reassign-partitions", "run", "--reassignment-json-file", file, "--interval", "0.2")
        common = ("--no-undo-file", "--bootstrap-server", kafka.bootstrap)
        slow = ("--throttle", "1k", "--min-throttle", "1k", "--max-throttle", "1k")
        killed = start_kt(tmp_path / "home", *command, *common, *slow)
        eventually(lambda: len(active_reassignments(admin)) == 2)
        killed.kill()
        killed.communicate()
        assert {values[LEADER_RATE] for values in find_throttles(admin, (), _BROKERS).brokers.values()} == {"1000"}

        undo = tmp_path / "undo.json"
        words = ("run", "--reassignment-json-file", file, "--interval", "0.2", "--undo-file", str(undo))
        ran = kt(kafka, tmp_path, *words, "--throttle", "20M")
        assert ran.status == ExitStatus.OK, ran.err
        assert ran.out == "2 partitions have their new replicas; no throttle is left.\n"
        eventually(lambda: all(sorted(ids) == [1, 3] for ids in replicas(admin, "killed")))
        ensure_no_throttles(admin, "killed")
        assert [part["replicas"] for part in json.loads(undo.read_text())["partitions"]] == [[1, 2], [2, 1]]
        assert not list((tmp_path / "home" / "reassignments").glob("*.json"))
    load.ensure_nothing_lost()


@pytest.mark.parametrize("cancel", [True, False])
def test_interrupted_run_leaves_no_throttle(
    kafka: ThreeNodes, admin: AdminClient, tmp_path: pathlib.Path, cancel: bool
) -> None:
    topic = f"interrupted-{cancel}"
    with Load(kafka, admin, topic, [[1, 2]]) as load:
        file = plan(kafka, tmp_path, "drain", "--brokers", "2", "--topics", topic)
        command = ("reassign-partitions", "run", "--reassignment-json-file", file, "--interval", "0.2")
        slow = ("--throttle", "1k", "--min-throttle", "1k", "--max-throttle", "1k")
        common = ("--no-undo-file", "--bootstrap-server", kafka.bootstrap, *slow)
        child = start_kt(tmp_path / "home", *command, *common, *(["--cancel-on-interrupt"] if cancel else []))
        eventually(lambda: len(active_reassignments(admin)) == 1)
        child.send_signal(signal.SIGTERM)
        _, stderr = child.communicate(timeout=PATIENCE_S)
        assert child.returncode == ExitStatus.INTERRUPTED, stderr.decode()
        ensure_no_throttles(admin, topic)
        expected = [1, 2] if cancel else [1, 3]
        eventually(lambda: not active_reassignments(admin))
        eventually(lambda: [sorted(ids) for ids in replicas(admin, topic)] == [expected])
    load.ensure_nothing_lost()
