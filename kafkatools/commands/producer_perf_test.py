"""kt producer-perf-test: measure a producer's throughput and latency (kafka-producer-perf-test.sh).

Values go to the producer as columns of up to 64 KiB, so the cost is per batch. The latency of a record is the time from
that call to its acknowledgement. Only acknowledged records count. Failed records are reported on stderr, with exit
status 1. All output is printed by the main thread. Source: org.apache.kafka.tools.ProducerPerformance.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import (
    ARGPARSE4J,
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Option,
    client_values,
    command_config,
    java_double,
    java_int,
    java_long,
    note_deprecated,
    rules,
    setting_option,
)

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.config import Config
    from kafkatools.core.metrics.registry import MetricName
    from kafkatools.tools.perf.latency_stats import Figures
    from kafkatools.tools.perf.payloads import Payloads
    from kafkatools.tools.perf.producer_run import ProducerEnd

_PROGRAM = "kafka-producer-perf-test"
_TRANSACTION_MS = 3000
_PAYLOADS = ("record-size", "payload-file", "payload-monotonic")
_TOGETHER = "--{option} and --{other} cannot be specified together."
_RENAMED_OPTIONS = (("producer-props", "command-property"), ("producer.config", "command-config"))


class _OnePayload(NamedTuple):
    """The rule that exactly one payload option is used, with the messages of argparse4j's mutually exclusive group."""

    def violation(self, option_names: Collection[str]) -> str | None:
        matches = [name for name in option_names if name in _PAYLOADS]
        if len(matches) > 1:
            return f"argument --{matches[1]}: not allowed with argument --{matches[0]}"
        return None if matches else "one of the arguments --record-size --payload-file --payload-monotonic is required"


OPTIONS = (
    BOOTSTRAP_SERVER,
    Option("--topic", "The topic to send to.", value="TOPIC", required=True),
    Option("--num-records", "Number of records to send.", value="COUNT", type=java_long, required=True),
    Option(
        "--payload-delimiter",
        "Regular expression between the values in the payload file.",
        value="REGEX",
        default="\\n",
    ),
    Option("--throughput", "Maximum records per second; -1: no limit.", "RATE", type=java_double, required=True),
    setting_option(
        "--producer-props", "Older name of --command-property.", several=True, replacement="--command-property"
    ),
    setting_option("--command-property", "Setting of the producer.", several=True),
    Option("--producer.config", "Older name of --command-config.", value="FILE", replacement="--command-config"),
    command_config("Properties file with settings of the producer."),
    Option("--print-metrics", "Print the metrics of the producer at the end."),
    Option("--transactional-id", "Send in transactions of this transactional id.", value="ID"),
    Option(
        "--transaction-duration-ms",
        f"Send in transactions and commit each after this time (default {_TRANSACTION_MS}).",
        value="MS",
        type=java_long,
    ),
    Option(
        "--warmup-records",
        "Exclude the first N records from an extra steady-state summary.",
        value="COUNT",
        type=java_long,
        default=0,
    ),
    Option("--reporting-interval", "Time in ms between lines of progress.", "MS", type=java_long, default=5000),
    Option("--record-size", "Send random values of this size in bytes.", value="BYTES", type=java_int),
    Option("--payload-file", "Send values chosen at random from this file.", value="FILE"),
    Option("--payload-monotonic", "Send the numbers 0, 1, 2 and so on."),
)

