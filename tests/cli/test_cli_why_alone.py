"""kt why: causes that are mostly consequences of a failed broker, brought about while all brokers are alive."""

from __future__ import annotations

import pathlib
import re
import threading
from collections.abc import Iterator

import pytest
from support.apache_kafka import ApacheKafka
from support.waiting import eventually
from support.why import Between, make_topic, only_cause, produce, why

from kafkatools import EmbeddedCluster, Producer
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import BROKER, DELETE, SET, TOPIC, ConfigChange, incremental_alter_configs
from kafkatools.core.admin.group_offsets import alter_offsets
from kafkatools.core.admin.log_dirs import describe_log_dirs
from kafkatools.core.admin.quorum import describe_metadata_quorum
from kafkatools.core.admin.reassignments import alter_reassignments
from kafkatools.core.admin.topics import describe_topics
from kafkatools.core.admin.transactions import describe_transactions
from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import KafkaError
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.tools.diagnosis import broker_causes

SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "replication.quota.window.size.seconds": "3600",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, SETTINGS) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def group_of_headless(cluster: EmbeddedCluster) -> None:
    """The topic headless on all nodes, and the group reads with its offsets."""
    make_topic(cluster.bootstrap, "headless", assignments={0: [1, 2], 1: [2, 3]})
    offsets = {"reads": {("headless", number): OffsetAndMetadata(5) for number in range(2)}}
    with AdminClient(cluster.bootstrap, {}, SystemClock()) as admin:
        eventually(lambda: not alter_offsets(admin, offsets)["reads"].errors)


def isr(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, ...]:
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        return tuple(sorted(describe_topics(admin, [topic])[topic].partitions[partition].isr))


def size_on(admin: AdminClient, broker: int, topic: str) -> int:
    directories = describe_log_dirs(admin, (broker,))[broker]
    assert not isinstance(directories, KafkaError)
    return sum(one.size_bytes for path in directories for one in path.replicas if one.topic == topic)


def alive(bootstrap: str) -> list[int]:
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        return admin.brokers()


def configure(bootstrap: str, kind: str, name: str, setting: str, value: str | None) -> None:
    change = ConfigChange(setting, value, DELETE if value is None else SET)
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        assert set(incremental_alter_configs(admin, {(kind, name): [change]}).values()) == {None}


def test_a_reassignment_that_a_throttle_stops(cluster: EmbeddedCluster) -> None:
    bootstrap = cluster.bootstrap
    make_topic(bootstrap, "held", assignments={0: [1]}, records=0)
    for _ in range(6):
        produce(bootstrap, "held", records=2, value=b"x" * 500_000)
    configure(bootstrap, BROKER, "2", "follower.replication.throttled.rate", "1")
    configure(bootstrap, TOPIC, "held", "follower.replication.throttled.replicas", "0:2")
    try:
        with AdminClient(bootstrap, {}, SystemClock()) as admin:
            alter_reassignments(admin, {("held", 0): (1, 2)})
            # The first fetch is not throttled, so the replica grows at first; then not within the hour of the window.
            eventually(lambda: size_on(admin, 2, "held") > 0)
        verdict = only_cause(bootstrap, "topic", "held")
    finally:
        configure(bootstrap, BROKER, "2", "follower.replication.throttled.rate", None)
    assert verdict["cause"] == "reassignment-stuck" and "broker 2 copied nothing in" in verdict["sentence"]
    assert "Throttle follower.replication.throttled.rate=1 of broker 2" in verdict["evidence"]
    eventually(lambda: isr(bootstrap, "held") == (1, 2))


@pytest.mark.parametrize("words", [("topic", "headless"), ("partition", "headless-1"), ("group", "reads")])
def test_a_partition_without_leader(cluster: EmbeddedCluster, group_of_headless: None, words: tuple[str, ...]) -> None:
    eventually(lambda: isr(cluster.bootstrap, "headless", 1) == (2, 3))  # other tests kill brokers
    fault = cluster.faults.add("error", api="DescribeTopicPartitions", error="LEADER_NOT_AVAILABLE", topic="headless")
    with fault:
        verdict = only_cause(cluster.bootstrap, *words)
    assert verdict["cause"] == "partition-offline"
    assert "without a leader: headless-" in verdict["sentence"]
    # The ISR in the order in which they joined.
    described = "headless-1: leader none, replicas 2, 3, ISR (2, 3|3, 2), leader epoch [0-9]+"
    assert re.fullmatch(described, verdict["evidence"][-1])


