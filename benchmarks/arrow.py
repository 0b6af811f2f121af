"""Records to Arrow and back: `poll_arrow` from the embedded broker, its conversion alone, `send_arrow`, and what
confluent-kafka takes for the same columns.

Records have values of 100 bytes and no keys. A first round warms up. Wall time is that of the busy machine; processor
time is that of the client's process.
"""

from __future__ import annotations

import pathlib
import statistics
import time
import uuid
from collections.abc import Callable, Iterator

import confluent_kafka
import pyarrow as pa

import kafkatools
from benchmarks import measure
from kafkatools.core.consumer.completed_fetch import CompletedFetch, FetchOptions
from kafkatools.core.consumer.fetch_messages import FetchedPartition
from kafkatools.core.records.arrow import ArrowLayout
from kafkatools.core.topic_partition import TopicPartition

COUNT = 2_000_000
SETTINGS = {"receive.buffer.bytes": -1, "max.partition.fetch.bytes": 4 << 20}


def main() -> None:
    """Prints the figures of reading, converting and sending."""
    with kafkatools.EmbeddedBroker() as broker:
        values = pa.table({"value": pa.array([b"%0100d" % number for number in range(COUNT)])})
        with kafkatools.Producer(bootstrap_servers=broker.bootstrap, batch_size=1 << 20, linger_ms=5) as producer:
            producer.send_arrow(values, "read").result()
            timed("send_arrow", lambda: producer.send_arrow(values, "sent").result() and COUNT)
        for kind in ("binary", "view"):
            timed(f"poll_arrow, value as {kind}", lambda kind=kind: polled(broker.bootstrap, ["value"], kind))
        timed("poll_arrow, all columns", lambda: polled(broker.bootstrap, None, "binary"))
        timed("poll_columns", lambda: columns(broker.bootstrap))
        converted(broker)
        timed("confluent-kafka, consume into a column of Arrow", lambda: confluent(broker.bootstrap), rounds=2)


def timed(name: str, work: Callable[[], int], rounds: int = measure.ROUNDS) -> None:
    """Prints records a second of work that returns their number, by wall and by processor time."""
    found = []
    for _ in range(rounds + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        count = work()
        found.append((count / (time.perf_counter() - wall), count / (time.process_time() - cpu)))
    walls, cpus = zip(*found[1:], strict=True)
    measure.report(
        name,
        million_per_s=round(statistics.median(walls) / 1e6, 2),
        best_million_per_s=round(max(walls) / 1e6, 2),
        million_per_cpu_s=round(statistics.median(cpus) / 1e6, 2),
        best_million_per_cpu_s=round(max(cpus) / 1e6, 2),
        bytes=100,
    )


def consumer(bootstrap: str) -> kafkatools.Consumer:
    """A consumer at the beginning of the topic."""
    made = kafkatools.Consumer(SETTINGS, bootstrap_servers=bootstrap)
    made.assign([("read", 0)])
    made.seek_to_beginning()
    made.position(("read", 0))
    return made


def polled(bootstrap: str, names: list[str] | None, kind: str) -> int:
    """All records by poll_arrow."""
    count = 0
    with consumer(bootstrap) as reader:
        while count < COUNT:
            count += reader.poll_arrow(1000, columns=names, value=kind).num_rows
    return count


def columns(bootstrap: str) -> int:
    """All records by poll_columns."""
    count = 0
    with consumer(bootstrap) as reader:
        while count < COUNT:
            count += sum(item.columns.count for item in reader.poll_columns(1000))
    return count


def converted(broker: kafkatools.EmbeddedBroker) -> None:
    """From received bytes to Arrow, without the network: what a poll does once a response is there."""
    responses = list(responses_of(sorted(pathlib.Path(broker.directory).glob("read-0/*.log"))))
    for names, kind in ((["value"], "binary"), (["value"], "view"), (None, "binary")):
        layout = ArrowLayout(names, value=kind)

        def convert(layout: ArrowLayout = layout) -> int:
            count = 0
            for offset, records in responses:
                response = FetchedPartition("read", uuid.UUID(int=0), 0)
                response.records = records
                fetch = CompletedFetch(TopicPartition("read", 0), response, offset, FetchOptions())
                count += layout.batch([("read", 0, columns) for columns in fetch.fetch_columns(COUNT)]).num_rows
            return count

        timed(f"received bytes to Arrow, {'all columns' if names is None else 'value'} as {kind}", convert)


def responses_of(segments: list[pathlib.Path]) -> Iterator[tuple[int, memoryview]]:
    """First offset and bytes of runs of batches of about max.partition.fetch.bytes."""
    for path in segments:
        data = memoryview(path.read_bytes())
        start = position = 0
        while position < len(data):
            position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
            if position - start >= SETTINGS["max.partition.fetch.bytes"] or position == len(data):
                yield int.from_bytes(data[start : start + 8], "big"), data[start:position]
                start = position


def confluent(bootstrap: str) -> int:
    """All values by confluent-kafka's batch call, in a column of Arrow."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False}
    reader = confluent_kafka.Consumer(settings)
    reader.assign([confluent_kafka.TopicPartition("read", 0, 0)])
    count = 0
    while count < COUNT:
        messages = reader.consume(100_000, timeout=1)
        count += len(pa.array([message.value() for message in messages], pa.binary()))
    reader.close()
    return count


if __name__ == "__main__":
    main()
