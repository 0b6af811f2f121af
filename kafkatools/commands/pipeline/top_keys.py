"""kt pipeline top-keys: show the keys with the most records or bytes, and the skew of keys and partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.commands.pipeline import job_source
from kafkatools.commands.pipeline.spark import session
from kafkatools.commands.pipeline.spark_progress import job_progress
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkatools.pipeline.jobs.skew import Skew


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline top-keys: print the keys, then the skew of keys and of partitions. Returns FINDINGS if damaged
    ranges were skipped. Raises UsageError."""
    job_source.ensure_one_of("by", args.by, ("records", "bytes"))
    job_source.ensure_at_least("top", args.top, 0)
    with job_source.damage_reports() as reports:
        source = job_source.source_of_operand(console, args, args.operand, reports)
        with session(console, args) as spark, job_progress(console, spark, "Reading", reports):
            _show(console, args, source.table(spark, ("key", "value", "topic", "partition")))
        return job_source.report_damages(console, reports)


def _show(console: Console, args: Args, records: DataFrame) -> None:
    from kafkatools.pipeline.jobs.top_keys import by_key, key_skew, partition_skew, top_keys

    keys = by_key(records).persist()
    job_source.print_table(console, "key", top_keys(keys, args.top, by=args.by))
    print_key_skew(console, *key_skew(keys))
    job_source.print_table(console, "partition_skew", partition_skew(_by_partition(records)))


def print_key_skew(console: Console, skew: Skew, without: int) -> None:
    """Print the skew of records over keys, and the number of records without a key, between blank lines. Without keys
    there are no measures."""
    columns = ("distinctKeys", "records", "withoutKey", "largestShare", "median", "p99", "p99ToMedian", "gini")
    measures = (skew.largest_share, skew.median, skew.p99, skew.p99_to_median, skew.gini)
    row = (skew.members, skew.total + without, without, *(measures if skew.members else [None] * len(measures)))
    _blank(console)
    job_source.print_rows(console, "key_skew", columns, [row])
    _blank(console)


def _blank(console: Console) -> None:
    if not console.is_json:
        console.print("")


def _by_partition(records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    size = f.coalesce(f.length("key"), f.lit(0)) + f.coalesce(f.length("value"), f.lit(0))
    return records.groupBy("topic", "partition").agg(f.count("*").alias("records"), f.sum(size).alias("bytes"))
