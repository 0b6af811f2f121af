"""kt query: SQL over topics, log files, Parquet and CSV files, without Spark and without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, settings_for

if TYPE_CHECKING:
    from kafkatools.console import Console

_LEVELS = ("read_uncommitted", "read_committed")
_MIN_MEMORY_BYTES = 32 << 20
_FORMATS = ("table", "json", "csv", "parquet")


def _memory(text: str) -> int:
    """Parse a number of bytes of at least `_MIN_MEMORY_BYTES`. Raises UsageError."""
    from kafkatools.options.quantities import SIZE_FORM, byte_count

    try:
        size = byte_count(text)
    except ValueError:
        raise UsageError(f"--memory-limit takes {SIZE_FORM}, not '{text}'") from None
    if size < _MIN_MEMORY_BYTES:
        raise UsageError(f"--memory-limit must be at least 32MiB, not {text}")
    return size


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt query: check the statement, then print its rows or write them to a file. Raises UsageError for wrong SQL
    and options, before anything is read, and CommandError for a failure."""
    from kafkatools.commands.query.output import row_writer
    from kafkatools.pipeline.errors import PipelineError
    from kafkatools.pipeline.query.query import Query, Result, check
    from kafkatools.tools.search.sql import SqlError

    if not args.operand:
        raise UsageError("The query is missing: kt query \"SELECT count(*) FROM 'topic:orders'\"")
    if args.isolation_level not in _LEVELS:
        raise UsageError(f"--isolation-level takes {' or '.join(_LEVELS)}, not {args.isolation_level}")
    writer = row_writer(console, args.output_format, args.output)
    try:
        query: Query = check(args.operand, only_topics=args.only_topics, memory_bytes=args.memory_limit)
    except (PipelineError, SqlError) as error:
        raise UsageError(str(error)) from error
    result = None
    try:
        result = Result(query, _settings(console, args, query.needs_cluster))
        writer(result.schema, iter(result))
    except (PipelineError, SqlError) as error:
        raise CommandError(str(error), kind=_kind_of(error)) from error
    finally:
        if result is not None:
            result.close()
    return ExitStatus.OK


def _kind_of(error: BaseException | None) -> str:
    """Return the kind of an error for --json: Kafka's name of the error that caused it, else FAILED."""
    from kafkatools.core.errors import KafkaError

    while error is not None:
        if isinstance(error, KafkaError):
            return error.name
        error = error.__cause__
    return "FAILED"


def _settings(console: Console, args: Args, needs_cluster: bool) -> dict[str, str]:
    """Return the settings of the consumer, with bootstrap servers only if a topic is read."""
    from kafkatools.core.config import CONSUMER

    isolation = {"isolation.level": args.isolation_level}
    if not needs_cluster:
        return isolation
    settings = settings_for(CONSUMER, args, "command_config", console.note)
    return settings | isolation | {"bootstrap.servers": console.connect(args)}


COMMAND = Command(
    "query",
    "Run SQL over topics, log files, Parquet and CSV files.",
    options=(
        BOOTSTRAP_SERVER,
        command_config("Properties file with settings of the consumer."),
        Option(
            "--isolation-level",
            "read_committed leaves out records of aborted and open transactions, in topics and in log files.",
            value="LEVEL",
            choices=_LEVELS,
            default="read_uncommitted",
        ),
        Option("--only-topics", "Refuse tables other than topics, so that a statement can read no file."),
        Option(
            "--memory-limit",
            "Memory of groups, joins and sorts, at least 32MiB. A query that needs more ends with an error. Default: "
            "80 % of the memory of the machine.",
            value="SIZE",
            type=_memory,
        ),
        Option(
            "--output-format",
            "Format of the rows. Default: that of the extension of --output (.csv, .json, .jsonl, .parquet), else "
            "table. With --json: json.",
            value="FORMAT",
            choices=_FORMATS,
        ),
        Option(
            "--output",
            "Write the rows to this file, which appears or is replaced only when it is complete.",
            value="FILE",
            aliases=("-o",),
        ),
    ),
    run=run,
    operand="SQL",
    examples=(
        "kt query \"SELECT value->>'user' AS name, count(*) FROM 'topic:orders' GROUP BY name\"",
        "kt query \"SELECT * FROM 'log:/data/orders-0' WHERE offset >= 1000 LIMIT 10\" --json",
        'kt query "SELECT key, value FROM orders WHERE partition = 0" --output orders.parquet',
        "kt query \"SELECT c.name, o.value FROM orders o JOIN 'names.csv' c ON c.id = o.key\"",
    ),
)
