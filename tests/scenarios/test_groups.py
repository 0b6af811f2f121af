"""Other people's consumers read through groups of the broker: they join, share partitions, commit, and go on where
they stood, also after the broker was restarted or killed.

KT_CLIENTS_PYTHON names an interpreter that has kafka-python and confluent-kafka (default: this one).
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from support.requirements import require
from support.waiting import PATIENCE_S

CLIENTS = pathlib.Path(__file__).parent / "clients"
PYTHON = os.environ.get("KT_CLIENTS_PYTHON", sys.executable)
pytestmark = pytest.mark.clients
OFFSETS_TOPIC = "__consumer_offsets"


def run(command: list[str], env: dict[str, str] | None = None) -> str:
    environment = {**os.environ, **(env or {})}
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, env=environment, check=False)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return done.stdout.decode()


def fill(broker: Any, topic: str) -> None:
    """A topic of 4 partitions with 25 records each, `key:value` lines with one key a partition."""
    assert broker.kt("topics", "--bootstrap-server", broker.bootstrap, "--create", "--topic", topic,
                     "--partitions", "4").returncode == 0  # fmt: skip
    keys = ["key0", "key1", "key2", "key3"]  # one for each of 4 partitions
    lines = "".join(f"{key}:{key} {i}\n" for i in range(25) for key in keys)
    done = broker.kt("console-producer", "--bootstrap-server", broker.bootstrap, "--topic", topic,
                     "--reader-property", "parse.key=true", "--reader-property", "key.separator=:",
                     stdin=lines.encode())  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("module", "script"), [("kafka", "kafka_python_group.py"), ("confluent_kafka", "confluent_group.py")]
)
def test_two_members_share_the_partitions_and_the_last_one_takes_all(broker: Any, module: str, script: str) -> None:
    if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        require(f"{PYTHON} has no {module}")
    fill(broker, "shared")
    assert run([PYTHON, str(CLIENTS / script), broker.bootstrap, "shared", "members"]) == "ok\n"


def test_kafkajs_reads_through_a_group(broker: Any, kafkajs_modules: str) -> None:
    fill(broker, "for-kafkajs")
    command = ["node", str(CLIENTS / "kafkajs_group.js"), broker.bootstrap, "for-kafkajs", "js", "100"]
    assert run(command, env={"NODE_PATH": kafkajs_modules}) == "ok\n"


class Tools:
    """Apache Kafka's tools against a broker."""

    def __init__(self, kafka_tool: Any, broker: Any) -> None:
        self.kafka_tool = kafka_tool
        self.broker = broker

    def __call__(self, name: str, *args: str) -> str:
        done = self.kafka_tool(name, "--bootstrap-server", self.broker.bootstrap, *args)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return str(done.stdout.decode())

    def consume(self, topic: str, group: str, count: int) -> list[str]:
        """So many records through the group, sorted."""
        text = self("console-consumer", "--topic", topic, "--group", group, "--from-beginning",
                    "--max-messages", str(count), "--timeout-ms", "120000")  # fmt: skip
        return sorted(text.splitlines())

    def described(self, group: str) -> dict[int, tuple[str, str, str]]:
        """Current offset, end offset and lag by partition."""
        rows = [line.split() for line in self("consumer-groups", "--describe", "--group", group).splitlines()]
        return {int(row[2]): (row[3], row[4], row[5]) for row in rows if row and row[0] == group}


@pytest.fixture
def tools(kafka_tool: Any, broker: Any) -> Tools:
    """Apache Kafka's tools against the broker."""
    return Tools(kafka_tool, broker)


@pytest.mark.real_kafka
def test_apache_kafkas_tools_use_groups(broker: Any, tools: Tools) -> None:
    fill(broker, "words")
    everything = sorted(f"{key} {i}" for i in range(25) for key in ("key0", "key1", "key2", "key3"))
    assert tools.consume("words", "readers", 100) == everything
    found = tools.described("readers")
    assert sorted(found) == [0, 1, 2, 3]
    assert sum(int(current) for current, _, _ in found.values()) == 100
    assert {lag for _, _, lag in found.values()} == {"0"}
    assert tools("consumer-groups", "--list") == "readers\n"
    assert "Empty" in tools("consumer-groups", "--describe", "--group", "readers", "--state")
    report = tools("consumer-perf-test", "--topic", "words", "--num-records", "100", "--group", "perf",
                   "--timeout", "30000")  # fmt: skip
    assert report.splitlines()[1].split(", ")[4] == "100"
    reset = tools("consumer-groups", "--group", "readers", "--topic", "words", "--reset-offsets", "--to-earliest",
                  "--execute")  # fmt: skip
    assert [line.split()[3] for line in reset.splitlines() if line.startswith("readers")] == ["0"] * 4
    tools("consumer-groups", "--group", "readers", "--delete-offsets", "--topic", "words:0")
    assert sorted(tools.described("readers")) == [1, 2, 3]
    tools("consumer-groups", "--delete", "--group", "readers")
    assert tools("consumer-groups", "--list") == "perf\n"


@pytest.mark.real_kafka
def test_commits_survive_a_restart_and_a_kill_and_are_in_kafkas_format(broker: Any, tools: Tools) -> None:
    fill(broker, "kept")
    tools.consume("kept", "first", 100)
    broker.stop()
    broker.start()
    tools.consume("kept", "second", 60)
    broker.kill()
    broker.start()
    assert sorted(tools("consumer-groups", "--list").split()) == ["first", "second"]
    assert {lag for _, _, lag in tools.described("first").values()} == {"0"}
    assert sum(int(current) for current, _, _ in tools.described("second").values() if current != "-") == 60
    assert len(tools.consume("kept", "second", 40)) == 40
    broker.stop()
    logs = sorted(str(path) for path in broker.directory.glob(f"{OFFSETS_TOPIC}-*/*.log") if path.stat().st_size)
    dumped = tools.kafka_tool("dump-log", "--offsets-decoder", "--files", ",".join(logs))
    assert dumped.returncode == 0
    text = dumped.stdout.decode()
    ours = broker.kt("dump-log", "--offsets-decoder", "--files", ",".join(logs))
    assert ours.stdout.decode() == text
    assert '{"type":"1","data":{"group":"first","topic":"kept","partition":0}}' in text
    assert '"protocolType":"consumer","generation":1,"protocol":"range"' in text
    assert "isvalid: false" not in text
