"""kt console-producer: send lines of standard input to a topic (kafka-console-producer.sh, ConsoleProducer).

Input is read in large blocks, and lines go to the producer as columns; only headers, JSON and --sync need single
records. The last line on stderr is `N sent, M failed`; the exit status is 1 if M > 0. With --transactional-id a record
counts as sent when it is committed, and the first failure aborts the open transaction and ends the run.
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
    properties_file,
    property_pairs,
    rules,
    setting_option,
)
from kafkatools.options.common import format_of_file, is_registry_setting
from kafkatools.options.schema_registry import SCHEMA_REGISTRY

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.config import Config
    from kafkatools.tools.lines.line_reader import LineFormat

BATCH_BYTES = 262_144
"""The default of batch.size: Kafka's 16384 would cost a request per 160 lines of 100 bytes."""

_LINE_READERS = (
    "org.apache.kafka.tools.LineMessageReader",
    "kafka.tools.ConsoleProducer$LineMessageReader",
    "LineMessageReader",
)

_INPUT_FORMATS = ("lines", "json", "csv", "parquet", "avro")
_OPTIONS_OF_LINES = ("line-reader", "reader-property", "property", "reader-config", "value-schema", "key-schema")

OPTIONS = (
    BOOTSTRAP_SERVER,
    Option("--topic", "The topic to send to.", value="TOPIC", required=True),
    Option("--sync", "Send each record when the one before is acknowledged; stop at the first failure."),
    Option(
        "--compression-codec",
        "Compression codec of batches; without a value gzip.",
        value="CODEC",
        optional_value=True,
        implied="gzip",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
    ),
    Option("--batch-size", f"Largest batch in bytes (default {BATCH_BYTES}).", value="BYTES", type=java_int),
    Option(
        "--message-send-max-retries",
        "Number of retries of a batch (default 3; in transactions until delivery.timeout.ms).",
        value="COUNT",
        type=java_int,
    ),
    Option("--retry-backoff-ms", "Time before a retry in ms (default 100).", value="MS", type=java_long),
    Option(
        "--timeout",
        "Time in ms that a batch waits for more records (default 1000; 0 with --sync).",
        value="MS",
        type=java_long,
    ),
    Option(
        "--request-required-acks",
        "Acknowledgements to wait for: 0 none, 1 the leader, -1 or all the in-sync replicas (default -1).",
        value="ACKS",
        choices=("0", "1", "-1", "all"),
    ),
    Option(
        "--request-timeout-ms",
        "Time to wait for a response of a broker in ms (default 1500).",
        value="MS",
        type=java_int,
    ),
    Option(
        "--metadata-expiry-ms", "Age in ms at which metadata is refreshed (default 300000).", value="MS", type=java_long
    ),
    Option(
        "--max-block-ms",
        "Longest time in ms that a send waits for metadata or buffer memory (default 60000).",
        value="MS",
        type=java_long,
    ),
    Option(
        "--max-memory-bytes",
        "Buffer memory for records that are not sent yet (default 33554432).",
        value="BYTES",
        type=java_long,
    ),
    Option(
        "--max-partition-memory-bytes",
        "Older name of --batch-size.",
        value="BYTES",
        type=java_int,
        replacement="--batch-size",
    ),
    Option(
        "--socket-buffer-size",
        "TCP send buffer in bytes (default: of the operating system).",
        value="BYTES",
        type=java_int,
    ),
    Option(
        "--input-format",
        "Format of the input: lines, json (one object per line, as with --json), csv, parquet or avro, as kt "
        "console-consumer --output-format writes them. Default: that of the extension of --input (.csv, .parquet, "
        ".avro), else lines.",
        value="FORMAT",
        choices=_INPUT_FORMATS,
        ours=True,
    ),
    Option("--input", "Read this file instead of standard input.", value="FILE", ours=True),
    Option("--line-reader", "Class that reads the input. Only LineMessageReader is supported.", value="CLASS"),
    setting_option(
        "--reader-property",
        "Setting of the reader: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
        "headers.key.separator, null.marker, ignore.error.",
    ),
    setting_option("--property", "Older name of --reader-property.", replacement="--reader-property"),
    Option("--reader-config", "Properties file with settings of the reader.", value="FILE"),
    setting_option("--command-property", "Setting of the producer."),
    setting_option("--producer-property", "Older name of --command-property.", replacement="--command-property"),
    command_config("Properties file with settings of the producer."),
    Option("--producer.config", "Older name of --command-config.", value="FILE", replacement="--command-config"),
    SCHEMA_REGISTRY._replace(
        about="Address of the schema registry of --value-schema and --key-schema. Default: schema.registry.url of the "
        "profile or of --command-config.",
    ),
    Option(
        "--value-schema",
        "Encode values from JSON text by this schema: a file (.avsc, .proto, .json), the ID of a registered schema, "
        "SUBJECT or SUBJECT:VERSION.",
        value="SCHEMA",
        ours=True,
    ),
    Option(
        "--key-schema",
        "Encode keys by this schema, given as for --value-schema. Needs keys: --json, or --reader-property "
        "parse.key=true.",
        value="SCHEMA",
        ours=True,
    ),
    Option(
        "--subject-strategy",
        "Subject of a schema file: topic (TOPIC-value or TOPIC-key, the default), record (the record's name) or "
        "topic-record (TOPIC-NAME).",
        value="STRATEGY",
        choices=("topic", "record", "topic-record"),
        ours=True,
    ),
    Option(
        "--register-schemas",
        "Register the schema file if its subject does not have it yet. Without this option that is an error.",
        ours=True,
    ),
    Option(
        "--transactional-id",
        "Send in transactions of this transactional id. An earlier producer with the id is fenced.",
        value="ID",
        ours=True,
    ),
    Option(
        "--transaction-records",
        "Records in each transaction (default 0: the whole input in one).",
        value="COUNT",
        type=java_int,
        ours=True,
    ),
)

