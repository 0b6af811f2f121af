"""kt log-dirs: show the log directories of brokers (kafka-log-dirs.sh, LogDirsCommand).

Text output is Kafka's: two lines of progress and one line of JSON. Named on stderr, with exit status 1: brokers that do
not answer, directories with an error, and topics in no directory. --sizes prints a table instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int, rules
from kafkatools.options.broker_ids import BROKER_LIST_FORM, broker_id
from kafkatools.options.connection import connect_admin

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.log_dirs import LogDir, ReplicaInfo
    from kafkatools.core.admin.topics import TopicDescription
    from kafkatools.tools.replicas.sizes import ReplicaSize

_GROUPINGS = ("replica", "topic", "broker")
Dirs = Mapping[int, tuple["LogDir", ...]]


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt log-dirs. Returns FAILED when a broker does not answer, a directory has an error or a topic is missing.
    Raises UsageError for --broker-list, CommandError for an unknown broker."""
    topics = frozenset(topic for topic in (args.topic_list or "").split(",") if topic)
    requested = _broker_ids(args.broker_list or "")
    _check_sizes(args)
    from kafkatools.core.errors import KafkaError
    from kafkatools.tools.replicas.sizes import replica_sizes

    with connect_admin(console, args) as admin:
        brokers = _brokers(admin, requested)
        if not (args.json or args.sizes):
            console.print("Querying brokers for log directories information")
            console.flush()
        from kafkatools.core.admin.log_dirs import describe_log_dirs

        with console.progress(f"Querying {len(brokers)} brokers"):
            replies = describe_log_dirs(admin, brokers)
        descriptions = _descriptions(admin, topics) if args.sizes else []
    dirs = {broker: reply for broker, reply in replies.items() if not isinstance(reply, KafkaError)}
    for broker, reply in replies.items():
        if isinstance(reply, KafkaError):
            console.error(f"Broker {broker} did not report its log directories: {reply}", reply.name, broker=broker)
    unknown = 0
    if args.sizes:
        unknown = _print_sizes(console, args, replica_sizes(dirs, descriptions, requested))
    elif args.json:
        _print_json(console, dirs, topics)
    else:
        console.print(f"Received log directory information from brokers {','.join(map(str, dirs))}")
        console.print(_as_json(dirs, topics))
    troubles = _troubles(dirs, topics)
    for line in troubles:
        console.error(line)
    if unknown:
        console.error(f"Unknown sizes: {unknown} replicas, which no log directory reports")
    return ExitStatus.FAILED if troubles or unknown or len(dirs) < len(replies) else ExitStatus.OK


def _check_sizes(args: Args) -> None:
    """Raise UsageError for an invalid --by or --top."""
    if args.by not in _GROUPINGS:
        raise UsageError(f"Invalid value of --by: '{args.by}'. It is one of {', '.join(_GROUPINGS)}")
    if args.top is not None and args.top < 1:
        raise UsageError(f"--top {args.top} must be at least 1")


def _descriptions(admin: AdminClient, topics: frozenset[str]) -> list[TopicDescription]:
    """Return these topics (all if empty) with their replicas; a missing topic has none."""
    from kafkatools.core.admin.topics import describe_all_topics, describe_topics

    found = describe_topics(admin, sorted(topics)) if topics else describe_all_topics(admin)
    return list(found.values())


def _print_sizes(console: Console, args: Args, sizes: list[ReplicaSize]) -> int:
    """Print the largest replicas, topics or brokers, and the total of all; return how many sizes are unknown."""
    headers, rows, cells = _size_table(sizes, args.by)
    unknown = sum(size.size_bytes is None for size in sizes)
    if args.json:
        console.show(rows[: args.top], ())
        return unknown
    from kafkatools.output import table
    from kafkatools.tools.monitor.figures import count

    text = table(headers, cells[: args.top], terminal=console.has_colour, width=console.width)
    if console.has_colour:
        console.draw(text)
    else:
        console.print_lines(text.rstrip("\n"))
    known_bytes = sum(size.size_bytes or 0 for size in sizes)
    console.print(f"Total: {_size_text(known_bytes, unknown)} in {count(len(sizes))} replicas")
    return unknown


def _size_text(known_bytes: int, unknown_replicas: int) -> str:
    """Format a sum: `?` or `>=` when the sizes of replicas are unknown."""
    from kafkatools.tools.monitor.figures import UNKNOWN, size

    if not unknown_replicas:
        return size(known_bytes)
    return f">={size(known_bytes)}" if known_bytes else UNKNOWN


def _size_table(
    sizes: list[ReplicaSize], by: str
) -> tuple[tuple[str, ...], list[dict[str, object]], list[tuple[object, ...]]]:
    """Return the headers, the JSON rows and the cells of --sizes."""
    from kafkatools.tools.monitor.figures import size
    from kafkatools.tools.replicas.sizes import size_sums

    if by == "replica":
        rows: list[dict[str, object]] = [_replica_row(replica) for replica in sizes]
        cells: list[tuple[object, ...]] = [
            (size(replica.size_bytes), *replica[:3], replica.log_dir or "?", "moving here" if replica.is_future else "")
            for replica in sizes
        ]
        return ("SIZE", "TOPIC", "PARTITION", "BROKER", "LOG DIRECTORY", ""), rows, cells
    sums = size_sums(sizes, lambda replica: replica.topic if by == "topic" else replica.broker)
    rows = [
        {by: total.name, "size": total.size_bytes, **dict(zip(total._fields[1:], total[1:], strict=True))}
        for total in sums
    ]
    cells = [
        (_size_text(total.known_bytes, total.unknown_replicas), total.name, f"{total.replicas:,}") for total in sums
    ]
    return ("SIZE", by.upper(), "REPLICAS"), rows, cells


