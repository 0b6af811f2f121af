"""Other people's clients write to and read from a cluster of three while its nodes are killed, paused, stopped and
brought back, one at a time: what was acknowledged is there, once and in order.

KT_CLIENTS_PYTHON names an interpreter that has kafka-python, confluent-kafka and aiokafka (default: this one).
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from support.requirements import require
from support.waiting import PATIENCE_S, eventually

import kafkatools
from kafkatools.core.errors import PartialFailure, UnknownTopicOrPartition

CLIENTS = pathlib.Path(__file__).parent / "clients"
PYTHON = os.environ.get("KT_CLIENTS_PYTHON", sys.executable)
PARTITIONS = 3
MODULES = {"confluent_kafka": PYTHON, "kafka_python": PYTHON, "aiokafka": PYTHON, "kafkatools": sys.executable}
SETTINGS = {
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
}


def make_topic(admin: kafkatools.Admin, name: str) -> None:
    admin.create_topics(kafkatools.NewTopic(name, PARTITIONS, 3))


def hold(admin: kafkatools.Admin, topics: list[str], condition: Callable[[Any], bool]) -> bool:
    """Whether a condition holds for every partition. A broker may not know a topic yet: then it does not hold yet."""
    try:
        described = admin.describe_topics(topics)
    except (PartialFailure, UnknownTopicOrPartition):
        return False
    return all(condition(part) for topic in described.values() for part in topic.partitions)


def is_whole(admin: kafkatools.Admin, topics: list[str]) -> bool:
    """Whether every replica is in sync."""
    return hold(admin, topics, lambda part: len(part.isr) == 3)


def read_all(cluster: kafkatools.EmbeddedCluster, topic: str) -> list[list[int]]:
    """The numbers in each partition, in their order."""
    partitions = [(topic, number) for number in range(PARTITIONS)]
    found: list[list[int]] = [[] for _ in partitions]
    with kafkatools.Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        for record in consumer.read_to_end():
            found[record.partition].append(int(record.value))
    return found


def trouble(cluster: kafkatools.EmbeddedCluster, admin: kafkatools.Admin, topics: list[str]) -> None:
    """Each node has something happen to it, and the others are whole again before the next one."""
    cluster.kill(1)
    eventually(lambda: hold(admin, topics, lambda part: part.leader != 1))
    assert cluster.restart(1)
    eventually(lambda: is_whole(admin, topics))
    cluster.stop(2)
    assert cluster.restart(2)
    eventually(lambda: is_whole(admin, topics))
    cluster.pause(3)
    eventually(lambda: hold(admin, topics, lambda part: 3 not in part.isr))
    cluster.resume(3)
    eventually(lambda: is_whole(admin, topics))


@pytest.mark.clients
@pytest.mark.slow
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order(
    cluster: kafkatools.EmbeddedCluster, admin: kafkatools.Admin
) -> None:
    writers = {}
    for library, python in MODULES.items():
        module = "kafka" if library == "kafka_python" else library
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode:
            require(f"{python} has no {module}")
        make_topic(admin, library)
        command = [python, str(CLIENTS / "steady_writer.py"), library, cluster.bootstrap, library, str(PARTITIONS)]
        writers[library] = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        trouble(cluster, admin, list(writers))
    finally:
        told = {library: writer.communicate(timeout=PATIENCE_S)[0] for library, writer in writers.items()}
    for library, output in told.items():
        found: dict[str, Any] = json.loads(output)
        assert found["errors"] == [], library
        assert found["acked"] == list(range(found["sent"])), library
        expected = [list(range(first, found["sent"], PARTITIONS)) for first in range(PARTITIONS)]
        assert read_all(cluster, library) == expected, library


@pytest.mark.clients
def test_kcat_reads_from_the_nodes_that_are_left(cluster: kafkatools.EmbeddedCluster, admin: kafkatools.Admin) -> None:
    if not shutil.which("kcat"):
        require("no kcat")
    make_topic(admin, "kcat")
    lines = "".join(f"{number}\n" for number in range(300))
    command = ["kcat", "-b", cluster.bootstrap, "-t", "kcat"]
    subprocess.run([*command, "-P"], input=lines.encode(), capture_output=True, timeout=60, check=True)
    cluster.kill(2)
    try:
        done = subprocess.run([*command, "-C", "-e", "-q"], capture_output=True, timeout=60, check=True)
        assert sorted(map(int, done.stdout.split())) == list(range(300))
    finally:
        assert cluster.restart(2)


@pytest.mark.real_kafka
@pytest.mark.slow
def test_apache_kafkas_own_producer_and_tools(
    cluster: kafkatools.EmbeddedCluster, admin: kafkatools.Admin, kafka_tool: Any
) -> None:
    """VerifiableProducer goes on while the leader of its partition stops; the tools see the same replicas as kt."""
    make_topic(admin, "verified")
    done = kafka_tool(
        *("verifiable-producer", "--bootstrap-server", cluster.bootstrap, "--topic", "verified"),
        *("--max-messages", "600", "--acks", "-1"),
    )
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["name"], summary["sent"], summary["acked"]) == ("tool_data", 600, 600)
    eventually(lambda: is_whole(admin, ["verified"]))
    shown = kafka_tool("topics", "--bootstrap-server", cluster.bootstrap, "--describe", "--topic", "verified")
    assert shown.stdout.decode().count("Isr: ") == PARTITIONS
    quorum = kafka_tool("metadata-quorum", "--bootstrap-server", cluster.bootstrap, "describe", "--replication")
    assert sorted(line.split()[0] for line in quorum.stdout.decode().splitlines()[1:]) == ["1", "2", "3"]
