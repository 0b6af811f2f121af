"""kt topics --describe: replicas, settings and reassignments of topics (TopicCommand.TopicService.describeTopic).

Text lists topics in the order of Kafka's HashMap, so that it equals the output of Kafka's tool; JSON is sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from kafkatools.commands.topics import REPORTS
from kafkatools.commands.topics.names import ensure_matches, matching_names
from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.admin.configs import DEFAULT_CONFIG, TOPIC, ConfigEntry, describe_configs
from kafkatools.core.admin.reassignments import PartitionReassignment, list_reassignments
from kafkatools.core.admin.topics import PartitionDescription, TopicDescription, describe_all_topics, describe_topics
from kafkatools.core.errors import RequestTimedOut, Timeout
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.protocol.uuids import uuid_from_text
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import INTERNAL_TOPICS, Args

MOVES_WITHIN_MS = 5000


def run_describe(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    """Print the topics of --topic or --topic-id. Returns FAILED when something could not be described."""
    topics = _describe_topics(args, admin)
    if not topics:
        return ExitStatus.OK
    configs = describe_configs(admin, [(TOPIC, topic.name) for topic in topics])
    moves = _moves(console, admin)
    view = View(args, live_brokers=_live_brokers(args, admin), reassignments=moves or {})
    if args.json:
        topics.sort(key=lambda topic: topic.name)
    settings: dict[int, Settings] = {}  # by id() of the entries, which most topics share
    failed = moves is None
    for topic in topics:
        config = configs[TOPIC, topic.name]
        error = topic.error or config.error
        if error is not None:
            console.error(f"{args.command.error_prefix}{error}", error.name, topic=topic.name)
            failed = True
            continue
        key = id(config.entries)
        if key not in settings:
            settings[key] = settings_of(config.entries)
        if settings[key].min_in_sync is None and view.needs_min_in_sync:
            text = f"Topic {topic.name}: the broker reports no min.insync.replicas, so partitions may be missing"
            console.error(f"{args.command.error_prefix}{text}", "UNKNOWN", topic=topic.name)
            failed = True
        view.show(console, topic, settings[key])
    return ExitStatus.FAILED if failed else ExitStatus.OK


def _moves(console: Console, admin: AdminClient) -> Mapping[tuple[str, int], PartitionReassignment] | None:
    """Return the active reassignments; None, with an error on stderr, when no controller answers within 5 s. Raises
    other KafkaErrors.

    Brokers report everything else without a controller, so the command continues.
    """
    try:
        return list_reassignments(admin, timeout_ms=min(MOVES_WITHIN_MS, admin.timeout_ms))
    except (RequestTimedOut, Timeout) as error:
        text = "No controller reported active reassignments, and the other data may be outdated"
        console.error(f"{text}: {error}", error.name)
        return None


def _live_brokers(args: Args, admin: AdminClient) -> set[int]:
    """Return the ids of unfenced brokers if --unavailable-partitions needs them, else an empty set."""
    if not args.unavailable_partitions:
        return set()
    return {node.id for node in describe_cluster(admin).nodes}


def _describe_topics(args: Args, admin: AdminClient) -> list[TopicDescription]:
    """Return the requested topics in Kafka's order, with their errors. --topic-id wins over --topic; the zero id counts
    as none. Raises CommandError for an invalid id or a missing topic, unless --if-exists."""
    if args.topic_id is not None:
        try:
            topic_id = uuid_from_text(args.topic_id)
        except ValueError as error:
            raise CommandError(str(error)) from None
        if topic_id.int:
            descriptions = describe_topics(admin, ids=[args.topic_id])
            topics = [topic for topic in descriptions.values() if topic.error is None]
            if not topics and not args.if_exists:
                message = f"TopicId '{args.topic_id}' does not exist as expected"
                raise CommandError(message, kind="UNKNOWN_TOPIC_ID")
            return topics
    limit = args.partition_size_limit_per_response
    limits = {} if limit is None else {"partition_limit": limit}
    if args.topic is not None:
        names = matching_names(admin, args, exclude_internal=args.exclude_internal)
        ensure_matches(names, args)
        descriptions = describe_topics(admin, names=names, **limits)
    else:
        descriptions = describe_all_topics(admin, **limits)
        names = [name for name in sorted(descriptions) if not (args.exclude_internal and name in INTERNAL_TOPICS)]
    futures = hash_order(names, capacity=len(names))
    return [descriptions[name] for name in hash_order(futures, capacity=len(names))]


class Settings(NamedTuple):
    """The settings of a topic that --describe prints.

    - `own`: settings that are not defaults, by name
    - `text`: the same as text, in Kafka's order
    - `min_in_sync`: min.insync.replicas; None when the broker does not report it
    """

    own: Mapping[str, str | None]
    text: str
    min_in_sync: int | None


def settings_of(entries: Sequence[ConfigEntry]) -> Settings:
    """Build Settings from the entries of a topic's configuration."""
    dynamic = {entry.name: entry.value for entry in entries if entry.source != DEFAULT_CONFIG}
    text = ",".join(
        f"{name}={dynamic[name]}" for name in hash_order(entry.name for entry in entries) if name in dynamic
    )
    minimum = next((entry.value for entry in entries if entry.name == "min.insync.replicas"), None)
    return Settings(dynamic, text, None if minimum is None else int(minimum))


