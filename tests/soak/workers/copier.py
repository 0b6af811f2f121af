"""Copies a topic in transactions, offsets and all, in the manner of Apache Kafka's TransactionalMessageCopier.

argv: bootstrap, name, run, input, output, group, protocol (assign, classic, consumer), partitions."""

from __future__ import annotations

import random
import sys
from functools import partial
from typing import Any

from journal import FENCED, after_contact, told_to_stop

from kafkatools.core.config import CONSUMER, PRODUCER, Config
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.errors import KafkaError
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord

bootstrap, name, run, source_topic, output, group, protocol, partitions = sys.argv[1:]
PATIENCE_MS = "1800000"
common = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": "200", "request.timeout.ms": "4000"}
reading = {
    **common,
    "group.id": group,
    "isolation.level": "read_committed",
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "default.api.timeout.ms": PATIENCE_MS,
    "max.poll.records": "200",
}
if protocol == "classic":
    reading |= {"session.timeout.ms": "2000", "heartbeat.interval.ms": "300"}
if protocol == "consumer":
    reading["group.protocol"] = "consumer"
writing = {**common, "transactional.id": name, "transaction.timeout.ms": "5000", "linger.ms": "2", "batch.size": "1500"}
writing |= {"max.block.ms": PATIENCE_MS, "delivery.timeout.ms": PATIENCE_MS}


def return_to_committed(consumer: Consumer) -> None:
    """After an abort: read on from what was committed."""
    assigned = consumer.assignment()
    for place, found in consumer.committed(assigned).items():
        consumer.seek(place, 0 if found is None else found.offset)


def copy(producer: Producer, consumer: Consumer, records: Any, is_abort: bool) -> None:
    """One transaction."""
    offsets: dict[Any, OffsetAndMetadata] = {}
    producer.begin_transaction()
    for record in records:
        producer.send(ProducerRecord(output, record.value, partition=record.partition))
        offsets[source_topic, record.partition] = OffsetAndMetadata(record.offset + 1)
    producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    if is_abort:
        producer.abort_transaction()
        return_to_committed(consumer)
    else:
        producer.commit_transaction()


def try_copy(producer: Producer, consumer: Consumer, records: Any, is_abort: bool) -> bool:
    """Whether the producer can go on. Any error but a fatal one is answered by an abort."""
    try:
        copy(producer, consumer, records, is_abort)
    except KafkaError as error:
        print(f"{name} {run}: {error!r} cause {error.__cause__!r}", file=sys.stderr, flush=True)
        if producer.has_fatal_error:
            return False
        producer.abort_transaction()
        return_to_committed(consumer)
    return True


def main() -> int:
    stopping = told_to_stop()
    source = random.Random(f"{name} {run}")
    producer = Producer(Config(PRODUCER, writing))
    after_contact(producer.init_transactions)
    consumer = Consumer(Config(CONSUMER, reading))
    if protocol == "assign":
        consumer.assign([(source_topic, partition) for partition in range(int(partitions))])
    else:
        consumer.subscribe([source_topic])
    while not stopping:
        records = list(after_contact(partial(consumer.poll, 100)))
        if records and not try_copy(producer, consumer, records, source.random() < 0.1):
            return FENCED
    consumer.close()
    producer.close()
    return 0


sys.exit(main())
