"""The performance and verifiable tools against Apache Kafka: each side's verifiable client reads the other's."""

from __future__ import annotations

import json
import re
import uuid
from typing import Any

import pytest
from support.apache_kafka import ApacheKafka
from support.kt import Ran, run_kt

from kafkatools.exit_status import ExitStatus

pytestmark = pytest.mark.real_kafka


def ours(cluster: ApacheKafka, tool: str, *args: str) -> Ran:
    ran = run_kt(tool, "--bootstrap-server", cluster.bootstrap, *args)
    assert ran.status == ExitStatus.OK, ran.err
    return ran


def events(text: str, name: str) -> list[dict[str, Any]]:
    return [event for event in map(json.loads, text.splitlines()) if event["name"] == name]


def facts(records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(record[key] for key in ("topic", "partition", "offset", "key", "value")) for record in records]


def test_javas_verifiable_consumer_reads_what_ours_told(real_kafka: ApacheKafka) -> None:
    topic = f"verified-{uuid.uuid4().hex[:8]}"
    sent = ours(
        *(real_kafka, "verifiable-producer", "--topic", topic, "--max-messages", "1500"),
        *("--value-prefix", "3", "--repeating-keys", "7"),
    )
    told = facts(events(sent.out, "producer_send_success"))
    assert [fact[4] for fact in told] == [f"3.{number}" for number in range(1500)]
    read = real_kafka.tool(
        *("verifiable-consumer", "--topic", topic, "--group-id", f"java-{topic}", "--max-messages", "1500", "--verbose")
    )
    assert facts(events(read, "record_data")) == told


def test_our_verifiable_consumer_reads_what_javas_producer_told(real_kafka: ApacheKafka) -> None:
    topic = f"verified-{uuid.uuid4().hex[:8]}"
    sent = real_kafka.tool("verifiable-producer", "--topic", topic, "--max-messages", "1200")
    told = facts(events(sent, "producer_send_success"))
    read = ours(
        *(real_kafka, "verifiable-consumer", "--topic", topic, "--group-id", f"ours-{topic}"),
        *("--max-messages", "1200", "--verbose", "--group-protocol", "consumer"),
    )
    assert facts(events(read.out, "record_data")) == told
    [*_, last] = events(read.out, "offsets_committed")
    assert (last["offsets"], last["success"]) == ([{"topic": topic, "partition": 0, "offset": 1200}], True)


def test_perf_tools_measure_what_is_there(real_kafka: ApacheKafka) -> None:
    topic = f"perf-{uuid.uuid4().hex[:8]}"
    real_kafka.tool("topics", "--create", "--topic", topic, "--partitions", "2")
    args = ("--topic", topic, "--num-records", "50000")
    sent = ours(
        *(real_kafka, "producer-perf-test", *args, "--record-size", "100", "--throughput", "-1"),
        *("--command-property", "acks=all", "compression.type=zstd"),
    )
    assert sent.out.splitlines()[-1].startswith("50000 records sent, ")
    offsets = real_kafka.tool("get-offsets", "--topic", topic)
    assert sum(int(line.rsplit(":", 1)[1]) for line in offsets.split()) == 50000
    read = ours(real_kafka, "consumer-perf-test", *args)
    assert read.out.splitlines()[-1].split(", ")[2:5:2] == ["4.7684", "50000"]
    trips = ours(
        *(real_kafka, "e2e-latency", "--topic", topic, "--num-records", "20"),
        *("--producer-acks", "all", "--record-size", "50"),
    )
    assert re.search(r"^Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+$", trips.out, re.MULTILINE)
