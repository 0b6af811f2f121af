"""kt why against three brokers of Apache Kafka: causes at brokers, disks, the controller and replicas.

Tests with all brokers alive come first; they leave nothing behind that another one finds. What needs broker 3 to stop
and to start again is brought about once (`Incident`), and each test looks at one answer.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shlex
import signal
import subprocess
import threading
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest
from support.kt import Ran, run_kt
from support.live_groups import GroupClient
from support.three_nodes import ThreeNodes
from support.waiting import PATIENCE_S, eventually
from support.why import Between, LimitedWriter, only_cause, produce, soon_healthy, why

from kafkatools import Producer
from kafkatools.core.admin.acls import Acl, create_acls, delete_acls, describe_acls, filter_of
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import BROKER, DELETE, SET, TOPIC, ConfigChange, incremental_alter_configs
from kafkatools.core.admin.log_dirs import describe_log_dirs
from kafkatools.core.admin.quotas import alter_client_quotas
from kafkatools.core.admin.reassignments import active_reassignments, alter_reassignments
from kafkatools.core.admin.replication_throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from kafkatools.core.admin.topics import NewTopic, create_topics, describe_topics
from kafkatools.core.admin.transactions import describe_transactions
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.diagnosis import collecting

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]
Answer = tuple[ExitStatus, dict[str, Any]]
QUOTA = 100_000.0


def verdict_of(answer: Answer) -> dict[str, Any]:
    """The only verdict of an answer."""
    status, found = answer
    assert status is ExitStatus.FINDINGS and found["others"] == [], found
    verdict: dict[str, Any] = found["verdict"]
    return verdict


def ensure_healthy(answer: Answer) -> None:
    status, found = answer
    assert (status, found["healthy"], found["verdict"]) == (ExitStatus.OK, True, None), found


def configure(nodes: ThreeNodes, kind: str, name: str, setting: str, value: str | None) -> None:
    change = ConfigChange(setting, value, DELETE if value is None else SET)
    with AdminClient(nodes.address(1), {}, SystemClock()) as admin:
        assert set(incremental_alter_configs(admin, {(kind, name): [change]}).values()) == {None}


def isr(nodes: ThreeNodes, topic: str) -> tuple[int, ...]:
    with AdminClient(nodes.address(1), {}, SystemClock()) as admin:
        return tuple(sorted(describe_topics(admin, [topic])[topic].partitions[0].isr))


# -- while all brokers are alive --


def test_a_sound_cluster(empty_three_nodes: ThreeNodes) -> None:
    nodes = empty_three_nodes
    nodes.make_topics({"sound": [[1, 2, 3], [2, 3, 1]]})
    for words in ((), ("topic", "sound"), ("partition", "sound-1"), ("broker", "2")):
        soon_healthy(nodes.bootstrap, *words)


def test_a_principal_without_permission(empty_three_nodes: ThreeNodes) -> None:
    nodes = empty_three_nodes
    nodes.make_topics({"secret": [[1]]})
    without = only_cause(nodes.bootstrap, "topic", "secret", "--principal", "User:alice")
    with AdminClient(nodes.bootstrap, {}, SystemClock()) as admin:
        create_acls(admin, [Acl("TOPIC", "secret", "User:alice", "READ")])
        try:
            eventually(lambda: len(describe_acls(admin)) == 1)
            verdict = only_cause(nodes.bootstrap, "topic", "secret", "--principal", "User:alice")
            create_acls(admin, [Acl("TOPIC", "sec", "User:alice", "WRITE", pattern_type="PREFIXED")])
            eventually(lambda: len(describe_acls(admin)) == 2)
            soon_healthy(nodes.bootstrap, "topic", "secret", "--principal", "User:alice")
        finally:
            delete_acls(admin, [filter_of(one) for one in describe_acls(admin)])
    assert (without["cause"], verdict["cause"]) == ("permission-missing", "permission-missing")
    assert verdict["sentence"] == "User:alice has no WRITE permission on topic secret: no ACL allows it"


def test_a_quota_of_producers(empty_three_nodes: ThreeNodes) -> None:
    nodes = empty_three_nodes
    nodes.make_topics({"limited": [[1]]})
    entity = (("client-id", "writer"),)
    with AdminClient(nodes.bootstrap, {}, SystemClock()) as admin:
        alter_client_quotas(admin, entity, {"producer_byte_rate": QUOTA})
        nodes.settle()
        try:
            with LimitedWriter(nodes.bootstrap, "limited", "writer", QUOTA) as writer:
                verdict = only_cause(nodes.bootstrap, "topic", "limited", clock=Between(lambda: writer.write_for(6)))
        finally:
            alter_client_quotas(admin, entity, {"producer_byte_rate": None})
    assert verdict["cause"] == "producer-quota" and "client-id writer" in verdict["sentence"]


@contextlib.contextmanager
def paused(nodes: ThreeNodes, node: int) -> Iterator[None]:
    """A node that hangs, for less time than its session lasts."""
    nodes.processes[node].send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        nodes.processes[node].send_signal(signal.SIGCONT)
        nodes.settle()  # if it hung for longer on a busy machine, the controller has fenced brokers by now
        nodes.wait_until_complete()


def test_a_broker_that_hangs(empty_three_nodes: ThreeNodes) -> None:
    for _ in range(3):
        with paused(empty_three_nodes, 3):
            verdict = only_cause(empty_three_nodes.bootstrap, "broker", "3")
        if verdict["cause"] != "broker-offline":  # so it is if the controller noticed first, on a busy machine
            break
    assert verdict["cause"] == "broker-silent" and "although the controller counts it as alive" in verdict["sentence"]


def test_a_controller_that_hangs(empty_three_nodes: ThreeNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 1 is the only controller, and a broker: without it nobody knows that it is not alive."""
    nodes = empty_three_nodes
    monkeypatch.setattr(collecting, "LATE_MS", 500)  # it must not hang for longer than the sessions of the others last
    nodes.make_topics({"led": [[1, 2]]})
    others = f"{nodes.address(2)},{nodes.address(3)}"
    with paused(nodes, 1), futures.ThreadPoolExecutor() as pool:
        verdict, of_topic = pool.map(lambda words: only_cause(others, *words), ((), ("topic", "led")))
    assert verdict["cause"] == "controller-missing"
    assert f"Brokers that do not respond: 1 ({nodes.address(1)})" in verdict["evidence"]
    assert of_topic["cause"] == "broker-silent" and of_topic["sentence"].endswith(
        "there is no active controller to replace it"
    )


