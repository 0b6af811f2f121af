"""Options of kt console-consumer as consumer settings, formatter and topic selection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkatools.commands.console_consumer.outputs import (
    Output,
    check_output,
    output_format,
    record_files,
    table_formatter,
)
from kafkatools.console import Console
from kafkatools.core.config import CONSUMER
from kafkatools.core.errors import ConfigError
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.exit_status import UsageError
from kafkatools.options import (
    INTERNAL_TOPICS,
    Args,
    Option,
    java_long,
    property_pairs,
    read_properties,
    settings_for,
    with_plain_numbers,
)
from kafkatools.options.common import is_registry_setting
from kafkatools.options.patterns import include_filter
from kafkatools.output import visible
from kafkatools.tools.lines.formatters import MessageFormatter, make_formatter, named_deserializer
from kafkatools.tools.lines.record_printer import RecordPrinter, Step
from kafkatools.tools.lines.record_sources import RequestedTopics
from kafkatools.tools.lines.slice import LOG_END, LOG_START, Slice

_BAD_OFFSET = (
    "The provided offset value '{}' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long."
)
_DEPRECATED = "Option --{} is deprecated and will be removed in a future version. Use --{} instead."
_NO_SLICE_IN_GROUP = (
    "A consumer group starts at its committed offsets: --since, --until, --last and ranges of --offset are for reading "
    "without a group"
)
_NO_ORDER = "--order time needs an end: give --until, --last, --exit-at-end or a range of --offset with an end"
_FETCH_WAIT_MS = 50
_LOOKUP_MS = 15_000
_LEAST_LOOKUP_MS = 3_000
_GROUP_CONFLICT = (
    "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
    "'--consumer.config') do not match. Detected group ids: {}"
)


def requested_records(
    args: Args,
    settings: Mapping[str, str],
    now_ms: int,
    only: TopicPartition | None = None,
    *,
    has_end: bool = False,
) -> RequestedTopics:
    """Return the topics, partition and start offset or slice that the options select; times are relative to `now_ms`.
    `only`: the partition to read if no option names one. `has_end`: reading ends also without such an option. Raises
    UsageError."""
    topic, partition = args.topic, args.partition
    if only is not None and args.include is None:
        topic = topic or only.topic
        partition = only.partition if partition is None else partition
    hidden = () if settings.get("exclude.internal.topics", "").strip().lower() == "false" else INTERNAL_TOPICS
    takes = None if args.include is None else include_filter(args.include, hidden)
    bounds = _slice(args, now_ms, partition)
    if bounds is not None and settings.get("group.id"):
        raise UsageError(_NO_SLICE_IN_GROUP)
    start = _start_offset(args) if bounds is None else "earliest"
    requested = RequestedTopics(topic, args.include, takes, partition, start, bounds, bool(args.in_all))
    if args.order is not None:
        _check_order(args, settings, has_end or args.exit_at_end or requested.ends_at_once)
    return requested


def _check_order(args: Args, settings: Mapping[str, str], has_end: bool) -> None:
    if args.order != "time":
        raise UsageError(f"Invalid value of --order: '{args.order}'. The only order is time")
    if settings.get("group.id"):
        raise UsageError("--order time cannot be used with --group")
    if not has_end:
        raise UsageError(_NO_ORDER)


def set_for_slice(settings: dict[str, str], timeout_ms: int | None) -> None:
    """Set what reading a slice needs. If records are deleted meanwhile, reading continues at the new log start."""
    settings["auto.offset.reset"] = "earliest"
    shorten_fetches(settings)
    set_for_lookups(settings, timeout_ms)


def shorten_fetches(settings: dict[str, str]) -> None:
    """Let the fetch at a log end be short, since the next request to that broker waits behind it."""
    settings.setdefault("fetch.max.wait.ms", str(_FETCH_WAIT_MS))


def report_open_ends(console: Console, settings: Mapping[str, str], ends: Mapping[TopicPartition, int]) -> None:
    """Name the open transactions at which partitions end."""
    from kafkatools.tools.lines import open_ends

    open_ends.report_open_ends(settings, console.clock, ends, console.note)


def set_for_lookups(settings: dict[str, str], timeout_ms: int | None) -> None:
    """Set how long lookups of offsets wait for a leader: the 15 seconds of a change of leaders, and at most
    --timeout-ms, but at least 3 seconds."""
    lookup_ms = _LOOKUP_MS if timeout_ms is None or timeout_ms < 0 else min(_LOOKUP_MS, timeout_ms)
    settings.setdefault("default.api.timeout.ms", str(max(_LEAST_LOOKUP_MS, lookup_ms)))


def _slice(args: Args, now_ms: int, partition: int | None) -> Slice | None:
    """Return the slice of --since, --until and --last, or of a range of --offset; None for Kafka's own options. Raises
    UsageError."""
    if args.offset is not None:
        return _offset_range(args, now_ms, partition)
    if args.since is None and args.until is None and args.last is None:
        return Slice(LOG_START, LOG_END) if args.count and args.offset is None else None
    from kafkatools.options.slice_options import slice_of

    return slice_of(args, now_ms)


def _offset_range(args: Args, now_ms: int, partition: int | None) -> Slice | None:
    from kafkatools.options.slices import RANGE_FORM, is_range, parse_range

    if is_range(args.offset):
        try:
            return parse_range(args.offset, now_ms)
        except ValueError as error:
            if any(character in args.offset for character in ":@+-"):
                raise UsageError(f"Invalid value of --offset: {error}", RANGE_FORM) from None
            raise UsageError(_BAD_OFFSET.format(args.offset), RANGE_FORM) from None
    if partition is None:
        raise UsageError("The partition is required when offset is specified.")
    return None


def warn_deprecated(console: Console, args: Args, options: Iterable[Option]) -> None:
    """Print Kafka's warning on stderr for each deprecated option of the command line."""
    for option in options:
        if option.replacement and args.has_option(option.name):
            console.note(_DEPRECATED.format(option.long, option.replacement))


