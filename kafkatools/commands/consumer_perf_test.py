"""kt consumer-perf-test: what kafka-consumer-perf-test.sh does (org.apache.kafka.tools.ConsumerPerformance).

A member of a group reads columns: the cost is one per fetch, not per record. Exactly as many records count as were
asked for, and what a last fetch brought beyond them is not committed. The time until the first assignment, and of
rebalances that took everything away, is told apart from the time of fetching.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import (
    BOOTSTRAP_SERVER,
    INTERNAL_TOPICS,
    Args,
    Command,
    ExactlyOne,
    Option,
    Refusal,
    client_values,
    command_config,
    java_int,
    java_long,
    java_pattern,
)

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.clock import Clock
    from kafkatools.core.config import Config
    from kafkatools.core.consumer.completed_fetch import FetchedColumns
    from kafkatools.core.consumer.consumer import Consumer
    from kafkatools.core.consumer.group_subscription import RebalanceListener
    from kafkatools.core.java.text import Metric

_POLL_MS = 100
_MIB = 1024 * 1024
_DATE_FORMAT = "yyyy-MM-dd HH:mm:ss:SSS"
_HEADER = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
_ONE_OF = "Exactly one of the following arguments is required: [{}], [{}]"

OPTIONS = (
    BOOTSTRAP_SERVER,
    command_config("Properties file with settings of the consumer."),
    Option("--command-property", "Setting of the consumer.", value="NAME=VALUE", repeatable=True),
    Option("--consumer.config", "Older name of --command-config.", value="FILE", replacement="--command-config"),
    Option(
        "--date-format",
        "Pattern of times, as Java's SimpleDateFormat takes it.",
        value="PATTERN",
        default=_DATE_FORMAT,
    ),
    Option("--fetch-size", "Most bytes of a partition in one answer.", "BYTES", java_int, default=1 << 20),
    Option("--from-latest", "Start at the end where the group has committed nothing."),
    Option("--group", "The group to read as (default: a new one).", value="GROUP"),
    Option("--hide-header", "Leave out the line with the names of the columns."),
    Option("--include", "Read the topics whose name matches.", value="REGEX"),
    Option("--messages", "Older name of --num-records.", "COUNT", java_long, replacement="--num-records"),
    Option("--num-records", "How many records to read.", value="COUNT", type=java_long),
    Option("--print-metrics", "Print the consumer's metrics at the end."),
    Option("--reporting-interval", "Time between detailed lines.", "MS", java_long, default=5000),
    Option("--show-detailed-stats", "A line for each interval, and not one for all."),
    Option("--socket-buffer-size", "TCP receive buffer in bytes.", "BYTES", java_int, default=2 << 20),
    Option(
        "--timeout",
        "Stop when nothing arrives for so long.",
        value="MS",
        type=java_long,
        optional_value=True,
        implied=10_000,
        default=10_000,
    ),
    Option("--topic", "The topic to read.", value="TOPIC"),
)

RULES = (
    ExactlyOne(("messages", "num-records"), _ONE_OF.format("messages", "num-records")),
    ExactlyOne(("topic", "include"), _ONE_OF.format("topic", "include")),
    Refusal("consumer.config", ("command-config",)),
)


def run(console: Console, args: Args) -> ExitStatus:
    """Reads the records and tells how fast that was."""
    from kafkatools.options.date_patterns import check_date_pattern

    for old, new in (("messages", "num-records"), ("consumer.config", "command-config")):
        if args.given(old):
            console.note(f"Warning: --{old} is deprecated. Use --{new} instead.")
    if args.reporting_interval <= 0:
        raise UsageError("Reporting interval must be greater than 0.")
    try:
        check_date_pattern(args.date_format)
    except ValueError as error:
        raise UsageError(f"--date-format: {error}") from None
    topics = _topics(args)
    config = consumer_config(console, args)
    return ConsumerPerformance(console, args, config, topics).run()


def _topics(args: Args) -> list[str] | Callable[[str], bool]:
    if args.topic is not None:
        return [args.topic]
    try:
        pattern = java_pattern(args.include)
    except re.error as error:
        raise UsageError(f"{args.include} is an invalid regex: {error}") from None
    return lambda name: name not in INTERNAL_TOPICS and pattern.fullmatch(name) is not None


def consumer_config(console: Console, args: Args) -> Config:
    """The consumer's settings: the file, the properties, the options; ConsumerPerfOptions.props."""
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


class _Reading(NamedTuple):
    """What was read up to a moment."""

    records: int
    size_bytes: int
    wall_ms: int
    join_ms: int


