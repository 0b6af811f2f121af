"""kt console-share-consumer: print records read as a member of a share group (kafka-console-share-consumer.sh).

Each record is acknowledged after it was printed: accepted, or released or rejected by --release and --reject. Records
that were delivered and not printed, as beyond --max-messages, are released when the run ends. Stdout holds records
only; the total goes to stderr. docs/differences.md lists the differences from Kafka's tool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import (
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Option,
    command_config,
    java_int,
    java_long,
    property_pairs,
    read_properties,
    rules,
    setting_option,
    settings_for,
    with_plain_numbers,
)

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.tools.lines.formatters import MessageFormatter

_DEFAULT_FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
_DEFAULT_GROUP = "share"
_DEPRECATED = "Option --{} is deprecated and will be removed in a future version. Use --{} instead."
_BOTH_NAMES = "Options --{option} and --{other} cannot be specified together."
_GROUP_CONFLICT = (
    "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
    "'--consumer-config') do not match. Detected group ids: {}"
)


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt console-share-consumer. Returns INTERRUPTED after Ctrl-C, FAILED when records were rejected because they
    cannot be printed. Raises UsageError, CommandError or KafkaError."""
    from kafkatools.commands.console_share_consumer.reading import ConsoleShareConsumer
    from kafkatools.core.config import CONSUMER, Config
    from kafkatools.core.consumer.share.share_consumer_base import check_settings

    for option in OPTIONS:
        if option.replacement and args.has_option(option.name):
            console.note(_DEPRECATED.format(option.long, option.replacement))
    if not args.topic.strip():
        raise UsageError("--topic is empty: it takes the name of a topic")
    values = settings(console, args)
    to_print = formatter(console, args)
    values["bootstrap.servers"] = console.connect(args)
    config = Config(CONSUMER, values)
    check_settings(config)
    return ConsoleShareConsumer(console, args, to_print).run(config)


def settings(console: Console, args: Args) -> dict[str, str]:
    """Return the consumer's settings: the properties file, then single properties, then options
    (ConsoleShareConsumerOptions). Raises UsageError for different group ids, and for an empty --group."""
    from kafkatools.core.config import CONSUMER

    file_option = "consumer_config" if args.command_config is None else "command_config"
    values = settings_for(CONSUMER, args, file_option, console.note)
    pairs = property_pairs(args.consumer_property, "consumer-property")
    pairs |= property_pairs(args.command_property, "command-property")
    values.update(with_plain_numbers(pairs))
    for name in ("key.deserializer", "value.deserializer"):
        values.pop(name, None)  # ignored as by Kafka's tool: the formatter deserializes
    if args.group == "":
        raise UsageError("--group is empty: it takes the id of a share group")
    groups = sorted({name for name in (args.group, values.get("group.id")) if name})
    if len(groups) > 1:
        raise UsageError(_GROUP_CONFLICT.format(", ".join(f"'{name}'" for name in groups)))
    values["group.id"] = groups[0] if groups else _DEFAULT_GROUP
    values["share.acknowledgement.mode"] = "explicit"
    values.setdefault("client.id", "console-share-consumer")
    return values


def formatter(console: Console, args: Args) -> MessageFormatter:
    """Return the formatter of --formatter and its properties, or of --json. Raises UsageError for an unknown formatter
    or property."""
    from kafkatools.core.errors import ConfigError
    from kafkatools.output import visible
    from kafkatools.tools.lines.formatters import make_formatter

    properties = formatter_properties(args)

    def escape(text: bytes) -> bytes:
        return visible(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    try:
        if console.is_json:
            from kafkatools.tools.lines.json_formatter import JsonFormatter

            return JsonFormatter(args.formatter, properties)
        return make_formatter(args.formatter, properties, escape if console.is_terminal else None)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def formatter_properties(args: Args) -> Mapping[str, str]:
    """Return the formatter's properties: those of --formatter-config, --property, --formatter-property and the
    deserializer options; later ones win."""
    properties = read_properties(args.formatter_config) if args.formatter_config is not None else {}
    properties |= property_pairs(args.property, "property")
    properties |= property_pairs(args.formatter_property, "formatter-property")
    for part in ("key", "value"):
        deserializer = getattr(args, f"{part}_deserializer")
        if deserializer:
            properties[f"{part}.deserializer"] = deserializer
    return properties


OPTIONS = (
    Option("--topic", "The topic to read.", value="TOPIC"),
    Option("--group", "The share group (default: share).", value="GROUP"),
    Option("--max-messages", "Exit after this many records.", value="COUNT", type=java_int),
    Option("--timeout-ms", "Exit after this many milliseconds without a record.", value="MS", type=java_long),
    Option("--release", "Release each record instead of accepting it: the group delivers it again, up to its limit."),
    Option("--reject", "Reject each record instead of accepting it: the group does not deliver it again."),
    Option(
        "--reject-message-on-error",
        "Reject records that cannot be printed, instead of ending; the exit status is then 1.",
    ),
    BOOTSTRAP_SERVER,
    command_config("Properties file with settings of the consumer."),
    setting_option("--command-property", "Setting of the consumer."),
    Option(
        "--formatter",
        "How records are printed: a class name, or default, logging, no-op.",
        value="CLASS",
        default=_DEFAULT_FORMATTER,
    ),
    setting_option(
        "--formatter-property",
        "Setting of the formatter: print.key, print.value, print.headers, print.timestamp, print.partition, "
        "print.offset, print.delivery (true or false), key.separator, line.separator, headers.separator, "
        "null.literal, key.deserializer, value.deserializer, headers.deserializer.",
    ),
    Option("--formatter-config", "Properties file with settings of the formatter.", value="FILE"),
    Option("--key-deserializer", "Deserializer class for keys.", value="CLASS"),
    Option("--value-deserializer", "Deserializer class for values.", value="CLASS"),
    Option("--enable-systest-events", "Print a shutdown_complete event at the end."),
    setting_option("--property", "Older name of --formatter-property.", replacement="formatter-property"),
    setting_option("--consumer-property", "Older name of --command-property.", replacement="command-property"),
    Option("--consumer-config", "Older name of --command-config.", value="FILE", replacement="command-config"),
)

RULES = (
    rules.Requirement(("topic",), message="--topic is a required argument"),
    rules.Refusal("reject", ("release",), "At most one of --reject and --release may be specified."),
    rules.Refusal("consumer-property", ("command-property",), _BOTH_NAMES),
    rules.Refusal("consumer-config", ("command-config",), _BOTH_NAMES),
    rules.Refusal("property", ("formatter-property",), _BOTH_NAMES),
)

COMMAND = Command(
    "console-share-consumer",
    "Print records read as a member of a share group.",
    OPTIONS,
    run,
    rules=RULES,
    examples=(
        "kt console-share-consumer --topic jobs --group workers",
        "kt console-share-consumer --topic jobs --group workers --max-messages 10 --timeout-ms 10000",
        "kt console-share-consumer --topic jobs --group workers --release --formatter-property print.delivery=true",
    ),
)