_TOGETHER = "Options --{new} and --{old} cannot be specified together."
_RENAMED_OPTIONS = (
    ("reader-property", "property"),
    ("command-property", "producer-property"),
    ("command-config", "producer.config"),
)

RULES: tuple[rules.Rule, ...] = (
    rules.Requirement(("topic",)),
    *(rules.Refusal(old, (new,), _TOGETHER.format(new=new, old=old)) for new, old in _RENAMED_OPTIONS),
)

_OPTION_SETTINGS: tuple[tuple[str, str, str | None], ...] = (
    ("linger.ms", "timeout", "1000"),
    ("acks", "request_required_acks", "-1"),
    ("request.timeout.ms", "request_timeout_ms", "1500"),
    ("retries", "message_send_max_retries", "3"),
    ("retry.backoff.ms", "retry_backoff_ms", "100"),
    ("send.buffer.bytes", "socket_buffer_size", "-1"),
    ("buffer.memory", "max_memory_bytes", "33554432"),
    ("metadata.max.age.ms", "metadata_expiry_ms", "300000"),
    ("max.block.ms", "max_block_ms", "60000"),
    ("compression.type", "compression_codec", None),
    ("transactional.id", "transactional_id", None),
)
"""Setting, its option, and the default of Kafka's ConsoleProducer, which differs from that of the producer."""


