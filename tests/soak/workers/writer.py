"""An idempotent producer (kafkatools', or confluent-kafka) that numbers its records by partition and writes down what
was acknowledged. argv: library, bootstrap, journal, name, run, topic, partitions.

It waits when a thousand records or so are on their way: what a busy machine has not written yet would else be minutes
of work when it is told to end. KT_SOAK_DEBUG: librdkafka's `debug`."""

from __future__ import annotations

import os
import random
import sys
import time
from functools import partial
from typing import Any

from journal import Journal, after_contact, told_to_stop

WRITERS_END_S = 120
CODECS = ("none", "lz4", "zstd", "snappy", "gzip")
library, bootstrap, path, name, run, topic, partitions = sys.argv[1:]
journal = Journal(path)
settings: dict[str, str] = {
    "bootstrap.servers": bootstrap,
    "enable.idempotence": "true",
    "compression.type": CODECS[int(run) % len(CODECS)],
    "linger.ms": "3",
    "batch.size": "1500",
    "reconnect.backoff.ms": "20",
    "reconnect.backoff.max.ms": "200",
    "retry.backoff.ms": "20",
    "request.timeout.ms": "4000",
    "delivery.timeout.ms": "1800000",
}


def noted(partition: int, number: int, offset: int, error: object) -> None:
    """An answer for one record."""
    if error is None:
        journal.write("acked", name, run, partition, number, offset)
    else:
        journal.write("failed", name, run, partition, number, repr(error).replace(" ", "_"))


class OurProducer:
    def __init__(self) -> None:
        from kafkatools.core.config import PRODUCER, Config
        from kafkatools.core.producer.producer import Producer

        self._producer = Producer(Config(PRODUCER, {**settings, "buffer.memory": "120000", "max.block.ms": "1800000"}))
        after_contact(partial(self._producer.partitions_for, topic))

    def send(self, partition: int, number: int, value: bytes) -> None:
        from kafkatools.core.producer.producer_record import ProducerRecord

        def answered(metadata: Any, error: object) -> None:
            noted(partition, number, metadata.offset if error is None else -1, error)

        self._producer.send(ProducerRecord(topic, value, partition=partition), answered)

    def close(self) -> None:
        self._producer.close()


class Librdkafka:
    def __init__(self) -> None:
        from confluent_kafka import Producer

        bounds = {"queue.buffering.max.messages": "1000", "socket.timeout.ms": "4000"}
        debug = {"debug": os.environ["KT_SOAK_DEBUG"]} if "KT_SOAK_DEBUG" in os.environ else {}
        self._producer = Producer({**settings, **bounds, **debug})

    def send(self, partition: int, number: int, value: bytes) -> None:
        def answered(error: object, message: Any) -> None:
            noted(partition, number, message.offset(), error)

        while True:
            try:
                self._producer.produce(topic, value, partition=partition, on_delivery=answered)
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def close(self) -> None:
        print(f"{name} {run}: ends, {len(self._producer)} are on their way", file=sys.stderr, flush=True)
        assert self._producer.flush(WRITERS_END_S) == 0


def main() -> None:
    stopping = told_to_stop()
    source = random.Random(f"{name} {run}")
    producer = OurProducer() if library == "kafkatools" else Librdkafka()
    sent = [0] * int(partitions)
    while not stopping:
        partition = source.randrange(len(sent))
        for _ in range(source.randint(1, 30)):
            padding = b"." * source.randint(0, 150)
            producer.send(
                partition, sent[partition], b"%s %s %d %s" % (name.encode(), run.encode(), sent[partition], padding)
            )
            sent[partition] += 1
        time.sleep(source.uniform(0.02, 0.12))
    producer.close()
    for partition, count in enumerate(sent):
        journal.write("done", name, run, partition, count)


main()
