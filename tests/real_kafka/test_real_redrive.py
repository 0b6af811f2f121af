"""kt redrive on a real Apache Kafka: what Kafka Connect put into a dead-letter topic comes back, fails there again, and
comes back once more."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support import dead_letters as recorded
from support.apache_kafka import ApacheKafka, jars, java_executable
from support.dead_letters import dead_letters
from support.kt import Ran, run_kt
from support.waiting import eventually

from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

START = 1_700_000_000_000
_SOURCE = pathlib.Path(recorded.__file__).with_name("ConnectDeadLetters.java")


def redrive(kafka: ApacheKafka, topic: str, *words: str) -> Ran:
    return run_kt("redrive", topic, "--bootstrap-server", kafka.bootstrap, *words)


def rows(kafka: ApacheKafka, topic: str, least: int = 0) -> list[dict[str, Any]]:
    """The committed records, at least so many: Apache Kafka answers a commit before it has written all markers."""
    if least:
        eventually(lambda: len(rows(kafka, topic)) >= least)
    words = ("--topic", topic, "--from-beginning", "--exit-at-end", "--json", "--isolation-level", "read_committed")
    ran = run_kt("console-consumer", "--bootstrap-server", kafka.bootstrap, *words)
    return sorted(map(json.loads, ran.out.splitlines()), key=lambda row: (row["partition"], row["offset"]))


@pytest.fixture
def connect(real_kafka: ApacheKafka, tmp_path: pathlib.Path) -> Iterator[None]:
    """Connect's reporter of errors, which writes each record of `sunk` to `sunk.dlq`."""
    for topic, count in (("sunk", "3"), ("sunk.dlq", "1")):
        real_kafka.tool("topics", "--create", "--topic", topic, "--partitions", count)
    main = ["-XX:TieredStopAtLevel=1", "-cp", jars(), str(_SOURCE), real_kafka.bootstrap, "sunk", "sunk.dlq"]
    with (tmp_path / "connect.log").open("wb") as log:
        process = subprocess.Popen([java_executable(), *main], stdout=log, stderr=log)
    yield
    process.kill()
    process.wait()


def test_dead_letters_of_connect_come_back_and_fail_again(real_kafka: ApacheKafka, connect: None) -> None:
    with Producer(bootstrap_servers=real_kafka.bootstrap) as producer:
        for number in range(30):
            headers = [("trace", b"%d" % number)]
            producer.send(ProducerRecord("sunk", b"{%d" % number, b"k%d" % number, number % 3, START + number, headers))
    originals = rows(real_kafka, "sunk")
    for attempt in (1, 2):
        eventually(lambda attempt=attempt: len(rows(real_kafka, "sunk.dlq")) == 30 * attempt)
        ran = redrive(real_kafka, "sunk.dlq", "--same-partition", "--json")
        (row,) = map(json.loads, ran.out.splitlines())
        assert (ran.status, row["target"], row["exception"], row["records"]) == (
            0, "sunk", "org.apache.kafka.connect.errors.DataException", 30,
        )  # fmt: skip
        all_rows = rows(real_kafka, "sunk", 30 * (attempt + 1))
        back = [row for row in all_rows if ["kt-redrive-attempts", str(attempt)] in row["headers"]]
        assert [(row["partition"], row["timestamp"], row["key"], row["value"], row["headers"][0]) for row in back] == [
            (row["partition"], row["timestamp"], row["key"], row["value"], row["headers"][0]) for row in originals
        ]
        assert all(len(row["headers"]) == 2 for row in back)
    eventually(lambda: len(rows(real_kafka, "sunk.dlq")) == 90)
    ran = redrive(real_kafka, "sunk.dlq", "--max-attempts", "2")
    assert (ran.status, ran.err.splitlines()[-1]) == (3, "Sent back a total of 0 records; left 30 records")


def test_many_records_fit_into_a_target_with_small_batches(real_kafka: ApacheKafka) -> None:
    real_kafka.tool("topics", "--create", "--topic", "small", "--config", "max.message.bytes=300")
    real_kafka.tool("topics", "--create", "--topic", "small.dlq")
    with Producer(bootstrap_servers=real_kafka.bootstrap, compression_type="zstd") as producer:
        for number in range(200):
            producer.send(ProducerRecord("small.dlq", b"%d" % number))
    assert redrive(real_kafka, "small.dlq", "--to", "small").status == 0
    assert [int(row["value"]) for row in rows(real_kafka, "small", 200)] == list(range(200))


def test_a_selection_and_its_rest_come_back_once(real_kafka: ApacheKafka) -> None:
    for topic, count in (("orders", "3"), ("mixed.dlq", "2")):
        real_kafka.tool("topics", "--create", "--topic", topic, "--partitions", count)
    with Producer(bootstrap_servers=real_kafka.bootstrap) as producer:
        for number in range(200):
            framework = ("spring.dlt", "spring-dlt", "streams.dlq", "connect.dlq")[number % 4]
            headers = [(name.decode(), value) for name, value in dead_letters(framework)[0].headers]
            producer.send(ProducerRecord("mixed.dlq", b"%d" % number, b"k", number % 2, START, headers))
    assert redrive(real_kafka, "mixed.dlq", "--exception", "DataException").err.splitlines()[-1].endswith(" 50 records")
    assert redrive(real_kafka, "mixed.dlq", "--dry-run").err.splitlines()[-1].endswith(" 150 records")
    lag = real_kafka.tool("consumer-groups", "--describe", "--group", "kt-redrive-mixed.dlq").split()
    assert "kt-redrive-mixed.dlq" in lag
    assert redrive(real_kafka, "mixed.dlq").err == "Sent back a total of 150 records\n"
    assert redrive(real_kafka, "mixed.dlq").err == "Sent back a total of 0 records\n"
    assert sorted(int(row["value"]) for row in rows(real_kafka, "orders", 200)) == list(range(200))