# -- a broker stops, starts with a further disk, and loses it --


class Incident:
    """Broker 3 stops and starts again: `answers` of kt why meanwhile, by name, and how their `next` commands ended, by
    command line. The cluster is as before in the end.

    Broker 3 then measures the rate of its replication over an hour: with a throttle of 1 byte/s it copies nothing more
    after its first throttled batches. Until it knows of the throttle, that of the leader holds it back.
    """

    def __init__(self, nodes: ThreeNodes, home: pathlib.Path) -> None:
        self.nodes = nodes
        self.answers: dict[str, Answer] = {}
        self.next: dict[str, Ran] = {}
        self._disk = Disk(home / "disk")
        self._directory = self._disk.path / "logs"
        self._committing = threading.Thread()

    def run(self) -> None:
        nodes = self.nodes
        with contextlib.ExitStack() as stack:
            stack.callback(self._disk.unmount)
            stack.callback(self._restore)
            producer = self._make_topics()
            stack.callback(producer.close)
            nodes.stop_broker(3)
            self._while_stopped()
            self._start_with_two_directories()
            self._while_behind(producer)
            self._while_full()
            self._while_offline()

    def _ask(self, name: str, *words: str, clock: Between | None = None) -> ExitStatus:
        self.answers[name] = status, answer = why(self.nodes.address(1), *words, clock=clock)
        command = answer["verdict"]["command"] if status is ExitStatus.FINDINGS else ""
        if command and command not in self.next:
            self.next[command] = run_kt(*shlex.split(command)[1:])
        return status

    def _make_topics(self) -> Producer:
        pair = ("pair", "marked", "throttled", "damaged-1", "damaged-2")
        alone = {"__transaction_state": [[1]] * 4, "lone": [[3]], "held": [[1]]}
        self.nodes.make_topics({**alone, **{name: [[1, 3]] for name in pair}})
        producer = Producer(bootstrap_servers=self.nodes.address(1), transactional_id="marks")
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("marked", b"value").result()
        self._throttle("1")  # brokers take changes of their own settings, so it has to be alive
        return producer

    def _while_stopped(self) -> None:
        nodes = self.nodes
        for words in ((), ("broker", "3"), ("topic", "lone"), ("topic", "pair"), ("broker", "1")):
            self._ask(" ".join(("stopped", *words)), *words)
        for topic in ("throttled", "held"):
            for _ in range(16):
                produce(nodes.address(1), topic, records=2, value=b"x" * 250_000)
            configure(nodes, TOPIC, topic, FOLLOWER_REPLICAS, "*")
        configure(nodes, TOPIC, "throttled", LEADER_REPLICAS, "*")
        nodes.settle()
        for topic in ("damaged-1", "damaged-2", "marked"):
            produce(nodes.address(1), topic, value=b"PAYLOAD")
            (log,) = (nodes.log_dir(1) / f"{topic}-0").glob("*.log")
            with log.open("r+b") as file:
                file.seek(log.read_bytes().index(b"PAYLOAD"))
                file.write(b"X")
        for topic in ("damaged-2", "marked"):
            configure(nodes, TOPIC, topic, "min.insync.replicas", "2")

    def _throttle(self, rate: str | None) -> None:
        configure(self.nodes, BROKER, "3", FOLLOWER_RATE, rate)
        configure(self.nodes, BROKER, "1", LEADER_RATE, rate)

    def _start_with_two_directories(self) -> None:
        self._directory.mkdir()
        formatted = (self.nodes.log_dir(3) / "meta.properties").read_text()
        own_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        (self._directory / "meta.properties").write_text(re.sub("directory.id=.*", f"directory.id={own_id}", formatted))
        self.nodes.settings_of[3] = {
            "log.dirs": f"{self.nodes.log_dir(3)},{self._directory}",
            "replication.quota.window.size.seconds": "3600",
        }
        self.nodes.start_broker(3)

    def _while_behind(self, producer: Producer) -> None:
        eventually(lambda: isr(self.nodes, "pair") == (1, 3))
        for topic in ("damaged-1", "damaged-2", "throttled"):
            self._ask(topic, "topic", topic)
        self._while_held()
        self._committing = threading.Thread(target=producer.commit_transaction)
        self._committing.start()
        with AdminClient(self.nodes.address(1), {}, SystemClock()) as admin:
            eventually(lambda: getattr(describe_transactions(admin, ["marks"])["marks"], "state", "") != "Ongoing")
        for words in (("transaction", "marks"), ("topic", "marked")):
            self._ask(" ".join(words), *words, clock=Between(later_ms=20_000))

    def _while_held(self) -> None:
        """A reassignment that the throttle of broker 3 stops, and that ends without it."""
        with AdminClient(self.nodes.address(1), {}, SystemClock()) as admin:
            alter_reassignments(admin, {("held", 0): (1, 3)})
            # The broker may learn of the throttle behind the first batches of both topics, which are copied at once.
            eventually(lambda: self._ask("held", "topic", "held") is ExitStatus.FINDINGS)
            self._throttle(None)
            eventually(lambda: not active_reassignments(admin))

    def _while_full(self) -> None:
        """The new topics are in the directory with fewer replicas, as are the offsets of group g2."""
        self.nodes.make_topics({"spread": [[3]], "__consumer_offsets": [[1], [1], [1], [3]]})
        with GroupClient(self.nodes.address(3)) as client:
            client.commit("g2", {("pair", 0): 0})
        if self._disk.is_mounted:
            with self._disk.filled():
                self._ask("full", "broker", "3")

    def _while_offline(self) -> None:
        """A file in the place of the directory is an I/O error as soon as the broker makes a replica there."""
        self._directory.rename(self._directory.with_name("gone"))
        self._directory.touch()
        with AdminClient(self.nodes.address(1), {}, SystemClock()) as admin:
            create_topics(admin, [NewTopic("next", replicas_assignments={0: [3], 1: [3]})])
            eventually(lambda: bool(_offline(admin)))
            eventually(lambda: describe_topics(admin, ["spread"])["spread"].partitions[0].leader < 0)
        for words in (("broker", "3"), ("topic", "spread"), ("group", "g2"), ("topic", "lone")):
            self._ask(" ".join(("offline", *words)), *words)

    def _restore(self) -> None:
        """One directory, no throttle, no topic, as all other tests expect it."""
        configure(self.nodes, TOPIC, "marked", "min.insync.replicas", "1")
        if self._committing.is_alive():
            self._committing.join(PATIENCE_S)
        self.nodes.empty()
        if self.nodes.settings_of.pop(3, None) is not None and 3 in self.nodes.processes:
            self.nodes.stop_broker(3)
        if 3 not in self.nodes.processes:
            self.nodes.start_broker(3)
        self._throttle(None)


