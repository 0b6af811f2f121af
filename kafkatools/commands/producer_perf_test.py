"""kt producer-perf-test: what kafka-producer-perf-test.sh does (org.apache.kafka.tools.ProducerPerformance).

Values go to the producer as columns, up to 64 KiB at a time, so that the cost is one per batch; the latency of a record
is the time from that hand-over to its acknowledgement. Records count when they are acknowledged; those that fail are
told on stderr and make the exit status 1. What is printed is printed by the main thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import (
    ARGPARSE4J,
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Option,
    Refusal,
    Rule,
    client_values,
    command_config,
    java_int,
    java_long,
    java_pattern,
    note_deprecated,
)

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.config import Config
    from kafkatools.core.java.text import Metric
    from kafkatools.core.producer.futures import RowsRun
    from kafkatools.core.producer.producer import Producer
    from kafkatools.core.records.columns import RowColumns
    from kafkatools.tools.perf.latency_stats import Figures, LatencyStats
    from kafkatools.tools.perf.payloads import Payloads

_PROGRAM = "kafka-producer-perf-test"
_TRANSACTION_MS = 3000
_CLOSE_MS = 5_000
_TURN_MS = 100
_PAYLOADS = ("record-size", "payload-file", "payload-monotonic")
_HOPELESS = ("TIMEOUT", "INVALID_TOPIC_EXCEPTION", "TOPIC_AUTHORIZATION_FAILED", "NO_BROKERS_AVAILABLE")
"""Errors of a record without a partition that the next one would meet too: topic or brokers are not there."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_TOGETHER = "--{option} and --{other} cannot be specified together."
_RENAMED = (("producer-props", "command-property"), ("producer.config", "command-config"))


def java_double(text: str) -> float:
    """A number as Java's Double.valueOf reads it, without its words for infinity; ValueError otherwise."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(text)


class _OnePayload(NamedTuple):
    """Exactly one kind of payload; of two the later one is complained of."""

    def broken(self, given: Collection[str]) -> str | None:
        """argparse4j's message for its group of options."""
        found = [name for name in given if name in _PAYLOADS]
        if len(found) > 1:
            return f"argument --{found[1]}: not allowed with argument --{found[0]}"
        return None if found else "one of the arguments --record-size --payload-file --payload-monotonic is required"


OPTIONS = (
    BOOTSTRAP_SERVER,
    Option("--topic", "The topic that gets the records.", value="TOPIC", required=True),
    Option("--num-records", "How many records to send.", value="COUNT", type=java_long, required=True),
    Option(
        "--payload-delimiter",
        "What separates the values in the payload file: a regular expression.",
        value="REGEX",
        default="\\n",
    ),
    Option(
        "--throughput", "Send at most so many records a second; -1: no limit.", "RATE", type=java_double, required=True
    ),
    Option(
        "--producer-props",
        "Older name of --command-property.",
        value="NAME=VALUE",
        repeatable=True,
        several=True,
        replacement="--command-property",
    ),
    Option("--command-property", "Settings of the producer.", value="NAME=VALUE", repeatable=True, several=True),
    Option("--producer.config", "Older name of --command-config.", value="FILE", replacement="--command-config"),
    command_config("Properties file with settings of the producer."),
    Option("--print-metrics", "Print the producer's metrics at the end."),
    Option("--transactional-id", "Send in transactions of this id.", value="ID"),
    Option(
        "--transaction-duration-ms",
        f"Send in transactions and commit each after so long (default {_TRANSACTION_MS}).",
        value="MS",
        type=java_long,
    ),
    Option(
        "--warmup-records",
        "Leave so many records out of a second summary, of the steady state.",
        value="COUNT",
        type=java_long,
        default=0,
    ),
    Option("--reporting-interval", "Time between lines of progress.", "MS", type=java_long, default=5000),
    Option("--record-size", "Send values of so many random letters.", value="BYTES", type=java_int),
    Option("--payload-file", "Send values drawn from this file.", value="FILE"),
    Option("--payload-monotonic", "Send the numbers 0, 1, 2 and so on."),
)

RULES: tuple[Rule, ...] = (_OnePayload(), *(Refusal(new, (old,), _TOGETHER) for old, new in _RENAMED))


def run(console: Console, args: Args) -> ExitStatus:
    """Sends the records and tells how fast that was."""
    _check(args)
    for old, new in _RENAMED:
        note_deprecated(args, console.note, old, new)
    payloads = _payloads(console, args)
    config = producer_config(console, args)
    return ProducerPerformance(console, args, config, payloads).run()


