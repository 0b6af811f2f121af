"""kt reassign-partitions against three nodes of Apache Kafka: every recording replayed, and moves under load.

One cluster serves the whole file; a test leaves nothing behind that is being moved.
"""

from __future__ import annotations

import json
import pathlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import pytest
from support.apache_kafka import ApacheKafka
from support.kt import Ran, run_kt
from support.waiting import eventually

from kafkatools import Consumer, Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.reassignments import active_reassignments, partitions_of
from kafkatools.core.admin.replication_throttles import clear_broker_throttles, find_throttles
from kafkatools.core.admin.topics import NewTopic, create_topics, describe_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import UnknownTopicOrPartition
from kafkatools.exit_status import ExitStatus

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))

import reassign_replay  # noqa: E402
import transcripts  # noqa: E402
from transcripts import Case  # noqa: E402

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

_SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.replication.factor": "1",
    # A throttle lets through what its window allows at once: a short one, and small fetches, need less data to be slow.
    "replication.quota.window.num": "2",
    "replica.fetch.max.bytes": "100000",
}
_BROKERS = (1, 2, 3)


@pytest.fixture(scope="module")
def cluster(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    assert kafka_jars
    made = ApacheKafka(tmp_path_factory.mktemp("reassign"), 3, _SETTINGS)
    try:
        made.start()
        with AdminClient(made.bootstrap, {}, SystemClock()) as client:
            eventually(lambda: _knows_all(client))
        yield made
    finally:
        made.kill_all()


def _knows_all(client: AdminClient) -> bool:
    client.metadata_of((), client.deadline_ms())
    return tuple(client.brokers()) == _BROKERS


@pytest.fixture
def admin(cluster: ApacheKafka) -> Iterator[AdminClient]:
    with AdminClient(cluster.bootstrap, {}, SystemClock()) as client:
        yield client


class Views:
    """What each broker believes: what the controller decided reaches them one after the other."""

    def __init__(self, cluster: ApacheKafka) -> None:
        self._clients = [AdminClient(f"127.0.0.1:{port}", {}, SystemClock()) for port in cluster.ports]

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def wait_until_settled(self, topics: Sequence[str]) -> None:
        """Until nothing is being moved and all brokers know it."""
        eventually(lambda: not active_reassignments(self._clients[0]))
        self.wait_until_agreed(topics)

    def wait_until_agreed(self, topics: Sequence[str]) -> None:
        eventually(lambda: len({str(self._seen(client, topics)) for client in self._clients}) == 1)

    def _seen(self, client: AdminClient, topics: Sequence[str]) -> object:
        try:
            return {part: found.replicas for part, found in partitions_of(client, topics).items()}
        except UnknownTopicOrPartition:
            return client


@pytest.fixture
def views(cluster: ApacheKafka) -> Iterator[Views]:
    made = Views(cluster)
    yield made
    made.close()


def make_topic(admin: AdminClient, views: Views, name: str, placement: Sequence[Sequence[int]]) -> None:
    created = create_topics(admin, [NewTopic(name, replicas_assignments=dict(enumerate(placement)))])
    assert created[name].error is None, created
    views.wait_until_agreed([name])


# -- the recordings --

_WAITS_FOR_THE_END = ("024", "040", "045")
_CHANGED_BEFORE = ("029", "030", "036", "038", "041", "042", "043", "044", "046", "049", "072")


def test_all_recordings_are_repeated(
    cluster: ApacheKafka, admin: AdminClient, views: Views, tmp_path: pathlib.Path
) -> None:
    make_topic(admin, views, "orders", [[1, 2], [2, 1], [1, 2], [2, 1]])
    make_topic(admin, views, "pay", [[1], [2]])
    with Producer(bootstrap_servers=cluster.bootstrap, batch_size=65536) as producer:
        values = [b"%01000d" % number for number in range(3000)]
        for future in [producer.send_many("orders", values, partition=number) for number in range(4)]:
            future.result()

    def before(case: Case) -> None:
        if case.number == "036":
            _slow_moves_again(cluster, tmp_path)
        elif case.number in _CHANGED_BEFORE:
            views.wait_until_settled(["orders", "pay"])

    def again(case: Case, ran: Ran) -> bool:
        is_early = "still in progress" in ran.out or "Current partition reassignments" in ran.out
        if is_early and case.number in _WAITS_FOR_THE_END:
            time.sleep(0.1)
            return True
        return False

    addresses = {
        "UNREACHABLE": "127.0.0.1:9",
        "BOOTSTRAP": f"127.0.0.1:{cluster.ports[0]}",
        "CONTROLLER": f"127.0.0.1:{cluster.controller_ports[0]}",
    }
    log_dirs = [str(cluster.log_dir(node)) for node in _BROKERS]
    failures = reassign_replay.replay(
        transcripts.load(reassign_replay.TOOL), tmp_path, addresses, log_dirs, before, again
    )
    assert not failures, "\n".join(failures)
    # the recordings end with a throttle that nothing verified away
    clear_broker_throttles(admin, _BROKERS)
    eventually(lambda: not find_throttles(admin, [], _BROKERS).brokers)


def _slow_moves_again(cluster: ApacheKafka, directory: pathlib.Path) -> None:
    ran = reassign(cluster, directory, "--execute", "--reassignment-json-file", "cancel.json", "--throttle", "1000")
    assert ran.status == ExitStatus.OK, ran.err


def reassign(cluster: ApacheKafka, directory: pathlib.Path, *words: str) -> Ran:
    return run_kt("reassign-partitions", *words, "--bootstrap-server", cluster.bootstrap, cwd=directory)


# -- moves under load --


class Load:
    """A producer that writes numbers, a few at a time, until it is told to stop; what was acknowledged."""

    def __init__(self, cluster: ApacheKafka, topic: str, partitions: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._over = threading.Event()
        self.acknowledged: list[int] = []
        self.errors: list[Exception] = []
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Load:
        self._thread.start()
        eventually(lambda: len(self.acknowledged) > 100 or bool(self.errors))
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0
        try:
            with Producer(bootstrap_servers=self._cluster.bootstrap, acks="all") as producer:
                while not self._over.is_set():
                    numbers = range(number, number + 50)
                    values = [b"%d" % each for each in numbers]
                    producer.send_many(self._topic, values, partition=number % self._partitions).result()
                    self.acknowledged += numbers
                    number += 50
                    time.sleep(0.005)
        except Exception as error:  # noqa: BLE001 - the top of a thread; the test looks at it
            self.errors.append(error)


def read_all(cluster: ApacheKafka, topic: str, partitions: int) -> list[int]:
    found: list[int] = []
    with Consumer(bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        parts = [(topic, number) for number in range(partitions)]
        consumer.assign(parts)
        ends = consumer.end_offsets(parts)
        while any(consumer.position(part) < end for part, end in ends.items()):
            found += [int(record.value) for record in consumer.poll(1000)]
    return sorted(found)


class Mover:
    """kt reassign-partitions on one topic, step by step."""

    def __init__(self, cluster: ApacheKafka, admin: AdminClient, views: Views, directory: pathlib.Path) -> None:
        self._cluster, self._admin, self._views, self._directory = cluster, admin, views, directory

    def kt(self, *words: str) -> Ran:
        return reassign(self._cluster, self._directory, *words)

    def plan(self, topic: str, placement: Sequence[Sequence[int]]) -> None:
        parts = [{"topic": topic, "partition": number, "replicas": to} for number, to in enumerate(placement)]
        (self._directory / "plan.json").write_text(json.dumps({"version": 1, "partitions": parts}))

    def execute(self, *words: str) -> Ran:
        ran = self.kt("--execute", "--reassignment-json-file", "plan.json", *words)
        assert ran.status == ExitStatus.OK, ran.out + ran.err
        return ran

    def verify_until_done(self) -> None:
        plan = ("--verify", "--reassignment-json-file", "plan.json")
        eventually(lambda: self.kt(*plan).status == ExitStatus.OK)

    def move(self, topic: str, placement: Sequence[Sequence[int]]) -> None:
        """A whole move; afterwards the replicas are there and no throttle is."""
        self.plan(topic, placement)
        self.execute("--throttle", "50000000")
        self.verify_until_done()
        assert self.placement(topic) == [list(to) for to in placement]
        self.ensure_no_throttles(topic)

    def placement(self, topic: str) -> list[list[int]]:
        self._views.wait_until_agreed([topic])
        return [list(part.replicas) for part in describe_topics(self._admin, names=[topic])[topic].partitions]

    def ensure_no_throttles(self, topic: str) -> None:
        """Brokers take settings over on a thread of their own: until the last one has."""

        def left() -> bool:
            found = find_throttles(self._admin, [topic], _BROKERS)
            assert not found.errors
            return not found.brokers and not found.topics

        eventually(left)


@pytest.fixture
def mover(cluster: ApacheKafka, admin: AdminClient, views: Views, tmp_path: pathlib.Path) -> Mover:
    return Mover(cluster, admin, views, tmp_path)


def test_moves_under_load_lose_nothing(
    cluster: ApacheKafka, admin: AdminClient, views: Views, mover: Mover, tmp_path: pathlib.Path
) -> None:
    make_topic(admin, views, "load", [[1, 2], [2, 1], [1, 2]])
    (tmp_path / "topics.json").write_text('{"topics": [{"topic": "load"}]}')
    with Load(cluster, "load", 3) as load:
        generated = mover.kt("--generate", "--topics-to-move-json-file", "topics.json", "--broker-list", "1,2,3")
        proposal = reassign_replay.proposal(generated.out)
        assert {broker for replicas in proposal.values() for broker in replicas} == {1, 2, 3}, "scaled out"
        mover.move("load", [proposal["load", number] for number in range(3)])
        mover.move("load", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        mover.move("load", [[1, 3], [3, 1], [3, 1]])
        eventually(lambda: "load" not in _topics_on(cluster, 2))
    assert load.errors == []
    assert read_all(cluster, "load", 3) == load.acknowledged


def _topics_on(cluster: ApacheKafka, broker: int) -> set[str]:
    words = ("log-dirs", "--describe", "--json", "--bootstrap-server", cluster.bootstrap, "--broker-list", str(broker))
    found = json.loads(run_kt(*words).out)
    return {part["topic"] for part in found["partitions"]}


def test_cancelled_moves_leave_replicas_and_no_throttles(
    cluster: ApacheKafka, admin: AdminClient, views: Views, mover: Mover
) -> None:
    make_topic(admin, views, "still", [[1, 2], [2, 1]])
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for future in [producer.send_many("still", [b"%01000d" % -1] * 1000, partition=number) for number in (0, 1)]:
            future.result()
    with Load(cluster, "still", 2) as load:
        mover.plan("still", [[3, 2], [2, 1, 3]])  # one that moves, one that only adds
        mover.execute("--throttle", "1000")
        rows = [json.loads(line) for line in mover.kt("--list", "--json").out.splitlines()]
        assert [(row["partition"], row["adding"], row["removing"]) for row in rows] == [(0, [3], [1]), (1, [3], [])]
        assert mover.kt("--verify", "--reassignment-json-file", "plan.json").status == ExitStatus.FINDINGS
        assert find_throttles(admin, ["still"], _BROKERS).topics["still"] == {
            "leader.replication.throttled.replicas": "0:1,0:2,1:1,1:2",
            "follower.replication.throttled.replicas": "0:3,1:3",
        }
        ran = mover.kt("--cancel", "--reassignment-json-file", "plan.json")
        assert ran.status == ExitStatus.OK, ran.err
        assert ran.out.startswith("Successfully cancelled partition reassignments for: still-0,still-1\n")
    assert active_reassignments(admin) == {}
    # The controller keeps the order that the move had, so another replica may be the preferred leader now.
    assert mover.placement("still") == [[2, 1], [2, 1]]
    mover.ensure_no_throttles("still")
    assert load.errors == []


def test_refused_moves_leave_no_throttles(admin: AdminClient, views: Views, mover: Mover) -> None:
    make_topic(admin, views, "refused", [[1]])
    mover.plan("refused", [[1, 2]])
    words = ("--reassignment-json-file", "plan.json", "--throttle", "1000", "--disallow-replication-factor-change")
    ran = mover.kt("--execute", *words)
    assert ran.status == ExitStatus.FAILED
    assert "refused-0: The replication factor is changed from 1 to 2" in ran.err
    assert active_reassignments(admin) == {}
    mover.ensure_no_throttles("refused")


def test_replica_that_went_bad_on_the_disk_is_found(cluster: ApacheKafka, admin: AdminClient, views: Views) -> None:
    make_topic(admin, views, "verified", [[1, 2, 3], [2, 3, 1]])
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        for number in (0, 1):
            producer.send_many("verified", [b"%0100d" % -1] * 1000, partition=number).result()
    words = ("--bootstrap-server", cluster.bootstrap, "--topics-include", "verified", "--exit-at-end")
    ran = run_kt("replica-verification", *words)
    assert (ran.status, ran.err) == (ExitStatus.OK, "complete: 2/2 partitions\n"), ran.out

    for node, partition, position in ((2, 0, 17), (3, 1, 200)):  # of the first batch: its checksum, and a record
        with (cluster.log_dir(node) / f"verified-{partition}" / f"{0:020}.log").open("r+b") as file:
            file.seek(position)
            byte = file.read(1)[0]
            file.seek(position)
            file.write(bytes([byte ^ 1]))
    ran = run_kt("replica-verification", *words, "--json")
    assert ran.status == ExitStatus.FINDINGS, ran.err
    rows = [row for row in map(json.loads, ran.out.splitlines()) if row["event"] == "difference"]
    found = {(row["kind"], row["partition"], *(one["id"] for one in row["replicas"])) for row in rows}
    assert found == {("checksum", 0, 1, 2), ("content", 1, 1, 3)}
