"""A transactional producer through broken brokers: the embedded one is killed in the middle of transactions again and
again, and every committed record is there once, in order, every aborted one nowhere."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from kafkatools.core.config import CONSUMER, PRODUCER, Config
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.errors import IllegalState
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
from kafkatools.core.producer.futures import RecordFuture, TopicPartition
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.records.columns import RowColumns

PARTITIONS = 3


def producer_of(bootstrap: str, transactional_id: str) -> Producer:
    settings = {
        "bootstrap.servers": bootstrap,
        "transactional.id": transactional_id,
        "request.timeout.ms": "3000",
        "linger.ms": "2",
    }
    return Producer(Config(PRODUCER, settings))


def committed(broker: Any, topic: str) -> list[list[str]]:
    """The committed values by partition, in the order of the log."""
    found = []
    for partition in range(PARTITIONS):
        ran = broker.kt(
            *("console-consumer", "--bootstrap-server", broker.bootstrap, "--topic", topic),
            *("--partition", str(partition), "--offset", "earliest"),
            *("--exit-at-end", "--isolation-level", "read_committed"),
        )
        assert ran.returncode == 0, ran.stderr.decode()
        found.append(ran.stdout.decode().split())
    return found


def make_topic(broker: Any, topic: str) -> None:
    made = broker.kt(
        *("topics", "--create", "--topic", topic, "--partitions", str(PARTITIONS)),
        *("--bootstrap-server", broker.bootstrap),
    )
    assert made.returncode == 0, made.stderr.decode()


@pytest.mark.slow
def test_transactions_through_a_broker_that_is_killed_again_and_again(make_broker: Any) -> None:
    broker = make_broker()
    broker.start()
    make_topic(broker, "killed")
    source = random.Random(11)
    stop = threading.Event()
    kills: list[float] = []

    def break_it() -> None:
        while not stop.wait(source.uniform(0.2, 0.6)) and len(kills) < 4:
            broker.kill()
            kills.append(0)
            broker.start()

    breaker = threading.Thread(target=break_it)
    wanted: list[list[str]] = [[] for _ in range(PARTITIONS)]
    number = 0
    with producer_of(broker.bootstrap, "killed") as producer:
        producer.init_transactions()
        breaker.start()
        try:
            while breaker.is_alive() or number < 60:
                values: list[list[str]] = [[f"{number}-{part}-{i}" for i in range(5)] for part in range(PARTITIONS)]
                producer.begin_transaction()
                for part, texts in enumerate(values):
                    rows = RowColumns.of_values([text.encode() for text in texts])
                    producer.send_columns("killed", rows, partition=part)
                if number % 5 == 4:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
                    for part, texts in enumerate(values):
                        wanted[part] += texts
                number += 1
        finally:
            stop.set()
            breaker.join()
    assert len(kills) >= 3
    assert committed(broker, "killed") == wanted


@pytest.mark.slow
def test_a_copy_is_exact_through_killed_copiers(make_broker: Any) -> None:
    """Consume, transform, produce: offsets go with the transaction, so a copier that dies repeats nothing."""
    broker = make_broker()
    broker.start()
    make_topic(broker, "in")
    make_topic(broker, "out")
    with Producer(Config(PRODUCER, {"bootstrap.servers": broker.bootstrap})) as plain:
        for number in range(300):
            plain.send(ProducerRecord("in", b"%d" % number, partition=number % PARTITIONS))
    source = random.Random(5)
    while copy_some(broker.bootstrap, source) < 300:
        pass
    copied = committed(broker, "out")
    assert copied == [[f"copy-{number}" for number in range(part, 300, PARTITIONS)] for part in range(PARTITIONS)]


def committed_positions(bootstrap: str) -> dict[TopicPartition, int]:
    """The group's committed offsets; waits for transactions that may still commit others."""
    places = [TopicPartition("in", part) for part in range(PARTITIONS)]
    consumer = Consumer(Config(CONSUMER, {"bootstrap.servers": bootstrap, "group.id": "copiers"}))
    try:
        found = {tuple(place): offset for place, offset in consumer.committed(places).items()}  # type: ignore[arg-type]
    finally:
        consumer.close()
    offsets = {place: found.get(tuple(place)) for place in places}
    return {place: 0 if offset is None else offset.offset for place, offset in offsets.items()}


def copy_some(bootstrap: str, source: random.Random) -> int:
    """A copier: some transactions of some records each, then it dies, often within one. How many were copied before.

    Its initialization ends what the one before left open; only then the committed offsets are known.
    """
    producer = producer_of(bootstrap, "copier")
    producer.init_transactions()
    at = committed_positions(bootstrap)
    copied = sum(at.values())
    for _ in range(source.randint(1, 6)):
        producer.begin_transaction()
        for place in at:
            count = min(source.randint(0, 12), 100 - at[place])
            for index in range(at[place], at[place] + count):
                number = index * PARTITIONS + place.partition
                producer.send(ProducerRecord("out", b"copy-%d" % number, partition=place.partition))
            at[place] += count
        offsets = {place: OffsetAndMetadata(offset) for place, offset in at.items()}
        producer.send_offsets_to_transaction(offsets, ConsumerGroupMetadata("copiers"))
        if source.random() < 0.4:
            producer.flush()
            producer._force_close = True  # leaves the transaction open, as a kill -9 does
            break
        producer.commit_transaction()
    producer.close(0)
    return copied


def test_sends_of_other_threads_are_in_the_transaction_or_refused(make_broker: Any) -> None:
    """A commit that races with sends: whatever a future calls acknowledged is committed."""
    broker = make_broker()
    broker.start()
    make_topic(broker, "raced")
    stop = threading.Event()
    futures: list[list[tuple[int, RecordFuture]]] = [[] for _ in range(PARTITIONS)]
    with producer_of(broker.bootstrap, "raced") as producer:
        producer.init_transactions()

        def keep_sending(partition: int) -> None:
            number = 0
            while not stop.is_set():
                try:
                    future = producer.send(ProducerRecord("raced", b"%d" % number, partition=partition))
                except IllegalState:
                    stop.wait(0.0002)
                    continue
                futures[partition].append((number, future))
                number += 1
                if number % 50 == 0:
                    stop.wait(0.0005)

        senders = [threading.Thread(target=keep_sending, args=(partition,)) for partition in range(PARTITIONS)]
        for sender in senders:
            sender.start()
        for _ in range(60):
            producer.begin_transaction()
            stop.wait(0.002)
            producer.commit_transaction()
        stop.set()
        for sender in senders:
            sender.join()
    assert [future.exception() for sent in futures for _, future in sent if future.exception()] == []
    assert committed(broker, "raced") == [[str(number) for number, _ in sent] for sent in futures]
