"""kt topics --alter and --delete: add partitions to topics, or delete topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkatools.commands.topics.create import partitions_text, replica_assignment
from kafkatools.commands.topics.names import targets
from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import NewPartitions, create_partitions, delete_topics, describe_topics
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args

_DELETED_AT_A_TIME = 500


def run_delete(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    """Delete topics, 500 in a request; with --dry-run only print them. Returns FAILED when a topic was not deleted; its
    error is printed. Raises CommandError, or KafkaError if the first request fails."""
    names = targets(console, args, admin)
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
                errors |= dict.fromkeys(names[at:], error)  # the topics before these are deleted and reported
                break
            errors |= {name: result.error for name, result in results.items()}
            progress.advance(len(results))
    return _report(console, args, errors, "deleted")


def _show_deletion(console: Console, args: Args, admin: AdminClient, names: Sequence[str]) -> ExitStatus:
    descriptions = describe_topics(admin, names=names) if names else {}
    for name in names:
        topic = descriptions[name]
        count = len(topic.partitions)
        if topic.error is None:
            row = {"topic": name, "deleted": False, "error": None, "partition_count": count}
            console.print(f"Topic {name} would be deleted: {partitions_text(count)}.", row)
    failed = {name: topic.error for name, topic in descriptions.items() if topic.error is not None}
    return _report(console, args, failed, "deleted")


def run_alter(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    """Add partitions to topics. Raises CommandError or KafkaError; returns FAILED when a topic was not altered.

    Of --replica-assignment, each topic uses the entries after its present partitions (TopicService.alterTopic).
    """
    assignment = replica_assignment(args.replica_assignment) if args.replica_assignment is not None else None
    names = targets(console, args, admin)
    if not names:
        return ExitStatus.OK
    requested = []
    descriptions = describe_topics(admin, names=names) if assignment is not None or args.dry_run else {}
    for name in names:
        brokers = None
        if assignment is not None:
            topic = descriptions[name]
            if topic.error is not None:
                raise topic.error
            brokers = list(assignment.values())[len(topic.partitions) :]
        requested.append(NewPartitions(name, args.partitions, brokers))
    results = create_partitions(admin, requested, validate_only=args.dry_run)
    errors = {name: results[name].error for name in names}
    if args.dry_run:
        for name in [name for name in names if errors[name] is None]:
            count = len(descriptions[name].partitions)
            row = {"topic": name, "altered": False, "error": None}
            row |= {"partition_count": count, "new_partition_count": args.partitions}
            console.print(f"Topic {name} would get more partitions: {count} -> {args.partitions}.", row)
        errors = {name: error for name, error in errors.items() if error is not None}
    return _report(console, args, errors, "altered")


def _report(console: Console, args: Args, errors: Mapping[str, Exception | None], outcome_key: str) -> ExitStatus:
    """Print each topic's outcome: nothing for success, as Kafka's tool, and a line on stderr for a failure. Returns
    FAILED if there is a failure."""
    for name, error in errors.items():
        row = {"topic": name, outcome_key: error is None, "error": None if error is None else str(error)}
        console.print_outcome(row, error="" if error is None else args.command.error_prefix + str(error))
    return ExitStatus.FAILED if any(errors.values()) else ExitStatus.OK
