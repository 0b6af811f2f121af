"""kt topics without a broker: what it reads from its options, and the lines it makes of a description."""

from __future__ import annotations

import importlib
import io
import json
from typing import Any

import pytest
from support.kt import run_kt
from support.scripted_broker import CLOSE, SILENCE, ScriptedBroker, partition
from support.skipping_clock import SkippingClock

from kafkatools.commands import topics
from kafkatools.commands.topics import changes
from kafkatools.commands.topics.create import replica_assignment, topic_configs
from kafkatools.commands.topics.describe import View, settings_of
from kafkatools.console import Console
from kafkatools.core.admin.configs import DEFAULT_CONFIG, TOPIC_CONFIG, ConfigEntry
from kafkatools.core.admin.reassignments import PartitionReassignment
from kafkatools.core.admin.topics import PartitionDescription, TopicDescription
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.uuids import uuid_from_text
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import parse


def test_replica_assignment_is_a_list_of_brokers_for_each_partition() -> None:
    assert replica_assignment("1:2,2:3, 3 : 1") == {0: [1, 2], 1: [2, 3], 2: [3, 1]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1:1", "Partition replica lists may not contain duplicate entries: 1"),  # topics/030
        ("1:2,3", "Partition 1 has different replication factor: [3]"),  # topics/031
    ],
)
def test_bad_replica_assignments_get_the_words_of_kafka(text: str, message: str) -> None:
    with pytest.raises(CommandError) as raised:
        replica_assignment(text)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("text", "replica"), [("1:a", "a"), ("1:+-1", "+-1"), ("1:99999999999", "99999999999"), (":1", ""), ("1::2", "")]
)
def test_a_replica_that_is_no_broker_id_is_an_error_of_usage(text: str, replica: str) -> None:
    with pytest.raises(UsageError) as raised:
        replica_assignment(text)
    assert str(raised.value) == f'For input string: "{replica}"'


def test_a_setting_is_a_name_and_a_value() -> None:
    given = ["retention.ms=1000", "cleanup.policy = compact,delete = ", "=1", "retention.bytes=5=="]
    assert topic_configs(given) == {
        "retention.ms": "1000",
        "cleanup.policy": "compact,delete",
        "": "1",
        "retention.bytes": "5",
    }  # as Apache Kafka 4.3.1 took each of them


@pytest.mark.parametrize(
    "text", ["", "=", "retention.ms", "retention.ms=", "retention.ms==1", "retention.ms=1,retention.bytes=2", "a=b=c"]
)
def test_several_settings_in_one_text_get_the_words_of_kafka(text: str) -> None:
    with pytest.raises(CommandError) as raised:
        topic_configs([text])
    assert str(raised.value) == (
        'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
    )


def test_ids_are_16_bytes_in_base64() -> None:
    assert uuid_from_text("AAAAAAAAAAAAAAAAAAAAAQ").bytes == bytes(15) + b"\x01"
    with pytest.raises(ValueError, match="`xyz` decoded as 2 bytes, which is not equal to the expected 16 bytes"):
        uuid_from_text("xyz")  # topics/058


PARTITIONS = (
    PartitionDescription(0, 1, 5, (1, 2), (1, 2), elr=(), last_known_elr=()),
    PartitionDescription(1, -1, 5, (2,), (), elr=(2,), last_known_elr=(2,)),
    PartitionDescription(2, 3, 5, (2, 3), (3,), elr=(), last_known_elr=()),
    PartitionDescription(3, 2, 5, (2, 3), (2, 3)),
)
ENTRIES = (
    ConfigEntry("min.insync.replicas", "2", TOPIC_CONFIG),
    ConfigEntry("retention.ms", "60000", TOPIC_CONFIG),
    ConfigEntry("cleanup.policy", "delete", DEFAULT_CONFIG),
)


def _shown(*options: str, moving: dict[tuple[str, int], PartitionReassignment] | None = None) -> list[str]:
    _, args = parse(topics.COMMAND, ["--describe", *options])
    out = io.BytesIO()
    console = Console(io.BytesIO(), out, io.BytesIO(), {})
    view = View(args, {1, 3}, moving or {})
    view.show(console, TopicDescription("t", "3uENZ7QkRCauYus2vsZVLA", False, PARTITIONS), settings_of(ENTRIES))
    return out.getvalue().decode().splitlines()


@pytest.mark.parametrize("report", ["under-min-isr-partitions", "at-min-isr-partitions"])
def test_an_unknown_minimum_of_in_sync_replicas_is_an_error_and_not_zero(report: str) -> None:
    def configs(header: Any, request: Any) -> Any:
        none = {"error_code": 0, "error_message": None, "resource_type": 2, "configs": []}
        return {"results": [{**none, "resource_name": resource.resource_name} for resource in request.resources]}

    isolated = {**partition(0), "isr_nodes": ()}
    leaderless = {**partition(1, leader=-1), "isr_nodes": ()}

    def topics_of(header: Any, request: Any) -> Any:
        return {"topics": [{"name": "t", "topic_id": None, "partitions": [isolated, leaderless]}], "next_cursor": None}

    nothing_moves = {"error_code": 0, "error_message": None, "topics": []}
    broker = ScriptedBroker(
        {
            ApiKey.DESCRIBE_CONFIGS: configs,
            ApiKey.DESCRIBE_TOPIC_PARTITIONS: topics_of,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda header, request: nothing_moves,
        }
    )
    broker.topics = [{"name": "t", "partitions": [isolated, leaderless]}]
    with broker.in_background():
        ran = run_kt("topics", "--bootstrap-server", broker.bootstrap, "--describe", f"--{report}")
    assert ran.err.endswith("Topic t: the broker reports no min.insync.replicas, so partitions may be missing\n")
    assert _numbers(ran.out.splitlines()) == ([1] if report.startswith("under") else [])
    assert ran.status == ExitStatus.FAILED


