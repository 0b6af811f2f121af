"""kt leader-election: run preferred or unclean leader elections (kafka-leader-election.sh, LeaderElectionCommand).

Failed partitions are printed on stderr, then their number; the exit status is then 1. --dry-run predicts the
controller's decision from the metadata.
"""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import (
    ALWAYS,
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Option,
    client_settings,
    command_config,
    java_int,
    note_deprecated,
    rules,
)
from kafkatools.options.connection import noting_changes
from kafkatools.tools import json_files

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.errors import KafkaError
    from kafkatools.core.json_values import JsonValue

TopicPartition = tuple[str, int]
_TYPES = ("PREFERRED", "UNCLEAN")
_SCOPES = ("topic", "all-topic-partitions", "path-to-json-file")
_PREFIX = "Replica election data"


def _election_type(text: str) -> str:
    if text.upper() not in _TYPES:
        raise ValueError(text)
    return text.upper()


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt leader-election, or with --dry-run predict the elections. Returns FAILED when an election failed; an
    election that is not needed is no failure. Raises UsageError, CommandError or KafkaError."""
    settings = client_settings(args, "admin_config" if args.has_option("admin.config") else "command_config")
    note_deprecated(args, console.note, "admin.config")
    partitions = _partitions(args)
    servers = console.connect(args)
    if partitions == []:
        return ExitStatus.OK
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.elections import elect_leaders

    with noting_changes(console, args, AdminClient(servers, settings, console.clock), servers) as admin:
        if args.dry_run:
            return _dry_run(console, args, admin, partitions)
        results = elect_leaders(admin, _TYPES.index(args.election_type), partitions)
    return _report(console, args, results)


def _partitions(args: Args) -> list[TopicPartition] | None:
    """Return the requested partitions; None for all, an empty list for a file without any. Raises UsageError or
    CommandError."""
    if args.all_topic_partitions:
        return None
    if args.topic is not None:
        if args.partition < 0:
            raise UsageError(f"--partition must be 0 or more, not {args.partition}")
        return [(args.topic, args.partition)]
    return _from_file(args.path_to_json_file)


def _from_file(path: str) -> list[TopicPartition]:
    """Read a file {"partitions": [{"topic": "orders", "partition": 0}]}. Raises CommandError."""
    data = json_files.json_in_file(path, json_files.json_object, json_files.read_json(path, f"{_PREFIX} is empty"))
    if "partitions" not in data:
        raise CommandError(f'{_PREFIX} is missing "partitions" field', hint=path)
    partitions = json_files.json_entries(path, "partitions", data["partitions"], _partition)
    duplicates = [key for key, count in collections.Counter(partitions).items() if count > 1]
    if duplicates:
        raise CommandError(f"{_PREFIX} contains duplicate partitions: [{_names(duplicates)}]", hint=path)
    return partitions


def _partition(item: JsonValue) -> TopicPartition:
    topic = json_files.json_field(item, "topic", json_files.json_string)
    return topic, json_files.json_field(item, "partition", json_files.json_int)


def _names(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)


def _report(console: Console, args: Args, results: Mapping[TopicPartition, KafkaError | None]) -> ExitStatus:
    from kafkatools.core.errors import ElectionNotNeeded
    from kafkatools.core.java.hash_order import hash_order
    from kafkatools.core.java.hashes import partition_hash

    order = hash_order(results, partition_hash)
    elected = [key for key in order if results[key] is None]
    not_needed = [key for key in order if isinstance(results[key], ElectionNotNeeded)]
    failed = [key for key in order if key not in elected and key not in not_needed]
    status = ExitStatus.FAILED if failed else ExitStatus.OK
    if args.json:
        outcomes = dict.fromkeys(elected, "elected") | dict.fromkeys(not_needed, "not_needed")
        for topic, partition in sorted(order):
            outcome = outcomes.get((topic, partition), "failed")
            error = str(results[topic, partition]) if outcome == "failed" else None
            row = {"topic": topic, "partition": partition, "election_type": args.election_type}
            console.print_json({**row, "outcome": outcome, "error": error})
        return status
    if elected:
        console.print(f"Successfully completed leader election ({args.election_type}) for partitions {_names(elected)}")
    if not_needed:
        console.print(f"Valid replica already elected for partitions {_names(not_needed)}")
    for topic, partition in failed:
        console.error(
            f"Error completing leader election ({args.election_type}) for partition: {topic}-{partition}: "
            f"{results[topic, partition]}"
        )
    if failed:
        console.error(f"{len(failed)} replica(s) could not be elected")
    return status


def _dry_run(console: Console, args: Args, admin: AdminClient, partitions: list[TopicPartition] | None) -> ExitStatus:
    from kafkatools.tools.elections import predict_elections

    elections = predict_elections(admin, partitions, is_unclean=args.election_type == "UNCLEAN")
    for (topic, partition), election in elections.items():
        leader, new_leader = (None if broker < 0 else broker for broker in (election.leader, election.new_leader))
        row = {"topic": topic, "partition": partition, "election_type": args.election_type}
        row |= {"outcome": election.outcome, "error": election.error, "leader": leader, "new_leader": new_leader}
        change = f"{'none' if leader is None else leader} -> {new_leader}"
        line = f"{topic}-{partition} would get another leader: {change}" if election.outcome == "planned" else ""
        console.print_outcome(
            row, line, f"{topic}-{partition}: {election.error}" if election.outcome == "failed" else ""
        )
    if not args.json and all(election.outcome == "not_needed" for election in elections.values()):
        console.note("Nothing would change.")
    return ExitStatus.FAILED if any(election.outcome == "failed" for election in elections.values()) else ExitStatus.OK


COMMAND = Command(
    "leader-election",
    "Elect the leaders of partitions: preferred or unclean.",
    options=(
        BOOTSTRAP_SERVER,
        Option(
            "--election-type",
            "preferred: the preferred replica if it is in sync. unclean: any live replica if no in-sync replica"
            " is left; records may be lost.",
            value="TYPE",
            type=_election_type,
            choices=("preferred", "unclean"),
        ),
        Option("--topic", "The topic of the partition.", value="TOPIC"),
        Option("--partition", "The partition of --topic.", value="NUMBER", type=java_int),
        Option("--all-topic-partitions", "All partitions of all topics."),
        Option(
            "--path-to-json-file",
            'JSON file with partitions: {"partitions": [{"topic": "orders", "partition": 0}]}.',
            value="FILE",
        ),
        command_config(),
        Option("--dry-run", "Print which partitions would get which leader, and elect none.", ours=True),
        Option("--admin.config", "Older name of --command-config.", value="FILE", replacement="--command-config"),
    ),
    run=run,
    rules=(
        rules.Refusal("admin.config", ("command-config",)),
        rules.Requirement(("election-type",), message="Missing required option(s): election-type"),
        rules.ExactlyOne(_SCOPES, f"One and only one of the following options is required: {', '.join(_SCOPES)}"),
        rules.Requirement(("partition",), when=("topic",), message="Missing required option(s): partition"),
        rules.Requirement(("topic",), when=("partition",), message="Option partition is only allowed if topic is used"),
    ),
    missing_bootstrap="Missing required option(s): bootstrap-server",
    examples=(
        "kt leader-election --election-type preferred --all-topic-partitions",
        "kt leader-election --election-type unclean --topic orders --partition 3",
    ),
    destructive=ALWAYS,
)
