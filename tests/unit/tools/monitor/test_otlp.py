"""OTLP: what a collector on loopback decodes from the exporter's requests."""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from support.http_receivers import Posted, receiving
from support.kt import run_kt
from support.ports import free_port

from kafkatools.core.admin.log_dirs import LogDir
from kafkatools.core.install_command import install_command
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.monitor.metrics.otlp import OtlpSender
from kafkatools.tools.monitor.metrics.otlp_metrics import METRICS, UP
from kafkatools.tools.monitor.urls import parse_url
from kafkatools.tools.monitor.view import BrokerView, ClusterView, GroupPartition, GroupView, PartitionView, TopicView

PAGE = (pathlib.Path(__file__).parents[4] / "docs" / "monitor-metrics.md").read_text(encoding="utf-8")
STARTED_MS, TIME_MS = 1_700_000_000_000, 1_700_000_060_000


def view() -> ClusterView:
    """Group g is 100 records and 90.5 s behind in a-0; of a-1, which has no leader, nothing is known."""
    parts = (
        PartitionView("a", 0, 1, 7, (1, 2), (1,), None, (), min_isr=1, end_offset=500, start_offset=30),
        PartitionView("a", 1, -1, 7, (2,), (), None, ()),
    )
    group_parts = (GroupPartition("a", 0, 400, 100, 90_500), GroupPartition("a", 1, 5, None))
    brokers = (
        BrokerView(1, "h1", 9092, None, False, True, (LogDir("/data", (), 1000, 400),)),
        BrokerView(2, "h2", 9092, None, False, False, None),
    )
    topics = (TopicView("a", "id", False, parts),)
    groups = (GroupView("g", "Consumer", "Stable", 1, 2, group_parts),)
    return ClusterView(TIME_MS, 0, 12, "cid", 1, brokers, topics, None, groups, ())


def decoded(posted: Posted) -> tuple[dict[str, str], dict[str, Any]]:
    """The attributes of the resource, and the metrics by name."""
    request = ExportMetricsServiceRequest.FromString(posted.body)
    (resource,) = request.resource_metrics
    attributes = {entry.key: entry.value.string_value for entry in resource.resource.attributes}
    return attributes, {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}


def points(metric: Any) -> dict[tuple[object, ...], float]:
    """The numbers by the values of their attributes."""
    data = metric.sum if metric.HasField("sum") else metric.gauge
    return {
        tuple(
            getattr(entry.value, entry.value.WhichOneof("value")) for entry in point.attributes
        ): getattr(point, point.WhichOneof("value"))
        for point in data.data_points
    }  # fmt: skip


def test_a_collector_gets_the_names_of_the_kafka_receiver() -> None:
    with receiving() as receiver:
        sender = OtlpSender(parse_url(receiver.url), STARTED_MS)
        sender.publish(view(), "cid", TIME_MS)
        sender.run_once()
        sender.close(0)
    (posted,) = receiver.posted
    assert (posted.path, posted.headers["content-type"]) == ("/v1/metrics", "application/x-protobuf")
    resource, metrics = decoded(posted)
    assert resource.items() >= {"service.name": "kt-monitor", "kafka.cluster.id": "cid"}.items()
    found = {name: points(metric) for name, metric in metrics.items()}
    expected: dict[str, dict[tuple[object, ...], float]] = {
        "kafka.brokers": {(): 2},
        "kafka.topic.partitions": {("a",): 2},
        "kafka.partition.current_offset": {("a", 0): 500},
        "kafka.partition.oldest_offset": {("a", 0): 30},
        "kafka.partition.replicas": {("a", 0): 2, ("a", 1): 1},
        "kafka.partition.replicas_in_sync": {("a", 0): 1, ("a", 1): 0},
        "kafka.consumer_group.members": {("g",): 2},
        "kafka.consumer_group.offset": {("g", "a", 0): 400, ("g", "a", 1): 5},
        "kafka.consumer_group.offset_sum": {("g", "a"): 405},
        "kafka.consumer_group.lag": {("g", "a", 0): 100},
        "kt.consumer_group.lag_time": {("g", "a", 0): 90.5},
        "kt.partitions.offline": {(): 1},
        "kt.partitions.under_replicated": {(): 2},
        "kt.partitions.under_min_isr": {(): 1},
        "kt.brokers.responding": {(): 1},
        "kt.controllers.active": {(): 1},
        "kt.log_dir.total": {(1, "/data"): 1000},
        "kt.log_dir.usable": {(1, "/data"): 400},
        "kt.monitor.problems": {(): 0},
        "kt.monitor.up": {(): 1},
    }
    assert found == expected, "kafka.consumer_group.lag_sum is missing, since a part of it is unknown"
    brokers = metrics["kafka.brokers"]
    assert (brokers.unit, brokers.sum.is_monotonic, brokers.sum.aggregation_temporality) == ("{brokers}", False, 2)
    (point,) = metrics["kafka.consumer_group.lag"].gauge.data_points
    assert point.time_unix_nano == TIME_MS * 1_000_000
    assert [entry.key for entry in point.attributes] == ["group", "topic", "partition"]


