"""kt transactions: list, describe and abort transactions (kafka-transactions.sh, TransactionsCommand).

--bootstrap-server and --command-config stand before the subcommand, as in Kafka's tool. Before an abort or a fencing
the command checks that the transaction or the transactional id exists: a marker for another producer would fence it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import (
    ARGPARSE4J,
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Option,
    command_config,
    java_int,
    java_long,
    java_short,
)
from kafkatools.options.connection import with_admin

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.transactions import OpenTransaction, ProducerState

_PROGRAM = "kafka-transactions.sh"
_NO_IDENTITY = (
    "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or with "
    "--producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
)
_NO_SCOPE = "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"


def _show(console: Console, args: Args, columns: Mapping[str, str], rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows as Kafka's table (prettyPrintTable) or as JSON. `columns` maps titles to keys of the rows."""
    table_rows = [{key: row[key] for key in columns.values()} for row in rows]
    if args.json:
        for row in table_rows:
            console.print_json(row)
        return
    texts = [[_text(cell) for cell in row.values()] for row in table_rows]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    for line in [list(columns), *texts]:
        console.print("".join(cell.ljust(width) + "\t" for cell, width in zip(line, widths, strict=True)))


def _text(cell: object) -> str:
    if isinstance(cell, list):
        return ",".join(f"{partition['topic']}-{partition['partition']}" for partition in cell)
    return str(cell)


# -- list, describe --

_LISTING = {
    "TransactionalId": "transactional_id",
    "Coordinator": "coordinator",
    "ProducerId": "producer_id",
    "TransactionState": "state",
}
_DESCRIPTION = {
    "CoordinatorId": "coordinator",
    "TransactionalId": "transactional_id",
    "ProducerId": "producer_id",
    "ProducerEpoch": "producer_epoch",
    "TransactionState": "state",
    "TransactionTimeoutMs": "timeout_ms",
    "CurrentTransactionStartTimeMs": "start_ms",
    "TransactionDurationMs": "duration_ms",
    "TopicPartitions": "partitions",
}