def _replica_row(replica: ReplicaSize) -> dict[str, object]:
    place = {"topic": replica.topic, "partition": replica.partition, "broker": replica.broker}
    return {**place, "log_dir": replica.log_dir, "size": replica.size_bytes, "is_future": replica.is_future}


def _broker_ids(text: str) -> list[int]:
    return sorted({broker_id(part, BROKER_LIST_FORM) for part in text.split(",") if part})


def _brokers(admin: AdminClient, requested: list[int]) -> list[int]:
    from kafkatools.core.admin.cluster import describe_cluster

    present = [node.id for node in describe_cluster(admin).nodes]
    missing = [broker for broker in requested if broker not in present]
    if missing:
        raise CommandError(
            f"ERROR: The given brokers do not exist from --broker-list: {','.join(map(str, missing))}. "
            f"Current existent brokers: {','.join(map(str, present))}"
        )
    return requested or present


def _replicas(log_dir: LogDir, topics: frozenset[str]) -> list[ReplicaInfo]:
    """Return the replicas of these topics (all if empty) in the order of Kafka's HashMap."""
    from kafkatools.core.java.hash_order import hash_order
    from kafkatools.core.java.hashes import partition_hash

    by_partition = {(replica.topic, replica.partition): replica for replica in log_dir.replicas}
    order: Iterable[tuple[str, int]] = hash_order(by_partition, partition_hash)
    return [by_partition[key] for key in order if not topics or key[0] in topics]


def _as_json(dirs: Dirs, topics: frozenset[str]) -> str:
    import json

    from kafkatools.core.java.hash_order import hash_order

    brokers = []
    for broker, log_dirs in dirs.items():
        by_path = {log_dir.path: log_dir for log_dir in log_dirs}
        order = hash_order(by_path, capacity=len(by_path))
        brokers.append({"broker": broker, "logDirs": [_kafka_row(by_path[path], topics) for path in order]})
    return json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":"), ensure_ascii=False)


def _kafka_row(log_dir: LogDir, topics: frozenset[str]) -> dict[str, object]:
    from kafkatools.core.java.exceptions import exception_class

    partitions = [
        {
            "partition": f"{replica.topic}-{replica.partition}",
            "size": replica.size_bytes,
            "offsetLag": replica.offset_lag,
            "isFuture": replica.is_future,
        }
        for replica in _replicas(log_dir, topics)
    ]
    error = None if log_dir.error is None else exception_class(log_dir.error)
    return {"partitions": partitions, "error": error, "logDir": log_dir.path}


def _print_json(console: Console, dirs: Dirs, topics: frozenset[str]) -> None:
    for broker, log_dirs in dirs.items():
        for log_dir in log_dirs:
            row = {
                "broker": broker,
                "log_dir": log_dir.path,
                "error": None if log_dir.error is None else str(log_dir.error),
                "total_bytes": log_dir.total_bytes if log_dir.total_bytes >= 0 else None,
                "usable_bytes": log_dir.usable_bytes if log_dir.usable_bytes >= 0 else None,
                "partitions": [
                    {
                        "topic": replica.topic,
                        "partition": replica.partition,
                        "size": replica.size_bytes,
                        "offset_lag": replica.offset_lag,
                        "is_future": replica.is_future,
                    }
                    for replica in sorted(_replicas(log_dir, topics))
                ],
            }
            console.print_json(row)


def _troubles(dirs: Dirs, topics: frozenset[str]) -> list[str]:
    """Return an error line for each directory with an error and each topic that is in no directory."""
    lines = []
    present_topics = set()
    for broker, log_dirs in dirs.items():
        for log_dir in log_dirs:
            present_topics |= {replica.topic for replica in log_dir.replicas}
            if log_dir.error is not None:
                lines.append(f"Broker {broker}, {log_dir.path}: {log_dir.error}")
    return lines + [f"Topic '{topic}' is in none of these directories" for topic in sorted(topics - present_topics)]


COMMAND = Command(
    "log-dirs",
    "Show the log directories of brokers with the sizes and lags of replicas.",
    options=(
        Option("--describe", "Show the log directories as JSON."),
        Option("--sizes", "Show a table of replicas with their sizes, the largest first.", ours=True),
        Option(
            "--by",
            "With --sizes: a line for each replica, or the total of each topic or broker.",
            value="WHAT",
            default="replica",
            choices=_GROUPINGS,
            ours=True,
        ),
        Option("--top", "With --sizes: only the N largest.", value="N", type=java_int, ours=True),
        BOOTSTRAP_SERVER,
        Option("--topic-list", "Only these topics. Default: all.", value="TOPIC,..."),
        Option("--broker-list", "Only these brokers. Default: all.", value="ID,..."),
        command_config(),
    ),
    run=run,
    rules=(
        rules.Requirement(("sizes",), when=("by",), message="--by needs --sizes"),
        rules.Requirement(("sizes",), when=("top",), message="--top needs --sizes"),
        rules.Requirement(("describe", "sizes")),
    ),
    examples=(
        "kt log-dirs --sizes --by topic --top 10",
        "kt log-dirs --describe --topic-list orders",
        "kt log-dirs --describe --broker-list 1,2 --json",
    ),
)
