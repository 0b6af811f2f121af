"""An idempotent producer (kafkatools', or confluent-kafka) that numbers its records by partition and writes down what
was acknowledged. argv: library, bootstrap, journal, name, run, topic, partitions."""

from __future__ import annotations

import random
import sys
import time
from typing import Any

from journal import Journal, told_to_stop

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
    "request.timeout.ms": "1000",
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

        self._producer = Producer(Config(PRODUCER, settings))

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

        self._producer = Producer({**settings, "socket.timeout.ms": "1000"})

    def send(self, partition: int, number: int, value: bytes) -> None:
        def answered(error: object, message: Any) -> None:
            noted(partition, number, message.offset(), error)

        self._producer.produce(topic, value, partition=partition, on_delivery=answered)
        self._producer.poll(0)

    def close(self) -> None:
        assert self._producer.flush(60) == 0


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
        time.sleep(source.uniform(0.01, 0.06))
    producer.close()
    for partition, count in enumerate(sent):
        journal.write("done", name, run, partition, count)


main()
