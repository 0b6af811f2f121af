"""The names of the clients' metrics against those of Apache Kafka 4.3.1 (tests/golden/client-metrics/names.tsv)."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator, Mapping

import pytest
from support.embedded import embedded_broker

from kafkatools import Admin, MetricName, MetricValues, NewTopic, Producer

GOLDEN = pathlib.Path(__file__).parents[3] / "golden" / "client-metrics" / "names.tsv"
LEFT_OUT = {
    r"io-.*|select-.*": "the time accounting of Java's selector; two more clock readings for each poll",
    r".*reauth.*": "a session ends with a new authentication, which successful-authentication counts",
    r"commit-id|version|start-time-ms": "the build of the Java client and its start; kafkatools.__version__",
}
"""Names of Kafka's metrics that our clients lack, as patterns, with the reason."""

Name = tuple[str, str, str]


def kafkas(client: str) -> set[Name]:
    """Group, name and tag keys of a Java client's metrics, without those that are left out."""
    rows = [line.split("\t") for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    return {
        (group, name, tags)
        for owner, group, name, tags in rows
        if owner == client and not any(re.fullmatch(pattern, name) for pattern in LEFT_OUT)
    }


def ours(values: Mapping[MetricName, float]) -> set[Name]:
    return {(name.group, name.name, ",".join(key for key, _ in name.tags)) for name in values}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("metrics")) as address:
        with Admin(bootstrap_servers=address) as admin:
            admin.create_topics([NewTopic("t", 1)])
        with Producer(bootstrap_servers=address, client_id="first") as producer:
            producer.send("t", b"value").result()
        yield address


def test_producer_has_the_metrics_of_kafkas(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap, client_id="app") as producer:
        producer.send("t", b"value").result()
        values = producer.metrics()
    assert ours(values) == kafkas("producer")
    assert all(name.tag("client-id") == "app" for name in values)


def test_admin_has_the_metrics_of_kafkas(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap, client_id="app") as admin:
        admin.describe_cluster()
        values = admin.metrics()
    assert ours(values) == kafkas("admin")


def test_values_are_those_of_the_topic_and_of_the_node(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap, client_id="app") as producer:
        for _ in range(3):
            producer.send("t", b"value").result()
        values = producer.metrics()
    tags = {"client-id": "app"}
    assert values["record-send-total"] == 3
    assert values[MetricName.of("record-send-total", "producer-topic-metrics", {**tags, "topic": "t"})] == 3
    assert values[MetricName.of("request-total", "producer-node-metrics", {**tags, "node-id": "node-1"})] >= 3
    assert values["request-total"] == values["response-total"]
    assert values["connection-count"] == values["connection-creation-total"] >= 1
    assert values["record-error-total"] == 0
    assert values["count"] == len(values)


def test_every_reason_is_needed() -> None:
    names = {line.split("\t")[2] for line in GOLDEN.read_text().splitlines() if not line.startswith("#")}
    assert [pattern for pattern in LEFT_OUT if not any(re.fullmatch(pattern, name) for name in names)] == []


def test_a_plain_name_finds_no_metric_of_a_topic(bootstrap: str) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send("t", b"value").result()
        values: MetricValues = producer.metrics()
    assert "byte-total" not in values
    with pytest.raises(KeyError, match="byte-total"):
        values["byte-total"]
