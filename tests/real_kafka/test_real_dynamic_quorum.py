"""A dynamic quorum of a node of ours and one of Apache Kafka (KIP-853): each adds the other as a voter and removes
itself, and both have the same log. And the log of a node alone that became one of a dynamic quorum."""

from __future__ import annotations

import pathlib
import re
import shutil
import uuid
from collections.abc import Iterator

import pytest
from support.apache_kafka import ApacheKafka, run_tool
from support.kt import run_kt
from support.kt_process import CLUSTER_ID, BrokerProcess
from support.ports import free_port
from support.waiting import eventually

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.features import UPGRADE, update_features
from kafkatools.core.admin.quorum import (
    Endpoint,
    MetadataQuorum,
    add_raft_voter,
    describe_metadata_quorum,
    remove_raft_voter,
)
from kafkatools.core.admin.topics import NewTopic, create_topics, list_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import DuplicateVoter, KafkaError, RequestTimedOut, VoterNotFound
from kafkatools.core.protocol.schemas.snapshot import decode_record
from kafkatools.core.protocol.uuids import uuid_from_text, uuid_text
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.control import ControlRecordType, parse_control_type

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

APACHE, OWN = 1, 2


class MixedQuorum:
    """Node 1 is Apache Kafka's, node 2 is ours, the first voter; both are brokers."""

    def __init__(self, root: pathlib.Path, *, static_leader: int = 0) -> None:
        """`static_leader`: this node leads a static quorum of both, since the other one waits."""
        self.is_static = is_static = static_leader > 0
        self.kafka = ApacheKafka(root / "kafka", cluster_id=CLUSTER_ID)
        own_port, own_controller = free_port(), free_port()
        self.ports = {APACHE: self.kafka.controller_ports[0], OWN: own_controller}
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        voters = ",".join(f"{node}@127.0.0.1:{port}" for node, port in self.ports.items()) if is_static else ""
        shared = {"controller.quorum.voters": voters, "controller.quorum.bootstrap.servers": bootstrap}
        kafka_listeners = f"PLAINTEXT://127.0.0.1:{self.kafka.ports[0]},CONTROLLER://127.0.0.1:{self.ports[APACHE]}"
        self.kafka.settings = {**shared, "advertised.listeners": kafka_listeners}
        listeners = f"PLAINTEXT://127.0.0.1:{own_port},CONTROLLER://127.0.0.1:{own_controller}"
        own = {**shared, "node.id": str(OWN), "listeners": listeners, "advertised.listeners": listeners}
        own |= {"controller.quorum.election.timeout.ms": "60000"} if static_leader == APACHE else {}
        self.own = BrokerProcess(root / "own", own, *([] if is_static else ["--standalone"]))
        if static_leader == OWN:
            self.kafka.settings["controller.quorum.election.timeout.ms"] = "60000"
        self.bootstrap = {APACHE: self.kafka.bootstrap, OWN: f"127.0.0.1:{own_port}"}

    def start(self) -> None:
        """Start both; in a dynamic quorum Apache Kafka's node is an observer."""
        self.own.spawn()
        options = [] if self.is_static else ["--no-initial-controllers"]
        done = run_tool("storage", "format", "-t", CLUSTER_ID, "-c", str(self.kafka._properties(1)), *options)
        assert done.returncode == 0, done.stderr.decode()
        self.kafka.start_node(1)
        self.own.wait()

    def stop(self) -> None:
        self.kafka.stop()
        self.own.stop()

    def directory_id(self, node_id: int) -> uuid.UUID:
        """The directory id of a node's metadata log."""
        directory = self.kafka.log_dir() if node_id == APACHE else self.own.directory
        lines = (directory / "meta.properties").read_text().splitlines()
        text = dict(line.split("=", 1) for line in lines if "=" in line)["directory.id"]
        return uuid_from_text(text.replace("\\", ""))

    def log(self, node_id: int) -> bytes:
        """The first segment of a node's metadata log."""
        directory = self.kafka.log_dir() if node_id == APACHE else self.own.directory
        return (directory / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes()

    def add(self, admin: AdminClient, node_id: int) -> None:
        """Make a node a voter."""
        point = Endpoint("CONTROLLER", "127.0.0.1", self.ports[node_id])
        add_raft_voter(admin, node_id, self.directory_id(node_id), [point], CLUSTER_ID)

    def remove(self, admin: AdminClient, node_id: int) -> None:
        """Make a node an observer."""
        remove_raft_voter(admin, node_id, self.directory_id(node_id), CLUSTER_ID)


@pytest.fixture
def quorum(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> Iterator[MixedQuorum]:
    made = MixedQuorum(tmp_path, static_leader=getattr(request, "param", 0))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def _described(admin: AdminClient) -> MetadataQuorum | None:
    try:
        return describe_metadata_quorum(admin)
    except KafkaError:
        return None  # between two leaders


def _is_led_by(admin: AdminClient, leader_id: int, voters: set[int]) -> bool:
    found = _described(admin)
    return found is not None and found.leader_id == leader_id and {voter.id for voter in found.voters} == voters


def _is_observer(admin: AdminClient, node_id: int) -> bool:
    found = _described(admin)
    return found is not None and any(
        observer.id == node_id and observer.last_caught_up_timestamp > 0 for observer in found.observers
    )


def _is_added(mixed: MixedQuorum, admin: AdminClient, node_id: int) -> bool:
    """Add a voter, unless the last change is not committed or the voter has not caught up yet."""
    try:
        mixed.add(admin, node_id)
    except RequestTimedOut:
        return False
    return True


def _create(admin: AdminClient, name: str) -> None:
    eventually(lambda: create_topics(admin, [NewTopic(name, 1, 1)])[name].error is None)


def _refused(mixed: MixedQuorum, bootstrap: str) -> list[tuple[type[KafkaError], list[str]]]:
    """What a leader says to changes that it must not make; Apache Kafka names voters in the order of a hash table."""
    found: list[tuple[type[KafkaError], list[str]]] = []
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        for change in (lambda: mixed.add(admin, APACHE), lambda: remove_raft_voter(admin, 9, uuid.UUID(int=9), None)):
            with pytest.raises(KafkaError) as refused:
                change()
            found.append((type(refused.value), sorted(re.split(r"(ReplicaKey\([^)]*\))", str(refused.value)))))
    return found


def _records_of_both(log: bytes) -> list[bytes]:
    """The VotersRecords of a log with both nodes: the first is of our leader, the last of Apache Kafka's."""
    found = []
    for batch in read_batches(log):
        for record in batch.records() if isinstance(batch, RecordBatch) and batch.is_control else ():
            if parse_control_type(record.key) == ControlRecordType.KRAFT_VOTERS:
                value = bytes(record.value or b"")
                if len(decode_record(ControlRecordType.KRAFT_VOTERS, value).voters) == 2:
                    found.append(value)
    return found


def test_each_adds_the_other_and_leaves(quorum: MixedQuorum) -> None:
    with AdminClient(quorum.bootstrap[OWN], {}, SystemClock()) as admin:
        assert _is_led_by(admin, OWN, {OWN})
        eventually(lambda: _is_observer(admin, APACHE))
        _create(admin, "alone")
        quorum.add(admin, APACHE)
        found = describe_metadata_quorum(admin)
        assert {voter.id: voter.directory_id for voter in found.voters} == {
            node_id: quorum.directory_id(node_id) for node_id in (APACHE, OWN)
        }
        by_ours = _refused(quorum, quorum.bootstrap[OWN])
        _create(admin, "both")
        quorum.remove(admin, OWN)

    with AdminClient(quorum.bootstrap[APACHE], {}, SystemClock()) as admin:
        eventually(lambda: _is_led_by(admin, APACHE, {APACHE}))
        eventually(lambda: _is_observer(admin, OWN))
        _create(admin, "theirs")
        eventually(lambda: _is_added(quorum, admin, OWN))
        assert _is_led_by(admin, APACHE, {APACHE, OWN})
        by_theirs = _refused(quorum, quorum.bootstrap[APACHE])
        assert by_ours == by_theirs
        assert [error for error, _ in by_ours] == [DuplicateVoter, VoterNotFound]
        quorum.remove(admin, APACHE)

    with AdminClient(quorum.bootstrap[OWN], {}, SystemClock()) as admin:
        eventually(lambda: _is_led_by(admin, OWN, {OWN}))
        _create(admin, "ours")
        assert {"alone", "both", "theirs", "ours"} <= {topic.name for topic in list_topics(admin)}
        eventually(lambda: _is_observer(admin, APACHE))
    eventually(lambda: quorum.log(APACHE)[-100:] in quorum.log(OWN))
    shared = min(len(quorum.log(APACHE)), len(quorum.log(OWN)))
    assert quorum.log(APACHE)[:shared] == quorum.log(OWN)[:shared]
    by_ours_first, *_, by_theirs_last = _records_of_both(quorum.log(OWN))
    assert by_ours_first == by_theirs_last
    status = run_kt("metadata-quorum", "--bootstrap-server", quorum.bootstrap[APACHE], "describe", "--status")
    assert f'[{{"id": {OWN}, "directoryId": "' in status.out


@pytest.mark.parametrize(
    ("quorum", "leader"), [(APACHE, APACHE), (OWN, OWN)], indirect=["quorum"], ids=["theirs leads", "ours leads"]
)
def test_a_static_quorum_becomes_dynamic_when_the_follower_has_reported_itself(
    quorum: MixedQuorum, leader: int
) -> None:
    with AdminClient(quorum.bootstrap[OWN], {}, SystemClock()) as admin:
        eventually(lambda: _is_upgraded(admin))
        found = describe_metadata_quorum(admin)
        assert {voter.id: voter.directory_id for voter in found.voters} == {
            node_id: quorum.directory_id(node_id) for node_id in (APACHE, OWN)
        }
        assert found.leader_id == leader
        quorum.remove(admin, APACHE if leader == OWN else OWN)
        assert _is_led_by(admin, leader, {leader})


def _is_upgraded(admin: AdminClient) -> bool:
    """Upgrade kraft.version, unless a voter has not reported itself yet."""
    error = update_features(admin, {"kraft.version": 1}, UPGRADE)["kraft.version"]
    assert error is None or "not all of the voters support it" in str(error) or isinstance(error, RequestTimedOut)
    return error is None


def test_apache_kafka_leads_the_quorum_that_a_node_alone_upgraded(tmp_path: pathlib.Path) -> None:
    own = BrokerProcess(tmp_path / "own")
    own.start()
    try:
        done = run_kt("features", "--bootstrap-server", own.bootstrap, "upgrade", "--feature", "kraft.version=1")
        assert (done.status, done.out) == (0, "kraft.version was upgraded to 1.\n"), done.err
        with AdminClient(own.bootstrap, {}, SystemClock()) as admin:
            _create(admin, "ours")
            (voter,) = describe_metadata_quorum(admin).voters
    finally:
        own.stop()
    quick = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}  # of the broker before it
    kafka = ApacheKafka(tmp_path / "kafka", settings=quick, cluster_id=CLUSTER_ID)
    shutil.copytree(own.directory, kafka.log_dir())
    kafka.start(format_first=False)
    try:
        with AdminClient(kafka.bootstrap, {}, SystemClock()) as admin:
            _create(admin, "theirs")
            assert {topic.name for topic in list_topics(admin)} == {"ours", "theirs"}
        status = run_kt("metadata-quorum", "--bootstrap-server", kafka.bootstrap, "describe", "--status").out
        end_points = f'"endpoints": ["CONTROLLER://127.0.0.1:{kafka.controller_ports[0]}"]'
        assert f'[{{"id": 1, "directoryId": "{uuid_text(voter.directory_id)}", {end_points}}}]' in status
    finally:
        kafka.stop()