def _list(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    from kafkatools.core.admin.transactions import list_transactions
    from kafkatools.tools.open_transactions import DEBUG_ADVICE

    duration_ms = -1 if args.duration_filter is None else args.duration_filter
    listings = list_transactions(admin, duration_ms=duration_ms, pattern=args.transactional_id_pattern)
    for node, error in listings.errors.items():
        prefix = f"broker {node}: " if node >= 0 else ""
        message = f"Failed to list transactions: {prefix}{error} {DEBUG_ADVICE}"
        if not listings.has_responses:
            raise CommandError(message)
        console.error(message, error.name, broker=node)
    _show(console, args, _LISTING, [listing._asdict() for listing in listings.transactions])
    return ExitStatus.FAILED if listings.errors else ExitStatus.OK


def _describe(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    from kafkatools.core.admin.transactions import describe_transactions
    from kafkatools.core.errors import KafkaError, TransactionalIdNotFound
    from kafkatools.tools.open_transactions import DEBUG_ADVICE, failure

    name = args.transactional_id
    description = describe_transactions(admin, [name])[name]
    failure_text = f"Failed to describe transaction state of transactional-id `{name}`"
    if isinstance(description, TransactionalIdNotFound):
        reason = f"DescribeTransactions request for transactionalId `{name}` failed because the ID could not be found"
        raise CommandError(f"{failure_text}: {reason}. {DEBUG_ADVICE}")
    if isinstance(description, KafkaError):
        raise failure(failure_text, description)
    duration_ms = None if description.start_ms is None else console.clock.wall_ms() - description.start_ms
    partitions = [{"topic": topic, "partition": partition} for topic, partition in description.partitions]
    row = {**description._asdict(), "duration_ms": duration_ms, "partitions": partitions}
    _show(console, args, _DESCRIPTION, [row])
    return ExitStatus.OK


# -- producers --

_PRODUCER = {
    "ProducerId": "producer_id",
    "ProducerEpoch": "producer_epoch",
    "LatestCoordinatorEpoch": "coordinator_epoch",
    "LastSequence": "last_sequence",
    "LastTimestamp": "last_timestamp",
    "CurrentTransactionStartOffset": "transaction_start_offset",
}


def _describe_producers(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    from kafkatools.tools.open_transactions import producers_of

    broker_label = "leader" if args.broker_id is None else f"broker {args.broker_id}"
    failure_text = f"Failed to describe producers for partition {args.topic}-{args.partition} on {broker_label}"
    rows = []
    for producer in producers_of(admin, (args.topic, args.partition), args.broker_id, failure_text):
        start = producer.transaction_start_offset
        rows.append({**producer._asdict(), "transaction_start_offset": start if start >= 0 else None})
    _show(console, args, _PRODUCER, rows)
    return ExitStatus.OK


# -- abort --


def _prepare_abort(console: Console, args: Args) -> ExitStatus:
    """Check the options of abort before a broker is contacted, then run it, or print it with --dry-run. Raises
    UsageError, or CommandError if there is no such transaction."""
    if args.start_offset is None and args.producer_id is None:
        raise UsageError(_NO_IDENTITY)
    other_options = [name for name in ("producer-id", "producer-epoch", "coordinator-epoch") if args.has_option(name)]
    if args.start_offset is not None and other_options:
        raise UsageError(
            f"--start-offset cannot be used with --{other_options[0]}: it identifies the transaction alone"
        )
    for name in ("producer_epoch", "coordinator_epoch"):
        if args.start_offset is None and getattr(args, name) is None:
            raise UsageError(f"Missing required argument --{name.replace('_', '-')}")
    return with_admin(_abort)(console, args)


def _abort(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    from kafkatools.core.admin.transactions import abort_transaction
    from kafkatools.tools.open_transactions import ensure_open_transaction, failure, open_transaction_at

    partition, name = (args.topic, args.partition), f"{args.topic}-{args.partition}"
    producer: Args | ProducerState = args
    if args.start_offset is not None:
        producer = open_transaction_at(admin, partition, args.start_offset)
    else:
        ensure_open_transaction(admin, partition, args.producer_id, args.producer_epoch)
    producer_id, epoch = producer.producer_id, producer.producer_epoch
    row = {"topic": args.topic, "partition": args.partition, "producer_id": producer_id, "aborted": not args.dry_run}
    if args.dry_run:
        console.print(f"The transaction of producer {producer_id} (epoch {epoch}) on {name} would be aborted.", row)
        return ExitStatus.OK
    error = abort_transaction(admin, partition, producer_id, epoch, max(0, producer.coordinator_epoch))
    if error is not None:
        raise failure(f"Failed to abort transaction of producer {producer_id} on {name}", error)
    if args.json:
        console.print_json(row)
    return ExitStatus.OK


def _dry_run_termination(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    from kafkatools.core.admin.transactions import describe_transactions
    from kafkatools.tools.open_transactions import failure

    name = args.transactionalId
    description = describe_transactions(admin, [name])[name]
    if isinstance(description, Exception):
        raise failure(f"Failed to describe the transaction of transactional-id `{name}` for the dry run", description)
    words = f"Producer {description.producer_id} (epoch {description.producer_epoch}) of {name} would be fenced"
    if description.state == "Ongoing":
        count = len(description.partitions)
        words += f", and its transaction on {count} partition{'s' * (count != 1)} aborted"
    console.print(f"{words}.", {"transactional_id": name, "terminated": False})
    return ExitStatus.OK


def _force_terminate(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    from kafkatools.core.admin.transactions import force_terminate
    from kafkatools.tools.open_transactions import failure

    if args.dry_run:
        return _dry_run_termination(console, args, admin)
    error = force_terminate(admin, args.transactionalId)
    if error is not None:
        raise failure(f"Failed to terminate the transaction of transactional-id `{args.transactionalId}`", error)
    if args.json:
        console.print_json({"transactional_id": args.transactionalId, "terminated": True})
    return ExitStatus.OK


# -- find hanging --

_HANGING = {
    "Topic": "topic",
    "Partition": "partition",
    "ProducerId": "producer_id",
    "ProducerEpoch": "producer_epoch",
    "CoordinatorEpoch": "coordinator_epoch",
    "StartOffset": "start_offset",
    "LastTimestamp": "last_timestamp",
    "Duration(min)": "duration_ms",
}


def _prepare_find_hanging(console: Console, args: Args) -> ExitStatus:
    if args.topic is None and args.broker_id is None:
        raise UsageError(_NO_SCOPE)
    if args.partition is not None and args.topic is None:
        raise UsageError("The --partition argument requires --topic to be provided")
    return with_admin(_find_hanging)(console, args)


def _find_hanging(console: Console, args: Args, admin: AdminClient) -> ExitStatus:
    from kafkatools.core.admin.transactions import find_hanging
    from kafkatools.tools.open_transactions import ensure_broker, partitions_to_search

    if args.broker_id is not None:
        ensure_broker(admin, args.broker_id)
    partitions = partitions_to_search(admin, args.topic, args.partition, args.broker_id)
    outcome = find_hanging(admin, partitions, args.max_transaction_timeout * 60_000, args.broker_id)
    for (topic, partition), error in sorted(outcome.errors.items()):
        message = f"Failed to describe producers for partition {topic}-{partition}: {error}"
        console.error(message, error.name, topic=topic, partition=partition)
    now_ms = console.clock.wall_ms()
    _show(console, args, _HANGING, [_hanging_row(args, transaction, now_ms) for transaction in outcome.transactions])
    if outcome.transactions:
        return ExitStatus.FINDINGS
    return ExitStatus.FAILED if outcome.errors else ExitStatus.OK


def _hanging_row(args: Args, transaction: OpenTransaction, now_ms: int) -> dict[str, object]:
    age_ms = now_ms - transaction.producer.last_timestamp
    duration = age_ms if args.json else age_ms // 60_000
    start = {"start_offset": transaction.producer.transaction_start_offset, "duration_ms": duration}
    return {"topic": transaction.topic, "partition": transaction.partition, **transaction.producer._asdict(), **start}


# -- the table --


_TOPIC = Option("--topic", "Topic of the partition.", value="TOPIC", required=True)
_PARTITION = Option("--partition", "Number of the partition.", value="NUMBER", type=java_int, required=True)
_DRY_RUN = Option("--dry-run", "Print what would be aborted, and abort nothing.", ours=True)
_BROKER = Option("--broker-id", "Broker whose replica is queried. Default: the leader.", value="ID", type=java_int)


_subcommand = partial(
    Command, style=ARGPARSE4J, missing_bootstrap=f"{_PROGRAM}: error: argument --bootstrap-server is required"
)


COMMAND = Command(
    "transactions",
    "List and describe transactions and producers, find hanging transactions, and abort them.",
    options=(
        BOOTSTRAP_SERVER,
        command_config(),
        Option("--version", "Show the version of the Apache Kafka tools that kt follows, and exit.", aliases=("-v",)),
    ),
    style=ARGPARSE4J,
    program=_PROGRAM,
    needs_arguments=False,
    subcommands=(
        _subcommand(
            "list",
            "List transactional ids with their coordinators and states.",
            (
                Option(
                    "--duration-filter",
                    "Only transactions that have been open for more than this many ms.",
                    value="MS",
                    type=java_long,
                ),
                Option(
                    "--transactional-id-pattern",
                    "Only transactional ids that this regular expression matches (RE2 syntax).",
                    value="REGEX",
                ),
            ),
            with_admin(_list),
        ),
        _subcommand(
            "describe",
            "Show the state of a transactional id.",
            (Option("--transactional-id", "The transactional id.", value="ID", required=True),),
            with_admin(_describe),
        ),
        _subcommand(
            "describe-producers",
            "Show the active producers of a partition.",
            (_BROKER, _TOPIC, _PARTITION),
            with_admin(_describe_producers),
        ),
        _subcommand(
            "abort",
            "Abort a transaction that hangs in a partition.",
            (
                _PARTITION,
                _TOPIC,
                Option("--start-offset", "First offset of the transaction.", value="OFFSET", type=java_long),
                Option(
                    "--producer-id", "Producer id of the transaction (brokers before 3.0).", value="ID", type=java_long
                ),
                Option("--producer-epoch", "Producer epoch of the transaction.", value="EPOCH", type=java_short),
                Option("--coordinator-epoch", "Epoch of the transaction coordinator.", value="EPOCH", type=java_int),
                _DRY_RUN,
            ),
            _prepare_abort,
        ),
        _subcommand(
            "find-hanging",
            "Find open transactions that no coordinator will end. Exit status 3 if there are any.",
            (
                Option("--broker-id", "Search the partitions of this broker.", value="ID", type=java_int),
                Option(
                    "--max-transaction-timeout",
                    "Minutes after which an open transaction counts as hanging.",
                    value="MINUTES",
                    type=java_int,
                    default=15,
                ),
                Option("--topic", "Search only this topic.", value="TOPIC"),
                Option("--partition", "Search only this partition of --topic.", value="NUMBER", type=java_int),
            ),
            _prepare_find_hanging,
        ),
        _subcommand(
            "forceTerminateTransaction",
            "Abort the open transaction of a transactional id, and fence its producer.",
            (Option("--transactionalId", "The transactional id.", value="ID", required=True), _DRY_RUN),
            with_admin(_force_terminate),
        ),
    ),
    examples=("kt transactions --bootstrap-server localhost:9092 list", "kt transactions find-hanging --topic orders"),
    destructive=("abort", "forceTerminateTransaction"),
)
