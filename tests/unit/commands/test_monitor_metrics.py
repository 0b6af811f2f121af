"""/metrics: names and labels of other exporters, OpenMetrics, and what is left out because nobody knows it."""

from __future__ import annotations

import re
import sys

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families
from support.kt import run_kt
from test_monitor_values import board_of, ill_view, labels, samples, well_view

from kafkatools.commands.monitor.sections import DEFAULT_FAMILIES, FAMILIES
from kafkatools.core.admin.log_dirs import LogDir, ReplicaInfo
from kafkatools.core.install_command import install_command
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.monitor.metrics.exposition import ALL_METRICS, MetricsPage
from kafkatools.tools.monitor.view import NO_BROKER, ClusterView, GroupPartition, GroupView, Owner

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


def found_in(view: ClusterView, *families: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return samples(MetricsPage(board_of(view), families).answer()[1].decode())


def lagging_view() -> ClusterView:
    """Group `g` is 100 and 7 records behind, 90.5 and 12 s; a member has the first partition."""
    parts = (GroupPartition("a", 0, 400, 100, 90_500), GroupPartition("a", 1, 5, 7, 12_000))
    owners = {("a", 0): Owner("till-7", "till", "/10.0.0.7")}
    return well_view()._replace(groups=(GroupView("g", "Consumer", "Stable", 1, 2, parts, owners=owners),))


def test_names_of_kafka_lag_exporter() -> None:
    found = found_in(lagging_view(), "lag-exporter")
    group = {"cluster_name": "cid", "group": "g"}
    owner = {"member_host": "/10.0.0.7", "consumer_id": "till-7", "client_id": "till"}
    part = {**group, "topic": "a", "partition": 0, **owner}
    free = {**group, "topic": "a", "partition": 1, **dict.fromkeys(owner, "unknown")}
    expected = {
        ("kafka_consumergroup_group_lag", labels(**free)): 7,
        ("kafka_consumergroup_group_offset", labels(**part)): 400,
        ("kafka_consumergroup_group_lag", labels(**part)): 100,
        ("kafka_consumergroup_group_lag_seconds", labels(**part)): 90.5,
        ("kafka_consumergroup_group_max_lag", labels(**group)): 100,
        ("kafka_consumergroup_group_max_lag_seconds", labels(**group)): 90.5,
        ("kafka_consumergroup_group_sum_lag", labels(**group)): 107,
        ("kafka_consumergroup_group_topic_sum_lag", labels(**group, topic="a")): 107,
        ("kafka_partition_latest_offset", labels(cluster_name="cid", topic='a"b', partition=0)): 500,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert {name for name, _ in found} == {name for name, _ in expected} | {"kt_monitor_up"}


def test_names_of_kminion() -> None:
    replicas = (ReplicaInfo('a"b', 0, 700, 0, False), ReplicaInfo('a"b', 0, 30, 0, True))
    view = lagging_view()
    broker = view.brokers[0]._replace(log_dirs=(LogDir("/data", replicas, 1000, 400),))
    found = found_in(view._replace(brokers=(broker,)), "kminion")
    at = {"broker_id": 1, "address": "h1", "port": 9092, "rack_id": "r1"}
    group = {"group_id": "g", "topic_name": "a"}
    expected = {
        ("cluster_info", labels(broker_count=1, controller_id=1, cluster_id="cid")): 1,
        ("broker_info", labels(**at, is_controller="true")): 1,
        ("broker_log_dir_size_total_bytes", labels(**at)): 730,
        ("topic_log_dir_size_total_bytes", labels(topic_name='a"b')): 730,
        ("topic_info", labels(topic_name='a"b', partition_count=1, replication_factor=1)): 1,
        ("topic_partition_high_water_mark", labels(topic_name='a"b', partition_id=0)): 500,
        ("topic_high_water_mark_sum", labels(topic_name='a"b')): 500,
        ("consumer_group_info", labels(group_id="g", state="Stable", coordinator_id=1)): 1,
        ("consumer_group_members", labels(group_id="g")): 2,
        ("consumer_group_topic_offset_sum", labels(**group)): 405,
        ("consumer_group_topic_partition_lag", labels(**group, partition_id=1)): 7,
        ("consumer_group_topic_lag", labels(**group)): 107,
    }
    named = {(f"kminion_kafka_{name}", values): number for (name, values), number in expected.items()}
    assert {key: found.get(key) for key in named} == named
    with_starts = found_in(ill_view(), "kminion")
    assert with_starts["kminion_kafka_topic_partition_low_water_mark", labels(topic_name='a"b', partition_id=0)] == 30


def test_an_unknown_value_has_no_sample() -> None:
    """In `ill_view` the end of a partition of group g and the directories of brokers 2 and 3 are unknown."""
    found = found_in(ill_view(controller=NO_BROKER), "lag-exporter", "kminion")
    of_g = {name for name, values in found if ("group", "g") in values or ("group_id", "g") in values}
    assert of_g == {
        "kafka_consumergroup_group_offset", "kafka_consumergroup_group_lag", "kminion_kafka_consumer_group_info",
        "kminion_kafka_consumer_group_members", "kminion_kafka_consumer_group_topic_offset_sum",
        "kminion_kafka_consumer_group_topic_partition_lag",
    }  # fmt: skip
    names = {name for name, _ in found}
    assert not names & {
        "kminion_kafka_cluster_info", "kminion_kafka_broker_info", "kminion_kafka_topic_high_water_mark_sum",
        "kminion_kafka_broker_log_dir_size_total_bytes", "kminion_kafka_topic_log_dir_size_total_bytes",
    }  # fmt: skip
    away = GroupView("x", "Consumer", "Unknown", 3, None, None)
    named = found_in(well_view()._replace(groups=(away,)), *FAMILIES)
    assert not [name for name, values in named if "x" in dict(values).values()]


def test_openmetrics_for_clients_that_accept_it() -> None:
    page = MetricsPage(board_of(lagging_view()), FAMILIES)
    content_type, body = page.answer(OPENMETRICS + ",text/plain;version=0.0.4;q=0.5")
    assert content_type.startswith("application/openmetrics-text; version=1.0.0") and body.endswith(b"# EOF\n")
    plain = page.answer("*/*")
    assert plain[0] == "text/plain; version=0.0.4; charset=utf-8"

    def numbers(families: object) -> dict[object, float]:
        return {(s.name, *sorted(s.labels.items())): s.value for f in families for s in f.samples}  # type: ignore[attr-defined]

    assert numbers(openmetrics_families(body.decode())) == numbers(text_string_to_metric_families(plain[1].decode()))


def test_a_page_is_made_once_for_each_snapshot() -> None:
    board = board_of(lagging_view())
    page = MetricsPage(board, DEFAULT_FAMILIES)
    first = page.answer()[1]
    assert page.answer()[1] is first
    board.fail("refused")
    assert b"kt_monitor_up 0" in page.answer()[1]
    board.publish(lagging_view())
    assert page.answer()[1] == first


def test_names_are_unique_and_valid() -> None:
    names = [metric.name for metric in ALL_METRICS]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z_]+", name) for metric in ALL_METRICS for name in (metric.name, *metric.labels))
    assert {metric.source for metric in ALL_METRICS} == set(FAMILIES)


def test_without_prometheus_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    ran = run_kt("monitor", "--bootstrap-server", "127.0.0.1:1", "--prometheus", "0")
    assert ran.status is ExitStatus.FAILED and ran.out == ""
    assert ran.err == (f"--prometheus needs the Python package prometheus_client: {install_command('prometheus')}\n")
