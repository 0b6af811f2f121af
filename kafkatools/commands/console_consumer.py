"""kt console-consumer: records of topics to stdout (kafka-console-consumer.sh).

Without a group every partition of the topics is assigned, and new ones as they appear. Records go out a batch at a
time, one write each. Stdout carries records and nothing else. How it ends: --max-messages, --timeout-ms,
--exit-at-end, Ctrl-C or an error; the total is always told. What differs from Kafka's tool is in docs/differences.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import (
    BOOTSTRAP_SERVER,
    INTERNAL_TOPICS,
    Args,
    Command,
    ExactlyOne,
    Option,
    Refusal,
    Requirement,
    command_config,
    java_int,
    java_long,
    java_pattern,
    property_pairs,
    read_properties,
)

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.config import Config
    from kafkatools.core.consumer.completed_fetch import FetchedColumns
    from kafkatools.core.consumer.consumer import Consumer
    from kafkatools.core.consumer.errors import CorruptBatch
    from kafkatools.core.consumer.formatters import MessageFormatter
    from kafkatools.core.consumer.subscription import TopicPartition
    from kafkatools.core.consumer.topic_follower import TopicFollower
    from kafkatools.core.errors import KafkaError

_DEFAULT_FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
_FOREVER_MS = 1 << 60
_POLL_MS = 1000
_NOT_TOGETHER = "Options {option} and {other} cannot be specified together."
_BOTH_NAMES = "Options --{option} and --{other} cannot be specified together."
_BAD_OFFSET = (
    "The provided offset value '{}' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long."
)
_DEPRECATED = "Option --{} is deprecated and will be removed in a future version. Use --{} instead."
_NO_GROUPS = "Consumer groups are not supported yet: leave --group and group.id away to read without committing"


def run(console: Console, args: Args) -> ExitStatus:
    """Reads until told to stop; the exit status says whether everything asked for was printed."""
    _tell_deprecated(console, args)
    start, takes = _start_offset(args), _pattern(args)
    formatter = _formatter(console, args)
    settings = _settings(args)
    if args.exit_at_end:  # a topic that does not exist has no end to read to: it must not be made by asking
        settings.setdefault("allow.auto.create.topics", "false")
    settings["bootstrap.servers"] = console.connect(args)
    return ConsoleConsumer(console, args, formatter, Source(start, takes)).run(_config(settings))


class Source(NamedTuple):
    """Where to start in a single partition, and which topics are read; None: --topic alone."""

    start: str | int
    takes: Callable[[str], bool] | None


class ConsoleConsumer:
    """One run: what is to be read, what was, and when it is enough."""

    def __init__(self, console: Console, args: Args, formatter: MessageFormatter, source: Source) -> None:
        self._console = console
        self._args = args
        self._formatter = formatter
        self._start, self._takes = source
        self._count = 0
        self._limit: int | None = args.max_messages if (args.max_messages or 0) >= 0 else None
        self._idle_ms = args.timeout_ms if args.timeout_ms is not None and args.timeout_ms >= 0 else _FOREVER_MS
        self._has_skipped = False
        self._error: KafkaError | None = None
        self._ends: dict[TopicPartition, int] | None = None
        self._cut: set[TopicPartition] = set()  # partitions of which --max-messages left out what was read

    def run(self, config: Config) -> ExitStatus:
        """Consumes to the end of this run and reports."""
        from kafkatools.core.consumer.consumer import Consumer

        skip = self._skip_corrupt if self._args.skip_corrupt else None
        status = ExitStatus.OK
        try:
            with Consumer(config, self._console.clock, skip) as consumer:
                self._consume(consumer)
                status = self._status(consumer)
        except KeyboardInterrupt:
            status = ExitStatus.INTERRUPTED
        except BrokenPipeError:
            raise
        except Exception:  # told by cli.main; the count of what came before it is told here
            self._report_total()
            raise
        if self._args.enable_systest_events:
            self._console.print("shutdown_complete")
        self._report_total()
        if self._error is not None:
            raise self._error
        return status

    def _consume(self, consumer: Consumer) -> None:
        clock = self._console.clock
        if self._is_enough(consumer):
            return
        follower = self._assign(consumer)
        if self._args.exit_at_end:
            self._ends = consumer.end_offsets(consumer.assignment())
        deadline = clock.now_ms() + self._idle_ms
        while self._error is None and not self._is_enough(consumer):
            left = deadline - clock.now_ms()
            if left <= 0:
                self._check_idle(consumer, follower)
                return
            fetched = consumer.poll_columns(min(left, _POLL_MS))
            if fetched:
                self._write(fetched)
                deadline = clock.now_ms() + self._idle_ms
            elif follower is not None and self._ends is None:
                follower.maybe_assign_new()

    def _check_idle(self, consumer: Consumer, follower: TopicFollower | None) -> None:
        """Nothing came for --timeout-ms: that is an end, unless nothing could have come."""
        if follower is not None and not follower.partitions:
            raise CommandError(f"{self._source()} does not exist")
        problem = consumer.connection_problem()
        if problem is not None:
            raise problem

    # --- what to read

    def _assign(self, consumer: Consumer) -> TopicFollower | None:
        """Assigns one partition where --offset says, or follows topics."""
        if self._args.partition is not None:
            self._assign_one(consumer, self._args.topic, self._args.partition)
            return None
        from kafkatools.core.consumer.topic_follower import TopicFollower

        follower = TopicFollower(consumer, self._args.topic, self._takes)
        if not follower.start():
            if self._args.exit_at_end:
                raise CommandError(f"{self._source()} does not exist")
            self._console.error(f"{self._source()} does not exist yet: waiting for it")
        return follower

    def _assign_one(self, consumer: Consumer, topic: str, partition: int) -> None:
        known = consumer.partitions_for(topic)
        if not known:
            raise CommandError(f"{self._source()} does not exist")
        if partition not in known:
            raise CommandError(f"Topic {topic} has no partition {partition}, only 0 to {len(known) - 1}")
        consumer.assign([(topic, partition)])
        if self._start == "earliest":
            consumer.seek_to_beginning()
        elif self._start == "latest":
            consumer.seek_to_end()
        else:
            self._check_range(consumer, topic, partition, int(self._start))
            consumer.seek((topic, partition), int(self._start))

    def _check_range(self, consumer: Consumer, topic: str, partition: int, offset: int) -> None:
        """Kafka's tool would go to the end without a word; whoever names an offset means it."""
        where = [(topic, partition)]
        [low], [high] = consumer.beginning_offsets(where).values(), consumer.end_offsets(where).values()
        if not low <= offset <= high:
            raise CommandError(f"Offset {offset} is out of range: {topic}-{partition} holds offsets {low} to {high}")

    def _source(self) -> str:
        return f"Topic {self._args.topic}" if self._args.topic else f"A topic that matches {self._args.include}"

    # --- what to print

    def _write(self, fetched: Iterable[FetchedColumns]) -> None:
        out = bytearray()
        for item in fetched:
            wanted = self._wanted(item)
            if wanted is not None and self._error is None:
                done = self._formatter.write(out, wanted, self._on_error)
                self._count += done
                self._name_failed(wanted, done)
        if out:
            self._console.write(out)
            self._console.flush()

    def _name_failed(self, fetched: FetchedColumns, done: int) -> None:
        """Says which record ended the run: the last of those dealt with."""
        if self._error is None:
            return
        where = f"{fetched.topic}-{fetched.partition} offset {fetched.columns.offsets[done - 1]}"
        self._error = type(self._error)(f"{self._error} ({where})")

    def _wanted(self, fetched: FetchedColumns) -> FetchedColumns | None:
        """The records in front of the partition's end and within --max-messages; None when there are none."""
        columns, stop = fetched.columns, fetched.columns.count
        if self._ends is not None:
            end = self._ends.get(fetched.topic_partition, 0)
            while stop and columns.offsets[stop - 1] >= end:
                stop -= 1
        if self._limit is not None and stop > self._limit - self._count:
            stop = self._limit - self._count
            self._cut.add(fetched.topic_partition)
        if stop == columns.count:
            return fetched
        return fetched._replace(columns=columns.slice(0, stop)) if stop > 0 else None

    def _on_error(self, error: KafkaError) -> bool:
        """A record cannot be printed: passed over with --skip-message-on-error, else the end."""
        if not self._args.skip_message_on_error:
            self._error = error
            return False
        self._has_skipped = True
        self._console.error(f"Error processing message, skipping this message: {error}")
        return True

    def _skip_corrupt(self, damage: CorruptBatch) -> None:
        self._has_skipped = True
        where = f"{damage.topic}-{damage.partition}"
        last = damage.next_offset - 1
        self._console.error(f"Skipped offsets {damage.first_offset} to {last} of {where}: {damage.cause}")

    # --- when it is enough, and how it ended

    def _is_enough(self, consumer: Consumer) -> bool:
        if self._limit is not None and self._count >= self._limit:
            return True
        return self._ends is not None and self._complete(consumer) == len(self._ends)

    def _complete(self, consumer: Consumer) -> int:
        """How many partitions were read to the end that was taken at the start."""
        ends = (self._ends or {}).items()
        return sum(1 for part, end in ends if part not in self._cut and consumer.position(part) >= end)

    def _status(self, consumer: Consumer) -> ExitStatus:
        status = ExitStatus.FAILED if self._has_skipped else ExitStatus.OK
        if self._ends is not None and self._error is None:
            complete = self._complete(consumer)
            self._console.error(f"complete: {complete}/{len(self._ends)} partitions")
            if complete < len(self._ends):
                status = ExitStatus.FAILED
        return status

    def _report_total(self) -> None:
        self._console.error(f"Processed a total of {self._count} messages")


