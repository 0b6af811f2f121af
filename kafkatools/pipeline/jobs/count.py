"""`count`: how many records there are of each partition, and of what kind.

The header of a batch of magic 2 tells how many records it has, whether it is a control batch and whose transaction it
belongs to: counts of records, control records, aborted and open ones are exact from headers alone, `basis` is then
`headers`. Wrappers of magic 0 and 1 do not tell; of such a partition, and of a live topic, the records themselves are
counted (`records`). Keys need the records in any case: `distinctKeys`, `tombstones` (a key, and null for a value),
`liveKeys` (keys whose latest value is not null) are of committed records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from kafkatools.pipeline.jobs.offsets import Ranges

COUNT_COLUMNS = (
    "topic", "partition", "basis", "records", "controlRecords", "abortedRecords", "openRecords", "batches", "bytes",
    "firstOffset", "lastOffset",
)  # fmt: skip
KEY_COLUMNS = ("withoutKey", "tombstones", "distinctKeys", "liveKeys")
_PARTITION = ["topic", "partition"]


def count_batches(batches: DataFrame) -> DataFrame:
    """A row a partition (COUNT_COLUMNS) from the headers of its batches: the table `batches` of `kafka-log`.

    `records` is null where a header does not tell (compressed messages of magic 0 and 1).
    """
    from pyspark.sql import functions as f

    def records_in(which: Column) -> Column:
        return f.coalesce(f.sum(f.when(which, f.col("count"))), f.lit(0)).cast("bigint")

    is_data = ~f.col("isControl")
    is_unknown = f.coalesce(f.max(f.when(f.col("count").isNull(), 1)), f.lit(0)) == 1
    return batches.groupBy(*_PARTITION).agg(
        f.lit("headers").alias("basis"),
        f.when(~is_unknown, records_in(is_data)).alias("records"),
        records_in(f.col("isControl")).alias("controlRecords"),
        records_in(is_data & (f.col("transaction") == "aborted")).alias("abortedRecords"),
        records_in(is_data & (f.col("transaction") == "open")).alias("openRecords"),
        f.count("*").alias("batches"),
        f.sum("size").cast("bigint").alias("bytes"),
        f.min("baseOffset").alias("firstOffset"),
        f.max("lastOffset").alias("lastOffset"),
    )


def count_records(records: DataFrame) -> DataFrame:
    """The same from records (with `includeMetadata`). Control records are none of them: what is not told is null."""
    from pyspark.sql import functions as f

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
    """A row a partition (topic, partition, KEY_COLUMNS) from its committed records (with `includeMetadata`)."""
    from pyspark.sql import functions as f

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


def count_offsets(spark: SparkSession, ranges: Ranges) -> DataFrame:
    """A row a partition by its offsets alone (`basis` offsets): so many records at most. Control records, and what was
    compacted away, have offsets too."""
    rows = [
        (topic, partition, "offsets", end - start, start if end > start else None, end - 1 if end > start else None)
        for (topic, partition), (start, end) in sorted(ranges.items())
    ]
    return spark.createDataFrame(
        rows, "topic string, partition int, basis string, records bigint, firstOffset bigint, lastOffset bigint"
    )


def count_exact(records: DataFrame, batches: DataFrame | None, *, with_keys: bool = True) -> DataFrame:
    """COUNT_COLUMNS, and KEY_COLUMNS with `with_keys`; `batches` is None for a live topic.

    Of partitions whose headers do not tell the number of records they are counted.
    """
    from pyspark.sql import functions as f

    if batches is None:
        counts = count_records(records)
    else:
        counts = count_batches(batches)
        if _has_wrappers(batches):
            counted = count_records(records).select(*_PARTITION, f.col("records").alias("counted"))
            is_unknown = f.col("records").isNull()
            counts = (
                counts.join(counted, _PARTITION, "left")
                .withColumn("basis", f.when(is_unknown, "records").otherwise(f.col("basis")))
                .withColumn("records", f.when(is_unknown, f.coalesce("counted", f.lit(0))).otherwise(f.col("records")))
                .drop("counted")
            )
    if with_keys:
        counts = counts.join(count_keys(records), _PARTITION, "left").fillna(0, subset=list(KEY_COLUMNS))
    return counts.orderBy(*_PARTITION)


def _has_wrappers(batches: DataFrame) -> bool:
    return not batches.where("count IS NULL").limit(1).isEmpty()