class Disk:
    """A volume of its own where one can be mounted, else a plain directory."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        path.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(path)]
        self.is_mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0

    @contextlib.contextmanager
    def filled(self) -> Iterator[None]:
        """One per cent is left."""
        space = os.statvfs(self.path)
        filler = self.path / "filler"
        filler.write_bytes(bytes(space.f_bavail * space.f_frsize - (space.f_blocks * space.f_frsize) // 100))
        try:
            yield
        finally:
            filler.unlink()

    def unmount(self) -> None:
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self.path)], check=True)


def _offline(admin: AdminClient) -> list[str]:
    found = describe_log_dirs(admin, (3,))[3]
    return [] if isinstance(found, KafkaError) else [one.path for one in found if one.error is not None]


@pytest.fixture(scope="module")
def incident(three_nodes: ThreeNodes, tmp_path_factory: pytest.TempPathFactory) -> Incident:
    three_nodes.empty()
    made = Incident(three_nodes, tmp_path_factory.mktemp("incident"))
    made.run()
    return made


@pytest.mark.parametrize(
    ("name", "cause", "says"),
    [
        ("stopped", "broker-offline", "it is fenced"),
        ("stopped broker 3", "broker-offline", "it is fenced"),
        ("stopped topic lone", "broker-offline", "it is fenced"),
        ("stopped topic pair", "broker-offline", "it is fenced"),
        ("damaged-1", "under-replicated", "damaged-1-0; broker 3 is not in sync"),
        ("damaged-2", "under-min-isr", "damaged-2-0 refuses acks=all"),
        ("throttled", "replication-throttled", "follower.replication.throttled.rate=1 of broker 3"),
        ("held", "reassignment-stuck", "broker 3 copied nothing in"),
        ("transaction marks", "transaction-ending", "markers are not written to marked-0"),
        ("topic marked", "under-min-isr", "marked-0 refuses acks=all"),
        ("offline broker 3", "log-dir-offline", "disk/logs"),
        ("offline topic spread", "log-dir-offline", "disk/logs"),
        ("offline group g2", "log-dir-offline", "disk/logs"),
    ],
)
def test_cause(incident: Incident, name: str, cause: str, says: str) -> None:
    verdict = verdict_of(incident.answers[name])
    assert verdict["cause"] == cause and says in verdict["sentence"]
    ran = incident.next[verdict["command"]]
    # kt log-dirs ends with 1 and names the directory that is offline
    names_directory = cause == "log-dir-offline" and "disk/logs: Disk error" in ran.err
    assert ran.status in (ExitStatus.OK, ExitStatus.FINDINGS) or names_directory, ran.err


@pytest.mark.parametrize("name", ["stopped broker 1", "offline topic lone"])
def test_others_are_healthy(incident: Incident, name: str) -> None:
    ensure_healthy(incident.answers[name])


@pytest.mark.parametrize(
    ("name", "consequence"),
    [
        ("stopped topic lone", "1 partition without a leader: lone-0"),
        ("stopped topic pair", ""),
        ("offline topic spread", "1 partition without a leader: spread-0"),
        ("offline group g2", "Group g2 has no coordinator: 1 of 4 partitions of __consumer_offsets have no leader"),
    ],
)
def test_consequence(incident: Incident, name: str, consequence: str) -> None:
    evidence = verdict_of(incident.answers[name])["evidence"]
    assert any(text.startswith(f"Consequence: {consequence}") for text in evidence), evidence


def test_a_reassignment_that_a_throttle_stops(incident: Incident) -> None:
    evidence = verdict_of(incident.answers["held"])["evidence"]
    assert "Throttle follower.replication.throttled.rate=1 of broker 3" in evidence


def test_a_disk_that_is_almost_full(incident: Incident) -> None:
    if "full" not in incident.answers:
        pytest.skip("no file system can be mounted here")
    verdict = verdict_of(incident.answers["full"])
    assert verdict["cause"] == "disk-full" and "disk/logs" in verdict["sentence"]