def _start_offset(args: Args) -> str | int:
    """Return where the partition of --partition starts: `earliest`, `latest` or an offset.

    Follows ConsoleConsumerOptions.parseOffset. Raises UsageError for any other value of --offset.
    """
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


def formatter(console: Console, args: Args) -> MessageFormatter:
    """Return the formatter of --output-format, --formatter, --format or --json. Raises UsageError for an unknown
    formatter or property, and for an invalid format."""
    name = output_format(args)
    if name not in ("text", "json"):
        return table_formatter(name)
    properties = {name: value for name, value in formatter_properties(args).items() if not is_registry_setting(name)}
    for part in ("key", "value"):
        deserializer = getattr(args, f"{part}_deserializer")
        if deserializer:
            properties[f"{part}.deserializer"] = deserializer
    try:
        if name == "json":
            from kafkatools.tools.lines.json_formatter import JsonFormatter

            return JsonFormatter(args.formatter, properties)
        escape = _visible if console.is_terminal and args.output is None else None
        if args.format is not None:
            from kafkatools.tools.lines.format_string import StringFormatter

            key, value = (named_deserializer(properties, f"{part}.deserializer") for part in ("key", "value"))
            return StringFormatter(args.format, key, value, escape)
        return make_formatter(args.formatter, properties, escape)
    except ConfigError as error:
        raise UsageError(str(error)) from None


def formatter_properties(args: Args) -> dict[str, str]:
    """Return the properties of --formatter-config, --property and --formatter-property, also those of a schema
    registry."""
    properties = read_properties(args.formatter_config) if args.formatter_config is not None else {}
    properties.update(property_pairs(args.property, "property"))
    properties.update(property_pairs(args.formatter_property, "formatter-property"))
    return properties


def output(console: Console, args: Args, settings: Mapping[str, str]) -> Output:
    """Return the printer and where it prints. Creates no file yet. Raises UsageError, and CommandError if a package is
    missing."""
    check_output(console, args, settings)
    to_print = formatter(console, args)
    files = record_files(args, lambda: formatter(console, args)) if args.output is not None else None
    return Output(console, _printer(console, args, to_print if files is None else files), files)


def _printer(console: Console, args: Args, formatter: MessageFormatter) -> RecordPrinter:
    limit = args.max_messages if (args.max_messages or 0) >= 0 else None
    steps: list[Step] = []
    search = counter = None
    properties = formatter_properties(args)
    if args.schema_registry is not None or args.decode is not None or "schema.registry.url" in properties:
        from kafkatools.commands.console_consumer.decoding import step_of

        steps.append(step_of(console, args, properties))
    if args.key is not None or args.grep is not None or args.where is not None:
        from kafkatools.options.search_options import filters_of
        from kafkatools.tools.search.search import Search

        search = Search(filters_of(args, hides_contents=bool(args.mask)))
        steps.append(search)
    if args.mask:  # the last step, since the others compare what is masked
        from kafkatools.options.masking import mask_step

        steps.append(mask_step(console.environ, args.mask, args.mask_key))
    if args.count:
        from kafkatools.tools.search.counting import RecordCounter

        counter = RecordCounter()
    report_skipped = console.error if args.skip_message_on_error else None
    printer = RecordPrinter(counter or formatter, steps, limit, report_skipped)
    printer.search, printer.counter = search, counter
    return printer


def _visible(text: bytes) -> bytes:
    """Escape control characters, so that a record cannot drive the terminal."""
    return visible(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def settings(console: Console, args: Args) -> dict[str, str]:
    """Return the consumer settings: the properties file, then single properties, then options.

    Follows ConsoleConsumerOptions.buildConsumerProps. Raises UsageError when options and properties contradict.
    """
    file_option = "consumer_config" if args.command_config is None else "command_config"
    properties = settings_for(CONSUMER, args, file_option, console.note)
    pairs = property_pairs(args.consumer_property, "consumer-property")
    pairs |= property_pairs(args.command_property, "command-property")
    pairs = {name: value for name, value in pairs.items() if not is_registry_setting(name)}
    properties.update(with_plain_numbers(pairs))
    for name in ("key.deserializer", "value.deserializer"):
        properties.pop(name, None)  # ignored as by Kafka's tool: the formatter deserializes
    group = _group(args.group, properties.get("group.id"))
    if group is not None:
        properties["group.id"] = group
    reset = properties.get("auto.offset.reset")
    if args.from_beginning and reset not in (None, "earliest"):
        raise UsageError(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option"
        )
    if reset is None:
        properties["auto.offset.reset"] = "earliest" if args.from_beginning else "latest"
    properties.setdefault("client.id", "console-consumer")
    # Let the system size the buffer: bulk reads are a third faster than with the default of 64 KiB.
    properties.setdefault("receive.buffer.bytes", "-1")
    if args.isolation_level is not None:
        properties["isolation.level"] = args.isolation_level
    return properties


def _group(option: str | None, setting: str | None) -> str | None:
    """Return the group id of --group or the property group.id; None without one.

    Raises UsageError for two different group ids, and for an empty --group.
    """
    if option == "":
        raise UsageError("--group is empty: it takes the id of a consumer group")
    group_ids = sorted({name for name in (option, setting) if name})
    if len(group_ids) > 1:
        raise UsageError(_GROUP_CONFLICT.format(", ".join(f"'{name}'" for name in group_ids)))
    return group_ids[0] if group_ids else None