class JsonFormatter:
    """One JSON object for each record, without loss (docs/json/records.md)."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        from kafkatools.core.consumer.formatters import check_properties, named_deserializer

        check_properties(properties)
        self._key = named_deserializer(properties, "key.deserializer")
        self._value = named_deserializer(properties, "value.deserializer")
        self._header = named_deserializer(properties, "headers.deserializer")

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: Any) -> int:
        """Appends the records' lines."""
        if self._key is None and self._value is None and self._header is None:
            from kafkatools.core.records.json_cells import fetched_lines

            lines = fetched_lines(fetched.topic, fetched.partition, fetched.columns)
            if lines is not None:
                out += lines.encode()
                return fetched.columns.count
        return self._write_singly(out, fetched, on_error)

    def _write_singly(self, out: bytearray, fetched: FetchedColumns, on_error: Any) -> int:
        from kafkatools.core.errors import KafkaError
        from kafkatools.output import json_line

        for index in range(fetched.columns.count):
            try:
                line = json_line(self._row(fetched, index))
            except KafkaError as error:
                if not on_error(error):
                    return index + 1
                continue
            out += line.encode()
            out += b"\n"
        return fetched.columns.count

    def _row(self, fetched: FetchedColumns, index: int) -> dict[str, Any]:
        columns = fetched.columns
        return {
            "topic": fetched.topic,
            "partition": fetched.partition,
            "offset": columns.offsets[index],
            "timestamp": columns.timestamps[index],
            "timestamp_type": columns.timestamp_type.label,
            "key": _text(columns.key(index), self._key),
            "value": _text(columns.value(index), self._value),
            "headers": [[name, _text(value, self._header)] for name, value in columns.headers(index)],
        }


