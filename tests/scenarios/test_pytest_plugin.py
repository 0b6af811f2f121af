"""The fixtures of pytest and the test case of unittest, in runs of their own as other projects have them; every example
of docs/testing.md among them."""

from __future__ import annotations

import gc
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Mapping
from subprocess import PIPE
from typing import Any

import pytest
from support.ports import free_port
from support.waiting import PATIENCE_S, eventually

import kafkatools
from kafkatools.errors import ConnectionFailed, Timeout
from kafkatools.testing import Kafka

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
CLIENTS = "import aiokafka"


def run(directory: pathlib.Path, *arguments: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Exit status and output of a program, with the package installed as pip would: a folder with its entry points."""
    installed = directory / "installed" / "kafkatools-0.dist-info"
    if not installed.exists():
        installed.mkdir(parents=True)
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: kafkatools\nVersion: 0\n")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        plugins = project["entry-points"]["pytest11"]
        lines = [f"{name} = {module}" for name, module in plugins.items()]
        (installed / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
        (directory / "pytest.ini").write_text(f"[pytest]\nfaulthandler_timeout = {PATIENCE_S // 2}\n")
    path = os.pathsep.join([str(installed.parent), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, **(env or {})}
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, cwd=directory, env=environment, stdout=PIPE, stderr=PIPE, text=True) as child:
        try:
            output = "".join(child.communicate(timeout=PATIENCE_S))
        except subprocess.TimeoutExpired:
            child.kill()
            pytest.fail(f"{command} did not end within {PATIENCE_S} s:\n{''.join(child.communicate())}")
    return child.returncode, output


def run_pytest(directory: pathlib.Path, *arguments: str) -> tuple[int, str]:
    return run(directory, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", *arguments)


def write_examples(directory: pathlib.Path) -> list[str]:
    """The examples as test files, and the one with settings of the broker as conftest.py; returns the test files."""
    names = []
    for number, code in enumerate(EXAMPLES):
        name = "conftest.py" if "def kafka_settings" in code else f"test_example_{number}.py"
        (directory / name).write_text(code)
        if name.startswith("test_"):
            names.append(name)
    return names


@pytest.mark.clients
@pytest.mark.slow
def test_examples_of_the_page_run(tmp_path: pathlib.Path) -> None:
    files = write_examples(tmp_path)
    status, output = run_pytest(tmp_path, "-q", *files)
    tests = sum(len(re.findall(r"^ *def test_", code, re.M)) for code in EXAMPLES)
    assert (status, f"{tests} passed" in output) == (0, True), output
    case = next(name for name in files if "unittest.main" in (tmp_path / name).read_text())
    assert run(tmp_path, case)[0] == 0


REPORTED = """
def test_fails(kafka, kafka_topic):
    kafka_topic.send("paid \\x1b[31m", key=b"\\xff", headers={"source": b"web"})
    kafka_topic.send(None, key="gone")
    with kafka.producer() as producer:
        producer.send("audit", b"x" * 500).result()
    assert not kafka_topic.values()

def test_kills(kafka_broker, kafka_topic):
    kafka_topic.send_many(str(number) for number in range(20))
    kafka_broker.kill()
    raise ValueError("broken")

def test_passes(kafka, kafka_topic):
    assert kafka_topic.values() == [] and not kafka.faults.active()
    assert {topic.name for topic in kafka.admin.list_topics()} == {"audit", kafka_topic}
"""


@pytest.mark.slow
def test_report_and_logs_of_failed_tests(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_it.py").write_text(REPORTED)
    status, output = run_pytest(tmp_path, "--kafka-keep", "kept", "--kafka-records", "3")
    assert (status, "2 failed, 1 passed" in output) == (1, True), output
    (first, second) = re.findall(r"^-+ Kafka -+\n(.*?)(?=^[-_=])", output, re.M | re.S)
    assert re.sub(r"(?<=_fails-)\w{8}", "ID", first).splitlines()[1:] == [
        "test_fails-ID: 2 records",
        r"  0@0 key=b'\xff' paid \x1b[31m source=web",
        "  0@1 key=gone null",
        "audit: 1 record",
        f"  0@0 {'x' * 120}... (500 bytes)",
        f"logs kept in {tmp_path}/kept/test_it.py-test_fails",
    ]
    assert re.sub(r"-\w{8}:", ":", second).splitlines()[1:] == [
        "test_kills: 20 offsets, the last 3 records",
        *["  0@17 17", "  0@18 18", "  0@19 19"],
        f"logs kept in {tmp_path}/kept/test_it.py-test_kills",
    ]
    kept = kafkatools.scan(f"log:{tmp_path}/kept/test_it.py-test_fails", columns=["topic", "value"]).to_arrow()
    assert sorted(len(value or b"") for value in kept["value"].to_pylist()) == [0, 10, 500]
    assert not [path for path in (tmp_path / "kept").iterdir() if path.name.endswith(".partial")]


DELETED = """
def test_1_a_topic(kafka_cluster):
    kafka_cluster.topic("deleted").send("before")

def test_2_all_metadata_after_a_kill(kafka_cluster):
    topic = kafka_cluster.topic("killed")
    topic.send("before")
    kafka_cluster.kill(kafka_cluster.leader(topic))
    topic.send("after")
    assert {topic.name for topic in kafka_cluster.admin.list_topics()} == {"killed"}
"""


@pytest.mark.slow
def test_new_metadata_of_a_producer_creates_no_deleted_topic(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_it.py").write_text(DELETED)
    status, output = run_pytest(tmp_path)
    assert (status, "2 passed" in output) == (0, True), output


SHARED = """
import pytest
@pytest.mark.parametrize("number", range(4))
def test_each_worker_has_a_broker(kafka, kafka_topic, number, worker_id):
    kafka_topic.send(worker_id)
    with open("brokers", "a") as file:
        file.write(f"{worker_id} {kafka.bootstrap_servers}\\n")
    assert [value.decode() for value in kafka_topic.values()] == [worker_id]
"""


@pytest.mark.slow
def test_workers_of_xdist_have_brokers_of_their_own(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_it.py").write_text(SHARED)
    status, output = run_pytest(tmp_path, "-n", "2", "--dist", "each")
    assert status == 0, output
    pairs = {tuple(line.split()) for line in (tmp_path / "brokers").read_text().splitlines()}
    assert len(pairs) == 2 and len({address for _, address in pairs}) == 2


EXTERNAL = """
import time

from kafkatools.testing import KafkaTestCase

NAMES = []

def test_topics_are_made(kafka, kafka_topic, kafka_topic_factory):
    other = kafka_topic_factory("other-", partitions=3, configs={"cleanup.policy": "compact", "preallocate": False})
    other.send("v", key="k")
    kafka_topic.send("42 boxes")
    assert kafka_topic.wait_for(1)[0].value == b"42 boxes"
    with kafka.consumer(other, group_id=other) as consumer:
        assert next(iter(consumer)).key == b"k"
    NAMES.extend([kafka_topic, other])

def test_topics_are_deleted(kafka):
    deadline = time.monotonic() + 240  # Apache Kafka answers a deletion before its metadata has it
    while {topic.name for topic in kafka.admin.list_topics()} & set(NAMES):
        assert time.monotonic() < deadline
    assert len(NAMES) == 2

class TestOfUnittest(KafkaTestCase):
    def test_runs_there_too(self):
        self.kafka_topic.send("42 boxes")
        assert self.kafka_topic.values() == [b"42 boxes"] and not self.kafka.is_embedded

    def test_faults_are_skipped(self):
        self.kafka_faults.add("delay", delay_ms=1)

def test_faults(kafka_faults): ...
def test_broker(kafka_broker): ...
def test_cluster(kafka_cluster): ...

def test_a_failure_shows_the_topic_of_the_test_only(kafka, kafka_topic):
    kafka_topic.send("mine")
    assert False
"""


def check_external(directory: pathlib.Path, bootstrap: str) -> None:
    (directory / "test_it.py").write_text(EXTERNAL)
    status, output = run_pytest(directory, "-rs", "--kafka-bootstrap", bootstrap)
    assert (status, "1 failed, 3 passed, 4 skipped" in output) == (1, True), output
    for fixture in ("kafka_faults", "kafka_broker", "kafka_cluster"):
        assert f"{fixture} needs an embedded broker, and --kafka-bootstrap is {bootstrap}" in output
    (section,) = re.findall(r"^-+ Kafka -+\n(.*?)(?=^[-_=])", output, re.M | re.S)
    assert len(section.splitlines()) == 3 and section.endswith("  0@0 mine\n")


@pytest.mark.slow
def test_tests_run_on_a_broker_that_is_running(tmp_path: pathlib.Path) -> None:
    with kafkatools.EmbeddedBroker() as broker, kafkatools.Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send("of-others", b"x").result()
        check_external(tmp_path, broker.bootstrap)


LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SECURE = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{LOGIN} username="a" password="b" user_a="b";',
}
SIGNED_IN = """
import kafkatools

def test_clients_sign_in(kafka, kafka_topic):
    kafka_topic.send("42 boxes")
    with kafkatools.Consumer({**kafka.client_settings, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([(kafka_topic, 0)])
        assert next(iter(consumer)).value == b"42 boxes"
"""


@pytest.mark.slow
def test_clients_get_the_settings_of_a_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_it.py").write_text(SIGNED_IN)
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    settings["sasl.jaas.config"] = f'{LOGIN} username="a" password="b";'
    lines = [f"{name}={value}" for name, value in settings.items()]
    (tmp_path / "client.properties").write_text("\n".join(lines))
    with kafkatools.EmbeddedBroker(SECURE) as broker:
        address = ("--kafka-bootstrap", broker.bootstrap, "--kafka-config")
        status, output = run_pytest(tmp_path, *address, "client.properties")
        assert (status, "1 passed" in output) == (0, True), output
        (tmp_path / "client.properties").write_text("sasl.mechanisms=PLAIN")
        assert run_pytest(tmp_path, *address, "client.properties")[0] == 4
        status, output = run_pytest(tmp_path, *address, "none.properties")
        assert (status, "--kafka-config none.properties: " in output) == (4, True), output


@pytest.mark.real_kafka
@pytest.mark.slow
def test_tests_run_on_apache_kafka(real_kafka: Any, tmp_path: pathlib.Path) -> None:
    check_external(tmp_path, real_kafka.bootstrap)


def test_records_are_awaited_also_in_a_topic_that_does_not_exist_yet() -> None:
    with Kafka() as kafka, kafka.producer() as producer:
        sending = threading.Timer(0.2, lambda: [producer.send("later", b"%d" % number) for number in range(3)])
        sending.start()
        assert [record.value for record in kafka.wait_for_records("later", 3)] == [b"0", b"1", b"2"]
        sending.join()
        with pytest.raises(Timeout, match="has (3 of 4 .*: b'0', b'1', b'2'$|[0-2] of 4)"):
            kafka.wait_for_records("later", 4, timeout_ms=500)
        with pytest.raises(Timeout, match="never does not exist after 50 ms"):
            kafka.wait_for_records("never", 1, timeout_ms=50)
        with pytest.raises(TypeError, match="int of milliseconds"):
            kafka.wait_for_records("never", 1, timeout_ms=0.5)  # type: ignore[arg-type]


def test_a_wait_for_records_ends_in_time_without_a_response_of_the_broker() -> None:
    with Kafka() as kafka:
        topic = kafka.topic()
        began_s = time.monotonic()
        with kafka.faults.add("drop", api="Metadata"), pytest.raises(Timeout, match="looked up within 200 ms"):
            topic.wait_for(1, timeout_ms=200)
        assert time.monotonic() - began_s < 20  # request.timeout.ms is 30 s


def test_a_topic_that_gets_no_leader_in_time_is_deleted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkatools.testing.kafka.WAIT_MS", 100)
    with Kafka() as kafka:
        with (
            kafka.faults.add("error", api="Metadata", error="LEADER_NOT_AVAILABLE", topic="none-*"),
            kafka.faults.add("error", api="DescribeTopicPartitions", error="LEADER_NOT_AVAILABLE", topic="none-*"),
            pytest.raises(Timeout, match="without a leader after 100 ms"),
        ):
            kafka.topic("none-")
        assert kafka.admin.list_topics() == []


def test_a_kafka_that_does_not_respond_leaves_no_client_open() -> None:
    with pytest.raises(ConnectionFailed):
        Kafka(bootstrap_servers=f"127.0.0.1:{free_port()}")
    gc.collect()  # an open socket is a warning, and so an error


def test_records_with_old_timestamps_stay_unless_the_settings_limit_the_time() -> None:
    checked = {"log.initial.task.delay.ms": 0, "log.retention.check.interval.ms": 100}
    with Kafka(checked) as kept, Kafka({**checked, "log.retention.hours": 1}) as limited:
        for kafka in (kept, limited):
            kafka.topic("old").send("in 1970", timestamp=1000)
        eventually(lambda: limited.records("old") == [])
        assert [record.value for record in kept.records("old")] == [b"in 1970"]


CASES = """
import unittest

from kafkatools.errors import IllegalState
from kafkatools.testing import KafkaTestCase


class OneNode(KafkaTestCase):
    def test_1_killed(self):
        self.kafka_topic.send("before")
        self.kafka_broker.kill()
        with self.assertRaises(IllegalState):
            self.kafka_cluster.kill(1)

    def test_2_runs_again_without_what_was(self):
        self.assertTrue(self.kafka.broker.is_running)
        self.assertEqual(self.kafka.admin.list_topics(), [])


class TwoNodes(KafkaTestCase, unittest.IsolatedAsyncioTestCase):
    kafka_nodes = 2

    async def test_1_killed(self):
        self.assertIs(self.kafka_topic, self.kafka_topic)
        self.kafka_cluster.kill(2)

    async def test_2_runs_again(self):
        self.assertEqual([self.kafka_cluster.nodes_of.state(node) for node in (1, 2)], ["running", "running"])


unittest.main()
"""


@pytest.mark.slow
def test_cases_of_unittest_undo_what_a_test_did(tmp_path: pathlib.Path) -> None:
    (tmp_path / "cases.py").write_text(CASES)
    status, output = run(tmp_path, "cases.py")
    assert (status, "Ran 4 tests" in output) == (0, True), output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--kafka-bootstrap", "localhost"), "--kafka-bootstrap: Invalid url in bootstrap.servers: localhost"),
        (("--kafka-records", "-1"), "--kafka-records: the number of records is 0 or more"),
        (("--kafka-keep", "d", "--kafka-bootstrap", "a:1"), "--kafka-keep needs the embedded broker"),
        (("--kafka-config", "f"), "--kafka-config is for the clients of --kafka-bootstrap, which is missing"),
    ],
)
def test_invalid_options_end_the_run(tmp_path: pathlib.Path, arguments: tuple[str, ...], told: str) -> None:
    (tmp_path / "test_it.py").write_text("def test(): open('ran', 'w')")
    status, output = run_pytest(tmp_path, *arguments)
    assert (status, told in output, (tmp_path / "ran").exists()) == (4, True, False), output


UNUSED = """
import json, sys
def test_unused():
    json.dump(sorted(name for name in sys.modules if name.split(".")[0] == "kafkatools"), open("loaded", "w"))
"""


def test_a_run_without_kafka_loads_one_module(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_it.py").write_text(UNUSED)
    assert run_pytest(tmp_path)[0] == 0
    assert json.loads((tmp_path / "loaded").read_text()) == ["kafkatools", "kafkatools.pytest_plugin"]
    status, output = run_pytest(tmp_path, "-p", "no:kafkatools", "--fixtures")
    assert (status, "kafka_topic" in output) == (0, False)


def test_own_suite_does_without_the_plugin(request: pytest.FixtureRequest) -> None:
    assert not request.config.pluginmanager.has_plugin("kafkatools")
