"""Apache Kafka's share consumers and its tool for share groups against the broker, also when it is killed."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

pytestmark = pytest.mark.real_kafka
COUNT = 100


def test_share_consumers_read_every_record_also_when_the_broker_is_killed(broker: Any, kafka_tool: Any) -> None:
    def tool(name: str, *args: str) -> str:
        done = kafka_tool(name, "--bootstrap-server", broker.bootstrap, *args)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return str(done.stdout.decode())

    def consume(count: int) -> list[str]:
        return tool(
            "console-share-consumer", "--topic", "jobs", "--group", "workers", "--max-messages", str(count),
            "--timeout-ms", "120000",
        ).splitlines()  # fmt: skip

    address = ("--bootstrap-server", broker.bootstrap, "--topic", "jobs")
    assert broker.kt("topics", *address, "--create", "--partitions", "2").returncode == 0
    lines = "".join(f"job {i}\n" for i in range(COUNT)).encode()
    assert broker.kt("console-producer", *address, "--batch-size", "64", stdin=lines).returncode == 0
    begin = ("--alter", "--group", "workers", "--add-config", "share.auto.offset.reset=earliest")
    tool("configs", *begin)
    first = consume(60)
    broker.kill()
    broker.start()
    counts = Counter(first + consume(COUNT - len(first)))
    assert counts == Counter(f"job {i}" for i in range(COUNT))

    assert tool("share-groups", "--list").split() == ["workers"]
    assert "Empty" in tool("share-groups", "--describe", "--group", "workers", "--state")
    described = tool("share-groups", "--describe", "--group", "workers", "--offsets")
    rows = [line.split() for line in described.splitlines() if line.startswith("workers")]
    assert [(row[1], row[-1]) for row in rows] == [("jobs", "0")] * 2
    tool("share-groups", "--reset-offsets", "--group", "workers", "--topic", "jobs", "--to-earliest", "--execute")
    verified = tool(
        "verifiable-share-consumer", "--topic", "jobs", "--group-id", "workers", "--max-messages", str(COUNT),
        "--acknowledgement-mode", "sync",
    )  # fmt: skip
    events = [json.loads(line) for line in verified.splitlines()]
    acknowledged = [event["count"] for event in events if event["name"] == "offsets_acknowledged" and event["success"]]
    assert sum(acknowledged) == COUNT
    tool("share-groups", "--delete", "--group", "workers")
    assert tool("share-groups", "--list").split() == []