RULES: tuple[rules.Rule, ...] = (
    _OnePayload(),
    *(rules.Refusal(new, (old,), _TOGETHER) for old, new in _RENAMED_OPTIONS),
)


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt producer-perf-test. Returns INTERRUPTED after Ctrl-C, FAILED when records failed or the run stopped early.
    Raises UsageError or CommandError."""
    _check(args)
    for old, new in _RENAMED_OPTIONS:
        note_deprecated(args, console.note, old, new)
    payloads = _payloads(console, args)
    config = producer_config(console, args)
    from kafkatools.tools.perf.producer_run import ProducerLoad, ProducerRun

    duration_ms = args.transaction_duration_ms
    load = ProducerLoad(
        args.topic,
        args.num_records,
        max(args.warmup_records, 0),
        args.throughput,
        args.reporting_interval,
        _TRANSACTION_MS if duration_ms is None else duration_ms,
    )
    report = Report(console, args)
    return report.end(ProducerRun(load, config, console.clock, payloads, report).run())


def _check(args: Args) -> None:
    """Raise UsageError for invalid numbers, with the messages of ConfigPostProcessor."""
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
    from kafkatools.core.java.patterns import java_pattern
    from kafkatools.tools.perf.payloads import split_payloads

    print_line = console.error if args.json else console.print
    print_line(f"Reading payloads from: {os.path.abspath(args.payload_file)}")
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
    print_line(f"Number of records read: {len(values)}")
    if not values:
        raise CommandError(f"{args.payload_file}: the file contains delimiters only")
    return values


def producer_config(console: Console, args: Args) -> Config:
    """Return the producer's settings: properties file, --command-property, options (ProducerPerformance.readProps);
    later ones win. --transaction-duration-ms without a transactional id gets a random one."""
    from kafkatools.core.config import PRODUCER, Config

    pair_options = ("command-property", "producer-props")
    values = client_values(PRODUCER, args, "producer.config", pair_options, console.note)
    values = {name: value for name, value in values.items() if name not in ("key.serializer", "value.serializer")}
    if args.has_option("bootstrap-server") or "bootstrap.servers" not in values:
        values["bootstrap.servers"] = console.connect(args)
    values.setdefault("client.id", "perf-producer-client")
    if args.transactional_id is not None:
        values["transactional.id"] = args.transactional_id
    elif args.transaction_duration_ms is not None and "transactional.id" not in values:
        from kafkatools.core.protocol.uuids import random_uuid, uuid_text

        values["transactional.id"] = f"performance-producer-{uuid_text(random_uuid())}"
    return Config(PRODUCER, values)


class Report:
    """Prints the figures of a run in the lines of Kafka's tool, or as JSON."""

    def __init__(self, console: Console, args: Args) -> None:
        self._console = console
        self._args = args

    def started(self) -> None:
        """Print a line about --warmup-records, unless --json."""
        warmup = max(self._args.warmup_records, 0)
        if warmup and not self._args.json:
            self._console.print(
                f"Warmup first {warmup} records. Steady state results will print after the complete test summary."
            )
            self._console.flush()

    def window(self, figures: Figures) -> None:
        """Print the figures of one --reporting-interval."""
        if self._args.json:
            self._print_json("steady_state_progress" if figures.is_steady_state else "progress", figures)
        else:
            if figures.is_steady_state and figures.is_first:
                self._console.print("In steady state.")
            self._console.print(figures.window_line())
        self._console.flush()

    def error(self, line: str) -> None:
        """Print an error on stderr."""
        self._console.error(line)

    def end(self, end: ProducerEnd) -> ExitStatus:
        """Print totals, metrics (--print-metrics) and failures. Returns INTERRUPTED after Ctrl-C, FAILED when records
        failed or the run stopped early, else OK."""
        for figures in end.totals:
            if self._args.json:
                self._print_json("steady_state" if figures.is_steady_state else "total", figures)
            else:
                self._console.print(figures.total_line())
        if self._args.print_metrics:
            self._print_metrics(end.metrics)
        if end.stopped is not None and str(end.stopped) not in end.failures:
            self._console.error(str(end.stopped), getattr(end.stopped, "name", "FAILED"))
        for message, count in end.failures.items():
            self._console.error(f"{count} {'record' if count == 1 else 'records'} failed: {message}")
        total = self._args.num_records
        if end.sent_count < total:
            self._console.error(f"{total - end.sent_count} of {total} records were not sent")
        if end.is_interrupted:
            return ExitStatus.INTERRUPTED
        return ExitStatus.FAILED if end.failures or end.stopped else ExitStatus.OK

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

    def _print_metrics(self, values: Mapping[MetricName, float]) -> None:
        if not values:
            return
        from kafkatools.core.java.text import metric_lines
        from kafkatools.tools.perf.metrics import metric_rows, metrics_of

        metrics = metrics_of(values)
        self._console.show(metric_rows(metrics), metric_lines(metrics))


COMMAND = Command(
    "producer-perf-test",
    "Measure the throughput and latency of a producer.",
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
