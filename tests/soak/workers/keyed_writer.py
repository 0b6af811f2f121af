"""Writes versions of keys, and tombstones, to a compacted topic. argv: bootstrap, journal, name, run, topic,
partitions."""

from __future__ import annotations

import random
import sys
import time
from functools import partial
from typing import Any

from journal import Journal, after_contact, told_to_stop

from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord

KEYS = 60
bootstrap, path, name, run, topic, partitions = sys.argv[1:]
journal = Journal(path)
settings = {
    "bootstrap.servers": bootstrap,
    "linger.ms": "3",
    "batch.size": "8000",
    "reconnect.backoff.max.ms": "200",
    "request.timeout.ms": "4000",
    "delivery.timeout.ms": "1800000",
    "max.block.ms": "1800000",
}


def write(producer: Producer, number: int, version: int) -> None:
    """The next version of a key; every seventh deletes it."""
    is_tombstone = (number + version) % 7 == 6

    def answered(metadata: Any, error: object) -> None:
        if error is not None:
            journal.write("failed", name, run, number, version, repr(error).replace(" ", "_"))
            return
        journal.write("tombstone" if is_tombstone else "value", name, run, number, version)

    if is_tombstone:
        journal.write("deleting", name, run, number, version)
    key = f"{name}.{run}.{number}".encode()
    value = None if is_tombstone else b"%d " % version + b"." * 700
    headers = [("version", b"%d" % version)]
    producer.send(ProducerRecord(topic, value, key, number % int(partitions), headers=headers), answered)


def main() -> None:
    stopping = told_to_stop()
    source = random.Random(f"{name} {run}")
    versions = [0] * KEYS
    with Producer(Config(PRODUCER, settings)) as producer:
        after_contact(partial(producer.partitions_for, topic))
        while not stopping:
            for _ in range(source.randint(1, 40)):
                number = source.randrange(KEYS)
                write(producer, number, versions[number])
                versions[number] += 1
            time.sleep(0.03)
    journal.write("done", name, run, sum(versions), 0)


main()
