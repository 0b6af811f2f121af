"""kt verifiable-producer: what kafka-verifiable-producer.sh does (org.apache.kafka.tools.VerifiableProducer).

Rising numbers go out as columns; what became of each is a line of JSON on stdout: an event, as Kafka's tool writes it.
A record counts as sent when it was handed to the producer and as acked when a broker has it. The sender's thread only
notes what came back; events are written by the main thread, which waits for them wherever it waits.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import (
    ARGPARSE4J,
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Option,
    command_config,
    java_int,
    java_long,
    note_deprecated,
    settings_for,
)

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.config import Config
    from kafkatools.core.producer.futures import RowsRun
    from kafkatools.core.producer.producer import Producer
    from kafkatools.core.records.columns import RowColumns
    from kafkatools.stop_signals import StopSignals

_PROGRAM = "verifiable-producer"
_CHUNK = 500
_TURN_MS = 100
_CLOSE_MS = 5_000

OPTIONS = (
    Option("--topic", "The topic that gets the records.", value="TOPIC", required=True),
    BOOTSTRAP_SERVER,
    Option("--max-messages", "Send so many records; -1: until stopped.", "COUNT", java_int, default=-1),
    Option("--throughput", "Send at most so many a second; -1: no limit.", "RATE", java_int, default=-1),
    Option(
        "--acks",
        "Who must have a record: 0 nobody, 1 the leader, -1 (default) all replicas in sync.",
        value="ACKS",
        type=java_int,
        choices=("0", "1", "-1"),
    ),
    Option("--producer.config", "Older name of --command-config.", value="FILE", replacement="--command-config"),
    command_config("Properties file with settings of the producer; what an option says wins."),
    Option(
        "--message-create-time",
        "Timestamp of the first record in ms; those behind it count from there.",
        value="MS",
        type=java_long,
        default=-1,
    ),
    Option("--value-prefix", "A number to stand in front of each value, with a dot.", value="NUMBER", type=java_int),
    Option("--repeating-keys", "Keys 0, 1, ... below this number, again and again.", value="COUNT", type=java_int),
)


def run(console: Console, args: Args) -> ExitStatus:
    """Sends until the count is reached or a signal comes."""
    if args.acks is not None and args.acks not in (0, 1, -1):
        raise UsageError(f"{_PROGRAM}: error: argument --acks: invalid choice: '{args.acks}' (choose from {{0,1,-1}})")
    if args.given("producer.config") and args.given("command-config"):
        raise UsageError(f"{_PROGRAM}: error: Options --producer.config and --command-config are mutually exclusive.")
    note_deprecated(args, console.note, "producer.config")
    config = producer_config(console, args)
    return VerifiableProducer(console, args, config).run()


def producer_config(console: Console, args: Args) -> Config:
    """The producer's settings: the tool's defaults, the file, the options."""
    from kafkatools.core.config import PRODUCER, Config

    file_option = "producer_config" if args.given("producer.config") else "command_config"
    values = {"acks": "-1", "retries": "0"} | settings_for(PRODUCER, args, file_option, console.note)
    if args.acks is not None:
        values["acks"] = str(args.acks)
    if args.given("bootstrap-server") or "bootstrap.servers" not in values:
        values["bootstrap.servers"] = console.connect(args)
    return Config(PRODUCER, values)


class _Told(NamedTuple):
    """What became of a run of records; `first` is the number of the first one of its rows."""

    first: int
    run: RowsRun
    wall_ms: int


class VerifiableProducer:
    """One run: sends, tells, counts."""

    def __init__(self, console: Console, args: Args, config: Config) -> None:
        self._console = console
        self._config = config
        self._clock = console.clock
        self._topic: str = args.topic
        self._limit: int = args.max_messages
        self._throughput: int = args.throughput
        self._prefix = "" if args.value_prefix is None else f"{args.value_prefix}."
        self._keys: int | None = args.repeating_keys
        self._create_ms: int | None = None if args.message_create_time == -1 else args.message_create_time
        self._told: queue.SimpleQueue[_Told] = queue.SimpleQueue()
        self._sent = self._acked = self._reported = 0
        self._problem: Exception | None = None

    def run(self) -> ExitStatus:
        """Sends, waits until the fate of every record is told, and sums up."""
        from kafkatools.core.producer.producer import Producer
        from kafkatools.stop_signals import StopSignals

        start_ms = self._clock.now_ms()
        producer = Producer(self._config, self._clock)
        try:
            with StopSignals() as signals:
                self._tell("startup_complete")
                self._send_all(producer, signals)
                self._tell_until_done(lambda: producer.close(_CLOSE_MS if signals.came else None))
                self._tell("shutdown_complete")
                self._sum_up(start_ms)
        finally:
            producer.close(0)
        if self._problem is not None:
            raise self._problem
        if signals.came:
            return ExitStatus.INTERRUPTED
        return ExitStatus.OK if self._acked == self._sent else ExitStatus.FAILED

    # -- sending --

    def _send_all(self, producer: Producer, signals: StopSignals) -> None:
        from kafkatools.core.producer.first_contact import reason_not_to_start
        from kafkatools.tools.perf.throughput_throttler import ThroughputThrottler

        self._problem = reason_not_to_start(producer) if self._limit else None
        clock = self._clock
        start_ms = clock.now_ms()
        throttler = ThroughputThrottler(self._throughput, start_ms)
        while not (signals.came or self._problem) and (self._limit < 0 or self._sent < self._limit):
            now_ms = clock.now_ms()
            allowed = throttler.allowance(self._sent, now_ms)
            if not allowed:
                pause_ms = throttler.pause_ms(self._sent, now_ms)
                self._tell_for(_TURN_MS if pause_ms is None else min(pause_ms, _TURN_MS))
                continue
            count = min(allowed, _CHUNK, _CHUNK if self._limit < 0 else self._limit - self._sent)
            rows = self._rows(self._sent, count, now_ms - start_ms)
            first = self._sent
            self._sent += count
            producer.send_columns(self._topic, rows, callback=self._callback(first))
            self._tell_what_came()

    def _rows(self, first: int, count: int, elapsed_ms: int) -> RowColumns:
        from array import array

        from kafkatools.core.records.columns import RowColumns

        numbers = range(first, first + count)
        keys = None if self._keys is None else [self._key(number).encode() for number in numbers]
        rows = RowColumns.of_values([f"{self._prefix}{number}".encode() for number in numbers], keys)
        if self._create_ms is not None:
            rows.timestamps = array("q", [self._create_ms + elapsed_ms]) * count
        return rows

    def _key(self, number: int) -> str:
        assert self._keys is not None
        return str(number % self._keys if self._keys > 0 else number)

    def _callback(self, first: int) -> Callable[[RowsRun], None]:
        told, clock = self._told, self._clock
        return lambda run: told.put(_Told(first, run, clock.wall_ms()))

    # -- telling --

    def _tell(self, name: str, **fields: object) -> None:
        from kafkatools.tools.verifiable.events import event

        self._console.print(event(name, self._clock.wall_ms(), **fields))
        self._console.flush()

    def _tell_what_came(self) -> None:
        """Writes the events of what is known; waits for nothing."""
        while not self._told.empty():
            self._write(self._told.get())
        self._console.flush()

    def _tell_for(self, duration_ms: int) -> None:
        """Waits, and writes events as they come."""
        deadline_ms = self._clock.now_ms() + duration_ms
        while (left_ms := deadline_ms - self._clock.now_ms()) > 0:
            try:
                self._write(self._told.get(timeout=left_ms / 1000))
            except queue.Empty:
                return
            self._tell_what_came()

    def _tell_until_done(self, work: Callable[[], None]) -> None:
        """Writes events while `work` runs, and all that it left."""
        worker = threading.Thread(target=work, name="close", daemon=True)
        worker.start()
        while worker.is_alive():
            self._tell_for(_TURN_MS // 10)
        self._tell_what_came()

    def _write(self, told: _Told) -> None:
        run = told.run
        count = len(run.rows)
        self._reported += count
        if run.error is None:
            self._acked += count
            lines = self._successes(told)
        else:
            lines = self._failures(told, run.error)
        self._console.write("".join(lines).encode())

    def _successes(self, told: _Told) -> Iterator[str]:
        from kafkatools.tools.verifiable.events import json_text

        run, topic = told.run, json_text(told.run.topic)
        head = f'{{"timestamp":{told.wall_ms},"name":"producer_send_success","key":'
        tail = f',"topic":{topic},"partition":{run.partition}}}\n'
        offset, step = (run.base_offset, 1) if run.base_offset >= 0 else (-1, 0)
        for row in run.rows:
            number = told.first + row
            key = "null" if self._keys is None else f'"{self._key(number)}"'
            yield f'{head}{key},"value":"{self._prefix}{number}","offset":{offset}{tail}'
            offset += step

    def _failures(self, told: _Told, error: Exception) -> Iterator[str]:
        from kafkatools.tools.verifiable.events import event, java_exception

        for row in told.run.rows:
            number = told.first + row
            fields = {
                "topic": self._topic,
                "key": None if self._keys is None else self._key(number),
                "value": f"{self._prefix}{number}",
                "exception": java_exception(error),
                "message": str(error),
            }
            yield event("producer_send_error", told.wall_ms, **fields) + "\n"

    def _sum_up(self, start_ms: int) -> None:
        elapsed_ms = self._clock.now_ms() - start_ms
        average = 1000 * (self._acked / elapsed_ms) if elapsed_ms else 0.0
        self._tell(
            "tool_data",
            sent=self._sent,
            acked=self._acked,
            target_throughput=self._throughput,
            avg_throughput=average,
        )


COMMAND = Command(
    "verifiable-producer",
    "Send rising numbers and print the fate of each as JSON.",
    OPTIONS,
    run,
    style=ARGPARSE4J,
    program=_PROGRAM,
    missing_bootstrap=f"{_PROGRAM}: error: argument --bootstrap-server is required",
    examples=("kt verifiable-producer --topic numbers --max-messages 1000 --throughput 100",),
)
