"""Our clients push their metrics to Apache Kafka with a plugin that takes them (KIP-714): its bytes are read by
OpenTelemetry's own protobuf classes."""

from __future__ import annotations

import base64
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from support import apache_kafka
from support.waiting import eventually

from kafkatools import Admin, Consumer, NewTopic, Producer

pytestmark = pytest.mark.real_kafka
LIMIT_S = 30
INTERVAL_MS = 200
SENT = "org.apache.kafka.producer.record.send.total"
DELTA = 1


class Push(NamedTuple):
    client_id: str
    instance_id: str
    is_terminating: bool
    content_type: str
    data: bytes


class Kafka(NamedTuple):
    bootstrap: str
    file: pathlib.Path

    def pushes_of(self, client_id: str) -> list[Push]:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        rows = [line.split("\t") for line in lines]
        pushes = [Push(name, id_, last == "true", kind, base64.b64decode(data)) for name, id_, last, kind, data in rows]
        return [push for push in pushes if push.client_id == client_id]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    home = tmp_path_factory.mktemp("telemetry")
    file = home / "pushes"
    classes = [apache_kafka.compile_class("TelemetryPlugin", home / "classes")]
    settings = {"metric.reporters": "TelemetryPlugin", "telemetry.file": str(file)}
    cluster = apache_kafka.ApacheKafka(home, settings=settings, classes=classes)
    try:
        cluster.start()
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            admin.create_topics([NewTopic("pushed", 1)])
            subscription = {"metrics": "*", "interval.ms": str(INTERVAL_MS), "match": "client_software_name=kafkatools"}
            admin.alter_configs({("client_metrics", "all"): subscription})
        yield Kafka(cluster.bootstrap, file)
    finally:
        cluster.stop()


def test_apache_kafka_takes_the_metrics_of_a_producer(kafka: Kafka) -> None:
    metrics_pb2 = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")
    with Producer(bootstrap_servers=kafka.bootstrap, client_id="p", transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("pushed", b"one").result()
        producer.commit_transaction()
        instance_id = producer.client_instance_id()
        eventually(lambda: len(kafka.pushes_of("p")) > 1, LIMIT_S)
    pushes = kafka.pushes_of("p")
    assert [push.is_terminating for push in pushes] == [False] * (len(pushes) - 1) + [True]
    assert {(push.instance_id, push.content_type) for push in pushes} == {(instance_id, "OTLP")}
    sent = []
    for push in pushes:
        (resource,) = metrics_pb2.MetricsData.FromString(push.data).resource_metrics
        labels = {item.key: item.value.string_value for item in resource.resource.attributes}
        assert labels == {"transactional_id": "tx"}
        (scope,) = resource.scope_metrics
        (metric,) = [each for each in scope.metrics if each.name == SENT]
        assert (metric.sum.aggregation_temporality, metric.sum.is_monotonic) == (DELTA, True)
        (point,) = metric.sum.data_points
        sent.append((point.start_time_unix_nano, point.time_unix_nano, point.as_double))
    assert sum(value for _, _, value in sent) == 1
    assert [start for start, _, _ in sent[1:]] == [end for _, end, _ in sent[:-1]]  # each begins where the last ended


def test_apache_kafka_takes_the_metrics_of_a_consumer(kafka: Kafka) -> None:
    metrics_pb2 = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")
    settings = {"group_id": "g", "group_instance_id": "i", "client_rack": "r", "auto_offset_reset": "earliest"}
    with Producer(bootstrap_servers=kafka.bootstrap, enable_metrics_push=False) as producer:
        producer.send("pushed", b"two").result()
    with Consumer(bootstrap_servers=kafka.bootstrap, client_id="c", **settings) as consumer:
        consumer.subscribe(["pushed"])
        while not consumer.poll(200):
            pass
    (push,) = kafka.pushes_of("c")[-1:]
    assert push.is_terminating
    (resource,) = metrics_pb2.MetricsData.FromString(push.data).resource_metrics
    labels = {item.key: item.value.string_value for item in resource.resource.attributes}
    assert labels.pop("group_member_id").startswith("i-")
    assert labels == {"group_id": "g", "group_instance_id": "i", "client_rack": "r"}
    names = {metric.name for scope in resource.scope_metrics for metric in scope.metrics}
    assert "org.apache.kafka.consumer.fetch.manager.records.consumed.total" in names