@pytest.mark.slow
def test_a_failed_snapshot_exports_only_that_it_failed() -> None:
    with receiving() as receiver:
        sender = OtlpSender(parse_url(receiver.url + "/otlp/v1/metrics?x=1"), STARTED_MS)
        sender.publish(None, None, TIME_MS)
        sender.run_once()
        sender.run_once()
        sender.close(0)
    (posted,) = receiver.posted
    assert posted.path == "/otlp/v1/metrics?x=1"
    assert {name: points(metric) for name, metric in decoded(posted)[1].items()} == {UP: {(): 0}}


def test_a_collector_that_refuses_is_told_once_and_when_it_works_again(capsys: pytest.CaptureFixture[str]) -> None:
    with receiving([400, 400, 200, 200]) as receiver:
        sender = OtlpSender(parse_url(receiver.url), STARTED_MS)
        told = []
        for _ in range(4):
            sender.publish(view(), "cid", TIME_MS)
            sender.run_once()
            told.append([report.message for report in sender.reports()])
        sender.close(0)
    assert told == [
        [f"collector {receiver.url} does not accept metrics: status 400 Bad Request"],
        [],
        [f"collector {receiver.url} accepts metrics again"],
        [],
    ]
    assert capsys.readouterr().err == "", "logging prints nothing"


def test_a_collector_that_is_down_stops_nothing() -> None:
    sender = OtlpSender(parse_url(f"http://user:secret-word@127.0.0.1:{free_port()}"), STARTED_MS)
    sender.start()
    sender.publish(view(), "cid", TIME_MS)
    sender.close(300)  # the exporter pauses before another attempt
    (report,) = sender.reports()
    assert not report.is_working and report.message.endswith("does not accept metrics: Connection refused")
    assert "secret-word" not in report.message


def test_only_the_newest_snapshot_waits() -> None:
    with receiving() as receiver:
        sender = OtlpSender(parse_url(receiver.url), STARTED_MS)
        for offset in range(5):
            sender.publish(view(), "cid", TIME_MS + offset)
        sender.run_once()
        sender.run_once()
        sender.close(0)
    (posted,) = receiver.posted
    (point,) = decoded(posted)[1][UP].gauge.data_points
    assert point.time_unix_nano == (TIME_MS + 4) * 1_000_000


def test_without_the_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    ran = run_kt("monitor", "--bootstrap-server", "127.0.0.1:1", "--otlp", "http://127.0.0.1:4318")
    assert (ran.status, ran.out) == (ExitStatus.FAILED, "")
    assert ran.err.startswith("--otlp needs the Python package opentelemetry")
    assert ran.err.endswith(f": {install_command('otlp')}\n")


def test_the_page_names_every_metric_with_unit_and_attributes() -> None:
    section = PAGE.split("\n## OpenTelemetry\n")[1]
    rows = re.findall(r"^\| `([\w.]+)` \| `([^`]+)` \| ([\w, ]*?) ?\| .+ \|$", section, re.M)
    assert rows == [*((metric.name, metric.unit, ", ".join(metric.attributes)) for metric in METRICS), (UP, "1", "")]