def _text(data: bytes | None, deserialize: Any) -> bytes | None:
    result: bytes | None = data if data is None or deserialize is None else deserialize(data)
    return result


# --- from options to settings


def _tell_deprecated(console: Console, args: Args) -> None:
    for option in OPTIONS:
        if option.replacement and args.given(option.name):
            console.error(_DEPRECATED.format(option.long, option.replacement))


def _start_offset(args: Args) -> str | int:
    """Where --partition starts: `earliest`, `latest` or an offset (ConsoleConsumerOptions.parseOffset)."""
    if args.offset is None:
        return "earliest" if args.from_beginning else "latest"
    word = args.offset.lower()
    if word in ("earliest", "latest"):
        return str(word)
    try:
        offset = java_long(args.offset)
    except ValueError:
        offset = -1
    if offset < 0:
        raise UsageError(_BAD_OFFSET.format(args.offset))
    return offset


def _pattern(args: Args) -> Callable[[str], bool] | None:
    """The predicate of --include: a Java regular expression for whole names; internal topics stay out."""
    import re

    if args.include is None:
        return None
    try:
        pattern = java_pattern(args.include)
    except re.error as error:
        raise UsageError(f"{args.include} is an invalid regex: {error}") from None
    return lambda name: name not in INTERNAL_TOPICS and pattern.fullmatch(name) is not None


def _formatter(console: Console, args: Args) -> MessageFormatter:
    from kafkatools.core.consumer.formatters import make_formatter
    from kafkatools.core.errors import ConfigError

    properties = read_properties(args.formatter_config) if args.formatter_config else {}
    properties.update(property_pairs(args.property, "property"))
    properties.update(property_pairs(args.formatter_property, "formatter-property"))
    for part in ("key", "value"):
        name = getattr(args, f"{part}_deserializer")
        if name:
            properties[f"{part}.deserializer"] = name
    try:
        if args.json:
            return JsonFormatter(properties)
        return make_formatter(args.formatter, properties, _visible if console.is_terminal else None)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def _visible(text: bytes) -> bytes:
    """Control characters as escapes: a record must not drive the reader's terminal."""
    from kafkatools.output import visible

    return visible(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _settings(args: Args) -> dict[str, str]:
    """Consumer settings: the file, then single ones, then options (ConsoleConsumerOptions.buildConsumerProps)."""
    path = args.command_config or args.consumer_config
    settings = read_properties(path) if path else {}
    settings.update(property_pairs(args.consumer_property, "consumer-property"))
    settings.update(property_pairs(args.command_property, "command-property"))
    if args.group is not None or settings.get("group.id"):
        _refuse_group(args, settings)
    reset = settings.get("auto.offset.reset")
    if args.from_beginning and reset not in (None, "earliest"):
        raise UsageError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    if reset is None:
        settings["auto.offset.reset"] = "earliest" if args.from_beginning else "latest"
    settings.setdefault("client.id", "console-consumer")
    # The system sizes the buffer: bulk reads are a third faster than with the default of 64 KiB.
    settings.setdefault("receive.buffer.bytes", "-1")
    if args.isolation_level is not None:
        settings["isolation.level"] = args.isolation_level
    return settings


def _refuse_group(args: Args, settings: Mapping[str, str]) -> None:
    given = {name for name in (args.group, settings.get("group.id")) if name}
    if len(given) > 1:
        found = ", ".join(f"'{name}'" for name in sorted(given))
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: {found}"
        )
    raise UsageError(_NO_GROUPS)


