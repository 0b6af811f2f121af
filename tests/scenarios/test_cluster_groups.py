"""Other people's clients in groups and transactions on a cluster of three, while the nodes that coordinate them are
killed: everybody reads everything, and what was committed is seen once.

KT_CLIENTS_PYTHON names an interpreter that has confluent-kafka (default: this one).
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

import pytest
from support import apache_kafka
from support.requirements import require
from support.waiting import PATIENCE_S, eventually

import kafkatools

CLIENTS = pathlib.Path(__file__).parent / "clients"
PYTHON = os.environ.get("KT_CLIENTS_PYTHON", sys.executable)
PARTITIONS, COUNT = 3, 300
SETTINGS = {
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


class Member:
    """A consumer of its own group, whose lines are the values it reads."""

    def __init__(self, path: pathlib.Path, command: Sequence[str]) -> None:
        self._path = path
        with path.open("wb") as out, path.with_suffix(".err").open("wb") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err)

    def read(self) -> set[int]:
        lines = self._path.read_text().splitlines()
        return {int(line) for line in lines if line.isdigit()}

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def write(cluster: kafkatools.EmbeddedCluster, topic: str, first: int, last: int) -> None:
    with kafkatools.Producer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number in range(first, last):
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)


def read_through_kills(
    cluster: kafkatools.EmbeddedCluster, topic: str, commands: Mapping[str, Sequence[str]], directory: pathlib.Path
) -> None:
    """Every member reads all that is written, though nodes are killed."""
    members = {name: Member(directory / name, command) for name, command in commands.items()}
    try:
        for round_, node in enumerate(cluster.node_ids[:2]):
            write(cluster, topic, round_ * COUNT, (round_ + 1) * COUNT)
            eventually(lambda: all(len(member.read()) == (round_ + 1) * COUNT for member in members.values()))  # noqa: B023
            cluster.kill(node)
            write(cluster, topic, (round_ + 1) * COUNT, (round_ + 1) * COUNT + 1)
            assert cluster.restart(node)
        assert [member.process.poll() for member in members.values()] == [None] * len(members)
    finally:
        for member in members.values():
            member.stop()


def kt_consumer(cluster: kafkatools.EmbeddedCluster, topic: str, protocol: str) -> list[str]:
    command = [sys.executable, "-m", "kafkatools", "console-consumer", "--bootstrap-server", cluster.bootstrap]
    options = ["--topic", topic, "--group", f"kt-{protocol}", "--from-beginning"]
    return [*command, *options, "--command-property", f"group.protocol={protocol}"]


@pytest.mark.clients
@pytest.mark.real_kafka
@pytest.mark.slow
def test_members_of_every_client_go_on_when_coordinators_are_killed(
    cluster: kafkatools.EmbeddedCluster, admin: kafkatools.Admin, kafka_jars: str, tmp_path: pathlib.Path
) -> None:
    assert kafka_jars
    if not shutil.which("kcat"):
        require("no kcat")
    admin.create_topics(kafkatools.NewTopic("read", PARTITIONS, 3))
    group = ["-G", "kcat", "-q", "-u", "-X", "auto.offset.reset=earliest"]
    options = ["--bootstrap-server", cluster.bootstrap, "--topic", "read", "--group", "java", "--from-beginning"]
    commands = {
        "java": apache_kafka.command("console-consumer", *options, heap="128m"),
        "kt": kt_consumer(cluster, "read", "classic"),
        "kt-consumer": kt_consumer(cluster, "read", "consumer"),
        "kcat": ["kcat", "-b", cluster.bootstrap, *group, "read"],
    }
    read_through_kills(cluster, "read", commands, tmp_path)


@pytest.mark.clients
@pytest.mark.slow
def test_what_was_committed_is_seen_once_though_coordinators_are_killed(
    cluster: kafkatools.EmbeddedCluster, admin: kafkatools.Admin
) -> None:
    if subprocess.run([PYTHON, "-c", "import confluent_kafka"], capture_output=True, check=False).returncode:
        require(f"{PYTHON} has no confluent_kafka")
    admin.create_topics(kafkatools.NewTopic("paid", PARTITIONS, 3))
    script = str(CLIENTS / "confluent_steady_transactions.py")
    writer = subprocess.Popen(
        [PYTHON, script, cluster.bootstrap, "paid", str(PARTITIONS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        ends = lambda: sum(cluster_ends(cluster).values())  # noqa: E731
        for node in cluster.node_ids[:2]:
            before = ends()
            eventually(lambda: ends() > before + 20)  # noqa: B023
            cluster.kill(node)
            between = ends()
            eventually(lambda: ends() > between + 20)  # noqa: B023
            assert cluster.restart(node)
    finally:
        output, errors = writer.communicate(timeout=PATIENCE_S)
    assert writer.returncode == 0, errors.decode()
    told = json.loads(output)
    seen: list[int] = []
    with kafkatools.Consumer(bootstrap_servers=cluster.bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([("paid", number) for number in range(PARTITIONS)])
        consumer.seek_to_beginning()
        seen = sorted(int(record.value) for record in consumer.read_to_end())
    assert seen == sorted(told["committed"])
    assert told["aborted"] and len(told["committed"]) > 100


def cluster_ends(cluster: kafkatools.EmbeddedCluster) -> dict[tuple[str, int], int]:
    """How far the topic of the transactions reaches."""
    with kafkatools.Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        return dict(consumer.end_offsets([("paid", number) for number in range(PARTITIONS)]))
