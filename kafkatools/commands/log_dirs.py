"""kt log-dirs: show the log directories of brokers (kafka-log-dirs.sh, LogDirsCommand).

Text output is Kafka's: two lines of progress and one line of JSON. Named on stderr, with exit status 1: brokers that do
not answer, directories with an error, and topics in no directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int
from kafkatools.options.connection import connect_admin

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.log_dirs import LogDir, ReplicaInfo

Dirs = Mapping[int, tuple["LogDir", ...]]


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt log-dirs. Returns FAILED when a broker does not answer, a directory has an error or a topic is missing.
    Raises UsageError for --broker-list, CommandError for an unknown broker."""
    topics = frozenset(topic for topic in (args.topic_list or "").split(",") if topic)
    requested = _broker_ids(args.broker_list or "")
    from kafkatools.core.errors import KafkaError

    with connect_admin(console, args) as admin:
        brokers = _brokers(admin, requested)
        if not args.json:
            console.print("Querying brokers for log directories information")
            console.flush()
        from kafkatools.core.admin.log_dirs import describe_log_dirs

        with console.progress(f"Querying {len(brokers)} brokers"):
            replies = describe_log_dirs(admin, brokers)
    dirs = {broker: reply for broker, reply in replies.items() if not isinstance(reply, KafkaError)}
    for broker, reply in replies.items():
        if isinstance(reply, KafkaError):
            console.error(f"Broker {broker} did not report its log directories: {reply}", reply.name, broker=broker)
    if args.json:
        _print_json(console, dirs, topics)
    else:
        console.print(f"Received log directory information from brokers {','.join(map(str, dirs))}")
        console.print(_as_json(dirs, topics))
    troubles = _troubles(dirs, topics)
    for line in troubles:
        console.error(line)
    return ExitStatus.FAILED if troubles or len(dirs) < len(replies) else ExitStatus.OK


def _broker_ids(text: str) -> list[int]:
    try:
        return sorted({java_int(part) for part in text.split(",") if part})
    except ValueError:
        bad = next(part for part in text.split(",") if part and not part.lstrip("+-").isdecimal())
        raise UsageError(f'For input string: "{bad}"') from None


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
        Option("--describe", "Show the log directories.", required=True),
        BOOTSTRAP_SERVER,
        Option("--topic-list", "Only these topics. Default: all.", value="TOPIC,..."),
        Option("--broker-list", "Only these brokers. Default: all.", value="ID,..."),
        command_config(),
    ),
    run=run,
    examples=("kt log-dirs --describe --topic-list orders", "kt log-dirs --describe --broker-list 1,2 --json"),
)
