"""`profile`: the data of a profile page of topics or a log, from batch headers, keys and committed offsets.

A log directory has a table of batches. For a live topic the records of each batch (`batchPosition`) are aggregated
instead: the size is that of keys and values before compression, and the codec is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from kafkatools.pipeline.charts.profile_data import GroupLag, KeySkew, PartitionFigures, Profile, RatePoint
from kafkatools.pipeline.jobs.profile_figures import (
    UNKNOWN_CODEC,
    Shape,
    Shapes,
    key_skew_of,
    rate_width,
    shapes_of,
)
from kafkatools.pipeline.jobs.top_keys import by_key, key_skew, top_keys

_PARTITION = ("topic", "partition")


def batches_of_records(records: DataFrame) -> DataFrame:
    """Aggregate records with metadata columns into a table of batches with the columns that a profile needs."""
    size = f.coalesce(f.length("key"), f.lit(0)) + f.coalesce(f.length("value"), f.lit(0))
    return records.groupBy(*_PARTITION, "batchPosition").agg(
        f.sum(size).alias("size"),
        f.min("offset").alias("baseOffset"),
        f.max("offset").alias("lastOffset"),
        f.count("*").alias("count"),
        f.max("timestamp").alias("maxTimestamp"),
        f.lit(UNKNOWN_CODEC).alias("codec"),
        f.lit(False).alias("isControl"),
    )


def profile_of(
    source: str,
    made_ms: int,
    batches: DataFrame,
    *,
    keys: KeySkew | None = None,
    lags: Sequence[GroupLag] | None = None,
    damages: int = 0,
) -> Profile:
    """Compute the data of a profile page, with up to three queries on `batches`, which callers should therefore
    persist. `keys` and `lags` None: the page has no such section. `made_ms` is the time of the page, in epoch ms;
    `damages` is the number of damaged byte ranges."""
    time = f.unix_millis("maxTimestamp")
    table = batches.withColumn("time", f.when(time >= 0, time))
    partitions = _partitions(table)
    width = rate_width(partitions)
    rates = _rates(table, width) if width else []
    codecs, sizes, counts = _shapes(table)
    return Profile(source, made_ms, partitions, width, rates, keys, codecs, sizes, counts, lags, damages)


def key_figures(records: DataFrame, limit: int) -> KeySkew:
    """Return the `limit` most frequent keys and the skew of all keys; records without a key are counted apart. Needs
    topic, key and value. Runs two queries on the keys."""
    keys = by_key(records).persist()
    try:
        skew, without = key_skew(keys)
        rows = top_keys(keys.where("key IS NOT NULL"), limit).collect()
        return key_skew_of(((row.topic, row.key, row.records, row.bytes) for row in rows), skew, without)
    finally:
        keys.unpersist()


def _partitions(table: DataFrame) -> list[PartitionFigures]:
    before = Window.partitionBy(*_PARTITION).orderBy("baseOffset").rowsBetween(Window.unboundedPreceding, -1)
    delay = f.max("time").over(before) - f.col("time")
    data = f.when(~f.col("isControl"), f.coalesce(f.col("count"), f.lit(0)))
    rows = (
        table.withColumn("delay", f.when(~f.col("isControl"), delay))
        .groupBy(*_PARTITION)
        .agg(
            f.coalesce(f.sum(data), f.lit(0)).alias("records"),
            f.count("*").alias("batches"),
            f.sum("size").alias("bytes"),
            f.min("baseOffset").alias("first"),
            f.max("lastOffset").alias("last"),
            f.min("time").alias("oldest"),
            f.max("time").alias("newest"),
            f.count(f.when(f.col("delay") > 0, 1)).alias("late"),
            f.coalesce(f.max("delay"), f.lit(0)).alias("latest"),
        )
        .orderBy(*_PARTITION)
        .collect()
    )
    return [
        PartitionFigures(
            row.topic, row.partition, row.records, row.batches, row.bytes, row["first"], row["last"], row.oldest,
            row.newest, row.late, max(row.latest, 0), stored_bytes=row.bytes,
        )
        for row in rows
    ]  # fmt: skip


def _rates(table: DataFrame, width: int) -> list[RatePoint]:
    data = f.when(~f.col("isControl"), f.coalesce(f.col("count"), f.lit(0))).otherwise(0)
    start = f.floor(f.col("time") / width) * width
    rows = (
        table.where("time IS NOT NULL")
        .groupBy(start.cast("bigint").alias("start"))
        .agg(f.sum(data).alias("records"), f.sum("size").alias("bytes"))
        .orderBy("start")
        .collect()
    )
    return [RatePoint(row.start, row.records, row.bytes) for row in rows]


def _shapes(table: DataFrame) -> Shapes:
    """Return codecs, batch sizes and record counts of batches that are not control batches. Sizes and counts are in
    powers of two, so that one small query suffices."""

    def power(name: str) -> Column:
        return f.when(f.col(name) > 0, f.length(f.bin(f.col(name).cast("bigint"))) - 1)

    rows = (
        table.where(~f.col("isControl"))
        .groupBy(
            f.coalesce("codec", f.lit(UNKNOWN_CODEC)).alias("codec"),
            power("size").alias("sizePower"),
            power("count").alias("countPower"),
        )
        .agg(
            f.count("*").alias("batches"),
            f.sum(f.coalesce("count", f.lit(0))).alias("records"),
            f.sum("size").alias("bytes"),
        )
        .collect()
    )
    return shapes_of(Shape(*row) for row in rows)
