"""`count`: the number of records in each partition, by kind.

`records` includes aborted and open ones. Headers of batches of magic 2 have the number of records and the control and
transactional flags. With the commit and abort markers they give exact counts of records, control records, aborted and
open records, without a look at the data (`basis` is `headers`). Compressed messages of magic 0 and 1 lack the number;
for such partitions, and for live topics, the records are counted (`records`).

Key counts need the records and leave out aborted and open ones: `distinctKeys`, `tombstones` (null values with a key)
and `liveKeys` (keys whose latest value is not null).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

COUNT_COLUMNS = (
    "topic", "partition", "basis", "records", "controlRecords", "abortedRecords", "openRecords", "batches", "bytes",
    "firstOffset", "lastOffset",
)  # fmt: skip
KEY_COLUMNS = ("withoutKey", "tombstones", "distinctKeys", "liveKeys")
_PARTITION = ["topic", "partition"]


def count_batches(batches: DataFrame) -> DataFrame:
    """Return a row of COUNT_COLUMNS for each partition from the `kafka-log` table `batches`. `records` is null if a
    header lacks the number (compressed messages of magic 0 and 1). Without the column `transaction`, whose values need
    a scan of all markers, `isTransactional` is required. `abortedRecords` and `openRecords` are then null in partitions
    with transactions, else 0."""

    def records_in(which: Column) -> Column:
        return f.coalesce(f.sum(f.when(which, f.col("count"))), f.lit(0)).cast("bigint")

    def in_state(state: str) -> Column:
        if "transaction" in batches.columns:
            return records_in(is_data & (f.col("transaction") == state))
        return f.when(f.count(f.when(f.col("isTransactional"), 1)) == 0, f.lit(0)).cast("bigint")

    is_data = ~f.col("isControl")
    is_unknown = f.coalesce(f.max(f.when(f.col("count").isNull(), 1)), f.lit(0)) == 1
    return batches.groupBy(*_PARTITION).agg(
        f.lit("headers").alias("basis"),
        f.when(~is_unknown, records_in(is_data)).alias("records"),
        records_in(f.col("isControl")).alias("controlRecords"),
        in_state("aborted").alias("abortedRecords"),
        in_state("open").alias("openRecords"),
        f.count("*").alias("batches"),
        f.sum("size").cast("bigint").alias("bytes"),
        f.min("baseOffset").alias("firstOffset"),
        f.max("lastOffset").alias("lastOffset"),
    )


def count_records(records: DataFrame) -> DataFrame:
    """Return a row of COUNT_COLUMNS for each partition from records with metadata columns. Control records, batches and
    bytes are null."""

    def number(which: Column) -> Column:
        return f.count(f.when(which, 1))

    return records.groupBy(*_PARTITION).agg(
        f.lit("records").alias("basis"),
        f.count("*").alias("records"),
        f.lit(None).cast("bigint").alias("controlRecords"),
        number(f.col("transaction") == "aborted").alias("abortedRecords"),
        number(f.col("transaction") == "open").alias("openRecords"),
        f.lit(None).cast("bigint").alias("batches"),
        f.lit(None).cast("bigint").alias("bytes"),
        f.min("offset").alias("firstOffset"),
        f.max("offset").alias("lastOffset"),
    )


def count_keys(records: DataFrame) -> DataFrame:
    """Return a row of topic, partition and KEY_COLUMNS for each partition, from records with metadata columns. Aborted
    and open records are left out."""
    is_committed = f.col("transaction").isNull() | (f.col("transaction") == "committed")
    is_null = f.col("value").isNull()
    by_key = (
        records.where(is_committed)
        .select(*_PARTITION, "key", "offset", is_null.alias("isNull"))
        .groupBy(*_PARTITION, "key")
        .agg(
            f.count("*").alias("n"),
            f.count(f.when(f.col("isNull"), 1)).alias("nulls"),
            f.max_by("isNull", "offset").alias("isLatestNull"),
        )
    )
    has_key = f.col("key").isNotNull()
    return by_key.groupBy(*_PARTITION).agg(
        f.coalesce(f.sum(f.when(~has_key, f.col("n"))), f.lit(0)).alias("withoutKey"),
        f.coalesce(f.sum(f.when(has_key, f.col("nulls"))), f.lit(0)).alias("tombstones"),
        f.count(f.when(has_key, 1)).alias("distinctKeys"),
        f.count(f.when(has_key & ~f.col("isLatestNull"), 1)).alias("liveKeys"),
    )


def count_exact(records: DataFrame, headers: DataFrame | None, *, with_keys: bool = True) -> DataFrame:
    """Return rows of COUNT_COLUMNS, and KEY_COLUMNS with `with_keys`, by topic and partition. `headers` is the result
    of `count_batches`; a query on it finds the partitions whose headers lack the number, and their records are counted.
    None, for a live topic, counts all records."""
    counts = count_records(records) if headers is None else headers
    if headers is not None and not headers.where("records IS NULL").isEmpty():
        record_counts = count_records(records).select(*_PARTITION, f.col("records").alias("counted"))
        is_unknown = f.col("records").isNull()
        counts = (
            counts.join(record_counts, _PARTITION, "left")
            .withColumn("basis", f.when(is_unknown, "records").otherwise(f.col("basis")))
            .withColumn("records", f.when(is_unknown, f.coalesce("counted", f.lit(0))).otherwise(f.col("records")))
            .drop("counted")
        )
    if with_keys:
        counts = counts.join(count_keys(records), _PARTITION, "left").fillna(0, subset=list(KEY_COLUMNS))
    return counts.orderBy(*_PARTITION)
