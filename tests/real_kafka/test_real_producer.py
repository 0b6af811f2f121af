"""The producer against a real Apache Kafka: killed in the middle, read back by Kafka's own console consumer."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable

import pytest
from support.apache_kafka import ApacheKafka
from support.kt import run_kt
from support.waiting import PATIENCE_S

from kafkatools.core.clock import SystemClock
from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.producer.futures import RecordMetadata, RowsRun
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.records.columns import RowColumns

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

RECORDS = 30_000
PARTITIONS = 4


def read_back(cluster: ApacheKafka, topic: str, count: int) -> list[list[str]]:
    """partition, offset, headers, key, value of `count` records, by Kafka's console consumer."""
    options = ["print.partition", "print.offset", "print.headers", "print.key", "print.timestamp"]
    text = cluster.tool(
        "console-consumer",
        *("--topic", topic, "--from-beginning", "--timeout-ms", "120000", "--max-messages", str(count)),
        *(part for name in options for part in ("--formatter-property", f"{name}=true")),
    )
    return [line.split("\t") for line in text.splitlines()]


def make_topic(cluster: ApacheKafka, topic: str, partitions: int) -> None:
    cluster.tool("topics", "--create", "--topic", topic, "--partitions", str(partitions))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_are_read_back_by_kafkas_consumer(real_kafka: ApacheKafka, codec: str) -> None:
    topic = f"produced-{codec}"
    now_ms = SystemClock().wall_ms()  # old timestamps would fall to retention while the test runs
    make_topic(real_kafka, topic, 1)
    with Producer(Config(PRODUCER, {"bootstrap.servers": real_kafka.bootstrap, "compression.type": codec})) as producer:
        futures = [
            producer.send(
                ProducerRecord(
                    topic, b"value %d" % number, b"key %d" % number, timestamp=now_ms + number, headers=[("h", b"x")]
                )
            )
            for number in range(500)
        ]
    assert [future.get(0).offset for future in futures] == list(range(500))
    assert read_back(real_kafka, topic, 500) == [
        [f"CreateTime:{now_ms + n}", "Partition:0", f"Offset:{n}", "h:x", f"key {n}", f"value {n}"] for n in range(500)
    ]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(real_kafka: ApacheKafka, acks: str) -> None:
    topic = f"acks-{acks}"
    make_topic(real_kafka, topic, 1)
    with Producer(Config(PRODUCER, {"bootstrap.servers": real_kafka.bootstrap, "acks": acks})) as producer:
        futures = [producer.send(ProducerRecord(topic, b"%d" % number)) for number in range(100)]
    offsets = [future.get(0).offset for future in futures]
    assert offsets == ([-1] * 100 if acks == "0" else list(range(100)))
    assert [row[-1] for row in read_back(real_kafka, topic, 100)] == [str(number) for number in range(100)]


def test_a_broker_killed_in_the_middle_loses_doubles_and_reorders_nothing(
    new_kafka: Callable[..., ApacheKafka],
) -> None:
    cluster = new_kafka()
    cluster.start()
    make_topic(cluster, "killed", PARTITIONS)
    # A killed Apache Kafka remembers the last batch of a producer only. Of several that it had appended before it could
    # answer, it refuses the earlier ones as out of order, and an idempotent producer sends them again in a new epoch.
    one = {"max.in.flight.requests.per.connection": "1"}
    config = Config(PRODUCER, {"bootstrap.servers": cluster.bootstrap, "batch.size": "2000", "linger.ms": "1", **one})
    told: dict[int, tuple[RecordMetadata, Exception | None]] = {}
    half = threading.Event()

    def callback_for(number: int) -> Callable[[RecordMetadata, Exception | None], None]:
        def callback(metadata: RecordMetadata, error: Exception | None) -> None:
            assert number not in told
            told[number] = (metadata, error)
            if len(told) == RECORDS // 4:
                half.set()

        return callback

    def kill_and_restart() -> None:
        assert half.wait(PATIENCE_S)
        cluster.kill()
        cluster.start_node()

    breaker = threading.Thread(target=kill_and_restart)
    breaker.start()
    with Producer(config) as producer:
        for number in range(RECORDS):
            record = ProducerRecord("killed", b"%d" % number, partition=number % PARTITIONS)
            producer.send(record, callback_for(number))
    breaker.join()
    assert len(told) == RECORDS
    assert [str(error) for _, error in told.values() if error is not None] == []
    ends = cluster.tool("get-offsets", "--topic", "killed", "--time", "latest").splitlines()
    assert ends == [f"killed:{partition}:{RECORDS // PARTITIONS}" for partition in range(PARTITIONS)], "nothing behind"
    held: dict[str, list[int]] = defaultdict(list)
    for row in read_back(cluster, "killed", RECORDS):
        held[row[1]].append(int(row[-1]))
    for partition in range(PARTITIONS):
        assert held[f"Partition:{partition}"] == list(range(partition, RECORDS, PARTITIONS))


def test_a_broker_that_stays_away_leaves_nothing_unreported(new_kafka: Callable[..., ApacheKafka]) -> None:
    cluster = new_kafka()
    cluster.start()
    make_topic(cluster, "gone", 1)
    limits = {"delivery.timeout.ms": "3000", "request.timeout.ms": "1000"}
    # with "rebootstrap" the topic may be forgotten with the broker, and the second send waits for max.block.ms
    settings = {"bootstrap.servers": cluster.bootstrap, "metadata.recovery.strategy": "none", **limits}
    runs: list[RowsRun] = []
    with Producer(Config(PRODUCER, settings)) as producer:
        first = producer.send_columns("gone", RowColumns.of_values([b"x" * 100] * 1000), callback=runs.append)
        first.get(30_000)
        cluster.kill()
        producer.send_columns("gone", RowColumns.of_values([b"y" * 100] * 1000), callback=runs.append)
    assert sum(run.row_count for run in runs if run.error is None) == 1000
    assert sum(run.row_count for run in runs if run.error is not None) == 1000


def test_lines_of_the_console_producer_are_read_back_in_order(real_kafka: ApacheKafka) -> None:
    make_topic(real_kafka, "console", 1)
    lines = [f"line {number} ".encode() + b"x" * (number % 300) for number in range(20_000)]
    ran = run_kt(
        "console-producer", "--bootstrap-server", real_kafka.bootstrap, "--topic", "console", stdin=b"\n".join(lines)
    )
    assert (ran.status, ran.err) == (0, "20000 sent, 0 failed\n")
    assert [row[-1].encode() for row in read_back(real_kafka, "console", 20_000)] == lines
