"""kt console-consumer: print the records of topics to stdout (kafka-console-consumer.sh).

Without --group the consumer is assigned all partitions of the topics, new ones included. With --group it joins the
consumer group and commits the offsets of printed records. Stdout holds records only, one write per fetched batch; the
total goes to stderr. A run ends by --max-messages, --timeout-ms, --exit-at-end, Ctrl-C or an error. docs/differences.md
lists the differences from Kafka's tool.

`inputs.py` turns options into settings, `outputs.py` writes files and other formats than text, `reading.py` runs the
consumer.
"""

from __future__ import annotations

from functools import partial

from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int, java_long, rules
from kafkatools.options.common import setting_option
from kafkatools.options.schema_registry import SCHEMA_REGISTRY

_DEFAULT_FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
_NOT_TOGETHER = "Options {option} and {other} cannot be specified together."
_NOT_WITH_FORMAT = "--format cannot be used with --{other}"
_BOTH_NAMES = "Options --{option} and --{other} cannot be specified together."


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt console-consumer. Returns INTERRUPTED after Ctrl-C, FAILED when records were skipped, not committed, or
    missing at --exit-at-end. Raises UsageError, CommandError or KafkaError."""
    from kafkatools.commands.console_consumer import inputs
    from kafkatools.commands.console_consumer.reading import ConsoleConsumer
    from kafkatools.core.config import CONSUMER, Config

    inputs.warn_deprecated(console, args, OPTIONS)
    settings = inputs.settings(console, args)
    output = inputs.output(console, args, settings)
    if args.has_option("from"):
        from kafkatools.commands.console_consumer import log_files

        return log_files.run(console, args, output, settings)
    requested = inputs.requested_records(args, settings, console.clock.wall_ms())
    if requested.bounds is not None:
        inputs.set_for_slice(settings, args.timeout_ms)
    elif args.exit_at_end:
        inputs.set_for_lookups(settings, args.timeout_ms)
        if args.order is not None:
            inputs.shorten_fetches(settings)
    settings["bootstrap.servers"] = console.connect(args)
    report_ends = None
    if settings.get("isolation.level") == "read_committed":
        report_ends = partial(inputs.report_open_ends, console, settings)
    return ConsoleConsumer(console, args, output, requested, report_ends).run(Config(CONSUMER, settings))


OPTIONS = (
    Option("--topic", "The topic to read.", value="TOPIC"),
    Option("--include", "Read all topics whose whole name matches this regular expression.", value="REGEX"),
    Option("--partition", "Read only this partition of the topic.", value="NUMBER", type=java_int),
    Option(
        "--offset",
        "Where to start in the partition: a number, earliest or latest (default). Or a range, also without "
        "--partition: -5 (from 5 before the end), +5 (from 5 after the start), 100:200, -100:end, @-1h (since a time), "
        "@-1h:@-30m, @2026-01-31:2026-02-01.",
        value="OFFSET",
    ),
    Option(
        "--from-beginning", "Start at the earliest offset instead of the latest if the group has no committed offset."
    ),
    Option("--max-messages", "Exit after this many records.", value="COUNT", type=java_int),
    Option("--timeout-ms", "Exit after this many milliseconds without a record.", value="MS", type=java_long),
    Option(
        "--exit-at-end",
        "Exit when every partition reaches the end offset that it had at the start. Exit status 1 if the run ends "
        "earlier.",
        ours=True,
    ),
    Option(
        "--since",
        "Read from each partition's first record at or after this time, and wait for more: -1h, 2026-01-31T13:45 (UTC "
        "unless it has a zone), or milliseconds since 1970 (ten digits: seconds).",
        value="TIME",
        ours=True,
    ),
    Option(
        "--until",
        "Stop before each partition's first record at or after this time, but at the latest at the log end offset that "
        "the partition had at the start. Reads from the earliest offset unless --since is given.",
        value="TIME",
        ours=True,
    ),
    Option("--last", "Print the last N records of each partition and exit.", value="N", type=java_int, ours=True),
    Option(
        "--in-all",
        "With --last N: print only the N records with the newest timestamps, of all partitions together.",
        ours=True,
    ),
    Option(
        "--order",
        "time: merge the partitions by timestamp; the order within a partition stays. Needs an end: --until, --last, "
        "--exit-at-end or a range of --offset with an end. Default: the order in which records are fetched.",
        value="ORDER",
        choices=("time",),
        ours=True,
    ),
    Option(
        "--key",
        "Print only the records with exactly this key. If the run has an end, such as --exit-at-end, and sampled "
        "keys show how the topic is partitioned, only the key's partition is read.",
        value="KEY",
        ours=True,
    ),
    Option(
        "--grep",
        "Print only the records whose key, value, header name or header value contains a match of this regular "
        "expression (Python's, over bytes). ^ and $ match at the start and the end of each of these.",
        value="REGEX",
        ours=True,
    ),
    Option(
        "--grep-in",
        "Where --grep searches: key, value, headers, or several with commas. Default: all three.",
        value="PARTS",
        ours=True,
    ),
    Option("--ignore-case", "--grep ignores the case of A to Z.", aliases=("-i",), ours=True),
    Option(
        "--where",
        "Print only the records for which this condition in SQL is true, such as value->>'user' = 'alice' AND "
        "timestamp > now() - INTERVAL 1 HOUR. Columns: topic, partition, offset, timestamp, key, value, headers, "
        "key_bytes, value_bytes.",
        value="CONDITION",
        ours=True,
    ),
    Option(
        "--count",
        "Print only the number of records; with --json, one for each partition. Reads to the log end offsets of when "
        "the command started, and from the earliest offsets unless another option sets the start.",
        ours=True,
    ),
    Option(
        "--from",
        "Read segment files to their end instead of a broker: log:DIRECTORY. DIRECTORY is one of log.dirs (with "
        "--topic or --include if it has several topics), the directory of one partition, or one .log file. The files "
        "are only read.",
        value="SOURCE",
        ours=True,
    ),
    BOOTSTRAP_SERVER,
    command_config("Properties file with settings of the consumer."),
    setting_option("--command-property", "Setting of the consumer."),
    Option(
        "--isolation-level",
        "read_committed skips records of aborted transactions, and stops before the first open transaction of a "
        "partition. Default: read_uncommitted.",
        value="LEVEL",
        choices=("read_committed", "read_uncommitted"),
    ),
    Option(
        "--group", "Read as a member of this consumer group and commit the offsets of printed records.", value="GROUP"
    ),
    Option(
        "--formatter",
        "How records are printed: a class name, or default, logging, no-op; for internal topics: offsets, "
        "group-metadata, transaction-log, share-group, share-group-state.",
        value="CLASS",
        default=_DEFAULT_FORMATTER,
    ),
    setting_option(
        "--formatter-property",
        "Setting of the formatter: print.key, print.value, print.headers, print.timestamp, print.partition, "
        "print.offset (true or false), key.separator, line.separator, headers.separator, null.literal, "
        "key.deserializer, value.deserializer, headers.deserializer.",
    ),
    Option(
        "--format",
        "Print each record by a format in kcat's notation: %s value, %S its size, %R its size as 4 bytes, %k key, %K "
        "its size, %t topic, %p partition, %o offset, %T timestamp, %h headers, %% percent sign; \\n, \\t, \\r, \\xNN. "
        "A line needs \\n at the end of the format.",
        value="FORMAT",
        aliases=("-f",),
        ours=True,
    ),
    Option(
        "--output-format",
        "Format of the records: text, json (one object per line, as with --json), csv, parquet or avro (a container "
        "file). Default: that of the extension of --output (.csv, .parquet, .avro), else text.",
        value="FORMAT",
        choices=("text", "json", "csv", "parquet", "avro"),
        ours=True,
    ),
    Option(
        "--output",
        "Write the records to this file, which appears when the run is complete. For a directory, or a name that ends "
        "with /: one file for each partition.",
        value="FILE",
        aliases=("-o",),
        ours=True,
    ),
    Option("--force", "With --output: replace files that exist.", ours=True),
    Option(
        "--mask",
        "Replace contents before they are printed. FIELD: key, value, headers.NAME, or a JSON field such as "
        "value.user.email. HOW: hash (default, HMAC-SHA-256), null, or last4 (**** and the last 4 of "
        "at least 8 characters).",
        value="FIELD[=HOW]",
        repeatable=True,
        ours=True,
    ),
    Option(
        "--mask-key",
        "Secret key for the hashes of --mask: file:PATH or env:NAME. Default: a random key, so hashes of two "
        "runs differ.",
        value="KEY",
        ours=True,
    ),
    Option("--formatter-config", "Properties file with settings of the formatter.", value="FILE"),
    Option("--key-deserializer", "Deserializer class for keys.", value="CLASS"),
    Option("--value-deserializer", "Deserializer class for values.", value="CLASS"),
    SCHEMA_REGISTRY._replace(
        about="Decode Avro, Protobuf and JSON Schema keys and values to JSON by the schemas of this registry. "
        "What cannot be decoded is printed undecoded; the exit status is then 1.",
    ),
    Option(
        "--decode",
        "What to decode by the schema registry: key, value or both (default). Without --schema-registry the setting "
        "schema.registry.url names the registry.",
        value="PART",
        choices=("key", "value", "both"),
        ours=True,
    ),
    Option("--skip-message-on-error", "Skip records that cannot be printed; the exit status is then 1."),
    Option("--skip-corrupt", "Skip corrupt batches and report their offsets; the exit status is then 1.", ours=True),
    Option("--enable-systest-events", "Print a shutdown_complete event at the end."),
    setting_option("--property", "Older name of --formatter-property.", replacement="formatter-property"),
    setting_option("--consumer-property", "Older name of --command-property.", replacement="command-property"),
    Option("--consumer.config", "Older name of --command-config.", value="FILE", replacement="command-config"),
)

RULES = (
    rules.Refusal("partition", ("include",), "The topic is required when partition is specified."),
    rules.ExactlyOne(
        ("topic", "include"), "Exactly one of the following arguments is required: [topic], [include]", unless=("from",)
    ),
    rules.Refusal("topic", ("include",), _NOT_TOGETHER, when=("from",)),
    rules.Refusal("from-beginning", ("offset",), _NOT_TOGETHER),
    rules.Refusal("from-beginning", ("since", "last"), _NOT_TOGETHER),
    rules.Refusal("offset", ("since", "until", "last"), _NOT_TOGETHER),
    rules.Requirement(("last",), when=("in-all",), message="--in-all needs --last"),
    rules.Requirement(("grep",), when=("grep-in",), message="--grep-in needs --grep"),
    rules.Requirement(("grep",), when=("ignore-case",), message="--ignore-case needs --grep"),
    rules.Refusal(
        "count",
        ("group", "formatter", "formatter-property", "format", "order", "output", "output-format"),
        _NOT_TOGETHER,
    ),
    rules.Refusal("group", ("partition",), _NOT_TOGETHER),
    rules.Refusal("consumer-property", ("command-property",), _BOTH_NAMES),
    rules.Refusal("consumer.config", ("command-config",), _BOTH_NAMES),
    rules.Refusal("property", ("formatter-property",), _BOTH_NAMES),
    rules.Requirement(("mask",), when=("mask-key",), message="--mask-key needs --mask"),
    rules.Refusal(
        "format", ("formatter", "formatter-property", "formatter-config", "property", "json"), _NOT_WITH_FORMAT
    ),
)

COMMAND = Command(
    "console-consumer",
    "Print the records of topics.",
    options=OPTIONS,
    run=run,
    rules=RULES,
    examples=(
        "kt console-consumer --topic orders --from-beginning --exit-at-end",
        "kt console-consumer --topic orders --group billing --from-beginning --max-messages 100",
        "kt console-consumer --topic __consumer_offsets --formatter offsets --from-beginning --exit-at-end",
        "kt console-consumer --topic orders --partition 0 --offset 42 --max-messages 1 --json",
        "kt console-consumer --topic orders --last 10",
        "kt console-consumer --topic orders --last 10 --format '%T %k %s\\n'",
        "kt console-consumer --topic orders --last 10 --schema-registry http://localhost:8081",
        "kt console-consumer --topic orders --since -1h --until -30m",
        "kt console-consumer --topic orders --key alice --from-beginning --exit-at-end",
        "kt console-consumer --topic orders --grep timeout --grep-in value --since -1h --until now",
        "kt console-consumer --topic orders --count",
        "kt console-consumer --from log:/var/lib/kafka --topic orders --last 10",
        "kt console-consumer --topic orders --until now --output-format parquet --output orders.parquet",
    ),
)
