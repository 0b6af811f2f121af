"""The workload `log`: an idempotent producer with acks=all whose values are unique and numbered by partition, and a
reader. Own arguments: topic, partitions."""

from __future__ import annotations

import random
import sys
import threading
import time
from typing import Any

from common import DELIVERY_S, OURS, PATIENCE_S, RESTART, Arguments, complain, in_thread, make_producer, read_on

MOST_UNANSWERED = 300
PAUSE_S = (0.08, 0.3)
BURST = 8


class Writer:
    """Sends records and records what became of each."""

    def __init__(self, arguments: Arguments, topic: str, partitions: int, source: random.Random) -> None:
        self._arguments, self._topic, self._source = arguments, topic, source
        self._sent = [0] * partitions
        self._unanswered = 0
        self._lock = threading.Lock()
        # librdkafka 2.16 sends what waits behind a record that timed out again under a new epoch, appended or not: with
        # Apache Kafka, too, records are there twice then.
        timeout = (
            ("delivery.timeout.ms", DELIVERY_S) if arguments.library == OURS else ("message.timeout.ms", PATIENCE_S)
        )
        settings = {"enable.idempotence": "true", "acks": "all", "linger.ms": "2", timeout[0]: str(timeout[1] * 1000)}
        self._producer = make_producer(arguments, settings)

    def send(self, partition: int) -> None:
        """The next record of a partition."""
        recorder, number = self._arguments.recorder, self._sent[partition]
        value = f"{self._arguments.name} {self._arguments.run} {number}"
        operation = recorder.invoke("send", topic=self._topic, partition=partition, number=number, value=value)

        def done(offset: int, error: object) -> None:
            with self._lock:
                self._unanswered -= 1
            if error is None:
                recorder.complete(operation, "ok", offset=offset)
            else:  # it may be in the log
                recorder.complete(operation, "unknown", error=repr(error))

        with self._lock:
            self._unanswered += 1
        self._sent[partition] += 1
        self._producer.send(self._topic, partition, value, done)

    def run(self) -> int:
        """Send until told to stop; returns the exit status."""
        while not self._arguments.stopping.is_set():
            partition = self._source.randrange(len(self._sent))
            try:
                for _ in range(self._source.randint(1, BURST)):
                    self.send(partition)
            except self._producer.error as error:
                complain(self._arguments, error)
                return RESTART
            until = time.monotonic() + self._source.uniform(*PAUSE_S)
            while time.monotonic() < until or self._unanswered > MOST_UNANSWERED:
                self._producer.serve()
                if self._producer.is_fatal:
                    return RESTART
                if self._arguments.stopping.wait(0.02):
                    break
        self._producer.close()
        return 0


def main() -> int:
    arguments = Arguments()
    topic, partitions = arguments.more
    source: Any = random.Random(f"{arguments.name} {arguments.run}")
    reader = in_thread(read_on, arguments, topic, int(partitions), "read_uncommitted", random.Random(arguments.name))
    status = Writer(arguments, topic, int(partitions), source).run()
    if status == 0:
        reader.join(PATIENCE_S)
    return status


sys.exit(main())