def test_a_group_without_coordinator_while_all_brokers_are_alive(
    cluster: EmbeddedCluster, group_of_headless: None
) -> None:
    """No broker lists the groups of a partition of __consumer_offsets without a leader."""
    leaders = {"api": "DescribeTopicPartitions", "error": "LEADER_NOT_AVAILABLE", "topic": "__consumer_offsets"}
    with (
        cluster.faults.add("error", api="ListGroups", error="COORDINATOR_NOT_AVAILABLE"),
        cluster.faults.add("error", **leaders),
    ):
        verdict = only_cause(cluster.bootstrap, "group", "reads")
        _, answer = why(cluster.bootstrap)  # other tests leave topics behind that have causes of their own
    assert verdict["cause"] == "coordinator-unavailable"
    assert verdict["sentence"].startswith("Group reads has no coordinator: 50 of 50 partitions of __consumer_offsets")
    found = {each["cause"]: each for each in (answer["verdict"], *answer["others"])}
    assert "coordinator-unavailable" not in found
    consequence = found["partition-offline"]["evidence"][-1]
    assert consequence.startswith("Consequence: Some groups have no coordinator: 50 of 50 partitions")


@pytest.mark.slow
def test_markers_that_a_partition_below_its_minimum_refuses(cluster: EmbeddedCluster) -> None:
    """The leader's log is damaged below the high watermark, so the follower refuses the batch and stays out of the
    ISR, although both brokers are alive."""
    bootstrap = cluster.bootstrap
    make_topic(bootstrap, "strict", assignments={0: [1, 2]}, configs={"min.insync.replicas": "1"})
    with Producer(bootstrap_servers=bootstrap, transactional_id="marks") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("strict", b"value").result()
        cluster.kill(2)
        eventually(lambda: isr(bootstrap, "strict") == (1,))
        produce(bootstrap, "strict", value=b"PAYLOAD")
        (log,) = pathlib.Path(cluster.directory(1)).rglob(f"strict-0/{0:020}.log")
        good = log.read_bytes()
        with log.open("r+b") as file:
            file.seek(good.index(b"PAYLOAD"))
            file.write(b"X")
        configure(bootstrap, TOPIC, "strict", "min.insync.replicas", "2")
        cluster.restart(2)
        eventually(lambda: 2 in alive(bootstrap))
        committing = threading.Thread(target=producer.commit_transaction)
        committing.start()
        try:
            eventually(lambda: state_of(bootstrap, "marks") == "PrepareCommit")
            verdict = only_cause(bootstrap, "transaction", "marks", clock=Between(later_ms=20_000))
        finally:
            configure(bootstrap, TOPIC, "strict", "min.insync.replicas", "1")
            committing.join()
    assert verdict["cause"] == "transaction-ending"
    assert "in state PrepareCommit: markers are not written to strict-0" in verdict["sentence"]


def state_of(bootstrap: str, transactional_id: str) -> str:
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        described = describe_transactions(admin, [transactional_id])[transactional_id]
    return str(getattr(described, "state", ""))


class _OneControllerApart(ApacheKafka):
    """Node 3 is a controller only."""

    def _properties(self, node: int) -> pathlib.Path:
        path = super()._properties(node)
        if node == 3:
            listener = f"CONTROLLER://127.0.0.1:{self.controller_ports[2]}"
            lines = [line for line in path.read_text().splitlines() if not line.startswith("advertised.listeners=")]
            changed = {"process.roles": "controller", "listeners": listener}
            lines = [
                f"{line.split('=')[0]}={changed.get(line.split('=')[0], line.partition('=')[2])}" for line in lines
            ]
            path.write_text("\n".join(lines) + "\n")
        return path


@pytest.mark.real_kafka
@pytest.mark.slow
def test_a_controller_apart_that_is_dead(
    kafka_jars: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kafka_jars
    monkeypatch.setattr(broker_causes, "_BEHIND_MS", 1000)
    nodes = _OneControllerApart(tmp_path, 3)
    try:
        for node in (1, 2, 3):
            nodes.format(node)
            nodes.start_node(node, wait=False)
        nodes.wait_for_node(1)
        nodes.wait_for_node(2)
        bootstrap = ",".join(f"127.0.0.1:{port}" for port in nodes.ports[:2])
        eventually(lambda: set(alive(bootstrap)) == {1, 2}, 60)
        eventually(lambda: caught_up_ms(bootstrap, 3) > 0, 60)
        nodes.kill(3)
        # If it was the active controller, another one is elected, from which it never fetches.
        eventually(lambda: leader_of(bootstrap) in (1, 2), 60)
        eventually(lambda: caught_up_ms(bootstrap, leader_of(bootstrap)) - caught_up_ms(bootstrap, 3) > 1000, 60)
        verdict = only_cause(bootstrap)
        ever = caught_up_ms(bootstrap, 3) >= 0
    finally:
        nodes.stop()
    assert verdict["cause"] == "voter-behind"
    state = "has not caught up for " if ever else "has not fetched since controller "
    assert verdict["sentence"].startswith(f"Voter 3 of the controller quorum {state}")


def leader_of(bootstrap: str) -> int:
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        return describe_metadata_quorum(admin).leader_id


def caught_up_ms(bootstrap: str, voter: int) -> int:
    with AdminClient(bootstrap, {}, SystemClock()) as admin:
        voters = describe_metadata_quorum(admin).voters
    return next((one.last_caught_up_timestamp for one in voters if one.id == voter), -1)
