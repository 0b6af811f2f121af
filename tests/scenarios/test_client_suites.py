"""Scenario suites of other people's clients: admin, groups, seek and offsets, transactions. Each script checks what it
sees itself, and runs against the embedded broker and against Apache Kafka with the same expectations.

KT_CLIENTS_PYTHON names an interpreter that has kafka-python, confluent-kafka and aiokafka (default: this one).
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support import apache_kafka
from support.requirements import require
from support.waiting import PATIENCE_S

CLIENTS = pathlib.Path(__file__).parent / "clients"
PYTHON = os.environ.get("KT_CLIENTS_PYTHON", sys.executable)
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
SUITES = {  # the script: its module, and the brokers that no other test runs it against
    "confluent_admin.py": ("confluent_kafka", ["apache"]),
    "confluent_offsets.py": ("confluent_kafka", ["embedded", "apache"]),
    "confluent_transactions.py": ("confluent_kafka", ["apache"]),
    "kafka_python_admin.py": ("kafka", ["apache"]),
    "kafka_python_offsets.py": ("kafka", ["embedded", "apache"]),
    "aiokafka_offsets.py": ("aiokafka", ["embedded", "apache"]),
    "aiokafka_transactions.py": ("aiokafka", ["apache"]),
}
MARKS = {"embedded": [], "apache": [pytest.mark.real_kafka]}
CASES = [
    pytest.param(broker, module, script, marks=MARKS[broker], id=f"{script[:-3]}-{broker}")
    for script, (module, brokers) in SUITES.items()
    for broker in brokers
]
WITH_COPIES = {"confluent_transactions.py", "aiokafka_transactions.py"}
pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def embedded(broker_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The embedded broker, one for the module."""
    broker = broker_process(tmp_path_factory.mktemp("embedded"))
    broker.start(**{name.replace(".", "_"): value for name, value in SETTINGS.items()})
    yield broker.bootstrap
    broker.stop()


@pytest.fixture(scope="module")
def apache(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Apache Kafka with the same settings, one for the module."""
    assert kafka_jars
    cluster = apache_kafka.ApacheKafka(tmp_path_factory.mktemp("apache"), settings=SETTINGS)
    cluster.start()
    yield cluster.bootstrap
    cluster.stop()


@pytest.fixture(scope="module")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The one that is named."""
    return str(request.getfixturevalue(request.param))


@functools.cache
def has(module: str) -> bool:
    return subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def run(*command: str, env: dict[str, str] | None = None) -> str:
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, env=environment, check=False)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return done.stdout.decode()


def make_topics(bootstrap: str, *topics: str) -> None:
    for topic in topics:
        run(sys.executable, "-m", "kafkatools", "topics", "--bootstrap-server", bootstrap, "--create", "--topic", topic)


@pytest.mark.parametrize(("bootstrap", "module", "script"), CASES, indirect=["bootstrap"])
def test_a_suite_sees_the_same_of_both(bootstrap: str, module: str, script: str) -> None:
    if not has(module):
        require(f"{PYTHON} has no {module}")
    topic = "suite-" + script[:-3].replace("_", "-")
    if script in WITH_COPIES:
        make_topics(bootstrap, topic, topic + "-copies")
    assert run(PYTHON, str(CLIENTS / script), bootstrap, topic) == "ok\n"


@pytest.mark.parametrize("bootstrap", ["embedded", pytest.param("apache", marks=pytest.mark.real_kafka)], indirect=True)
def test_kafkajs_commits_aborts_and_is_fenced(bootstrap: str, kafkajs_modules: str) -> None:
    script = str(CLIENTS / "kafkajs_transactions.js")
    assert run("node", script, bootstrap, "suite-kafkajs", env={"NODE_PATH": kafkajs_modules}).endswith("ok\n")


@pytest.mark.real_kafka
def test_apache_kafkas_verifiable_clients_agree(embedded: str, kafka_tool: Any) -> None:
    """What the one says was acknowledged is what the other, with the consumer protocol, says it has read."""
    make_topics(embedded, "verified")
    place = ("--bootstrap-server", embedded, "--topic", "verified", "--max-messages", "500")
    sent = kafka_tool("verifiable-producer", *place, "--acks", "-1")
    assert sent.returncode == 0, sent.stderr.decode()
    acknowledged = [each["value"] for each in _events(sent.stdout) if each["name"] == "producer_send_success"]
    assert acknowledged == [str(number) for number in range(500)]
    read = kafka_tool(
        "verifiable-consumer", *place, "--group-id", "verifiers", "--group-protocol", "consumer", "--verbose"
    )
    assert read.returncode == 0, read.stderr.decode()
    seen = [each["value"] for each in _events(read.stdout) if each["name"] == "record_data"]
    assert seen == acknowledged
    commits = [each for each in _events(read.stdout) if each["name"] == "offsets_committed"]
    assert commits[-1]["success"] and commits[-1]["offsets"][0]["offset"] == 500


def _events(printed: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines() if line.startswith(b"{")]