def _numbers(lines: list[str]) -> list[int]:
    return [int(line.split("Partition: ")[1].split("\t")[0]) for line in lines]


def test_a_topic_is_a_headline_and_a_line_for_each_partition() -> None:
    assert _shown() == [
        "Topic: t\tTopicId: 3uENZ7QkRCauYus2vsZVLA\tPartitionCount: 4\tReplicationFactor: 2\t"
        "Configs: min.insync.replicas=2,retention.ms=60000",
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: \tLastKnownElr: ",
        "\tTopic: t\tPartition: 1\tLeader: none\tReplicas: 2\tIsr: \tElr: 2\tLastKnownElr: 2",
        "\tTopic: t\tPartition: 2\tLeader: 3\tReplicas: 2,3\tIsr: 3\tElr: \tLastKnownElr: ",
        "\tTopic: t\tPartition: 3\tLeader: 2\tReplicas: 2,3\tIsr: 2,3\tElr: N/A\tLastKnownElr: N/A",
    ]


@pytest.mark.parametrize(
    ("option", "partitions"),
    [
        ("--under-replicated-partitions", [1, 2]),
        ("--unavailable-partitions", [1, 3]),
        ("--under-min-isr-partitions", [1, 2]),
        ("--at-min-isr-partitions", [0, 3]),
    ],
)
def test_reports_show_their_partitions_without_a_headline(option: str, partitions: list[int]) -> None:
    assert _numbers(_shown(option)) == partitions


def test_two_reports_show_what_either_would() -> None:
    assert _numbers(_shown("--unavailable-partitions", "--under-min-isr-partitions")) == [1, 2, 3]


def test_replicas_that_are_being_added_do_not_count() -> None:
    moving = {("t", 2): PartitionReassignment((2, 3), (2,), ())}
    assert _numbers(_shown("--under-replicated-partitions", moving=moving)) == [1]
    line = _shown(moving=moving)[3]
    assert line.endswith("\tIsr: 3\tAdding Replicas: 2\tRemoving Replicas: \tElr: \tLastKnownElr: ")


def test_topics_with_overrides_are_headlines_only() -> None:
    assert len(_shown("--topics-with-overrides")) == 1


def test_without_a_controller_topics_are_shown_as_the_broker_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("kafkatools.commands.topics.describe"), "MOVES_WITHIN_MS", 100)

    def configs(header: Any, request: Any) -> Any:
        names = [each.resource_name for each in request.resources]
        none = {"error_code": 0, "error_message": None, "resource_type": 2, "configs": []}
        return {"results": [{**none, "resource_name": name} for name in names]}

    def topics_of(header: Any, request: Any) -> Any:
        return {"topics": [{"name": "t", "topic_id": None, "partitions": [partition(0)]}], "next_cursor": None}

    handlers: dict[Any, Any] = {ApiKey.DESCRIBE_CONFIGS: configs}
    handlers[ApiKey.DESCRIBE_TOPIC_PARTITIONS] = topics_of
    broker = ScriptedBroker({**handlers, ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda header, request: SILENCE})
    broker.topics = [{"name": "t", "partitions": [partition(0)]}]
    with broker.in_background():
        ran = run_kt("topics", "--bootstrap-server", broker.bootstrap, "--describe", "--topic", "t")
    assert "\tTopic: t\tPartition: 0\t" in ran.out
    assert "No controller reported active reassignments, and the other data may be outdated: " in ran.err
    assert ran.status == ExitStatus.FAILED


def test_topics_that_are_gone_are_told_of_when_the_broker_goes_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "_DELETED_AT_A_TIME", 1)
    clock = SkippingClock()

    def delete(header: Any, request: Any) -> Any:
        named = [topic.name for topic in request.topics]
        if named != ["t1"]:
            clock.skip_ms(10 * 60_000)  # beyond default.api.timeout.ms, so it is not tried again
            return CLOSE
        return {"responses": [{"name": "t1", "topic_id": None, "error_code": 0, "error_message": None}]}

    broker = ScriptedBroker({ApiKey.DELETE_TOPICS: delete})
    broker.topics = [{"name": f"t{number}", "partitions": [partition(0)]} for number in (1, 2, 3)]
    words = ("--delete", "--topic", "t.", "--json")
    with broker.in_background():
        ran = run_kt("topics", "--bootstrap-server", broker.bootstrap, *words, clock=clock)
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [(row["topic"], row["deleted"], row["error"] is None) for row in rows] == [
        ("t1", True, True),
        ("t2", False, False),
        ("t3", False, False),
    ]
    assert ran.status == ExitStatus.FAILED