def _config(settings: Mapping[str, str]) -> Config:
    from kafkatools.core.config import CONSUMER, Config

    return Config(CONSUMER, settings)


OPTIONS = (
    Option("--topic", "The topic to read.", value="TOPIC"),
    Option("--include", "Read all topics whose whole name matches this regular expression.", value="REGEX"),
    Option("--partition", "Read only this partition of the topic.", value="NUMBER", type=java_int),
    Option("--offset", "Where to start in the partition: a number, earliest or latest (default).", value="OFFSET"),
    Option("--from-beginning", "Start with the oldest record, not with the next to come."),
    Option("--max-messages", "Stop after so many records.", value="COUNT", type=java_int),
    Option("--timeout-ms", "Stop when nothing arrives for so long.", value="MS", type=java_long),
    Option("--exit-at-end", "Stop at the end the partitions have now; exit status 1 if it is not reached.", ours=True),
    BOOTSTRAP_SERVER,
    command_config("Properties file with settings of the consumer."),
    Option("--command-property", "Setting of the consumer.", value="NAME=VALUE", repeatable=True),
    Option(
        "--isolation-level",
        "read_committed leaves out transactions that were aborted or are still open. Default: read_uncommitted.",
        value="LEVEL",
        choices=("read_committed", "read_uncommitted"),
    ),
    Option("--group", "Consumer group.", value="GROUP"),
    Option("--formatter", "Class that prints records.", value="CLASS", default=_DEFAULT_FORMATTER),
    Option(
        "--formatter-property",
        "Setting of the formatter: print.key, print.value, print.headers, print.timestamp, print.partition, "
        "print.offset (true or false), key.separator, line.separator, headers.separator, null.literal, "
        "key.deserializer, value.deserializer, headers.deserializer.",
        value="NAME=VALUE",
        repeatable=True,
    ),
    Option("--formatter-config", "Properties file with settings of the formatter.", value="FILE"),
    Option("--key-deserializer", "Class that turns keys into text.", value="CLASS"),
    Option("--value-deserializer", "Class that turns values into text.", value="CLASS"),
    Option("--skip-message-on-error", "Go on behind a record that cannot be printed; the exit status is 1 then."),
    Option("--skip-corrupt", "Go on behind damaged batches; says which offsets, exit status 1 then.", ours=True),
    Option("--enable-systest-events", "Also print shutdown_complete at the end."),
    Option(
        "--property", "Setting of the formatter.", value="NAME=VALUE", repeatable=True, replacement="formatter-property"
    ),
    Option(
        "--consumer-property",
        "Setting of the consumer.",
        value="NAME=VALUE",
        repeatable=True,
        replacement="command-property",
    ),
    Option("--consumer.config", "Properties file.", value="FILE", replacement="command-config"),
)

RULES = (
    Refusal("partition", ("include",), "The topic is required when partition is specified."),
    ExactlyOne(("topic", "include"), "Exactly one of the following arguments is required: [topic], [include]"),
    Requirement(("partition",), when=("offset",), message="The partition is required when offset is specified."),
    Refusal("from-beginning", ("offset",), _NOT_TOGETHER),
    Refusal("group", ("partition",), _NOT_TOGETHER),
    Refusal("consumer-property", ("command-property",), _BOTH_NAMES),
    Refusal("consumer.config", ("command-config",), _BOTH_NAMES),
    Refusal("property", ("formatter-property",), _BOTH_NAMES),
)

COMMAND = Command(
    "console-consumer",
    "Print the records of topics.",
    options=OPTIONS,
    run=run,
    rules=RULES,
    examples=(
        "kt console-consumer --topic orders --from-beginning --exit-at-end",
        "kt console-consumer --topic orders --partition 0 --offset 42 --max-messages 1 --json",
    ),
)
