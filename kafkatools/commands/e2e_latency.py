"""kt e2e-latency: measure the latency from send to poll (kafka-e2e-latency.sh, EndToEndLatency).

Each record is sent, acknowledged and read back before the next one. A round trip lasts from the call of send to the end
of the poll that returned the record. The record read must equal the record sent.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, client_settings, java_int

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.config import Table
    from kafkatools.core.consumer.consumer import Consumer
    from kafkatools.core.consumer.consumer_records import ConsumerRecords
    from kafkatools.core.producer.producer import Producer
    from kafkatools.core.producer.producer_record import ProducerRecord

_POLL_MS = 60_000
_PROGRESS_INTERVAL = 1000
_ACKS = ("1", "all")
_DEPRECATED = (
    "WARNING: Positional argument usage is deprecated and will be removed in Apache Kafka 5.0. "
    "Please use named arguments instead: --bootstrap-server, --topic, --num-records, --producer-acks, --record-size, "
    "--command-config"
)
_OBJECTS = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")


def _count(name: str, about: str, value: str = "BYTES") -> Option:
    return Option(name, f"{about}.", value, java_int, optional_value=True, implied=0, default=0)


OPTIONS = (
    BOOTSTRAP_SERVER,
    Option("--topic", "Topic for the records. It is created if it does not exist.", value="TOPIC", required=True),
    Option("--num-records", "Number of records to send and receive.", value="N", type=java_int, required=True),
    Option(
        "--producer-acks",
        "Acknowledgements that the producer waits for: 1 or all.",
        value="ACKS",
        choices=_ACKS,
        required=True,
    ),
    Option("--record-size", "Size of the values in bytes.", value="N", type=java_int, required=True),
    Option("--command-config", "Properties file with settings of the clients.", value="FILE", optional_value=True),
    _count("--record-key-size", "Size of the keys in bytes; 0: no keys"),
    _count("--num-headers", "Number of headers of each record", "COUNT"),
    _count("--record-header-key-size", "Size of header names in bytes"),
    _count("--record-header-size", "Size of header values in bytes; -1: null"),
)


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt e2e-latency. Raises UsageError for invalid acks, counts or sizes, CommandError when a record is lost."""
    if args.is_positional:
        console.note(_DEPRECATED)
    if args.producer_acks not in _ACKS:
        raise UsageError(
            "Invalid value for --producer-acks. Latency testing requires synchronous acknowledgement. "
            "Please use '1' or 'all'."
        )
    sizes = (args.record_size, args.record_key_size, args.num_headers, args.record_header_key_size)
    if args.num_records <= 0 or min(sizes) < 0 or args.record_header_size < -1:
        raise UsageError(
            "--num-records must be at least 1, --num-headers and sizes at least 0 (--record-header-size: -1)"
        )
    return EndToEndLatency(console, args).run()


