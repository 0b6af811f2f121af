"""kt get-offsets: print partition offsets by time (kafka-get-offsets.sh, org.apache.kafka.tools.GetOffsetShell).

A partition without such an offset is left out, as in Kafka's tool; --json prints null. Examples: max-timestamp of an
empty partition, a timestamp after the last record. A partition with an error is named on stderr, with exit status 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, TopicFilter, command_config, java_int, java_long
from kafkatools.options.connection import connect_admin
from kafkatools.options.java_lists import java_split

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient

_PREFIX = "Error occurred: "
_TIMES: Final = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_MAX_PARTITION = 2**31 - 1

PartitionFilter = Callable[[str, int], bool]


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt get-offsets: print topic:partition:offset. Returns FAILED when a partition has an error. Raises
    UsageError, and CommandError when nothing matches."""
    timestamp = _timestamp(args.time)
    takes = _filter(args)
    with connect_admin(console, args) as admin:
        partitions = _partitions(admin, takes, takes_all=args.topic is None and args.topic_partitions is None)
        if not partitions:
            raise CommandError("Could not match any topic-partitions with the specified filters")
        return _print_offsets(console, args, admin, dict.fromkeys(partitions, timestamp))


def _partitions(admin: AdminClient, takes: PartitionFilter, *, takes_all: bool) -> list[tuple[str, int]]:
    """Return the sorted partitions that match. Describes all topics with `takes_all`, else only matching ones."""
    from kafkatools.core.admin.topics import describe_all_topics, describe_topics, list_topics

    if takes_all:
        descriptions = describe_all_topics(admin)
    else:
        names = [listing.name for listing in list_topics(admin) if takes(listing.name, -1)]
        descriptions = describe_topics(admin, names=names) if names else {}
    partitions = []
    for name, topic in descriptions.items():
        partitions += [(name, part.partition) for part in topic.partitions if takes(name, part.partition)]
    return sorted(partitions)


def _print_offsets(console: Console, args: Args, admin: AdminClient, times: dict[tuple[str, int], int]) -> ExitStatus:
    from kafkatools.core.admin.leaders import ELECTION_MS
    from kafkatools.core.admin.offsets import list_offsets

    status = ExitStatus.OK
    with console.progress(f"Fetching {len(times)} offsets"):
        results = list_offsets(admin, times, leaderless_ms=ELECTION_MS)
    for topic, partition in times:
        result = results[topic, partition]
        if result.error is not None:
            status = ExitStatus.FAILED
            name = f"{topic}-{partition}"
            message = f"Skip getting offsets for topic-partition {name} due to error: {result.error}"
            console.error(message, result.error.name, topic=topic, partition=partition)
        elif args.json:
            offset = result.offset if result.offset >= 0 else None
            console.print_json({"topic": topic, "partition": partition, "offset": offset})
        elif result.offset >= 0:
            console.print(f"{topic}:{partition}:{result.offset}")
    return status


def _timestamp(text: str) -> int:
    """Return the timestamp of --time for a ListOffsets request: -1 to -6, or ms since 1970. Raises UsageError."""
    if text in _TIMES:
        return _TIMES[text]
    try:
        return java_long(text)
    except ValueError:
        words = " / ".join(f"{number} or {word}" for word, number in _TIMES.items())
        message = f"Malformed time argument {text}. Please use {words}, or a specified long format timestamp"
        raise UsageError(_PREFIX + message) from None


def _filter(args: Args) -> PartitionFilter:
    """Return a predicate for topic and partition; partition -1 stands for any. Raises UsageError."""
    if args.topic_partitions is not None:
        if args.topic is not None or args.partitions is not None:
            raise UsageError(_PREFIX + "--topic-partitions cannot be used with --topic or --partitions")
        rules = [_rule(text) for text in java_split(args.topic_partitions)]
    else:
        rules = [(_topic_filter(".*" if args.topic is None else args.topic), _partition_set(args.partitions))]
    exclude = bool(args.exclude_internal_topics)

    def takes(topic: str, partition: int) -> bool:
        return any(
            topics.takes(topic, exclude_internal=exclude) and (partition < 0 or partition in partitions)
            for topics, partitions in rules
        )

    return takes


def _rule(text: str) -> tuple[TopicFilter, Iterable[int]]:
    """Parse an item of --topic-partitions: a topic pattern, then `:3`, `:1-3` (without 3), `:1-`, `:-3` or nothing.
    Raises UsageError."""
    match = _RULE.fullmatch(text)
    if match is None:
        raise UsageError(f"{_PREFIX}Invalid rule specification: {text}")
    pattern, single, low, high = match.groups()
    partitions = range(_MAX_PARTITION)
    if single:
        partitions = range(int(single), int(single) + 1)
    elif low or high:
        partitions = range(int(low or 0), int(high or _MAX_PARTITION))
    return _topic_filter(pattern or ".*"), partitions


def _topic_filter(text: str) -> TopicFilter:
    try:
        return TopicFilter(text)
    except ValueError as error:
        raise UsageError(f"{_PREFIX}{error}") from None


def _partition_set(text: str | None) -> Iterable[int]:
    """Return the partitions of --partitions; all of them if it has no number. Raises UsageError."""
    try:
        return {java_int(part) for part in (text or "").split(",") if part} or range(_MAX_PARTITION)
    except ValueError:
        message = f"--partitions expects a comma separated list of numeric partition ids, but received: {text}"
        raise UsageError(_PREFIX + message) from None


COMMAND = Command(
    "get-offsets",
    "Print the offsets of partitions: earliest, latest or by timestamp.",
    options=(
        BOOTSTRAP_SERVER,
        Option("--topic", "Regular expression for whole topic names. Default: all topics.", value="REGEX"),
        Option("--partitions", "Only these partitions, separated by commas.", value="NUMBER,..."),
        Option(
            "--topic-partitions",
            "Topics and partitions, separated by commas: orders:1, orders:0-3 (without 3), orders:2-, orders.*:0, :0.",
            value="RULE,...",
        ),
        Option(
            "--time",
            "Timestamp in ms since 1970: the offset of the first record at or after it. Or -1 latest, -2 "
            "earliest, -3 max-timestamp, -4 earliest-local, -5 latest-tiered, -6 earliest-pending-upload.",
            value="TIME",
            default="latest",
            choices=tuple(_TIMES),
        ),
        Option("--exclude-internal-topics", "Leave out internal topics."),
        command_config(),
    ),
    run=run,
    error_prefix=_PREFIX,
    usage_prefix=_PREFIX,
    needs_arguments=False,
    examples=("kt get-offsets --topic orders", "kt get-offsets --topic-partitions 'orders:0-2' --time earliest --json"),
)
