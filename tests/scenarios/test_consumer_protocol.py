"""Other people's consumers with the consumer protocol (KIP-848) against the broker, also when it is killed, and a group
in which both protocols meet."""

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


def fill(broker: Any, topic: str) -> None:
    """A topic of 4 partitions with 25 records each."""
    address = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
    assert broker.kt("topics", *address, "--create", "--partitions", "4").returncode == 0
    keys = ["key0", "key1", "key2", "key3"]  # one for each of 4 partitions
    lines = "".join(f"{key}:{key} {i}\n" for i in range(25) for key in keys)
    reading = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    done = broker.kt("console-producer", *address, *reading, stdin=lines.encode())
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("protocols", ["consumer,consumer", "classic,consumer"])
def test_librdkafka_members_share_the_partitions(make_broker: Any, protocols: str) -> None:
    if subprocess.run([PYTHON, "-c", "import confluent_kafka"], capture_output=True, check=False).returncode:
        require(f"{PYTHON} has no confluent_kafka")
    broker = make_broker()
    broker.start(group_consumer_min_heartbeat_interval_ms="500", group_consumer_heartbeat_interval_ms="500")
    fill(broker, "shared")
    command = [PYTHON, str(CLIENTS / "confluent_group.py"), broker.bootstrap, "shared", "members", protocols]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (0, b"ok\n"), done.stdout.decode() + done.stderr.decode()


@pytest.mark.real_kafka
def test_java_consumers_read_through_a_group_that_survives_the_broker(broker: Any, kafka_tool: Any) -> None:
    def tool(name: str, *args: str) -> str:
        done = kafka_tool(name, "--bootstrap-server", broker.bootstrap, *args)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return str(done.stdout.decode())

    def consume(count: int) -> list[str]:
        text = tool("console-consumer", "--topic", "words", "--group", "new", "--from-beginning", "--max-messages",
                    str(count), "--timeout-ms", "120000", "--command-property", "group.protocol=consumer")  # fmt: skip
        return text.splitlines()

    fill(broker, "words")
    first = consume(60)
    broker.kill()
    broker.start()
    both = sorted(first + consume(40))
    assert both == sorted(f"{key} {i}" for i in range(25) for key in ("key0", "key1", "key2", "key3"))
    described = tool("consumer-groups", "--describe", "--group", "new")
    assert {line.split()[5] for line in described.splitlines() if line.startswith("new")} == {"0"}
    assert "Consumer" in tool("consumer-groups", "--list", "--type", "consumer", "--state")
    assert "Empty" in tool("consumer-groups", "--describe", "--group", "new", "--state")
    tool("consumer-groups", "--group", "new", "--delete-offsets", "--topic", "words:0")
    tool("consumer-groups", "--delete", "--group", "new")
    assert tool("consumer-groups", "--list").split() == []
