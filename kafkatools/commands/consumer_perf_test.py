"""kt consumer-perf-test: measure a consumer's throughput (kafka-consumer-perf-test.sh, ConsumerPerformance).

Records are fetched as whole columns, so the cost is per fetch and not per record. At most --num-records records count;
records of the last fetch beyond them are not committed. The time of the first assignment, and of rebalances that
revoked all partitions, is reported as rebalance time, apart from fetch time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import (
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Option,
    client_values,
    command_config,
    java_int,
    java_long,
    rules,
    setting_option,
)
from kafkatools.options.patterns import include_filter

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.config import Config
    from kafkatools.tools.perf.consumer_run import ConsumerEnd, ConsumerRun, Figures, Interval, Reading

_DATE_FORMAT = "yyyy-MM-dd HH:mm:ss:SSS"
_HEADER = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
_ONE_OF = "Exactly one of the following arguments is required: [{}], [{}]"

OPTIONS = (
    BOOTSTRAP_SERVER,
    command_config("Properties file with settings of the consumer."),
    setting_option("--command-property", "Setting of the consumer."),
    Option("--consumer.config", "Older name of --command-config.", value="FILE", replacement="--command-config"),
    Option(
        "--date-format",
        "Format of timestamps in the output, as a pattern of Java's SimpleDateFormat.",
        value="PATTERN",
        default=_DATE_FORMAT,
    ),
    Option("--fetch-size", "Maximum bytes of a partition in one fetch response.", "BYTES", java_int, default=1 << 20),
    Option("--from-latest", "Start at the end offsets if the group has no committed offsets."),
    Option("--group", "The consumer group (default: a new one).", value="GROUP"),
    Option("--hide-header", "Do not print the column names."),
    Option("--include", "Read the topics that this regular expression matches.", value="REGEX"),
    Option("--messages", "Older name of --num-records.", "COUNT", java_long, replacement="--num-records"),
    Option("--num-records", "Number of records to read.", value="COUNT", type=java_long),
    Option("--print-metrics", "Print the metrics of the consumer at the end."),
    Option("--reporting-interval", "Time in ms between lines of --show-detailed-stats.", "MS", java_long, default=5000),
    Option("--show-detailed-stats", "Print statistics of every --reporting-interval instead of one summary."),
    Option("--socket-buffer-size", "TCP receive buffer in bytes.", "BYTES", java_int, default=2 << 20),
    Option(
        "--timeout",
        "Exit after this many milliseconds without a record.",
        value="MS",
        type=java_long,
        optional_value=True,
        implied=10_000,
        default=10_000,
    ),
    Option("--topic", "The topic to read.", value="TOPIC"),
)

RULES = (
    rules.ExactlyOne(("messages", "num-records"), _ONE_OF.format("messages", "num-records")),
    rules.ExactlyOne(("topic", "include"), _ONE_OF.format("topic", "include")),
    rules.Refusal("consumer.config", ("command-config",)),
)


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt consumer-perf-test. Returns INTERRUPTED after Ctrl-C, FAILED when fewer records were read than requested.
    Raises UsageError or KafkaError."""
    from kafkatools.options.date_patterns import check_date_pattern

    for old, new in (("messages", "num-records"), ("consumer.config", "command-config")):
        if args.has_option(old):
            console.note(f"Warning: --{old} is deprecated. Use --{new} instead.")
    if args.reporting_interval <= 0:
        raise UsageError("Reporting interval must be greater than 0.")
    try:
        check_date_pattern(args.date_format)
    except ValueError as error:
        raise UsageError(f"--date-format: {error}") from None
    topics = [args.topic] if args.topic is not None else include_filter(args.include)
    config = consumer_config(console, args)
    from kafkatools.tools.perf.consumer_run import ConsumerLoad, ConsumerRun

    requested = args.num_records if args.num_records is not None else args.messages
    interval_ms = args.reporting_interval if args.show_detailed_stats else None
    load = ConsumerLoad(topics, args.include, requested, args.timeout, interval_ms)
    report = Report(console, args)
    report.header()
    consumer_run = ConsumerRun(load, config, console.clock, report.interval)
    return report.end(consumer_run, consumer_run.run(), requested)


def consumer_config(console: Console, args: Args) -> Config:
    """Return the consumer's settings: properties file, --command-property, options (ConsumerPerfOptions.props); later
    ones win. Without --group the group id is random."""
    from kafkatools.core.config import CONSUMER, Config

    values = client_values(CONSUMER, args, "consumer.config", ("command-property",), console.note)
    values = {name: value for name, value in values.items() if name not in ("key.deserializer", "value.deserializer")}
    group = args.group or f"perf-consumer-{random.randrange(100_000)}"  # noqa: S311 - a name, no secret
    values |= {
        "group.id": group,
        "receive.buffer.bytes": args.socket_buffer_size,
        "max.partition.fetch.bytes": args.fetch_size,
        "auto.offset.reset": "latest" if args.from_latest else "earliest",
        "check.crcs": "false",
        "bootstrap.servers": console.connect(args),
    }
    values.setdefault("client.id", "perf-consumer-client")
    return Config(CONSUMER, values)