class ConsumerPerformance:
    """One run: reads, counts, reports."""

    def __init__(self, console: Console, args: Args, config: Config, topics: list[str] | Callable[[str], bool]) -> None:
        self._console = console
        self._args = args
        self._config = config
        self._topics = topics
        self._clock: Clock = console.clock
        self._wanted: int = args.num_records if args.num_records is not None else args.messages
        self._records = self._bytes = self._fetches = 0
        self._join_ms = 0
        self._start = self._last = _Reading(0, 0, 0, 0)
        self._problem: Exception | None = None

    def run(self) -> ExitStatus:
        """Reads to the count or the timeout; Ctrl-C reports what was read until then."""
        from kafkatools.core.consumer.consumer import Consumer

        if not self._args.hide_header and not self._args.json:
            first = "time, threadId" if self._args.show_detailed_stats else "start.time, end.time"
            self._console.print(f"{first}, {_HEADER}")
        self._start = self._last = self._now()
        is_interrupted = False
        consumer = Consumer(self._config, self._clock)
        try:
            try:
                self._read(consumer)
            except KeyboardInterrupt:
                is_interrupted = True
            end = self._now()
            assigned = len(consumer.assignment())
        except BaseException:
            consumer.close(0)
            raise
        consumer.close()
        if self._records < self._wanted and not is_interrupted:
            self._tell_unfinished()
        self._report(end)
        if self._args.print_metrics:
            self._print_metrics(end, assigned)
        if is_interrupted:
            return ExitStatus.INTERRUPTED
        return ExitStatus.OK if self._records >= self._wanted else ExitStatus.FAILED

    def _now(self) -> _Reading:
        return _Reading(self._records, self._bytes, self._clock.wall_ms(), self._join_ms)

    def _read(self, consumer: Consumer) -> None:
        consumer.subscribe(self._topics, _join_timer(self._clock, self._joined))
        clock, timeout_ms = self._clock, self._args.timeout
        interval_ms: int = self._args.reporting_interval
        now_ms = last_arrival_ms = last_report_ms = clock.now_ms()
        while self._records < self._wanted and now_ms - last_arrival_ms <= timeout_ms:
            fetched = self._poll(consumer)
            now_ms = clock.now_ms()
            if fetched:
                last_arrival_ms = now_ms
                self._take(consumer, fetched)
            if self._args.show_detailed_stats and fetched and now_ms - last_report_ms >= interval_ms:
                self._show_interval()
                last_report_ms = now_ms
        if self._records < self._wanted:
            self._problem = consumer.connection_problem() or self._missing_topic(consumer)

    def _poll(self, consumer: Consumer) -> list[FetchedColumns]:
        """Poll records. Unreachable brokers are tried again until --timeout, as in Kafka's tool."""
        from kafkatools.core.errors import KafkaError

        try:
            return consumer.poll_columns(_POLL_MS)
        except KafkaError as error:
            if consumer.metadata_version or not error.retriable:
                raise
            return []

    def _missing_topic(self, consumer: Consumer) -> Exception | None:
        """The error when none of the topics to read exists; None when one exists, or before the first metadata."""
        from kafkatools.core.errors import UnknownTopicOrPartition

        known = consumer.known_partitions()
        topics = self._topics
        is_there = any(map(topics, known)) if callable(topics) else any(topic in known for topic in topics)
        if is_there or not consumer.metadata_version:
            return None
        if callable(topics):
            return UnknownTopicOrPartition(f"No topic matches {self._args.include}")
        return UnknownTopicOrPartition(f"Topic {', '.join(topics)} does not exist")

    def _take(self, consumer: Consumer, fetched: Sequence[FetchedColumns]) -> None:
        """Counts; what is beyond the count asked for is given back."""
        self._fetches += 1
        for item in fetched:
            columns, left = item.columns, self._wanted - self._records
            if columns.count > left:
                consumer.seek(item.topic_partition, columns.offsets[left])
                columns = columns.slice(0, left)
            self._records += columns.count
            for lengths in (columns.key_lengths, columns.value_lengths):
                self._bytes += sum(lengths) + lengths.count(-1)

    def _joined(self, elapsed_ms: int) -> None:
        """Counts the time that it took to get partitions."""
        self._join_ms += elapsed_ms

    # -- reporting --

    def _tell_unfinished(self) -> None:
        timeout_ms = self._args.timeout
        message = (
            f"WARNING: Exiting before consuming the expected number of records: timeout ({timeout_ms} ms) exceeded. "
            "You can use the --timeout option to increase the timeout."
        )
        self._console.error(message, "TIMEOUT")
        if self._problem is not None:
            self._console.error(str(self._problem), getattr(self._problem, "name", "CONNECTION_FAILED"))

    def _report(self, end: _Reading) -> None:
        if self._args.show_detailed_stats:
            if end.records > self._last.records or self._last is self._start:
                self._show_interval()
            if not self._args.json:
                return
        figures = _figures(self._start, end)
        if self._args.json:
            self._print_json("total", self._start.wall_ms, end.wall_ms, figures)
            return
        times = [self._date(at) for at in (self._start.wall_ms, end.wall_ms)]
        self._console.print(_line(times, figures, figures))

    def _show_interval(self) -> None:
        """A line of the interval that ends now; sizes and counts are those since the start."""
        now, last = self._now(), self._last
        self._last = now
        figures = _figures(last, now)
        if self._args.json:
            self._print_json("progress", last.wall_ms, now.wall_ms, figures)
        else:
            total = _figures(self._start, now)
            self._console.print(_line([self._date(now.wall_ms), "0"], total, figures))
        self._console.flush()

    def _date(self, wall_ms: int) -> str:
        from kafkatools.options.date_patterns import format_date

        return format_date(self._args.date_format, wall_ms)

    def _print_json(self, event: str, start_ms: int, end_ms: int, figures: Figures) -> None:
        from kafkatools.tools.perf.metrics import finite

        values: dict[str, object] = {"event": event, "start_time": start_ms, "end_time": end_ms, **figures._asdict()}
        self._console.print_json(finite(values))

    def _print_metrics(self, end: _Reading, assigned: int) -> None:
        from kafkatools.core.java.text import metric_lines
        from kafkatools.tools.perf.metrics import metric_rows

        metrics = self._metrics(end, assigned)
        if self._args.json:
            for row in metric_rows(metrics):
                self._console.print_json(row)
        else:
            for line in metric_lines(metrics):
                self._console.print(line)

    def _metrics(self, end: _Reading, assigned: int) -> list[Metric]:
        """What is known of the run, by the names of Kafka's metrics."""
        from kafkatools.core.java.text import Metric, ratio

        tags = {"client-id": self._config.client_id}
        fetching = "consumer-fetch-manager-metrics"
        return [
            Metric("consumer-coordinator-metrics", "assigned-partitions", tags, float(assigned)),
            Metric("consumer-coordinator-metrics", "rebalance-latency-total", tags, float(end.join_ms)),
            Metric(fetching, "bytes-consumed-total", tags, float(end.size_bytes)),
            Metric(fetching, "records-consumed-total", tags, float(end.records)),
            Metric(fetching, "records-per-request-avg", tags, ratio(end.records, self._fetches)),
        ]


