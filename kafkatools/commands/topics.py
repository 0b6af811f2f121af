"""kt topics: what kafka-topics.sh does (org.apache.kafka.tools.TopicCommand).

The rules of the options are TopicCommandOptions.checkArgs in its order. Topics are described in the order
of Kafka's hash maps, so that the text is the same; JSON is sorted. Before topics are changed or deleted, --topic that
is the exact name of a topic means this topic alone, and what any other pattern matched is listed on stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import (
    BOOTSTRAP_SERVER,
    INTERNAL_TOPICS,
    Args,
    Command,
    ExactlyOne,
    Option,
    Refusal,
    Requirement,
    Rule,
    TopicFilter,
    client_settings,
    command_config,
    java_int,
)

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.configs import ConfigEntry
    from kafkatools.core.admin.topics import CreatedTopic, PartitionDescription, TopicDescription

_ACTIONS = ("create", "list", "alter", "describe", "delete")
_REPORTS = (
    "under-replicated-partitions",
    "unavailable-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
)
_COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)
_DELETE_CONFIG = (
    "delete-config option is no longer supported and deprecated since version 4.0. "
    "The config will be fully removed in future releases."
)
_ALTER_CONFIG = (
    'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]" '
    "(To alter topic configurations, the kafka-configs tool can be used.)"
)
_NOT_KEY_VALUE = 'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
_MAX_REPLICATION_FACTOR = 32767
_DELETED_AT_A_TIME = 500

OPTIONS = (
    Option("--create", "Make a topic."),
    Option("--list", "Print the names of topics."),
    Option("--describe", "Show layout and configuration of topics."),
    Option("--alter", "Add partitions to topics."),
    Option("--delete", "Delete topics."),
    BOOTSTRAP_SERVER,
    Option("--topic", "The topic; a regular expression except with --create.", value="TOPIC"),
    Option("--topic-id", "Describe the topic with this id.", value="ID"),
    Option("--partitions", "How many partitions the topic is to have.", value="COUNT", type=java_int),
    Option("--replication-factor", "How many copies of each partition.", value="COUNT", type=java_int),
    Option(
        "--replica-assignment",
        "The brokers of each partition, the first one preferred: 1:2,2:3 is two partitions with two copies each.",
        value="BROKER:BROKER,...",
    ),
    Option("--config", "Configuration of the new topic.", value="NAME=VALUE", repeatable=True),
    Option("--if-not-exists", "With --create: do nothing when the topic exists."),
    Option("--if-exists", "With --alter, --delete, --describe: do nothing when the topic does not exist."),
    Option("--exclude-internal", "With --list and --describe: leave out the topics of the brokers themselves."),
    Option("--topics-with-overrides", "With --describe: only topics with configuration of their own."),
    Option("--under-replicated-partitions", "With --describe: only partitions with copies that lag."),
    Option("--unavailable-partitions", "With --describe: only partitions without a live leader."),
    Option("--under-min-isr-partitions", "With --describe: only partitions with too few copies in sync."),
    Option("--at-min-isr-partitions", "With --describe: only partitions with just enough copies in sync."),
    Option(
        "--partition-size-limit-per-response",
        "With --describe: how many partitions to ask for at a time.",
        value="COUNT",
        type=java_int,
    ),
    command_config(),
    Option(
        "--delete-config",
        "Has no effect.",
        value="NAME",
        repeatable=True,
        replacement="kafka-configs --alter --delete-config",
    ),
    Option("--dry-run", "With --create, --alter, --delete: say what would happen, and change nothing.", ours=True),
)


def _others(*allowed: str) -> tuple[str, ...]:
    return tuple(action for action in ("alter", "create", "delete", "describe", "list") if action not in allowed)


RULES: tuple[Rule, ...] = (
    ExactlyOne(_ACTIONS, "Command must include exactly one action: --list, --describe, --create, --alter or --delete"),
    Requirement(
        ("topic", "topic-id"),
        when=("describe", "if-exists"),
        message="--topic or --topic-id is required to describe a topic",
    ),
    Requirement(("topic",), unless=("list", "describe")),
    Refusal("config", ("alter",), _ALTER_CONFIG),
    Requirement(("partitions",), when=("alter",)),
    Refusal("config", _others("create")),
    Refusal("partitions", _others("alter", "create")),
    Refusal("replication-factor", _others("create")),
    Refusal("replica-assignment", _others("alter", "create")),
    Refusal("replica-assignment", ("partitions", "replication-factor"), when=("create",)),
    *(Refusal(report, (*_others("describe"), "topics-with-overrides")) for report in _REPORTS),
    Refusal("topics-with-overrides", _others("describe")),
    Refusal("if-exists", ("create", "list")),
    Refusal("if-not-exists", _others("create")),
    Refusal("exclude-internal", _others("describe", "list")),
    Refusal("dry-run", _others("create", "alter", "delete")),
)


def run(console: Console, args: Args) -> ExitStatus:
    """Carries out the one action given."""
    settings = client_settings(args)
    if args.given("delete-config"):
        console.note(_DELETE_CONFIG)
    bootstrap = console.connect(args)
    from kafkatools.core.admin.client import AdminClient

    action = next(action for action in _ACTIONS if args.given(action))
    with AdminClient(bootstrap, settings, console.clock) as admin:
        return _RUN[action](console, args, admin)


def _create(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    """Order of the checks: TopicService.createTopic."""
    from kafkatools.core.admin.topics import NewTopic, create_topics

    configs = _topic_configs(args.config)
    assignment = replica_assignment(args.replica_assignment) if args.replica_assignment is not None else None
    if not args.topic:
        raise CommandError("The given topic name '' cannot be represented in a request.")
    if "." in args.topic or "_" in args.topic:
        console.note(_COLLISION)
    factor, partitions = args.replication_factor, args.partitions
    if factor is not None and not 1 <= factor <= _MAX_REPLICATION_FACTOR:
        raise CommandError(f"The replication factor must be between 1 and {_MAX_REPLICATION_FACTOR} inclusive")
    if partitions is not None and partitions < 1:
        raise CommandError("The partitions must be greater than 0")
    topic = NewTopic(args.topic, partitions or -1, factor or -1, replicas_assignments=assignment, configs=configs)
    created = create_topics(admin, [topic], validate_only=args.dry_run)[args.topic]
    error = created.error
    exists = error is not None and error.name == "TOPIC_ALREADY_EXISTS"
    if error is not None and not (exists and args.if_not_exists):
        raise error
    if args.dry_run:
        _show_new(console, args, created)
    elif args.json:
        _print_json(console, {"topic": args.topic, "created": error is None})
    elif error is None:
        console.print(f"Created topic {args.topic}.")
    return ExitStatus.OK


def _show_new(console: Console, args: Args, topic: CreatedTopic) -> None:
    """The topic that --create --dry-run would make; brokers before 2.4 do not tell its size."""
    counts = [None if count < 0 else count for count in (topic.num_partitions, topic.replication_factor)]
    partitions, factor = counts if topic.error is None else (None, None)
    if args.json:
        size = {"partition_count": partitions, "replication_factor": factor}
        _print_json(console, {"topic": args.topic, "created": False, **size})
    elif topic.error is not None:
        console.note(f"Nothing would change: topic {args.topic} is there.")
    elif partitions is None:
        console.print(f"Topic {args.topic} would be created.")
    else:
        console.print(f"Topic {args.topic} would be created: {_partitions(partitions)}, replication factor {factor}.")


def _partitions(count: int) -> str:
    return f"{count} partition{'s' * (count != 1)}"


def _topic_configs(texts: Sequence[str]) -> dict[str, str]:
    """TopicCommand.parseTopicConfigsToBeAdded; the values are checked by the broker, which knows its own settings."""
    configs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not value.strip():
            raise CommandError(_NOT_KEY_VALUE)
        configs[name.strip()] = value.strip()
    return configs


def replica_assignment(text: str) -> dict[int, list[int]]:
    """`1:2,2:3` -> {0: [1, 2], 1: [2, 3]} (TopicCommand.parseReplicaAssignment, with its messages)."""
    assignment: dict[int, list[int]] = {}
    for partition, brokers_text in enumerate(text.split(",")):
        brokers = [_broker_id(one) for one in brokers_text.split(":")]
        twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if twice:
            names = ",".join(map(str, twice))
            raise CommandError(f"Partition replica lists may not contain duplicate entries: {names}")
        assignment[partition] = brokers
        if len(brokers) != len(assignment[0]):
            raise CommandError(f"Partition {partition} has different replication factor: {brokers}")
    return assignment


def _broker_id(text: str) -> int:
    try:
        return java_int(text.strip())
    except ValueError:
        raise CommandError(f'For input string: "{text.strip()}"') from None


def _names(admin: AdminClient, args: Args, *, exclude_internal: bool) -> list[str]:
    """Names of the topics that --topic takes in, sorted; all without --topic (TopicService.getTopics)."""
    from kafkatools.core.admin.topics import list_topics

    wanted = None
    if args.topic:
        try:
            wanted = TopicFilter(args.topic)
        except ValueError as error:
            raise CommandError(str(error)) from None
    names = sorted(listing.name for listing in list_topics(admin))
    if wanted is None:
        return [name for name in names if not (exclude_internal and name in INTERNAL_TOPICS)]
    return [name for name in names if wanted.takes(name, exclude_internal=exclude_internal)]


def _ensure_found(found: Sequence[object], args: Args) -> None:
    if args.topic and not found and not args.if_exists:
        raise CommandError(f"Topic '{args.topic}' does not exist as expected")


def _list(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    for name in _names(admin, args, exclude_internal=args.exclude_internal):
        if args.json:
            _print_json(console, {"topic": name, "internal": name in INTERNAL_TOPICS})
        else:
            console.print(name)
    return ExitStatus.OK


def _print_json(console: Console, row: Mapping[str, Any]) -> None:
    from kafkatools.output import json_line

    console.print(json_line(row))


def _targets(console: Console, args: Args, admin: AdminClient) -> list[str]:
    """The topics that a change is for. What a pattern matched is said before anything happens.

    A topic of exactly this name is meant alone, and internal topics have to be named exactly.
    """
    names = _names(admin, args, exclude_internal=False)
    _ensure_found(names, args)
    if args.topic in names:
        if len(names) > 1:
            others = ", ".join(name for name in names if name != args.topic)
            console.note(f"Only topic {args.topic} is meant; as a regular expression the name also matches {others}.")
        return [args.topic]
    spared = [name for name in names if name in INTERNAL_TOPICS]
    names = [name for name in names if name not in INTERNAL_TOPICS]
    if spared:
        console.note(f"Left alone, since internal topics have to be named exactly: {', '.join(spared)}.")
    if names:
        console.note(f"'{args.topic}' matches {len(names)} topic{'s' * (len(names) > 1)}: {', '.join(names)}.")
    return names


def _delete(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    from kafkatools.core.admin.topics import delete_topics
    from kafkatools.core.errors import KafkaError

    names = _targets(console, args, admin)
    if args.dry_run:
        return _show_deletion(console, args, admin, names)
    errors: dict[str, Exception | None] = {}
    with console.progress("Deleting topics", len(names)) as progress:
        for at in range(0, len(names), _DELETED_AT_A_TIME):
            try:
                results = delete_topics(admin, names[at : at + _DELETED_AT_A_TIME])
            except KafkaError as error:
                if not errors:
                    raise
                errors |= dict.fromkeys(names[at:], error)  # those before are gone, and are told of
                break
            errors |= {name: result.error for name, result in results.items()}
            progress.advance(len(results))
    return _report(console, args, errors, "deleted")


def _show_deletion(console: Console, args: Args, admin: AdminClient, names: Sequence[str]) -> ExitStatus:
    from kafkatools.core.admin.topics import describe_topics

    described = describe_topics(admin, names=names) if names else {}
    for name in names:
        topic = described[name]
        count = len(topic.partitions)
        if args.json and topic.error is None:
            _print_json(console, {"topic": name, "deleted": False, "error": None, "partition_count": count})
        elif topic.error is None:
            console.print(f"Topic {name} would be deleted: {_partitions(count)}.")
    failed = {name: topic.error for name, topic in described.items() if topic.error is not None}
    return _report(console, args, failed, "deleted")


def _alter(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    """New partitions; with --replica-assignment those behind the topic's present ones are used (alterTopic)."""
    from kafkatools.core.admin.topics import NewPartitions, create_partitions, describe_topics

    assignment = replica_assignment(args.replica_assignment) if args.replica_assignment is not None else None
    names = _targets(console, args, admin)
    if not names:
        return ExitStatus.OK
    wanted = []
    described = describe_topics(admin, names=names) if assignment is not None or args.dry_run else {}
    for name in names:
        brokers = None
        if assignment is not None:
            topic = described[name]
            if topic.error is not None:
                raise topic.error
            brokers = list(assignment.values())[len(topic.partitions) :]
        wanted.append(NewPartitions(name, args.partitions, brokers))
    results = create_partitions(admin, wanted, validate_only=args.dry_run)
    errors = {name: results[name].error for name in names}
    if args.dry_run:
        for name in [name for name in names if errors[name] is None]:
            _show_growth(console, args, name, len(described[name].partitions))
        errors = {name: error for name, error in errors.items() if error is not None}
    return _report(console, args, errors, "altered")


