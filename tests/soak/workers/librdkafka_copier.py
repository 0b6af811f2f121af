"""confluent-kafka copies a topic in transactions, offsets and all. argv: bootstrap, name, run, input, output, group."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from journal import FENCED, told_to_stop

bootstrap, name, run, source_topic, output, group = sys.argv[1:]
common = {
    "bootstrap.servers": bootstrap,
    "reconnect.backoff.ms": "20",
    "reconnect.backoff.max.ms": "200",
    # with rebootstrap librdkafka 2.16 may wait without end for a coordinator that it has dropped (its issue 5511)
    "metadata.recovery.strategy": "none",
}
reading = {
    "group.id": group,
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "session.timeout.ms": "2000",
    "heartbeat.interval.ms": "300",
}
writing = {"transactional.id": name, "transaction.timeout.ms": "5000", "linger.ms": "2", "batch.num.messages": "20"}


def return_to_committed(consumer: Any) -> None:
    """After an abort: read on from what was committed."""
    for place in consumer.committed(consumer.assignment(), 300):
        if place.error is not None:
            raise KafkaException(place.error)
        if place.offset < 0:
            print(f"{name} {run}: nothing is committed of {place}", file=sys.stderr, flush=True)
        place.offset = max(place.offset, 0)
        consumer.seek(place)


@contextlib.contextmanager
def bounded(what: str) -> Iterator[None]:
    """End the process if a call lasts longer than 60 s; the test starts it again.

    librdkafka's send_offsets_to_transaction() ignores its time-out (its issue 5456). If the coordinator of the group
    was away, it waits for a change of some connection, and after the last fault none changes.
    """

    def end() -> None:
        print(f"{name} {run}: {what} has not returned for 60 s", file=sys.stderr, flush=True)
        os._exit(FENCED)

    watchdog = threading.Timer(60, end)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


def copy(producer: Any, consumer: Any, messages: list[Any], is_abort: bool) -> None:
    """One transaction; raises KafkaException."""
    ends: dict[int, int] = {}
    producer.begin_transaction()
    for message in messages:
        producer.produce(output, message.value(), partition=message.partition())
        ends[message.partition()] = message.offset() + 1
    offsets = [TopicPartition(source_topic, partition, end) for partition, end in ends.items()]
    with bounded("send_offsets_to_transaction"):
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 300)
    if is_abort:
        producer.flush(300)  # what an abort purges leaves its sequences to the next transaction, see make history
        producer.abort_transaction(300)
        return_to_committed(consumer)
    else:
        producer.commit_transaction(300)


def main() -> int:
    stopping = told_to_stop()
    source = random.Random(f"{name} {run}")
    producer = Producer(common | writing)
    producer.init_transactions(600)
    consumer = Consumer(common | reading)
    consumer.subscribe([source_topic])
    while not stopping:
        messages = [message for message in consumer.consume(200, 0.1) if not message.error()]
        try:
            if messages:
                copy(producer, consumer, messages, source.random() < 0.1)
        except KafkaException as error:
            print(f"{name} {run}: {error!r}", file=sys.stderr, flush=True)
            if not error.args[0].txn_requires_abort() or producer.flush(10) > 0:
                return FENCED
            producer.abort_transaction(300)
            return_to_committed(consumer)
    consumer.close()
    return 0


try:
    sys.exit(main())
except KafkaException as unexpected:
    print(f"{name} {run}: {unexpected!r}", file=sys.stderr, flush=True)
    sys.exit(FENCED)