def _check(args: Args) -> None:
    """ConfigPostProcessor's checks, in its words."""
    problems = (
        (args.num_records <= 0, "--num-records should be greater than zero."),
        (
            max(args.warmup_records, 0) >= args.num_records,
            "The value for --warmup-records must be strictly fewer than the number of records in the test, "
            "--num-records.",
        ),
        (args.record_size is not None and args.record_size <= 0, "--record-size should be greater than zero."),
        (
            args.transaction_duration_ms is not None and args.transaction_duration_ms <= 0,
            "--transaction-duration-ms should be greater than zero.",
        ),
        (args.reporting_interval <= 0, "--reporting-interval should be greater than zero."),
    )
    for is_wrong, message in problems:
        if is_wrong:
            raise UsageError(f"{_PROGRAM}: error: {message}")


def _payloads(console: Console, args: Args) -> Payloads:
    from kafkatools.tools.perf import payloads as perf_payloads

    if args.payload_monotonic:
        return perf_payloads.MonotonicPayloads()
    if args.payload_file is None:
        return perf_payloads.RandomPayloads(args.record_size)
    values = _read_payloads(console, args)
    try:
        return perf_payloads.ListedPayloads(values)
    except ValueError as error:
        raise CommandError(f"{args.payload_file}: {error}") from None


