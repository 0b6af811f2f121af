"""kt backup and kt restore between a real Apache Kafka and an embedded broker; Java's consumers go on in the target."""

from __future__ import annotations

import json
import pathlib

import pytest
from support.apache_kafka import ApacheKafka, run_tool
from support.embedded import embedded_broker
from support.kt import Ran, run_kt

from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

START = 1_700_000_000_000
COUNT = 600


def ok(command: str, *words: str) -> Ran:
    ran = run_kt(command, *words)
    assert ran.status == 0, ran.err
    return ran


def rows(bootstrap: str, topic: str) -> list[tuple[object, ...]]:
    words = ("--topic", topic, "--from-beginning", "--exit-at-end", "--json", "--isolation-level", "read_committed")
    ran = ok("console-consumer", "--bootstrap-server", bootstrap, *words)
    found = sorted(map(json.loads, ran.out.splitlines()), key=lambda row: (row["partition"], row["offset"]))
    return [(row["partition"], row["timestamp"], row["key"], row["value"], str(row["headers"])) for row in found]


def consume(bootstrap: str, topic: str, group: str, count: int) -> list[int]:
    """The next values of a group, as Java's consumer reads and commits them."""
    read = run_tool(
        "console-consumer", "--bootstrap-server", bootstrap, "--topic", topic, "--group", group,
        "--from-beginning", "--isolation-level", "read_committed", "--max-messages", str(count),
        "--timeout-ms", "120000",
    )  # fmt: skip
    return [int(value) for value in read.stdout.split()]


def fill(bootstrap: str, topic: str) -> None:
    """Transactions of 50 numbers each, every third of which is aborted and its numbers negative."""
    run_kt("topics", "--bootstrap-server", bootstrap, "--create", "--topic", topic, "--partitions", "2")
    settings = {"compression_type": "zstd", "batch_size": 500, "transactional_id": f"fill-{topic}"}
    with Producer(bootstrap_servers=bootstrap, **settings) as producer:
        producer.init_transactions()
        for start in range(0, COUNT, 50):
            for is_aborted in (True, False) if start % 150 == 0 else (False,):
                producer.begin_transaction()
                for number in range(start, start + 50):
                    value = b"%d" % (-number if is_aborted else number)
                    headers = [("trace", b"%d" % number)] if number % 2 else ()
                    producer.send(ProducerRecord(topic, value, None, number % 2, START + number, headers))
                if is_aborted:
                    producer.flush()
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()


@pytest.mark.parametrize("to_kafka", [True, False], ids=["to Apache Kafka", "from Apache Kafka"])
def test_a_group_goes_on_at_the_right_record(real_kafka: ApacheKafka, tmp_path: pathlib.Path, to_kafka: bool) -> None:
    topic, url = f"moved-{to_kafka}".lower(), str(tmp_path / "backup")
    with embedded_broker(tmp_path / "embedded") as embedded:
        source, target = (embedded, real_kafka.bootstrap) if to_kafka else (real_kafka.bootstrap, embedded)
        fill(source, topic)
        seen = consume(source, topic, f"reader-of-{topic}", 250)
        ok("backup", "--bootstrap-server", source, "--to", url, "--topic", topic)
        ok("backup", "verify", url, "--against", source)
        ok("restore", "--bootstrap-server", target, "--from", url)
        assert rows(target, topic) == rows(source, topic)
        rest = consume(target, topic, f"reader-of-{topic}", COUNT - len(seen))
        assert sorted(seen + rest) == list(range(COUNT))
