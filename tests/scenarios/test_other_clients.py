"""Other people's clients talk to the broker: each produces to it, reads back by assignment what it wrote, and checks
the result itself.

KT_CLIENTS_PYTHON names an interpreter that has kafka-python, confluent-kafka and aiokafka (default: this one).
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest
from support.requirements import require

CLIENTS = pathlib.Path(__file__).parent / "clients"
PYTHON = os.environ.get("KT_CLIENTS_PYTHON", sys.executable)
pytestmark = pytest.mark.clients


def run(command: list[str], stdin: bytes = b"", env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, input=stdin, capture_output=True, timeout=90, env={**os.environ, **(env or {})}, check=False
    )
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return done.stdout.decode()


@pytest.mark.parametrize(
    ("module", "script"),
    [
        ("kafka", "kafka_python_client.py"),
        ("confluent_kafka", "confluent_client.py"),
        ("aiokafka", "aiokafka_client.py"),
    ],
)
def test_python_clients_read_back_what_they_wrote(broker: Any, module: str, script: str) -> None:
    if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        require(f"{PYTHON} has no {module}")
    assert run([PYTHON, str(CLIENTS / script), broker.bootstrap, "from-" + module.replace("_", "-")]) == "ok\n"


def test_kafkajs_creates_produces_and_asks_for_offsets(broker: Any, kafkajs_modules: str) -> None:
    command = ["node", str(CLIENTS / "kafkajs_client.js"), broker.bootstrap, "from-kafkajs"]
    assert run(command, env={"NODE_PATH": kafkajs_modules}) == "ok\n"


def test_kcat_creates_the_topic_by_producing_and_reads_it_back(broker: Any) -> None:
    if not shutil.which("kcat"):
        require("no kcat")
    lines = "".join(f"key{i}:value {i}\n" for i in range(1000))
    run(["kcat", "-P", "-b", broker.bootstrap, "-t", "from-kcat", "-K:", "-z", "snappy"], lines.encode())
    assert run(["kcat", "-C", "-b", broker.bootstrap, "-t", "from-kcat", "-p", "0", "-e", "-q", "-K:"]) == lines
    assert "from-kcat" in run(["kcat", "-L", "-b", broker.bootstrap])


def test_old_librdkafka_protocol_versions_are_served(broker: Any) -> None:
    """Without ApiVersions kcat falls back to the versions of an old broker: Produce 2 is not served, the client says
    so and the broker lives on."""
    if not shutil.which("kcat"):
        require("no kcat")
    run(["kcat", "-P", "-b", broker.bootstrap, "-t", "still-there"], b"x\n")
    subprocess.run(
        ["kcat", "-P", "-b", broker.bootstrap, "-t", "still-there", "-X", "api.version.request=false",
         "-X", "broker.version.fallback=0.9.0", "-X", "message.timeout.ms=1000"],
        input=b"y\n", capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert run(["kcat", "-C", "-b", broker.bootstrap, "-t", "still-there", "-p", "0", "-e", "-q"]) == "x\n"


@pytest.mark.real_kafka
def test_apache_kafkas_console_and_perf_tools(broker: Any, kafka_tool: Any) -> None:
    def tool(name: str, *args: str, stdin: bytes = b"") -> str:
        done = kafka_tool(name, "--bootstrap-server", broker.bootstrap, *args, stdin=stdin)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return str(done.stdout.decode())

    assert tool("topics", "--create", "--topic", "words", "--partitions", "1") == "Created topic words.\n"
    words = "".join(f"word {i}\n" for i in range(500))
    tool("console-producer", "--topic", "words", stdin=words.encode())
    read = tool(
        "console-consumer", "--topic", "words", "--partition", "0", "--offset", "earliest", "--max-messages", "500"
    )
    assert read == words
    assert tool("get-offsets", "--topic", "words") == "words:0:500\n"
    report = tool(
        "producer-perf-test", "--topic", "perf", "--num-records", "20000", "--record-size", "100", "--throughput", "-1"
    )
    assert "20000 records sent" in report
    assert tool("get-offsets", "--topic", "perf", "--time", "earliest") == "perf:0:0\n"
    assert tool("get-offsets", "--topic", "perf") == "perf:0:20000\n"
