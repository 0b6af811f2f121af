"""kt pipeline count: records of each partition, by offsets, by headers, or exactly with what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.commands.pipeline.job_source import SOURCE_OPTIONS, GivenSource, given_source, print_rows
from kafkatools.commands.pipeline.spark import session, spark_progress
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args, Command, Option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkatools.console import Console

_BATCHES = (
    "topic", "partition", "size", "baseOffset", "lastOffset", "count", "isControl", "transaction",
)  # fmt: skip
_RECORDS = ("key", "value", "topic", "partition", "offset", "transaction")
_SUMS = ("records", "controlRecords", "abortedRecords", "openRecords", "batches", "bytes", "withoutKey", "tombstones")


def run(console: Console, args: Args) -> ExitStatus:
    """A row a partition, and the sums on stderr."""
    source = given_source(console, args, args.operand)
    with session(console, args) as spark, spark_progress(console, spark, "Counting"):
        table = _table(spark, source, is_exact=args.exact, with_keys=not args.no_keys)
        rows = table.collect()
        print_rows(console, "count", table.columns, rows)
    if not console.is_json:
        console.note(_sums(table.columns, rows))
    return ExitStatus.OK


def _table(spark: SparkSession, source: GivenSource, *, is_exact: bool, with_keys: bool) -> DataFrame:
    from kafkatools.pipeline.jobs.count import count_batches, count_exact

    batches = source.batches(spark, _BATCHES) if source.is_log else None
    if is_exact:
        columns = _RECORDS if with_keys else [name for name in _RECORDS if name not in ("key", "value")]
        return count_exact(source.table(spark, columns), batches, with_keys=with_keys)
    if batches is not None:
        return count_batches(batches).orderBy("topic", "partition")
    from kafkatools.pipeline.jobs.count import count_offsets
    from kafkatools.pipeline.jobs.offsets import offsets_of

    return count_offsets(spark, offsets_of(spark, source.uri, source.options, source.cluster))


def _sums(columns: Sequence[str], rows: Sequence[Sequence[int | None]]) -> str:
    parts = [f"{len(rows)} partitions"]
    for name in _SUMS:
        if name in columns:
            values = [row[columns.index(name)] for row in rows]
            known = [value for value in values if value is not None]
            if known:
                parts.append(f"{name} {sum(known)}")
    return ", ".join(parts)


COMMAND = Command(
    "count",
    "Count records. Of files exactly, from the headers of their batches; of a topic by its offsets, unless --exact.",
    options=(
        Option(
            "--exact",
            "Count records, aborted and open ones, and by their keys tombstones, distinct and live keys: all records "
            "of a topic are read, of files the keys. `basis` says what the number of records is from.",
        ),
        Option("--no-keys", "With --exact: nothing about keys; files are then counted by their headers alone."),
        *SOURCE_OPTIONS,
    ),
    run=run,
    operand="SOURCE",
    examples=("kt pipeline count log:/var/lib/kafka/data", "kt pipeline count topic:orders --exact --json"),
)
