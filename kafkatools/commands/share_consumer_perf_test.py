"""kt share-consumer-perf-test: measure the throughput of a share group (kafka-share-consumer-perf-test.sh).

Records are fetched as whole columns, so the cost is per fetch and not per record. Whole polls count, so the total may
exceed --num-records. Source: org.apache.kafka.tools.ShareConsumerPerformance.
"""

from __future__ import annotations

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

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.config import Config
    from kafkatools.tools.perf.consumer_run import Figures, Reading
    from kafkatools.tools.perf.share_run import ShareEnd, ShareInterval

_DATE_FORMAT = "yyyy-MM-dd HH:mm:ss:SSS"
_HEADER = "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"

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
    Option("--fetch-size", "Bytes of a fetch of one partition (max.partition.fetch.bytes), which share consumers "
           "do not use.", "BYTES", java_int, default=1 << 20),
    Option("--group", "The share group.", value="GROUP", default="perf-share-consumer"),
    Option("--hide-header", "Do not print the column names."),
    Option("--messages", "Older name of --num-records.", "COUNT", java_long, replacement="--num-records"),
    Option("--num-records", "Number of records to read.", value="COUNT", type=java_long),
    Option("--print-metrics", "Print the metrics of the consumers at the end."),
    Option("--reporting-interval", "Time in ms between lines of --show-detailed-stats.", "MS", java_long, default=5000),
    Option("--show-consumer-stats", "Print a line for each share consumer of --threads at the end."),
    Option("--show-detailed-stats", "Print statistics of each share consumer every --reporting-interval."),
    Option("--socket-buffer-size", "TCP receive buffer in bytes.", "BYTES", java_int, default=2 << 20),
    Option("--threads", "Number of share consumers in the group.", "COUNT", java_int, default=1),
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
)  # fmt: skip

RULES = (
    rules.Requirement(("topic",)),
    rules.ExactlyOne(
        ("messages", "num-records"),
        "Exactly one of the following arguments is required: [messages], [num-records]",
    ),
    rules.Refusal("consumer.config", ("command-config",)),
)


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt share-consumer-perf-test. Returns INTERRUPTED after Ctrl-C, FAILED when fewer records were read than
    requested. Raises UsageError or KafkaError."""
    from kafkatools.options.date_patterns import check_date_pattern

    for old, new in (("messages", "num-records"), ("consumer.config", "command-config")):
        if args.has_option(old):
            console.note(f"Warning: --{old} is deprecated. Use --{new} instead.")
    for name in ("reporting-interval", "threads"):
        if getattr(args, name.replace("-", "_")) <= 0:
            raise UsageError(f"--{name} must be greater than 0")
    if not args.topic.strip():
        raise UsageError("--topic is empty: it takes the name of a topic")
    try:
        check_date_pattern(args.date_format)
    except ValueError as error:
        raise UsageError(f"--date-format: {error}") from None
    config = consumer_config(console, args)
    from kafkatools.tools.perf.share_run import ShareLoad, ShareRun

    requested = args.num_records if args.num_records is not None else args.messages
    interval_ms = args.reporting_interval if args.show_detailed_stats else None
    load = ShareLoad(args.topic, requested, args.threads, args.timeout, interval_ms)
    report = Report(console, args)
    report.header()
    return report.end(ShareRun(load, config, console.clock, report.interval).run(), requested)


def consumer_config(console: Console, args: Args) -> Config:
    """Return the consumers' settings: properties file, --command-property, options; later ones win."""
    from kafkatools.core.config import CONSUMER, Config
    from kafkatools.core.consumer.share.share_consumer_base import check_settings

    values: dict[str, object] = dict(
        client_values(CONSUMER, args, "consumer.config", ("command-property",), console.note)
    )
    for name in ("key.deserializer", "value.deserializer"):
        values.pop(name, None)
    values |= {
        "group.id": args.group,
        "receive.buffer.bytes": args.socket_buffer_size,
        "max.partition.fetch.bytes": args.fetch_size,
        "check.crcs": "false",
        "bootstrap.servers": console.connect(args),
    }
    values.setdefault("client.id", "perf-share-consumer-client")
    config = Config(CONSUMER, values)
    check_settings(config)
    return config


