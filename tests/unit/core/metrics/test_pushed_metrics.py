"""The metrics that clients push to a broker that asks for them (KIP-714), against those of Apache Kafka 4.3.1
(tests/golden/client-metrics/pushed.tsv)."""

from __future__ import annotations

import asyncio
import pathlib
import re
from collections.abc import Iterator

import pytest
from support.waiting import eventually

from kafkatools import Admin, Consumer, EmbeddedBroker, NewTopic, Producer, ShareConsumer, aio
from kafkatools.core.broker.telemetry.metrics_file import Push
from kafkatools.errors import IllegalState

GOLDEN = pathlib.Path(__file__).parents[3] / "golden" / "client-metrics" / "pushed.tsv"
LEFT_OUT = re.compile(
    r"(?<!network)\.io\.|\.iotime\.|\.select\.|\.reauth|\.app\.info\.|\.(application|background)\.event"
    r"|\.time\.between\.network\.thread|\.unsent\.requests"
)
"""Metrics that our clients lack; test_metric_names.py has the reasons."""
LIMIT_S = 20
INTERVAL_MS = 100

Metric = tuple[str, str, str]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(client_metrics=True) as made:
        with Admin(bootstrap_servers=made.bootstrap) as admin:
            admin.create_topics([NewTopic("t", 1)])
            subscription = {"metrics": "*", "interval.ms": str(INTERVAL_MS), "match": "client_id=all-.*"}
            totals = {**subscription, "metrics": "org.apache.kafka.producer.record", "match": "client_id=some"}
            admin.alter_configs(
                {
                    ("client_metrics", "all"): subscription,
                    ("client_metrics", "some"): totals,
                    ("group", "shared"): {"share.auto.offset.reset": "earliest"},
                }
            )
        with Producer(bootstrap_servers=made.bootstrap) as producer:
            producer.send("t", b"value").result()
        yield made