class View:
    """The choice of topics and partitions to print, as text or JSON (TopicCommand's DescribeOptions)."""

    def __init__(
        self, args: Args, live_brokers: set[int], reassignments: Mapping[tuple[str, int], PartitionReassignment]
    ) -> None:
        self._json = args.json
        self._live_brokers = live_brokers
        self._reassignments = reassignments
        self._only_overrides = args.topics_with_overrides
        self._reports = [name for name in REPORTS if args.has_option(name)]

    @property
    def needs_min_in_sync(self) -> bool:
        """Return whether a report option compares partitions with min.insync.replicas."""
        return any("min-isr" in report for report in self._reports)

    def show(self, console: Console, topic: TopicDescription, settings: Settings) -> None:
        """Print a topic and its partitions, unless the report options exclude them."""
        partitions: Sequence[PartitionDescription] = topic.partitions
        if self._reports:
            minimum = settings.min_in_sync
            partitions = [partition for partition in partitions if self._is_reported(topic.name, partition, minimum)]
        elif self._only_overrides and not settings.own:
            return
        if self._json:
            self._show_json(console, topic, settings.own, partitions)
            return
        lines = [] if self._reports else [self._headline(topic, settings)]
        if not self._only_overrides:
            lines += self._lines(topic.name, partitions)
        for line in lines:
            console.print(line)

    def _is_reported(self, topic: str, partition: PartitionDescription, minimum: int | None) -> bool:
        """Return whether a report option selects the partition.

        With an unknown minimum, only a partition without a leader is under min ISR.
        """
        in_sync = len(partition.isr)
        has_leader = partition.leader >= 0
        checks: Mapping[str, Callable[[], bool]] = {
            "under-replicated-partitions": lambda: self._replication_factor(topic, partition) > in_sync,
            "unavailable-partitions": lambda: not has_leader or partition.leader not in self._live_brokers,
            "under-min-isr-partitions": lambda: not has_leader or (minimum is not None and in_sync < minimum),
            "at-min-isr-partitions": lambda: in_sync == minimum,
        }
        return any(checks[report]() for report in self._reports)

    def _replication_factor(self, topic: str, partition: PartitionDescription) -> int:
        """Return the number of replicas without those that a reassignment is adding."""
        reassignment = self._reassignments.get((topic, partition.partition))
        return len(partition.replicas) - (len(reassignment.adding_replicas) if reassignment else 0)

    def _headline(self, topic: TopicDescription, settings: Settings) -> str:
        factor = self._replication_factor(topic.name, topic.partitions[0])
        return (
            f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
            f"\tReplicationFactor: {factor}\tConfigs: {settings.text}"
        )

    def _lines(self, topic: str, partitions: Sequence[PartitionDescription]) -> list[str]:
        start = f"\tTopic: {topic}\tPartition: "
        return [
            f"{start}{index}\tLeader: {leader if leader >= 0 else 'none'}\tReplicas: {_ids(replicas)}\tIsr: {_ids(isr)}"
            f"{self._move(topic, index)}\tElr: {_ids(elr)}\tLastKnownElr: {_ids(last_known_elr)}"
            for index, leader, _, replicas, isr, _, elr, last_known_elr in partitions
        ]

    def _move(self, topic: str, partition: int) -> str:
        """Return the columns for a partition that is being reassigned; else an empty text."""
        if not self._reassignments:
            return ""
        reassignment = self._reassignments.get((topic, partition))
        if not reassignment:
            return ""
        adding, removing = _ids(reassignment.adding_replicas), _ids(reassignment.removing_replicas)
        return f"\tAdding Replicas: {adding}\tRemoving Replicas: {removing}"

    def _show_json(
        self,
        console: Console,
        topic: TopicDescription,
        configs: Mapping[str, str | None],
        partitions: Sequence[PartitionDescription],
    ) -> None:
        if self._reports and not partitions:
            return
        row: dict[str, object] = {
            "topic": topic.name,
            "topic_id": topic.topic_id,
            "internal": topic.name in INTERNAL_TOPICS,
            "partition_count": len(topic.partitions),
            "replication_factor": self._replication_factor(topic.name, topic.partitions[0]),
            "configs": dict(sorted(configs.items())),
        }
        if not self._only_overrides:
            row["partitions"] = [self._partition_row(topic.name, partition) for partition in partitions]
        console.print_json(row)

    def _partition_row(self, topic: str, partition: PartitionDescription) -> dict[str, object]:
        reassignment = self._reassignments.get((topic, partition.partition))
        return {
            "partition": partition.partition,
            "leader": partition.leader if partition.leader >= 0 else None,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "adding_replicas": list(reassignment.adding_replicas) if reassignment else [],
            "removing_replicas": list(reassignment.removing_replicas) if reassignment else [],
            "elr": None if partition.elr is None else list(partition.elr),
            "last_known_elr": None if partition.last_known_elr is None else list(partition.last_known_elr),
        }


@cache
def _ids(brokers: tuple[int, ...] | None) -> str:
    """Return `1,2`; N/A for None, a broker that does not report the list."""
    return "N/A" if brokers is None else ",".join(map(str, brokers))
