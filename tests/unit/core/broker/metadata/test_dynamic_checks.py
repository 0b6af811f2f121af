"""Changes of dynamic settings: what Apache Kafka 4.3.1 answered, and what becomes of those that are accepted."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from support.dynamic_settings import TOPIC_NAME, Alteration, answers
from support.raw_client import RawClient
from support.waiting import eventually

from kafkatools.core.config import BROKER, TOPIC
from kafkatools.core.config.setting import CLUSTER_WIDE
from kafkatools.core.config.topic import TOPIC_SYNONYMS
from kafkatools.core.protocol.api_versions import ApiKey

RECORDED = pathlib.Path(__file__).parents[4] / "golden/config/dynamic_changes.jsonl"


def alter(client: RawClient, name: str, *changes: tuple[str, int, str | None]) -> tuple[int, str | None]:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": 4, "resource_name": name, "configs": configs}
    fields = {"resources": [resource], "validate_only": False}
    (response,) = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, fields).responses
    return int(response.error_code), response.error_message


@pytest.mark.slow
def test_dynamic_settings_are_accepted_and_refused_as_by_kafka(run_node: Callable[..., Any]) -> None:
    rows = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    asked = [Alteration(kind, name, tuple(map(tuple, changes))) for kind, name, changes, *_ in rows]
    bootstrap = run_node().node.bootstrap
    with RawClient(bootstrap) as client:
        client.create_topic(TOPIC_NAME)
    answered = answers(bootstrap, asked)
    expected = [(code, message) for *_, code, message in rows]
    assert [
        (alteration, ours, theirs)
        for alteration, ours, theirs in zip(asked, answered, expected, strict=True)
        if ours != theirs
    ] == []


def test_a_removed_setting_is_not_checked(run_node: Callable[..., Any]) -> None:
    with RawClient(run_node().node.bootstrap) as client:
        assert alter(client, "1", ("num.partitions", 1, None)) == (0, None)
        assert alter(client, "1", ("num.partitions", 0, "3"))[0] == 42


def test_thread_counts_double_from_the_current_value(run_node: Callable[..., Any]) -> None:
    with RawClient(run_node().node.bootstrap) as client:
        assert alter(client, "", ("num.io.threads", 0, "16")) == (0, None)
        assert alter(client, "", ("num.io.threads", 0, "32")) == (0, None)
        code, message = alter(client, "", ("num.io.threads", 0, "15"))
        assert code == 42
        assert (
            message is not None and "num.io.threads=15, value should be at least half the current value 32" in message
        )


def test_settings_of_the_cleaner_and_of_groups_count_at_once(run_node: Callable[..., Any]) -> None:
    node = run_node().node
    course = node.groups.consumer
    with RawClient(node.bootstrap) as client:
        assert node.cleaner.next_deadline_ms - node.clock.now_ms() > 10_000
        assert course.settings.assignment_interval_ms("g") == 1000
        assert alter(client, "", ("log.cleaner.backoff.ms", 0, "300")) == (0, None)
        assert alter(client, "", ("group.consumer.assignment.interval.ms", 0, "50")) == (0, None)
        eventually(lambda: node.cleaner.next_deadline_ms - node.clock.now_ms() <= 300, 10)
        eventually(lambda: course.settings.assignment_interval_ms("g") == 50, 10)
        assert alter(client, "", ("log.cleaner.backoff.ms", 1, None)) == (0, None)
        eventually(lambda: node.cleaner.next_deadline_ms - node.clock.now_ms() > 10_000, 10)


def test_a_setting_of_a_listener_is_described_as_by_kafka(run_node: Callable[..., Any]) -> None:
    """The entries that Apache Kafka 4.3.1 gives: value, read-only, source, sensitive, type, synonyms."""
    with RawClient(run_node().node.bootstrap) as client:
        for name, value in (
            ("listener.name.plaintext.ssl.keystore.location", "/tmp/x"),
            ("listener.name.plaintext.plain.sasl.jaas.config", "a.B required;"),
            ("listener.name.other.max.connections.per.ip", "5"),
            ("my.own", "v"),
        ):
            assert alter(client, "1", (name, 0, value)) == (0, None)
        resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
        fields = {"resources": [resource], "include_synonyms": True, "include_documentation": False}
        (result,) = client.call(ApiKey.DESCRIBE_CONFIGS, 4, fields).results
    found = {
        entry.name: (
            entry.value,
            entry.read_only,
            int(entry.config_source),
            entry.is_sensitive,
            int(entry.config_type),
            [(synonym.name, synonym.value, int(synonym.source)) for synonym in entry.synonyms],
        )
        for entry in result.configs
    }
    location, jaas = (f"listener.name.plaintext.{rest}" for rest in ("ssl.keystore.location", "plain.sasl.jaas.config"))
    per_ip = "listener.name.other.max.connections.per.ip"
    assert found[location] == ("/tmp/x", True, 2, False, 2, [(location, "/tmp/x", 2)])
    assert found[jaas] == (None, True, 2, True, 9, [(jaas, None, 2)])
    defaults = ("max.connections.per.ip", "2147483647", 5)
    assert found[per_ip] == ("5", True, 2, False, 3, [(per_ip, "5", 2), defaults])
    assert found["my.own"] == (None, True, 2, True, 0, [("my.own", None, 2)])


VALUES = {
    "log.cleanup.policy": "compact",
    "compression.type": "zstd",
    "log.message.timestamp.type": "LogAppendTime",
    "log.local.retention.ms": "5",
    "log.local.retention.bytes": "-2",
    "log.cleaner.max.compaction.lag.ms": "900000",
    "log.cleaner.min.cleanable.ratio": "0.25",
    "compression.gzip.level": "5",
    "compression.lz4.level": "5",
    "compression.zstd.level": "5",
    "log.segment.bytes": "2000000",
}
SAME = {"log.local.retention.bytes"}


@pytest.mark.slow
def test_a_default_of_topics_counts_for_topics_that_exist(run_node: Callable[..., Any]) -> None:
    node = run_node().node
    with RawClient(node.bootstrap) as client:
        client.create_topic("t")
        for topic_name, synonyms in sorted(TOPIC_SYNONYMS.items()):
            name = synonyms[0].name
            if BROKER[name].update_mode != CLUSTER_WIDE or TOPIC[topic_name].internal:
                continue
            if name == "min.insync.replicas":  # with eligible leader replicas the cluster keeps a value
                continue
            before = described(client, topic_name)
            value = VALUES.get(name, "true" if BROKER[name].type == "BOOLEAN" else "70000")
            assert alter(client, "", (name, 0, value)) == (0, None)
            assert described(client, topic_name) == value
            assert (before != value) == (name not in SAME), name
            eventually(lambda: node.replicas.get("t", 0).log.config == node.replicas.log_config("t"), 10)
            assert alter(client, "", (name, 1, None)) == (0, None)
            assert described(client, topic_name) == before


def described(client: RawClient, topic_setting: str) -> str | None:
    resource = {"resource_type": 2, "resource_name": "t", "configuration_keys": [topic_setting]}
    fields = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    (result,) = client.call(ApiKey.DESCRIBE_CONFIGS, 4, fields).results
    (entry,) = result.configs
    value: str | None = entry.value
    return value
