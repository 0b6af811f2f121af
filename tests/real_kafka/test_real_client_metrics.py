"""Clients of others push their metrics to the embedded broker (KIP-714): Apache Kafka's console producer and
librdkafka."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.waiting import eventually

from kafkatools import EmbeddedBroker
from kafkatools.core.broker.telemetry.metrics_file import Push

pytestmark = pytest.mark.real_kafka
LIMIT_S = 60
CONNECTIONS = "org.apache.kafka.producer.connection.creation.total"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(client_metrics=True) as made:
        yield made


def subscribe(kafka_tool: Callable[..., Any], broker: EmbeddedBroker, name: str, match: str) -> None:
    entity = ["--entity-type", "client-metrics", "--entity-name", name]
    configs = ["--add-config", f"metrics=[*],interval.ms=100,match=[{match}]"]
    done = kafka_tool("configs", "--bootstrap-server", broker.bootstrap, "--alter", *entity, *configs)
    assert done.returncode == 0, done.stderr.decode()


def pushes_of(broker: EmbeddedBroker, client_id: str) -> list[Push]:
    return [push for push in broker.client_metrics() if push["client_id"] == client_id and push["metrics"]]


def test_kafkas_console_producer_pushes_its_metrics(broker: EmbeddedBroker, kafka_tool: Callable[..., Any]) -> None:
    subscribe(kafka_tool, broker, "java", "client_software_name=apache-kafka-java,client_id=java-.*")
    options = ["--bootstrap-server", broker.bootstrap, "--topic", "pushed", "--command-property", "client.id=java-1"]
    push = ["--command-property", "enable.metrics.push=true"]

    def has_pushed() -> bool:
        """On a busy machine the producer may end before it has its subscription or sends its last push."""
        done = kafka_tool("console-producer", *options, *push, stdin=b"one\ntwo\n")
        assert done.returncode == 0, done.stderr.decode()
        return any(push["terminating"] for push in pushes_of(broker, "java-1"))

    eventually(has_pushed, LIMIT_S)
    pushes = pushes_of(broker, "java-1")
    assert pushes[-1]["software"].startswith("apache-kafka-java 4.3")
    created = [metric for push in pushes for metric in push["metrics"] if metric["name"] == CONNECTIONS]
    assert {metric["type"] for metric in created} == {"sum (delta)"}
    assert sum(metric["value"] for metric in created) >= 1


def test_librdkafka_pushes_its_metrics(broker: EmbeddedBroker, kafka_tool: Callable[..., Any]) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    subscribe(kafka_tool, broker, "librdkafka", "client_id=rd-1")
    settings = {"bootstrap.servers": broker.bootstrap, "client.id": "rd-1", "enable.metrics.push": True}
    producer = confluent_kafka.Producer(settings)
    producer.produce("pushed", b"three")
    assert producer.flush(LIMIT_S) == 0
    eventually(lambda: bool(pushes_of(broker, "rd-1")), LIMIT_S)
    push = pushes_of(broker, "rd-1")[0]
    assert push["software"].startswith("confluent-kafka-python")
    assert any(metric["name"].startswith("org.apache.kafka.producer.") for metric in push["metrics"])