class Report:
    """Prints the figures of a run in the lines of Kafka's tool, or as JSON."""

    def __init__(self, console: Console, args: Args) -> None:
        self._console = console
        self._args = args

    def header(self) -> None:
        """Print the column names, unless --hide-header or --json."""
        if not self._args.hide_header and not self._args.json:
            self._console.print(_HEADER)

    def interval(self, interval: ShareInterval) -> None:
        """Print the line of a member's interval: sizes and counts since the start, rates of the interval."""
        from kafkatools.tools.perf.consumer_run import figures_between

        member, start, last, now = interval
        rates = figures_between(last, now)
        if self._args.json:
            self._print_json("progress", last, now, rates, member)
        else:
            line = self._line(last, now, figures_between(start, now), rates)
            self._console.print(f"{line} for share consumer {member}")
        self._console.flush()

    def end(self, end: ShareEnd, requested: int) -> ExitStatus:
        """Print members, errors, the total and metrics. Returns INTERRUPTED after Ctrl-C, FAILED when fewer records
        were read than requested, else OK."""
        if self._args.show_consumer_stats:
            for number, reading in enumerate(end.members, 1):
                figures = end.figures(reading)
                if self._args.json:
                    self._print_json("consumer", end.start, reading, figures, number)
                else:
                    line = self._line(end.start, reading, figures, figures)
                    self._console.print(f"Share consumer {number} consumption metrics- {line}")
        is_complete = end.end.records >= requested
        if not is_complete and not end.is_interrupted:
            self._report_timeout(end.problem)
        figures = end.figures(end.end)
        if self._args.json:
            self._print_json("total", end.start, end.end, figures)
        else:
            self._console.print(self._line(end.start, end.end, figures, figures))
        if self._args.print_metrics:
            self._print_metrics(end)
        if end.is_interrupted:
            return ExitStatus.INTERRUPTED
        return ExitStatus.OK if is_complete else ExitStatus.FAILED

    def _report_timeout(self, problem: Exception | None) -> None:
        message = (
            f"WARNING: Exiting before consuming the expected number of records: timeout ({self._args.timeout} ms) "
            "exceeded. You can use the --timeout option to increase the timeout."
        )
        self._console.error(message, "TIMEOUT")
        if problem is not None:
            self._console.error(str(problem), getattr(problem, "name", "CONNECTION_FAILED"))

    def _line(self, start: Reading, end: Reading, total: Figures, rates: Figures) -> str:
        from kafkatools.core.java.text import java_fixed
        from kafkatools.options.date_patterns import format_date

        times = [format_date(self._args.date_format, at.wall_ms) for at in (start, end)]
        numbers = [java_fixed(number, 4) for number in (total.mb, rates.mb_per_sec, rates.records_per_sec)]
        return ", ".join([*times, *numbers, str(total.records), str(rates.elapsed_ms)])

    def _print_json(self, kind: str, start: Reading, end: Reading, figures: Figures, member: int | None = None) -> None:
        from kafkatools.tools.perf.metrics import finite

        values: dict[str, object] = {"event": kind, "start_time": start.wall_ms, "end_time": end.wall_ms}
        if member is not None:
            values["consumer"] = member
        rates = ("records", "bytes", "elapsed_ms", "mb", "mb_per_sec", "records_per_sec")
        values |= {name: getattr(figures, name) for name in rates}
        self._console.print_json(finite(values))

    def _print_metrics(self, end: ShareEnd) -> None:
        from kafkatools.core.java.text import metric_lines
        from kafkatools.tools.perf.metrics import metric_rows, metrics_of

        for values in end.metrics:
            metrics = metrics_of(values)
            self._console.show(metric_rows(metrics), metric_lines(metrics))


COMMAND = Command(
    "share-consumer-perf-test",
    "Measure the throughput of a share group.",
    OPTIONS,
    run,
    rules=RULES,
    examples=(
        "kt share-consumer-perf-test --topic perf --num-records 1000000",
        "kt share-consumer-perf-test --topic perf --num-records 1000000 --threads 4 --show-consumer-stats",
    ),
)