def kafkas(client: str) -> set[Metric]:
    """Name, type and attribute keys of the metrics that a Java client pushed, without those that are left out."""
    rows = [line.split("\t") for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    return {(name, kind, keys) for owner, name, kind, keys in rows if owner == client and not LEFT_OUT.search(name)}


def pushes_of(broker: EmbeddedBroker, client_id: str) -> list[Push]:
    return [push for push in broker.client_metrics() if push["client_id"] == client_id]


def pushed(pushes: list[Push]) -> set[Metric]:
    return {
        (item["name"], item["type"], ",".join(sorted(item["attributes"])))
        for each in pushes
        for item in each["metrics"]
    }


def test_producer_pushes_the_metrics_of_kafkas(broker: EmbeddedBroker) -> None:
    settings = {"bootstrap_servers": broker.bootstrap, "client_id": "all-p"}
    with Producer(**settings) as producer:
        producer.send("t", b"value").result()
        instance_id = producer.client_instance_id()
        eventually(lambda: len(pushes_of(broker, "all-p")) > 1, LIMIT_S)
        producer.send("t", b"value").result()
    pushes = pushes_of(broker, "all-p")
    assert pushed(pushes) == kafkas("producer")
    assert [push["terminating"] for push in pushes] == [False] * (len(pushes) - 1) + [True]
    assert {push["client_instance_id"] for push in pushes} == {instance_id}
    assert {push["software"].split()[0] for push in pushes} == {"kafkatools"}
    sent = [
        item["value"]
        for push in pushes
        for item in push["metrics"]
        if item["name"] == "org.apache.kafka.producer.record.send.total"
    ]
    assert (sum(sent), len(sent)) == (2, len(pushes))  # each push has the change since the one before


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumer_pushes_the_metrics_of_kafkas(broker: EmbeddedBroker, protocol: str) -> None:
    name = f"all-{protocol}"
    group = {"group_id": name, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=broker.bootstrap, client_id=name, **group) as consumer:
        consumer.subscribe(["t"])
        while not consumer.poll(200):
            pass
        consumer.commit_sync()
        assert consumer.client_instance_id() is not None
    pushes = pushes_of(broker, name)
    assert pushed(pushes) == kafkas(f"consumer-{protocol}")
    assert pushes[-1]["terminating"]
    assert pushes[-1]["resource"].keys() == {"group_id", "group_member_id"}


def test_share_consumer_pushes_the_metrics_of_kafkas(broker: EmbeddedBroker) -> None:
    settings = {"bootstrap_servers": broker.bootstrap, "client_id": "all-s"}
    with ShareConsumer(**settings, group_id="shared") as consumer:
        consumer.subscribe(["t"])
        while not consumer.poll(200):
            pass
        consumer.commit_sync()
        assert consumer.client_instance_id() is not None
    pushes = pushes_of(broker, "all-s")
    assert pushed(pushes) == kafkas("share-consumer")
    assert pushes[-1]["resource"].keys() == {"group_id", "group_member_id"}


def test_admin_pushes_the_metrics_of_kafkas_when_told_to(broker: EmbeddedBroker) -> None:
    settings = {"bootstrap_servers": broker.bootstrap, "client_id": "all-a"}
    with Admin(**settings) as admin, pytest.raises(IllegalState, match=r"enable\.metrics\.push"):
        admin.client_instance_id()
    assert pushes_of(broker, "all-a") == []
    with Admin(**settings, enable_metrics_push=True) as admin:
        admin.describe_cluster()
        assert admin.client_instance_id() is not None
    (push,) = pushes_of(broker, "all-a")
    assert push["terminating"]
    assert pushed([push]) == kafkas("admin")


def test_clients_of_asyncio_push_too(broker: EmbeddedBroker) -> None:
    async def run() -> list[str | None]:
        settings = {"bootstrap_servers": broker.bootstrap}
        async with aio.Producer(**settings, client_id="all-ap") as producer:
            await (await producer.send("t", b"value"))
            ids = [await producer.client_instance_id()]
        async with aio.Consumer(**settings, client_id="all-ac", group_id="ac") as consumer:
            consumer.subscribe(["t"])
            await consumer.poll(0)
            ids.append(await consumer.client_instance_id())
        async with aio.ShareConsumer(**settings, client_id="all-as", group_id="as") as sharing:
            sharing.subscribe(["t"])
            ids.append(await sharing.client_instance_id())
        async with aio.Admin(**settings, client_id="all-aa", enable_metrics_push=True) as admin:
            ids.append(await admin.client_instance_id())
        return ids

    last = [each for each in asyncio.run(run()) if each is not None]
    pushes = [pushes_of(broker, f"all-{kind}")[-1] for kind in ("ap", "ac", "as", "aa")]
    assert [push["client_instance_id"] for push in pushes] == last
    assert all(push["terminating"] for push in pushes)


def test_only_requested_metrics_are_pushed(broker: EmbeddedBroker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap, client_id="some") as producer:
        producer.send("t", b"value").result()
        assert producer.client_instance_id() is not None
    (push,) = pushes_of(broker, "some")[-1:]
    names = {item["name"] for item in push["metrics"]}
    assert names
    assert all(name.startswith("org.apache.kafka.producer.record") for name in names)


def test_without_a_subscription_or_with_pushes_off_nothing_is_pushed(broker: EmbeddedBroker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap, client_id="none") as producer:
        producer.send("t", b"value").result()
        assert producer.client_instance_id() is not None
    with Producer(bootstrap_servers=broker.bootstrap, client_id="all-off", enable_metrics_push=False) as producer:
        producer.send("t", b"value").result()
        with pytest.raises(IllegalState, match=r"enable\.metrics\.push"):
            producer.client_instance_id()
    assert pushes_of(broker, "none") + pushes_of(broker, "all-off") == []


def test_instance_id_of_a_closed_client_or_with_a_negative_time_out_is_an_error(broker: EmbeddedBroker) -> None:
    settings = {"bootstrap_servers": broker.bootstrap}
    clients: list[Producer | Consumer | ShareConsumer | Admin] = [
        Producer(**settings),
        Consumer(**settings),
        ShareConsumer(**settings, group_id="g"),
    ]
    for client in (*clients, Admin(**settings, enable_metrics_push=True)):
        with pytest.raises(ValueError, match="negative"):
            client.client_instance_id(-1)
        client.close()
        with pytest.raises(IllegalState):
            client.client_instance_id()


@pytest.mark.slow
def test_a_broker_that_takes_no_metrics_gives_no_instance_id() -> None:
    with EmbeddedBroker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        assert producer.client_instance_id() is None