class Report:
    """Prints the figures of a run in the lines of Kafka's tool, or as JSON."""

    def __init__(self, console: Console, args: Args) -> None:
        self._console = console
        self._args = args

    def header(self) -> None:
        """Print the column names, unless --hide-header or --json."""
        if not self._args.hide_header and not self._args.json:
            first = "time, threadId" if self._args.show_detailed_stats else "start.time, end.time"
            self._console.print(f"{first}, {_HEADER}")

    def end(self, run: ConsumerRun, end: ConsumerEnd, requested: int) -> ExitStatus:
        """Print errors, totals and metrics (--print-metrics). Returns INTERRUPTED after Ctrl-C, FAILED when fewer
        records were read than requested, else OK."""
        is_complete = end.end.records >= requested
        if not is_complete and not end.is_interrupted:
            self._report_timeout(end.problem)
        self._total(run, end.start, end.end)
        if self._args.print_metrics:
            self._print_metrics(end)
        if end.is_interrupted:
            return ExitStatus.INTERRUPTED
        return ExitStatus.OK if is_complete else ExitStatus.FAILED

    def _report_timeout(self, problem: Exception | None) -> None:
        timeout_ms = self._args.timeout
        message = (
            f"WARNING: Exiting before consuming the expected number of records: timeout ({timeout_ms} ms) exceeded. "
            "You can use the --timeout option to increase the timeout."
        )
        self._console.error(message, "TIMEOUT")
        if problem is not None:
            self._console.error(str(problem), getattr(problem, "name", "CONNECTION_FAILED"))

    def _total(self, run: ConsumerRun, start: Reading, end: Reading) -> None:
        if self._args.show_detailed_stats:
            if run.has_unreported:
                self.interval(run.next_interval())
            if not self._args.json:
                return
        from kafkatools.tools.perf.consumer_run import figures_between

        figures = figures_between(start, end)
        if self._args.json:
            self._print_json("total", start.wall_ms, end.wall_ms, figures)
            return
        times = [self._date(at) for at in (start.wall_ms, end.wall_ms)]
        self._console.print(_line(times, figures, figures))

    def interval(self, interval: Interval) -> None:
        """Print the line of an interval: sizes and counts since the start of the run, rates of the interval."""
        from kafkatools.tools.perf.consumer_run import figures_between

        start, last, now = interval
        figures = figures_between(last, now)
        if self._args.json:
            self._print_json("progress", last.wall_ms, now.wall_ms, figures)
        else:
            total = figures_between(start, now)
            self._console.print(_line([self._date(now.wall_ms), "0"], total, figures))
        self._console.flush()

    def _date(self, wall_ms: int) -> str:
        from kafkatools.options.date_patterns import format_date

        return format_date(self._args.date_format, wall_ms)

    def _print_json(self, event: str, start_ms: int, end_ms: int, figures: Figures) -> None:
        from kafkatools.tools.perf.metrics import finite

        values: dict[str, object] = {"event": event, "start_time": start_ms, "end_time": end_ms, **figures._asdict()}
        self._console.print_json(finite(values))

    def _print_metrics(self, end: ConsumerEnd) -> None:
        from kafkatools.core.java.text import metric_lines
        from kafkatools.tools.perf.metrics import metric_rows, metrics_of

        metrics = metrics_of(end.metrics)
        self._console.show(metric_rows(metrics), metric_lines(metrics))


def _line(times: Sequence[str], total: Figures, rates: Figures) -> str:
    from kafkatools.core.java.text import java_fixed

    cells = [
        *times,
        java_fixed(total.mb, 4),
        java_fixed(rates.mb_per_sec, 4),
        str(total.records),
        java_fixed(rates.records_per_sec, 4),
        str(rates.rebalance_ms),
        str(rates.fetch_ms),
        java_fixed(rates.fetch_mb_per_sec, 4),
        java_fixed(rates.fetch_records_per_sec, 4),
    ]
    return ", ".join(cells)


COMMAND = Command(
    "consumer-perf-test",
    "Measure the throughput of a consumer.",
    OPTIONS,
    run,
    rules=RULES,
    examples=(
        "kt consumer-perf-test --topic perf --num-records 1000000",
        "kt consumer-perf-test --include 'perf-.*' --num-records 1000000 --show-detailed-stats",
    ),
)
