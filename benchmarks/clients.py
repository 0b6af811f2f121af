"""kafkatools.Producer and Consumer beside confluent-kafka: records of 100 bytes, one by one and as columns.

Each figure is of a process of its own that works against one broker; ours and theirs take turns. A process prints the
seconds of the work itself, by the clock and of its processor, without imports and the connection.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.measure import ROUNDS, report
from benchmarks.peers import create_topic, embedded_broker, scratch

RECORDS = 500_000
VALUE = b"x" * 100
ROWS = 5000
BATCH_BYTES = 1_000_000
"""The batch.size of both producers: the default of librdkafka. Kafka's own is 16,384."""
SETTINGS = {"linger.ms": 5, "queue.buffering.max.messages": 2 * RECORDS}
WORKS = {
    ("send", "produce"): 1.0,
    ("send:16384", "produce:16384"): 1.0,
    ("send_many", "produce"): 1.0,
    ("send_columns", "produce"): 5.0,
    ("iterate", "consume"): 1.0,
    ("poll", "consume"): 1.0,
    ("columns", "consume"): 5.0,
}
"""Our work and theirs, with another batch.size behind a colon: the ratio of records a second that is aimed at."""


def main() -> None:
    """All figures."""
    with scratch() as directory, embedded_broker(directory, **{"log.retention.bytes": str(1 << 30)}) as bootstrap:
        for topic in ("bench-send", "bench-read"):
            create_topic(bootstrap, topic)
        _seconds("send_many", bootstrap, "bench-read")
        for (work, peer), target in WORKS.items():
            topic = "bench-send" if work.startswith("send") else "bench-read"
            _figure(work, peer, bootstrap, topic, target)


def _figure(work: str, peer: str, bootstrap: str, topic: str, target: float) -> None:
    pairs = [(_seconds(work, bootstrap, topic), _seconds(peer, bootstrap, topic)) for _ in range(ROUNDS)]
    (ours, ours_cpu), (theirs, theirs_cpu) = (
        (statistics.median(pair[side][0] for pair in pairs), statistics.median(pair[side][1] for pair in pairs))
        for side in (0, 1)
    )
    report(
        f"clients {work}",
        ratio=round(theirs / ours, 2),
        ratio_processor=round(theirs_cpu / ours_cpu, 2),
        target=target,
        reached=theirs / ours >= target,
        ours_records_s=round(RECORDS / ours),
        ours_records_processor_s=round(RECORDS / ours_cpu),
        peer=f"confluent-kafka {peer}",
        peer_records_s=round(RECORDS / theirs),
        peer_records_processor_s=round(RECORDS / theirs_cpu),
    )


def _seconds(work: str, bootstrap: str, topic: str) -> tuple[float, float]:
    """What a process prints: seconds of the work, seconds of its processor."""
    command = [sys.executable, "-m", "benchmarks.clients", work, bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wall, processor = json.loads(done.stdout)
    return wall, processor


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds by the clock and of this process's processor that the work took."""
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - processor


def produce(bootstrap: str, topic: str, work: str, batch_bytes: int) -> tuple[float, float]:
    """Send all records with kafkatools, and wait for their acknowledgements."""
    from kafkatools import Producer
    from kafkatools.core.records.columns import RowColumns

    rows = RowColumns.of_values([VALUE] * ROWS)
    with Producer(bootstrap_servers=bootstrap, linger_ms=5, batch_size=batch_bytes) as producer:
        producer.send(topic, VALUE).result()

        def one_by_one() -> None:
            for _ in range(RECORDS):
                producer.send(topic, VALUE)
            producer.flush()

        def many() -> None:
            for _ in range(RECORDS // ROWS):
                producer.send_many(topic, [VALUE] * ROWS)
            producer.flush()

        def columns() -> None:
            for _ in range(RECORDS // ROWS):
                producer.send_columns(topic, rows)
            producer.flush()

        return timed({"send": one_by_one, "send_many": many, "send_columns": columns}[work])


def read(bootstrap: str, topic: str, work: str) -> tuple[float, float]:
    """Read all records with kafkatools."""
    from kafkatools import Consumer

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])

        def iterate() -> None:
            size = 0
            for count, record in enumerate(consumer, 1):
                size += len(record.value)
                if count == RECORDS:
                    return

        def poll() -> None:
            count = size = 0
            while count < RECORDS:
                for record in consumer.poll(1000):
                    count += 1
                    size += len(record.value)

        def columns() -> None:
            count = 0
            while count < RECORDS:
                count += sum(item.columns.count for item in consumer.poll_columns(1000))

        return timed({"iterate": iterate, "poll": poll, "columns": columns}[work])


def confluent_produce(bootstrap: str, topic: str, batch_bytes: int) -> tuple[float, float]:
    """Send all records with confluent-kafka, and wait for their acknowledgements."""
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "batch.size": batch_bytes, **SETTINGS})
    producer.produce(topic, VALUE)
    producer.flush()

    def work() -> None:
        for _ in range(RECORDS):
            producer.produce(topic, VALUE)
        producer.flush()

    return timed(work)


def confluent_consume(bootstrap: str, topic: str) -> tuple[float, float]:
    """Read all records with confluent-kafka's batch call."""
    import confluent_kafka

    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    )
    reader.assign([confluent_kafka.TopicPartition(topic, 0, 0)])

    def work() -> None:
        count = size = 0
        while count < RECORDS:
            for message in reader.consume(1000, 1.0):
                count += 1
                size += len(message.value())

    seconds = timed(work)
    reader.close()
    return seconds


def _run(work: str, bootstrap: str, topic: str) -> tuple[float, float]:
    name, _, size = work.partition(":")
    batch_bytes = int(size or BATCH_BYTES)
    if name == "produce":
        return confluent_produce(bootstrap, topic, batch_bytes)
    if name == "consume":
        return confluent_consume(bootstrap, topic)
    return produce(bootstrap, topic, name, batch_bytes) if name.startswith("send") else read(bootstrap, topic, name)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        print(json.dumps(_run(*sys.argv[1:])))