def _show_growth(console: Console, args: Args, name: str, count: int) -> None:
    if args.json:
        sizes = {"partition_count": count, "new_partition_count": args.partitions}
        _print_json(console, {"topic": name, "altered": False, "error": None, **sizes})
    else:
        console.print(f"Topic {name} would get more partitions: {count} -> {args.partitions}.")


def _report(console: Console, args: Args, errors: Mapping[str, Exception | None], done: str) -> ExitStatus:
    """Every topic's outcome: nothing for success as in Kafka's tool, a line on stderr for each failure."""
    for name, error in errors.items():
        if args.json:
            _print_json(console, {"topic": name, done: error is None, "error": None if error is None else str(error)})
        elif error is not None:
            console.error(args.command.error_prefix + str(error))
    return ExitStatus.FAILED if any(errors.values()) else ExitStatus.OK


def _describe(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    """TopicService.describeTopic: layout, configuration and reassignments of the topics asked for."""
    from kafkatools.core.admin.configs import TOPIC, describe_configs
    from kafkatools.core.admin.reassignments import list_reassignments

    topics = _described(args, admin)
    if not topics:
        return ExitStatus.OK
    configs = describe_configs(admin, [(TOPIC, topic.name) for topic in topics])
    view = _View(args, live_brokers=_live_brokers(args, admin), reassignments=list_reassignments(admin))
    if args.json:
        topics.sort(key=lambda topic: topic.name)
    settings: dict[int, _Settings] = {}  # by the identity of entries: most topics share theirs
    failed = False
    for topic in topics:
        found = configs[TOPIC, topic.name]
        error = topic.error or found.error
        if error is not None:
            console.error(f"{args.command.error_prefix}{error}", error.name, topic=topic.name)
            failed = True
            continue
        key = id(found.entries)
        if key not in settings:
            settings[key] = _settings_of(found.entries)
        view.show(console, topic, settings[key])
    return ExitStatus.FAILED if failed else ExitStatus.OK


def _live_brokers(args: Args, admin: AdminClient) -> set[int]:
    """The ids of the brokers that are up, where that is of interest."""
    if not args.unavailable_partitions:
        return set()
    from kafkatools.core.admin.cluster import describe_cluster

    return {node.id for node in describe_cluster(admin).nodes}


def _described(args: Args, admin: AdminClient) -> list[TopicDescription]:
    """The topics to show, in Kafka's order. An id goes before a name; the id 0 counts as none."""
    from kafkatools.core.admin.topics import describe_all_topics, describe_topics
    from kafkatools.options.patterns import java_map_order

    if args.topic_id is not None:
        topic_id = uuid_bytes(args.topic_id)
        if any(topic_id):
            found = describe_topics(admin, ids=[args.topic_id])
            topics = [topic for topic in found.values() if topic.error is None]
            if not topics and not args.if_exists:
                raise CommandError(f"TopicId '{args.topic_id}' does not exist as expected")
            return topics
    limit = args.partition_size_limit_per_response
    given = {} if limit is None else {"partition_limit": limit}
    if args.topic:
        names = _names(admin, args, exclude_internal=args.exclude_internal)
        _ensure_found(names, args)
        found = describe_topics(admin, names=names, **given)
    else:
        found = describe_all_topics(admin, **given)
        names = [name for name in sorted(found) if not (args.exclude_internal and name in INTERNAL_TOPICS)]
    futures = java_map_order(names, len(names))
    return [found[name] for name in java_map_order(futures, len(names))]


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of an id in Kafka's form (Uuid.fromString, with its messages)."""
    import base64
    import binascii

    if len(text) > 24:
        raise CommandError(f"Input string with prefix `{text[:24]}` is too long to be decoded as a base64 UUID")
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise CommandError(f"Input string `{text}` is not a base64-encoded UUID") from None
    if len(decoded) != 16:
        problem = (
            f"decoded as {len(decoded)} bytes, which is not equal to the expected 16 bytes of a base64-encoded UUID"
        )
        raise CommandError(f"Input string `{text}` {problem}")
    return decoded


class _Settings(NamedTuple):
    """What is shown of a topic's settings: those that are not defaults, by name and as text in Kafka's order."""

    own: Mapping[str, str | None]
    text: str
    min_in_sync: int


def _settings_of(entries: Sequence[ConfigEntry]) -> _Settings:
    from kafkatools.core.admin.configs import DEFAULT_CONFIG
    from kafkatools.options.patterns import java_map_order

    own = {entry.name: entry.value for entry in entries if entry.source != DEFAULT_CONFIG}
    text = ",".join(f"{name}={own[name]}" for name in java_map_order(entry.name for entry in entries) if name in own)
    minimum = next((entry.value for entry in entries if entry.name == "min.insync.replicas"), None)
    return _Settings(own, text, int(minimum or 0))


class _View:
    """What of the topics is shown, as text or JSON (TopicCommand's DescribeOptions)."""

    def __init__(self, args: Args, live_brokers: set[int], reassignments: Mapping[tuple[str, int], Any]) -> None:
        self._json = args.json
        self._live_brokers = live_brokers
        self._reassignments = reassignments
        self._only_overrides = args.topics_with_overrides
        self._reports = [name for name in _REPORTS if args.given(name)]

    def show(self, console: Console, topic: TopicDescription, settings: _Settings) -> None:
        """Prints one topic."""
        partitions: Sequence[PartitionDescription] = topic.partitions
        if self._reports:
            minimum = settings.min_in_sync
            partitions = [one for one in partitions if self._is_reported(topic.name, one, minimum)]
        elif self._only_overrides and not settings.own:
            return
        if self._json:
            self._show_json(console, topic, settings.own, partitions)
            return
        lines = [] if self._reports else [self._headline(topic, settings)]
        if not self._only_overrides:
            lines += self._lines(topic.name, partitions)
        if lines:
            console.print("\n".join(lines))

    def _is_reported(self, topic: str, partition: PartitionDescription, minimum: int) -> bool:
        in_sync = len(partition.isr)
        has_leader = partition.leader >= 0
        checks: Mapping[str, Callable[[], bool]] = {
            "under-replicated-partitions": lambda: self._replication_factor(topic, partition) > in_sync,
            "unavailable-partitions": lambda: not has_leader or partition.leader not in self._live_brokers,
            "under-min-isr-partitions": lambda: not has_leader or in_sync < minimum,
            "at-min-isr-partitions": lambda: in_sync == minimum,
        }
        return any(checks[report]() for report in self._reports)

    def _replication_factor(self, topic: str, partition: PartitionDescription) -> int:
        """Without the replicas that a reassignment is adding."""
        moving = self._reassignments.get((topic, partition.partition))
        return len(partition.replicas) - (len(moving.adding_replicas) if moving else 0)

    def _headline(self, topic: TopicDescription, settings: _Settings) -> str:
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
        """The columns of a partition that is being moved."""
        if not self._reassignments:
            return ""
        moving = self._reassignments.get((topic, partition))
        if not moving:
            return ""
        return f"\tAdding Replicas: {_ids(moving.adding_replicas)}\tRemoving Replicas: {_ids(moving.removing_replicas)}"

    def _show_json(
        self,
        console: Console,
        topic: TopicDescription,
        own: Mapping[str, str | None],
        partitions: Sequence[PartitionDescription],
    ) -> None:
        """One object a topic; with a report filter only topics that have such partitions."""
        if self._reports and not partitions:
            return
        row: dict[str, Any] = {
            "topic": topic.name,
            "topic_id": topic.topic_id,
            "internal": topic.name in INTERNAL_TOPICS,
            "partition_count": len(topic.partitions),
            "replication_factor": self._replication_factor(topic.name, topic.partitions[0]),
            "configs": dict(sorted(own.items())),
        }
        if not self._only_overrides:
            row["partitions"] = [self._partition_row(topic.name, one) for one in partitions]
        _print_json(console, row)

    def _partition_row(self, topic: str, partition: PartitionDescription) -> dict[str, Any]:
        moving = self._reassignments.get((topic, partition.partition))
        return {
            "partition": partition.partition,
            "leader": partition.leader if partition.leader >= 0 else None,
            "replicas": list(partition.replicas),
            "isr": list(partition.isr),
            "adding_replicas": list(moving.adding_replicas) if moving else [],
            "removing_replicas": list(moving.removing_replicas) if moving else [],
            "elr": None if partition.elr is None else list(partition.elr),
            "last_known_elr": None if partition.last_known_elr is None else list(partition.last_known_elr),
        }


@cache
def _ids(brokers: tuple[int, ...] | None) -> str:
    """`1,2`; N/A when the broker did not say."""
    return "N/A" if brokers is None else ",".join(map(str, brokers))


_RUN: Mapping[str, Callable[[Console, Args, AdminClient], ExitStatus]] = {
    "create": _create,
    "list": _list,
    "describe": _describe,
    "alter": _alter,
    "delete": _delete,
}

COMMAND = Command(
    "topics",
    "Create, list, describe, alter or delete topics.",
    OPTIONS,
    run,
    rules=RULES,
    error_prefix="Error while executing topic command : ",
    missing_bootstrap="--bootstrap-server must be specified",
    examples=(
        "kt topics --create --topic orders --partitions 3",
        "kt topics --list",
        "kt topics --describe --topic orders",
        "kt topics --delete --topic 'test-.*' --dry-run",
        "kt topics --describe --under-replicated-partitions --bootstrap-server broker1:9092",
    ),
    destructive=("delete", "alter"),
)
