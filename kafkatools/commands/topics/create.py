"""kt topics --create: create a topic, with TopicCommand's checks before the broker's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import CreatedTopic, NewTopic, create_topics
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args
from kafkatools.options.broker_ids import broker_id
from kafkatools.options.hints import topic_config_hint
from kafkatools.options.java_lists import java_split
from kafkatools.options.quantities import plain_settings

_COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide. "
    "To avoid issues it is best to use either, but not both."
)
_NOT_KEY_VALUE = 'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
_EQUALS = re.compile(r"\s*=\s*", re.ASCII)
_MAX_REPLICATION_FACTOR = 32767
_ASSIGNMENT_FORM = "--replica-assignment takes broker ids: 1:2,2:3 is two partitions with two replicas each."


def run_create(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    """Create a topic, with the checks in the order of TopicService.createTopic. An existing topic is no failure with
    --if-not-exists. Raises UsageError, CommandError or KafkaError."""
    configs = plain_settings(topic_configs(args.config), console.note)
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
        hint = topic_config_hint(configs) if error.name == "INVALID_CONFIG" else ""
        raise CommandError(str(error), hint=hint, kind=error.name) if hint else error
    if args.dry_run:
        _show_new(console, args, created)
    else:
        row = {"topic": args.topic, "created": error is None}
        console.print_outcome(row, f"Created topic {args.topic}." if error is None else "")
    return ExitStatus.OK


def _show_new(console: Console, args: Args, topic: CreatedTopic) -> None:
    """Print the topic that --create --dry-run would create. Brokers before 2.4 do not report its size."""
    counts = [None if count < 0 else count for count in (topic.num_partitions, topic.replication_factor)]
    partitions, factor = counts if topic.error is None else (None, None)
    if args.json:
        totals = {"partition_count": partitions, "replication_factor": factor}
        console.print_json({"topic": args.topic, "created": False, **totals})
    elif topic.error is not None:
        console.note(f"Nothing would change: topic {args.topic} already exists.")
    elif partitions is None:
        console.print(f"Topic {args.topic} would be created.")
    else:
        console.print(
            f"Topic {args.topic} would be created: {partitions_text(partitions)}, replication factor {factor}."
        )


def partitions_text(count: int) -> str:
    """Return `1 partition` or `2 partitions`."""
    return f"{count} partition{'s' * (count != 1)}"


def topic_configs(texts: Sequence[str]) -> dict[str, str]:
    """Parse the values of --config, `name=value` (TopicCommand.parseTopicConfigsToBeAdded). Raises CommandError.

    Like Java's split, drops empty parts at the end. The broker validates names and values.
    """
    configs = {}
    for text in texts:
        parts = _EQUALS.split(text)
        while parts and not parts[-1]:
            parts.pop()
        if len(parts) != 2:
            raise CommandError(_NOT_KEY_VALUE)
        name, value = parts
        configs[name.strip()] = value.strip()
    return configs


def replica_assignment(text: str) -> dict[int, list[int]]:
    """Parse `1:2,2:3` to {0: [1, 2], 1: [2, 3]} (TopicCommand.parseReplicaAssignment). Raises UsageError for text
    that is no broker id, CommandError for duplicates and lists of different lengths."""
    assignment: dict[int, list[int]] = {}
    for partition, brokers_text in enumerate(java_split(text)):
        brokers = [broker_id(broker_text.strip(), _ASSIGNMENT_FORM) for broker_text in java_split(brokers_text, ":")]
        twice = sorted({broker for broker in brokers if brokers.count(broker) > 1})
        if twice:
            names = ",".join(map(str, twice))
            raise CommandError(f"Partition replica lists may not contain duplicate entries: {names}")
        assignment[partition] = brokers
        if len(brokers) != len(assignment[0]):
            raise CommandError(f"Partition {partition} has different replication factor: {brokers}")
    return assignment