def _unsupported_line_reader(name: str) -> UsageError:
    hint = f"kt supports only {_LINE_READERS[0]}."
    if name.startswith("io.confluent."):
        hint = "--schema-registry URL with --value-schema encodes JSON as Avro or Protobuf."
    return UsageError(f"Unsupported --line-reader {name}", hint)


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt console-producer: send the lines of standard input. Returns INTERRUPTED after Ctrl-C, FAILED if a record
    failed or the run ended early. Raises UsageError or KafkaError."""
    from kafkatools.core.errors import ConfigError

    for new, old in _RENAMED_OPTIONS:
        if args.has_option(old):
            console.note(
                f"Warning: --{old} is deprecated and will be removed in a future version. Use --{new} instead."
            )
    if args.line_reader is not None and args.line_reader not in _LINE_READERS:
        raise _unsupported_line_reader(args.line_reader)
    form = _input_format(args)
    try:
        line_format = _line_format(args, form)
    except ConfigError as error:
        raise UsageError(str(error)) from None
    config = producer_config(console, args)
    if args.transaction_records is not None:
        if config.transactional_id is None:
            raise UsageError("--transaction-records needs --transactional-id")
        if args.transaction_records < 0:
            raise UsageError(f"--transaction-records must be 0 or more, not {args.transaction_records}")
    has_schema = _has_schema(args, form, line_format)

    def produce() -> ExitStatus:
        return _produce(console, args, config, line_format, form, has_schema=has_schema)

    if args.input is None:
        return produce()
    with open(args.input, "rb") as console.stdin:
        return produce()


def _produce(
    console: Console, args: Args, config: Config, line_format: LineFormat, form: str, *, has_schema: bool
) -> ExitStatus:
    from kafkatools.commands.console_producer.sending import ConsoleProducer

    if not console.is_debug:  # hide retries and reconnects: the report at the end names failures
        import logging

        logging.getLogger("kafkatools").addHandler(logging.NullHandler())
    producer = ConsoleProducer(console, args, config, line_format, form)
    if has_schema:
        from kafkatools.commands.console_producer.encoding import encoders

        producer.encode_by(*encoders(console, args))
    return producer.run()


def _has_schema(args: Args, form: str, line_format: LineFormat) -> bool:
    """Return whether records are encoded by a schema. Raises UsageError for options that need one, for a schema of
    keys without keys, and for a form of input that has typed columns."""
    if args.value_schema is None and args.key_schema is None:
        for option in ("schema-registry", "register-schemas", "subject-strategy"):
            if args.has_option(option):
                raise UsageError(f"--{option} needs --value-schema or --key-schema, the schema to encode by")
        return False
    if form not in ("lines", "json"):
        raise UsageError(
            f"--value-schema and --key-schema cannot be used with --input-format {form}, only with lines or json"
        )
    if args.key_schema is not None and form == "lines" and not line_format.parse_key:
        raise UsageError("--key-schema needs lines with keys: add --reader-property parse.key=true, or --json")
    return True


def _input_format(args: Args) -> str:
    """Return the format of the input: that of --input-format, else json with --json, else lines with an option of
    lines, else that of the extension of --input, else lines. Raises UsageError, and CommandError if a package is
    missing."""
    name: str | None = args.input_format
    if name is None and args.json:
        return "json"
    if name is None:
        is_lines = any(map(args.has_option, _OPTIONS_OF_LINES))
        name = "lines" if is_lines else format_of_file(args.input) or "lines"
    if name not in _INPUT_FORMATS:
        raise UsageError(f"Invalid value of --input-format: '{name}'. The formats are {', '.join(_INPUT_FORMATS)}")
    if args.json and name != "json":
        raise UsageError(f"--json and --input-format {name} contradict each other")
    if name in ("parquet", "avro"):
        from kafkatools.commands.console_producer.row_input import ensure_package

        ensure_package(name)
    return name


def _line_format(args: Args, form: str) -> LineFormat:
    from kafkatools.tools.lines.line_reader import LineFormat

    properties = properties_file(args, "reader_config")
    properties |= property_pairs(args.reader_property, "reader-property") | property_pairs(args.property, "property")
    properties = {name: value for name, value in properties.items() if not is_registry_setting(name)}
    if form == "json" and set(properties) - {"ignore.error"}:
        raise UsageError(
            f"With {'--json' if args.json else '--input-format json'}, the only reader property is ignore.error"
        )
    if form not in ("lines", "json") and properties:
        raise UsageError(f"With --input-format {form} there are no reader properties")
    return LineFormat.from_properties(properties)


def producer_config(console: Console, args: Args) -> Config:
    """Return the producer's settings: the properties file, then --command-property, then options.

    Follows ConsoleProducerOptions.producerProps. Raises UsageError for two different transactional ids.
    """
    from kafkatools.core.config import PRODUCER, Config

    pair_options = ("command-property", "producer-property")
    values = client_values(PRODUCER, args, "producer.config", pair_options, console.note)
    transactional_id = values.get("transactional.id", args.transactional_id)
    if args.transactional_id not in (None, transactional_id):
        raise UsageError(
            f"--transactional-id is {args.transactional_id}, but the property transactional.id is {transactional_id}"
        )
    is_transactional = transactional_id is not None
    for name, option, default in _OPTION_SETTINGS:
        value = getattr(args, option)
        if value is not None:
            values[name] = value
        elif default is not None and not (name == "retries" and is_transactional):
            values.setdefault(name, "0" if name == "linger.ms" and args.sync else default)
    size = args.max_partition_memory_bytes if args.max_partition_memory_bytes is not None else args.batch_size
    if size is not None:
        values["batch.size"] = size
    values.setdefault("batch.size", str(BATCH_BYTES))
    values.setdefault("client.id", "console-producer")
    values["bootstrap.servers"] = console.connect(args)
    return Config(PRODUCER, values)


COMMAND = Command(
    "console-producer",
    "Send lines of standard input to a topic.",
    OPTIONS,
    run,
    rules=RULES,
    examples=(
        "kt console-producer --topic first < lines.txt",
        "kt console-producer --topic first --reader-property parse.key=true < pairs.tsv",
        "kt console-producer --topic first --input-format parquet --input records.parquet",
        "kt console-producer --topic t --value-schema t-value:1 --schema-registry http://localhost:8081",
        "kt console-producer --topic first --transactional-id loader --transaction-records 1000 < lines.txt",
    ),
)
