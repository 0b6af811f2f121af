"""A quorum that is half Apache Kafka's: its controller needs the vote of ours, commits what ours has on its disk, and
serves an observer of ours; what they have is the same, byte for byte. And Apache Kafka's tool reads what ours wrote."""

from __future__ import annotations

import pathlib
import uuid
from collections.abc import Iterator

import pytest
from support.apache_kafka import CLUSTER_ID, ApacheKafka, run_tool
from support.ports import free_port
from support.raft_node import RaftNode
from support.waiting import eventually

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.quorum import describe_metadata_quorum
from kafkatools.core.admin.topics import NewTopic, create_topics
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.clock import SystemClock
from kafkatools.core.protocol.schemas.metadata import TopicRecord

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

APACHE, OWN, OBSERVER = 1, 2, 9
OWN_DIRECTORY, OBSERVER_DIRECTORY = uuid.UUID(int=5 << 80), uuid.UUID(int=6 << 80)
NEVER_MS = 10_000_000
PART_BYTES = 1000
SETTINGS = {"metadata.log.max.record.bytes.between.snapshots": "500"}


class HalfQuorum:
    """Node 1 is Apache Kafka's, broker and controller; node 2, the other voter, is ours and never stands itself."""

    def __init__(self, root: pathlib.Path) -> None:
        port = free_port()
        self.kafka = ApacheKafka(root)
        self.voters = {APACHE: ("127.0.0.1", self.kafka.controller_ports[0]), OWN: ("127.0.0.1", port)}
        voters = ",".join(f"{node}@{host}:{port}" for node, (host, port) in self.voters.items())
        self.kafka.settings = {**SETTINGS, "controller.quorum.voters": voters}
        settings = RaftSettings(
            CLUSTER_ID, election_timeout_ms=NEVER_MS, fetch_timeout_ms=NEVER_MS, directory_id=OWN_DIRECTORY
        )
        self.own = RaftNode(OWN, self.voters, root / "own", settings)

    def close(self) -> None:
        self.kafka.stop()  # first: it wants a quorum until it is gone
        self.own.close()

    @property
    def directory(self) -> pathlib.Path:
        """Where Apache Kafka keeps the log."""
        return self.kafka.log_dir() / "__cluster_metadata-0"

    def has_large_snapshot(self) -> bool:
        """Whether Apache Kafka has written a snapshot that is sent in several parts."""
        return any(path.stat().st_size > 2 * PART_BYTES for path in self.directory.glob("*.checkpoint"))

    def observer(self, root: pathlib.Path) -> RaftNode:
        """A node of ours that only listens."""
        settings = RaftSettings(CLUSTER_ID, fetch_snapshot_max_bytes=PART_BYTES, directory_id=OBSERVER_DIRECTORY)
        return RaftNode(OBSERVER, self.voters, root / "observer", settings)


@pytest.fixture
def half_quorum(tmp_path: pathlib.Path) -> Iterator[HalfQuorum]:
    made = HalfQuorum(tmp_path / "kafka")
    try:
        made.kafka.start()
        yield made
    finally:
        made.close()


def _log(directory: pathlib.Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def test_apache_kafka_leads_with_the_vote_and_the_disk_of_ours(half_quorum: HalfQuorum, tmp_path: pathlib.Path) -> None:
    own = half_quorum.own
    with AdminClient(half_quorum.kafka.bootstrap, {}, SystemClock()) as admin:
        eventually(lambda: create_topics(admin, [NewTopic("t", 3, 1)])["t"].error is None)  # the broker is in
        made = create_topics(admin, [NewTopic(f"t{index}", 3, 1) for index in range(30)])
        assert [each.error for each in made.values()] == [None] * 30
        eventually(lambda: len(_topics(own)) == 31)
        eventually(half_quorum.has_large_snapshot)
        observer = half_quorum.observer(tmp_path)
        try:
            eventually(lambda: observer.raft.high_watermark >= own.raft.high_watermark > 30)
            eventually(lambda: _topics(observer) == _topics(own))
            _check_observer(half_quorum, observer)
            eventually(lambda: OBSERVER in [each.id for each in describe_metadata_quorum(admin).observers])
            quorum = describe_metadata_quorum(admin)
        finally:
            observer.close()
    assert quorum.leader_id == APACHE
    assert {each.id: each.directory_id for each in quorum.observers} == {OBSERVER: OBSERVER_DIRECTORY}
    voters = {voter.id: voter for voter in quorum.voters}
    assert {voter.directory_id for voter in voters.values()} == {None}  # kraft.version 0
    assert sorted(voters) == [APACHE, OWN]
    assert voters[OWN].log_end_offset > 30
    assert voters[OWN].last_caught_up_timestamp > 0
    assert (own.leaders[-1][0], own.failures) == (APACHE, [])
    data = _log(own.directory)
    assert len(data) > 1000
    assert _log(half_quorum.directory).startswith(data)
    _check_hand_over(half_quorum)


def _topics(node: RaftNode) -> dict[str, str]:
    return {
        record.name: str(record.topic_id) for record in node.records if type(record).__schema__.name == "TopicRecord"
    }


def _check_observer(half_quorum: HalfQuorum, observer: RaftNode) -> None:
    """It came through a snapshot, in parts of 1000 bytes: Apache Kafka sends it to whoever is older than its first."""
    [snapshot] = observer.snapshots
    name = snapshot.snapshot_id.file_name
    data = (observer.directory / name).read_bytes()
    assert data == (half_quorum.directory / name).read_bytes()
    assert len(data) > 2 * PART_BYTES
    log = _log(observer.directory)
    assert log in _log(half_quorum.directory)
    assert observer.failures == []


def _check_hand_over(half_quorum: HalfQuorum) -> None:
    """Apache Kafka's controller resigns as it stops (EndQuorumEpoch), and votes for ours, which has everything."""
    half_quorum.kafka.stop()
    own = half_quorum.own
    eventually(lambda: own.raft.is_leader)
    assert own.raft.state.granting_voters == (APACHE, OWN)  # type: ignore[union-attr]
    assert own.failures == []


def test_the_dump_tool_of_apache_kafka_reads_log_and_snapshot_of_ours(tmp_path: pathlib.Path) -> None:
    node = RaftNode(1, {1: ("127.0.0.1", free_port())}, tmp_path, RaftSettings(CLUSTER_ID))
    try:
        eventually(lambda: node.leaders[-1:] == [(1, 1)])
        for name in ("a", "b"):
            node.work(lambda name=name: node.raft.append([TopicRecord(name=name)], node.clock.wall_ms()))  # type: ignore[misc]
        eventually(lambda: len(node.records) == 2)
        snapshot_id = node.work(lambda: node.raft.log.take_snapshot(node.records, node.clock.now_ms()))
    finally:
        node.close()
    files = f"{node.directory}/{0:020d}.log,{node.directory}/{snapshot_id.file_name}"
    done = run_tool("dump-log", "--cluster-metadata-decoder", "--files", files)
    assert done.returncode == 0, done.stderr.decode()
    text = done.stdout.decode()
    assert text.count('"type":"TOPIC_RECORD"') == 4
    assert "LeaderChange" in text or "LEADER_CHANGE" in text.upper()
    assert "SnapshotHeader" in text
    assert "SnapshotFooter" in text
    assert "INVALID" not in text.upper().replace("ISVALID", "")