def _read_payloads(console: Console, args: Args) -> list[bytes]:
    import os

    from kafkatools.tools.perf.payloads import split_payloads

    tell = console.error if args.json else console.print
    tell(f"Reading payloads from: {os.path.abspath(args.payload_file)}")
    delimiter = "\n" if args.payload_delimiter == "\\n" else args.payload_delimiter
    try:
        pattern = None if re.escape(delimiter) == delimiter or delimiter == "\n" else java_pattern(delimiter)
    except re.error as error:
        raise UsageError(f"--payload-delimiter: {delimiter} is an invalid regex: {error}") from None
    try:
        with open(args.payload_file, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        data = b""
    if not data:
        raise CommandError("File does not exist or empty file provided.")
    values = split_payloads(data, delimiter, pattern)
    tell(f"Number of records read: {len(values)}")
    if not values:
        raise CommandError(f"{args.payload_file}: there is nothing between the delimiters")
    return values


def producer_config(console: Console, args: Args) -> Config:
    """The producer's settings: the file, the properties, the options; ProducerPerformance.readProps."""
    from kafkatools.core.config import PRODUCER, Config

    pair_options = ("command-property", "producer-props")
    values = client_values(PRODUCER, args, "producer.config", pair_options, console.note)
    values = {name: value for name, value in values.items() if name not in ("key.serializer", "value.serializer")}
    if args.given("bootstrap-server") or "bootstrap.servers" not in values:
        values["bootstrap.servers"] = console.connect(args)
    values.setdefault("client.id", "perf-producer-client")
    if args.transactional_id is not None:
        values["transactional.id"] = args.transactional_id
    elif args.transaction_duration_ms is not None and "transactional.id" not in values:
        from kafkatools.core.protocol.uuids import random_uuid, uuid_text

        values["transactional.id"] = f"performance-producer-{uuid_text(random_uuid())}"
    return Config(PRODUCER, values)


class ProducerPerformance:
    """One run: sends, counts, reports."""

    def __init__(self, console: Console, args: Args, config: Config, payloads: Payloads) -> None:
        self._console = console
        self._args = args
        self._config = config
        self._payloads = payloads
        self._clock = console.clock
        self._total: int = args.num_records
        self._warmup: int = max(args.warmup_records, 0)
        self._sent = 0
        self._steady: LatencyStats | None = None
        self._failures: dict[str, int] = {}
        self._stopped: Exception | None = None
        self._transaction_ms: int | None = None
        self._transaction_start_ms: int | None = None
        if config.transactional_id is not None:
            given = args.transaction_duration_ms
            self._transaction_ms = _TRANSACTION_MS if given is None else given

    def run(self) -> ExitStatus:
        """Sends everything, waits for every acknowledgement, reports; Ctrl-C reports what was done until then."""
        from kafkatools.core.errors import KafkaError
        from kafkatools.core.producer.first_contact import reason_not_to_start
        from kafkatools.core.producer.producer import Producer

        producer = Producer(self._config, self._clock)
        is_interrupted = False
        metrics: list[Metric] = []
        self._start()
        try:
            try:
                self._stopped = reason_not_to_start(producer)
                if self._stopped is None:
                    self._measure(producer)
                metrics = self._metrics(producer)
            except KafkaError as error:
                self._stopped = error
                self._abort(producer)
            producer.close(_CLOSE_MS if self._stopped else None)
        except KeyboardInterrupt:
            is_interrupted = True
            self._abort(producer)
            producer.close(_CLOSE_MS)
        finally:
            producer.close(0)
        self._report(metrics)
        if is_interrupted:
            return ExitStatus.INTERRUPTED
        return ExitStatus.FAILED if self._failures or self._stopped else ExitStatus.OK

    def _start(self) -> None:
        from kafkatools.tools.perf.latency_stats import LatencyStats

        if self._warmup and not self._args.json:
            self._console.print(
                f"Warmup first {self._warmup} records. Steady state results will print after the complete test summary."
            )
            self._console.flush()
        self._stats = LatencyStats(self._clock.now_ms(), self._args.reporting_interval)

    # -- sending --

    def _measure(self, producer: Producer) -> None:
        from kafkatools.tools.perf.latency_stats import LatencyStats
        from kafkatools.tools.perf.throughput_throttler import ThroughputThrottler

        if self._transaction_ms is not None:
            producer.init_transactions()
        clock = self._clock
        start_ms = clock.now_ms()
        self._stats = LatencyStats(start_ms, self._args.reporting_interval)
        throttler = ThroughputThrottler(self._args.throughput, start_ms)
        while self._sent < self._total and self._stopped is None:
            now_ms = clock.now_ms()
            allowed = throttler.allowance(self._sent, now_ms)
            if not allowed:
                self._pause(throttler.pause_ms(self._sent, now_ms))
                continue
            self._send(producer, min(allowed, self._left()), now_ms)
            self._show_progress()
        if self._transaction_start_ms is not None and self._stopped is None:
            producer.commit_transaction()
        self._flush(producer)

    def _left(self) -> int:
        """Records up to the end, or to the end of the warm-up."""
        return (self._warmup if self._sent < self._warmup else self._total) - self._sent

    def _send(self, producer: Producer, most: int, now_ms: int) -> None:
        if self._transaction_ms is not None and self._transaction_start_ms is None:
            producer.begin_transaction()
            self._transaction_start_ms = now_ms
        if self._warmup and self._sent == self._warmup and self._steady is None:
            from kafkatools.tools.perf.latency_stats import LatencyStats

            self._steady = LatencyStats(now_ms, self._args.reporting_interval, is_steady_state=True)
            self._stats.is_silent = True
        rows = self._payloads.rows(self._sent, most)
        producer.send_columns(self._args.topic, rows, callback=self._callback(rows, now_ms))
        self._sent += rows.count
        begun_ms = self._transaction_start_ms
        if self._transaction_ms is not None and begun_ms is not None and now_ms - begun_ms >= self._transaction_ms:
            producer.commit_transaction()
            self._transaction_start_ms = None

    def _callback(self, rows: RowColumns, sent_ms: int) -> Callable[[RowsRun], None]:
        """Counts runs of these rows; called by the sender's thread, by this one for rows that it could not queue."""
        stats, steady, clock, lengths = self._stats, self._steady, self._clock, rows.value_lengths

        def told(run: RowsRun) -> None:
            if run.error is not None:
                self._note_failure(run)
                return
            numbers = run.rows
            count = len(numbers)
            size = sum(lengths[numbers[0] : numbers[-1] + 1])
            now_ms = clock.now_ms()
            stats.record(count, size, now_ms - sent_ms, now_ms)
            if steady is not None:
                steady.record(count, size, now_ms - sent_ms, now_ms)

        return told

    def _note_failure(self, run: RowsRun) -> None:
        """Notes why; what would fail in the same way with the next record ends the run."""
        assert run.error is not None
        message = str(run.error) or type(run.error).__name__
        self._failures[message] = self._failures.get(message, 0) + len(run.rows)
        if run.partition < 0 and getattr(run.error, "name", "") in _HOPELESS:
            self._stopped = run.error

    def _pause(self, duration_ms: int | None) -> None:
        """Waits, for ever with None, and shows progress meanwhile."""
        end_ms = None if duration_ms is None else self._clock.now_ms() + duration_ms
        while True:
            left_ms = _TURN_MS if end_ms is None else min(_TURN_MS, end_ms - self._clock.now_ms())
            if left_ms <= 0:
                return
            self._clock.sleep_ms(left_ms)
            self._show_progress()

    def _flush(self, producer: Producer) -> None:
        """Waits for every acknowledgement and shows progress meanwhile."""
        import threading

        flushing = threading.Thread(target=producer.flush, name="flush", daemon=True)
        flushing.start()
        while flushing.is_alive():
            flushing.join(_TURN_MS / 1000)
            self._show_progress()

    def _abort(self, producer: Producer) -> None:
        """Leaves no transaction open, if a broker answers within some seconds."""
        from kafkatools.core.errors import KafkaError

        if self._transaction_start_ms is None or producer.has_fatal_error:
            return
        try:
            producer.abort_transaction(_CLOSE_MS)
        except KafkaError as error:
            self._console.error(f"The open transaction could not be aborted: {error}")

    # -- reporting --

    def _show_progress(self) -> None:
        for stats in (self._stats, self._steady):
            while stats is not None and stats.windows:
                window = stats.windows.popleft()
                if self._args.json:
                    self._print_json("steady_state_progress" if window.is_steady_state else "progress", window)
                else:
                    if window.is_steady_state and window.is_first:
                        self._console.print("In steady state.")
                    self._console.print(window.window_line())
                self._console.flush()

    def _report(self, metrics: list[Metric]) -> None:
        self._show_progress()
        now_ms = self._clock.now_ms()
        for stats in (self._stats, self._steady):
            if stats is None:
                continue
            figures = stats.total(now_ms)
            if self._args.json:
                self._print_json("steady_state" if figures.is_steady_state else "total", figures)
            else:
                self._console.print(figures.total_line())
        self._print_metrics(metrics)
        if self._stopped is not None and str(self._stopped) not in self._failures:
            self._console.error(str(self._stopped), getattr(self._stopped, "name", "FAILED"))
        for message, count in self._failures.items():
            self._console.error(f"{count} {'record' if count == 1 else 'records'} failed: {message}")
        if self._sent < self._total:
            self._console.error(f"{self._total - self._sent} of {self._total} records were not sent")

    def _print_json(self, event: str, figures: Figures) -> None:
        from kafkatools.tools.perf.metrics import finite

        values = {
            "event": event,
            "records": figures.records,
            "bytes": figures.size_bytes,
            "elapsed_ms": figures.elapsed_ms,
            "records_per_sec": figures.records_per_sec,
            "mb_per_sec": figures.mb_per_sec,
            "avg_latency_ms": figures.avg_latency_ms,
            "max_latency_ms": figures.max_latency_ms,
        }
        if figures.percentiles:
            names = ("p50_latency_ms", "p95_latency_ms", "p99_latency_ms", "p999_latency_ms")
            values |= dict(zip(names, figures.percentiles, strict=True))
        self._console.print_json(finite(values))

    def _metrics(self, producer: Producer) -> list[Metric]:
        if not self._args.print_metrics:
            return []
        from kafkatools.core.java.text import Metric

        tags = {"client-id": self._config.client_id}
        return [Metric("producer-metrics", name, tags, float(value)) for name, value in producer.metrics().items()]

    def _print_metrics(self, metrics: list[Metric]) -> None:
        if not metrics:
            return
        from kafkatools.core.java.text import metric_lines
        from kafkatools.tools.perf.metrics import metric_rows

        if self._args.json:
            for row in metric_rows(metrics):
                self._console.print_json(row)
        else:
            for line in metric_lines(metrics):
                self._console.print(line)


COMMAND = Command(
    "producer-perf-test",
    "Measure how fast records can be sent.",
    OPTIONS,
    run,
    style=ARGPARSE4J,
    rules=RULES,
    program=_PROGRAM,
    missing_bootstrap=(
        f"{_PROGRAM}: error: At least one of --bootstrap-server, --command-property, --producer-props, "
        "--producer.config or --command-config must be specified."
    ),
    examples=(
        "kt producer-perf-test --topic perf --num-records 1000000 --record-size 100 --throughput -1",
        "kt producer-perf-test --topic perf --num-records 100000 --payload-file lines.txt --throughput 5000 "
        "--command-property acks=1 compression.type=zstd",
    ),
)