class Figures(NamedTuple):
    """Of a span of time; megabytes of 2^20 bytes."""

    records: int
    bytes: int
    elapsed_ms: int
    mb: float
    mb_per_sec: float
    records_per_sec: float
    rebalance_ms: int
    fetch_ms: int
    fetch_mb_per_sec: float
    fetch_records_per_sec: float


def _figures(start: _Reading, end: _Reading) -> Figures:
    from kafkatools.core.java.text import ratio

    records, size = end.records - start.records, end.size_bytes - start.size_bytes
    elapsed_ms, join_ms = end.wall_ms - start.wall_ms, end.join_ms - start.join_ms
    fetch_ms, mb = elapsed_ms - join_ms, size / _MIB
    return Figures(
        records,
        size,
        elapsed_ms,
        mb,
        ratio(mb, elapsed_ms / 1000),
        ratio(records, elapsed_ms / 1000),
        join_ms,
        fetch_ms,
        ratio(mb, fetch_ms / 1000),
        ratio(records, fetch_ms / 1000),
    )


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


def _join_timer(clock: Clock, joined: Callable[[int], None]) -> RebalanceListener:
    """Times how long it takes to get partitions when there are none (ConsumerPerfRebListener)."""
    from kafkatools.core.consumer.group_subscription import RebalanceListener
    from kafkatools.core.consumer.subscription import TopicPartition

    class JoinTimer(RebalanceListener):
        def __init__(self) -> None:
            self._start_ms = clock.now_ms()
            self._assigned: set[TopicPartition] = set()

        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            self._assigned.difference_update(partitions)
            if not self._assigned:
                self._start_ms = clock.now_ms()

        def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            if not self._assigned:
                joined(clock.now_ms() - self._start_ms)
            self._assigned.update(partitions)

    return JoinTimer()


COMMAND = Command(
    "consumer-perf-test",
    "Measure how fast records can be read.",
    OPTIONS,
    run,
    rules=RULES,
    examples=(
        "kt consumer-perf-test --topic perf --num-records 1000000",
        "kt consumer-perf-test --include 'perf-.*' --num-records 1000000 --show-detailed-stats",
    ),
)
