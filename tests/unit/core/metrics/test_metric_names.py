"""The names of the clients' metrics against those of Apache Kafka 4.3.1 (tests/golden/client-metrics/names.tsv)."""

from __future__ import annotations

import asyncio
import pathlib
import re
from collections.abc import Iterator, Mapping

import pytest
from support.embedded import embedded_broker

from kafkatools import Admin, Consumer, MetricName, MetricValues, NewTopic, Producer, ShareConsumer, aio

GOLDEN = pathlib.Path(__file__).parents[3] / "golden" / "client-metrics" / "names.tsv"
LEFT_OUT = {
    r"io-.*|select-.*": "the time accounting of Java's selector; two more clock readings for each poll",
    r".*reauth.*": "a session ends with a new authentication, which successful-authentication counts",
    r"(application|background)-event.*|time-between-network-thread.*|unsent-requests.*": "the queues between the "
    "threads of Java's consumer; ours polls on the thread of its caller",
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
    with embedded_broker(tmp_path_factory.mktemp("metrics"), group_initial_rebalance_delay_ms="0") as address:
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


def read(bootstrap: str, group: str, protocol: str, count: int = 1) -> MetricValues:
    """The metrics of a member that read and committed records of topic `t`, which has one or more."""
    settings = {"group_id": group, "group_protocol": protocol, "auto_offset_reset": "earliest", "client_id": "app"}
    with Consumer(bootstrap_servers=bootstrap, **settings) as consumer:
        consumer.subscribe(["t"])
        records = 0
        while records < count:
            records += len(consumer.poll(200))
        consumer.commit_sync()
        consumer.committed([("t", 0)])
        return consumer.metrics()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumer_has_the_metrics_of_kafkas(bootstrap: str, protocol: str) -> None:
    values = read(bootstrap, f"names-{protocol}", protocol)
    assert ours(values) == kafkas(f"consumer-{protocol}")
    part = {"client-id": "app", "topic": "t", "partition": "0"}
    assert values[MetricName.of("records-lag", "consumer-fetch-manager-metrics", part)] == 0
    assert values[MetricName.of("records-lead", "consumer-fetch-manager-metrics", part)] >= 1
    assert values[MetricName.of("preferred-read-replica", "consumer-fetch-manager-metrics", part)] == -1
    assert (values["assigned-partitions"], values["rebalance-total"], values["commit-total"]) == (1, 1, 1)
    assert values["rebalance-rate-per-hour"] == pytest.approx(1, rel=0.01)
    assert values.get("join-total", 1) == values.get("sync-total", 1) == 1  # the join without a member id was refused
    assert values["records-consumed-total"] >= 1
    assert values["bytes-consumed-total"] > values["records-consumed-total"]
    assert values["heartbeat-total"] >= (protocol == "consumer")
    assert values["commit-sync-time-ns-total"] > 0
    assert values["committed-time-ns-total"] > 0
    assert 0 < values["poll-idle-ratio-avg"] <= 1


def test_metrics_of_partitions_end_with_their_assignment(bootstrap: str) -> None:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([("t", 0)])
        while not consumer.poll(200):
            pass
        assert any(name.tag("partition") == "0" for name in consumer.metrics())
        consumer.assign([("other", 0)])
        consumer.poll(0)
        assert {name.tag("topic") for name in consumer.metrics() if name.tag("partition")} == {"other"}


@pytest.mark.slow
def test_share_consumer_has_the_metrics_of_kafkas(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_configs({("group", "shared"): {"share.auto.offset.reset": "earliest"}})
    with ShareConsumer(bootstrap_servers=bootstrap, group_id="shared", client_id="app") as consumer:
        consumer.subscribe(["t"])
        count = 0
        while not count:
            count = len(consumer.poll(200))
        consumer.commit_sync()
        values = consumer.metrics()
    assert ours(values) == kafkas("share-consumer")
    assert values["records-consumed-total"] == values["acknowledgements-send-total"] == count
    assert values["acknowledgements-error-total"] == 0
    assert values["bytes-consumed-total"] > count
    assert (values["heartbeat-total"], values["rebalance-total"]) >= (1, 1)


def test_clients_for_asyncio_have_the_same_metrics(bootstrap: str) -> None:
    async def run() -> tuple[MetricValues, MetricValues, MetricValues]:
        settings = {"bootstrap_servers": bootstrap, "client_id": "app"}
        async with aio.Producer(**settings) as producer, aio.Admin(**settings) as admin:
            await (await producer.send("t", b"value"))
            await admin.describe_cluster()
            async with aio.Consumer(**settings, auto_offset_reset="earliest", group_id="aio") as consumer:
                consumer.subscribe(["t"])
                while not await consumer.poll(200):
                    pass
                return producer.metrics(), consumer.metrics(), admin.metrics()

    produced, consumed, asked = asyncio.run(run())
    assert ours(produced) == kafkas("producer")
    assert ours(consumed) == kafkas("consumer-classic")
    assert ours(asked) == kafkas("admin")


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