class EndToEndLatency:
    """One run of kt e2e-latency: a producer and a consumer of one topic."""

    def __init__(self, console: Console, args: Args) -> None:
        self._console = console
        self._args = args
        self._topic: str = args.topic
        self._settings = {name: value for name, value in client_settings(args).items() if name not in _OBJECTS}
        self._settings["bootstrap.servers"] = console.connect(args)
        self._random = random.Random(0)

    def run(self) -> ExitStatus:
        """Measure --num-records round trips and print the latencies. Creates a missing topic. Raises CommandError when
        a record is lost or differs, or the topic cannot be created."""
        from kafkatools.core.config import CONSUMER, PRODUCER
        from kafkatools.core.consumer.consumer import Consumer
        from kafkatools.core.producer.producer import Producer

        reading = {"enable.auto.commit": "false", "auto.offset.reset": "latest", "fetch.max.wait.ms": "0"}
        sending = {"linger.ms": "0", "acks": self._args.producer_acks}
        with Consumer(self._of(CONSUMER, reading), self._console.clock) as consumer:
            self._ensure_topic(consumer)
            partitions = [(self._topic, number) for number in consumer.partitions_for(self._topic)]
            consumer.assign(partitions)
            consumer.seek_to_end(partitions)
            for partition in partitions:
                consumer.position(partition)
            with Producer(self._of(PRODUCER, sending), self._console.clock) as producer:
                latencies_ns = [
                    self._round_trip(producer, consumer, number) for number in range(self._args.num_records)
                ]
        self._report(latencies_ns)
        return ExitStatus.OK

    def _of(self, table: Table, values: dict[str, str]) -> dict[str, str]:
        """Return `values` over those settings of the properties file that this client knows."""
        settings = {name: value for name, value in self._settings.items() if name in table or table.is_prefixed(name)}
        return {**settings, **values}

    def _ensure_topic(self, consumer: Consumer) -> None:
        from kafkatools.core.admin.client import AdminClient
        from kafkatools.core.admin.topics import NewTopic, create_topics
        from kafkatools.core.config import ADMIN

        if self._topic in consumer.list_topics():
            return
        print_line = self._console.error if self._args.json else self._console.print
        print_line(
            f'Topic "{self._topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
        )
        settings = self._of(ADMIN, {})
        del settings["bootstrap.servers"]
        with AdminClient(self._settings["bootstrap.servers"], settings, self._console.clock) as admin:
            for result in create_topics(admin, [NewTopic(self._topic, 1, 1)]).values():
                if result.error is not None and result.error.name != "TOPIC_ALREADY_EXISTS":
                    raise CommandError(f"Creation of topic {self._topic} failed: {result.error}")

    # -- round trips --

    def _round_trip(self, producer: Producer, consumer: Consumer, number: int) -> int:
        """Send one record, read it back, and return the time in nanoseconds. Raises CommandError if another record or
        none is read within 60 s."""
        clock, record = self._console.clock, self._record()
        begin_ns = clock.now_ns()
        producer.send(record).get()
        records = consumer.poll(_POLL_MS)
        elapsed_ns = clock.now_ns() - begin_ns
        _ensure_same(record, records)
        if number % _PROGRESS_INTERVAL == 0:
            self._show_latency(number, elapsed_ns)
        return elapsed_ns

    def _record(self) -> ProducerRecord:
        from kafkatools.core.producer.producer_record import ProducerRecord

        args = self._args
        key = self._letters(args.record_key_size) if args.record_key_size > 0 else None
        headers = [
            (
                self._letters(args.record_header_key_size).decode(),
                None if args.record_header_size < 0 else self._letters(args.record_header_size),
            )
            for _ in range(args.num_headers)
        ]
        return ProducerRecord(self._topic, self._letters(args.record_size), key, headers=headers)

    def _letters(self, size: int) -> bytes:
        return bytes([65 + self._random.randrange(26)]) * size

    # -- reporting --

    def _show_latency(self, number: int, elapsed_ns: int) -> None:
        from kafkatools.core.java.text import java_double

        row = {"event": "record", "number": number, "latency_ms": elapsed_ns / 1e6}
        self._console.print(f"{number}\t{java_double(elapsed_ns / 1000.0 / 1000.0)}", row)
        self._console.flush()

    def _report(self, latencies_ns: list[int]) -> None:
        from kafkatools.core.java.text import java_fixed

        count = len(latencies_ns)
        average = sum(latencies_ns) / count / 1e6
        whole_ms = sorted(latency // 1_000_000 for latency in latencies_ns)
        median, p99, p999 = (whole_ms[int(count * part)] for part in (0.5, 0.99, 0.999))
        if self._args.json:
            figures = {"p50_latency_ms": median, "p99_latency_ms": p99, "p999_latency_ms": p999}
            self._console.print_json({"event": "total", "records": count, "avg_latency_ms": average, **figures})
            return
        self._console.print(f"Avg latency: {java_fixed(average, 4)} ms")
        self._console.print(f"Percentiles: 50th = {median}, 99th = {p99}, 99.9th = {p999}")


def _ensure_same(record: ProducerRecord, records: ConsumerRecords) -> None:
    """Raise CommandError unless the poll returned exactly the record sent (EndToEndLatency.validate)."""
    if not records:
        raise CommandError(f"poll() timed out before finding a result (timeout:[{_POLL_MS}ms])")
    result = next(iter(records))
    for part, before, after in (
        ("value", record.value, result.value),
        ("key", record.key, result.key),
        ("headers", tuple(record.headers), tuple(result.headers)),
    ):
        if before != after:
            raise CommandError(f"The record's {part} read [{after!r}] did not match the one sent [{before!r}]")
    if len(records) != 1:
        raise CommandError(f"Only one result was expected during this test. We found [{len(records)}]")


COMMAND = Command(
    "e2e-latency",
    "Measure the latency from send to poll.",
    OPTIONS,
    run,
    positional=("bootstrap-server", "topic", "num-records", "producer-acks", "record-size", "command-config"),
    examples=("kt e2e-latency --topic latency --num-records 1000 --producer-acks all --record-size 100",),
)
