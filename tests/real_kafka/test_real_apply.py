"""kt apply against Apache Kafka and the embedded broker: the same rows, and the same file back."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.apache_kafka import ApacheKafka
from support.embedded import embedded_broker
from support.kt import Ran, run_kt

from kafkatools.exit_status import ExitStatus

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module", params=["embedded", "apache"])
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("broker")
    if request.param == "embedded":
        settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
        with embedded_broker(directory, **settings) as address:
            yield address
        return
    request.getfixturevalue("kafka_jars")
    cluster = ApacheKafka(directory, 1, SETTINGS)
    cluster.start()
    yield cluster.bootstrap
    cluster.stop()


BEFORE = """
[topics.orders]
partitions = 2
replication = 1
configs."retention.ms" = "7d"
configs."cleanup.policy" = "compact,delete"

[topics."shop.events"]
partitions = 1

[topics.wide]
replication = 2

[[acls]]
principal = ["User:alice", "User:bob"]
topic = "shop."
pattern = "prefixed"
operations = ["Read", "DescribeConfigs"]

[[quotas]]
user = "alice"
client-defaults = true
producer_byte_rate = 1024
request_percentage = 12.5

[[quotas]]
ip = "10.0.0.1"
connection_creation_rate = 5

[users.alice]
SCRAM-SHA-256 = {password-env = "PW"}
"""
AFTER = (
    BEFORE.replace("partitions = 2", "partitions = 3")
    .replace('"7d"', '"1d"')
    .replace("12.5", "13")
    .replace(', "User:bob"', "")
    .replace("[topics.wide]\nreplication = 2\n", "")
    .replace('configs."cleanup.policy" = "compact,delete"', "")
)
FILE = """\
[topics.orders]
partitions = 3
replication = 1
configs."retention.ms" = 86400000

[topics."shop.events"]
partitions = 1
replication = 1

[[acls]]
principal = "User:alice"
topic = "shop."
pattern = "prefixed"
operations = ["DescribeConfigs", "Read"]

[[quotas]]
ip = "10.0.0.1"
connection_creation_rate = 5

[[quotas]]
user = "alice"
client-defaults = true
producer_byte_rate = 1024
request_percentage = 13

[users.alice]
SCRAM-SHA-256.iterations = 4096
"""


def _short(row: dict[str, Any]) -> tuple[str, str, str, str, int]:
    """Kind, name, action, outcome and the number of dangers of a row."""
    target = row["target"]
    name = target.get("topic") or target.get("operation") or target.get("user") or target.get("ip")
    return row["kind"], name, row["action"], row["outcome"], len(row["dangers"])


@pytest.mark.real_kafka
def test_a_cluster_becomes_what_files_declare(bootstrap: str, tmp_path: pathlib.Path) -> None:
    def kt(text: str, *words: str, status: ExitStatus = ExitStatus.OK) -> Ran:
        (tmp_path / "state.toml").write_text(text)
        files = ("state.toml",) if text else ()
        environ = {"PW": "open sesame"}
        ran = run_kt("apply", "--bootstrap-server", bootstrap, *files, *words, cwd=tmp_path, environ=environ)
        assert ran.status == status, (ran.out, ran.err)
        return ran

    def rows(ran: Ran) -> list[dict[str, Any]]:
        return [json.loads(line) for line in ran.out.splitlines()]

    first = rows(kt(BEFORE, "--json", status=ExitStatus.FAILED))
    assert [_short(row) for row in first] == [
        ("user", "alice", "create", "done", 0),
        ("topic", "orders", "create", "done", 0),
        ("topic", "shop.events", "create", "done", 0),
        ("acl", "READ", "create", "done", 0),
        ("acl", "DESCRIBE_CONFIGS", "create", "done", 0),
        ("acl", "READ", "create", "done", 0),
        ("acl", "DESCRIBE_CONFIGS", "create", "done", 0),
        ("quotas", "alice", "create", "done", 0),
        ("quotas", "10.0.0.1", "create", "done", 0),
        ("topic", "wide", "impossible", "not tried", 0),
    ]
    assert first[-1]["reason"].startswith("Unable to replicate the partition 2 time(s)")
    again = rows(kt(BEFORE, "--check", "--json", status=ExitStatus.FINDINGS))
    assert [_short(row) for row in again] == [("topic", "wide", "create", "planned", 0)]

    second = rows(kt(AFTER, "--prune", "--yes", "--json"))
    assert [_short(row) for row in second] == [
        ("topic", "orders", "change", "done", 1),  # partitions
        ("topic", "orders", "change", "done", 1),  # retention
        ("topic", "orders", "change", "done", 1),  # the override of cleanup.policy
        ("quotas", "alice", "change", "done", 0),
        ("acl", "DESCRIBE_CONFIGS", "delete", "done", 1),
        ("acl", "READ", "delete", "done", 1),
    ]
    assert [change["changes"] for change in second[:2]] == [
        [{"name": "partitions", "old": 2, "new": 3}],
        [{"name": "retention.ms", "old": "604800000", "new": "86400000"}],
    ]
    kt(AFTER, "--prune", "--check")
    assert kt("", "--from-cluster").out == FILE
    kt(FILE, "--prune", "--check")
