"""kt pipeline count: count the records of each partition by offsets, by batch headers, or by reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.commands.pipeline import job_source
from kafkatools.commands.pipeline.show import count_text
from kafkatools.commands.pipeline.spark import failures, session
from kafkatools.commands.pipeline.spark_progress import job_progress
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.pipeline.jobs.offsets import OFFSET_COLUMNS, count_offsets, offsets_of_topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkatools.core.topic_partition import TopicPartition

_BATCHES = ("topic", "partition", "size", "baseOffset", "lastOffset", "count", "isControl", "isTransactional")
_RECORDS = ("key", "value", "topic", "partition", "offset", "transaction")
_UNKNOWN_OF_TOPICS = ("controlRecords", "batches", "bytes")
_SUMS = ("records", "controlRecords", "abortedRecords", "openRecords", "batches", "bytes", "withoutKey", "tombstones")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline count: print a row for each partition, and without --json the sums on stderr. Returns FINDINGS if
    damaged ranges were skipped."""
    with job_source.damage_reports() as reports:
        source = job_source.source_of_operand(console, args, args.operand, reports)
        columns: Sequence[str]
        rows: Sequence[Sequence[object]]
        if args.exact or source.is_log:
            with session(console, args) as spark, job_progress(console, spark, "Counting", reports):
                table = _table(spark, source, is_exact=args.exact, with_keys=not args.no_keys)
                columns, rows = table.columns, with_empty_partitions(source, table.columns, table.collect())
        else:
            columns, rows = by_offsets(source)
        print_counts(console, columns, rows)
        return job_source.report_damages(console, reports)


def print_counts(console: Console, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a row for each partition, and without --json the sums on stderr."""
    job_source.print_rows(console, "count", columns, rows)
    if not console.is_json:
        console.note(_sums(columns, rows))


def with_empty_partitions(
    source: job_source.JobSource, columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> list[Sequence[object]]:
    """Return the rows and one for each partition of the source that has no batches or records, by topic and
    partition."""
    partitions: Iterable[TopicPartition]
    with failures():
        if source.cluster is not None:
            partitions = offsets_of_topics(source.uri, source.options, source.cluster)
        else:
            from kafkatools.pipeline.sources.log.files import Selection, find_log_files

            files = find_log_files(source.uri.target, Selection.from_options(source.options))
            partitions = {file.topic_partition for file in files}
    counted = {(row[0], row[1]) for row in rows}
    others: dict[str, object] = {"basis": "headers", "firstOffset": None, "lastOffset": None}
    if not source.is_log:
        others |= {"basis": "records", **dict.fromkeys(_UNKNOWN_OF_TOPICS)}
    empty = [
        (topic, partition, *(others.get(name, 0) for name in columns[2:]))
        for topic, partition in partitions
        if (topic, partition) not in counted
    ]
    return sorted([*rows, *empty], key=lambda row: (str(row[0]), int(str(row[1]))))


def by_offsets(source: job_source.JobSource) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    """Count by the start and end offsets of a topic, without Spark. Returns columns and rows."""
    assert source.cluster is not None
    with failures():
        return OFFSET_COLUMNS, count_offsets(offsets_of_topics(source.uri, source.options, source.cluster))


def _table(spark: SparkSession, source: job_source.JobSource, *, is_exact: bool, with_keys: bool) -> DataFrame:
    from kafkatools.pipeline.jobs.count import count_exact

    headers = _from_headers(spark, source) if source.is_log else None
    if headers is not None and not is_exact:
        return headers.orderBy("topic", "partition")
    columns = [name for name in _RECORDS if with_keys or name not in ("key", "value")]
    return count_exact(source.table(spark, columns), headers, with_keys=with_keys)


def _from_headers(spark: SparkSession, source: job_source.JobSource) -> DataFrame:
    """Count the records of a log by batch headers. Reads transactions only if a log has transactional batches."""
    from kafkatools.pipeline.jobs.count import count_batches

    counts = count_batches(source.batches(spark, _BATCHES))
    rows = counts.collect()
    if any(row.abortedRecords is None for row in rows):
        rows = count_batches(source.batches(spark, (*_BATCHES, "transaction"))).collect()
    return spark.createDataFrame(rows, counts.schema)


def _sums(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    parts = [count_text(len(rows), "partition")]
    for name in _SUMS:
        if name in columns:
            values = [row[columns.index(name)] for row in rows]
            numbers = [value for value in values if isinstance(value, int)]
            if numbers:
                parts.append(f"{name} {sum(numbers)}")
    return ", ".join(parts)
