"""`profile`: the data of a profile page of topics or a log, from batch headers, keys and committed offsets.

A log directory has a table of batches. For a live topic the records of each batch (`batchPosition`) are aggregated
instead: the size is that of keys and values before compression, and the codec is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import fetch_offsets
from kafkatools.core.admin.groups import list_groups
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.charts.profile_data import (
    CodecFigures,
    GroupLag,
    KeyFigures,
    KeySkew,
    PartitionFigures,
    Profile,
    RatePoint,
    SizeBucket,
)
from kafkatools.pipeline.jobs.offsets import Ranges
from kafkatools.pipeline.jobs.top_keys import by_key, key_skew, top_keys

UNKNOWN_CODEC = "unknown"
_MOST_SPANS = 120
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_WIDTHS = (
    *(_SECOND * n for n in (1, 2, 5, 10, 20, 30)), *(_MINUTE * n for n in (1, 2, 5, 10, 20, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)), *(_DAY * n for n in (1, 2, 5, 10, 30, 100, 365)),
)  # fmt: skip
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
    width, rates = _rates(table, partitions)
    codecs, sizes, counts = _shapes(table)
    return Profile(source, made_ms, partitions, width, rates, keys, codecs, sizes, counts, lags, damages)


def key_figures(records: DataFrame, limit: int) -> KeySkew:
    """Return the `limit` most frequent keys and the skew of all keys; records without a key are counted apart. Needs
    topic, key and value. Runs two queries on the keys."""
    keys = by_key(records).persist()
    try:
        skew, without = key_skew(keys)
        rows = top_keys(keys.where("key IS NOT NULL"), limit).collect()
        is_one_topic = len({row.topic for row in rows}) <= 1
        top = [KeyFigures(bytes(row.key), row.records, row.bytes, "" if is_one_topic else row.topic) for row in rows]
    finally:
        keys.unpersist()
    return KeySkew(top, skew.members, skew.total + without, without, skew.gini, skew.median, skew.p99)


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
            row.newest, row.late, max(row.latest, 0),
        )
        for row in rows
    ]  # fmt: skip


def span_width(first_ms: int, last_ms: int) -> int:
    """Return the smallest round interval in ms, at least one second, that is at least a 120th of the time range."""
    least = (last_ms - first_ms) / _MOST_SPANS
    return next((width for width in _WIDTHS if width >= least), _WIDTHS[-1] * int(least // _WIDTHS[-1] + 1))


def _rates(table: DataFrame, partitions: Sequence[PartitionFigures]) -> tuple[int, list[RatePoint]]:
    oldest = [figures.first_timestamp for figures in partitions if figures.first_timestamp is not None]
    newest = [figures.last_timestamp for figures in partitions if figures.last_timestamp is not None]
    if not oldest:
        return 0, []
    width = span_width(min(oldest), max(newest))
    data = f.when(~f.col("isControl"), f.coalesce(f.col("count"), f.lit(0))).otherwise(0)
    start = f.floor(f.col("time") / width) * width
    rows = (
        table.where("time IS NOT NULL")
        .groupBy(start.cast("bigint").alias("start"))
        .agg(f.sum(data).alias("records"), f.sum("size").alias("bytes"))
        .orderBy("start")
        .collect()
    )
    return width, [RatePoint(row.start, row.records, row.bytes) for row in rows]


def _shapes(table: DataFrame) -> tuple[list[CodecFigures], list[SizeBucket], list[SizeBucket]]:
    """Return codecs, batch sizes and record counts of batches that are not control batches; unknown codecs are left
    out. Sizes and counts are in powers of two, so that one small query suffices."""

    def power(name: str) -> Column:
        return f.when(f.col(name) > 0, f.length(f.bin(f.col(name).cast("bigint"))) - 1)

    rows = (
        table.where(~f.col("isControl"))
        .groupBy(
            f.coalesce("codec", f.lit(UNKNOWN_CODEC)).alias("codec"),
            power("size").alias("s"),
            power("count").alias("c"),
        )
        .agg(
            f.count("*").alias("batches"),
            f.sum(f.coalesce("count", f.lit(0))).alias("records"),
            f.sum("size").alias("bytes"),
        )
        .collect()
    )
    codecs: dict[str, list[int]] = {}
    sizes: dict[int, int] = {}
    counts: dict[int, int] = {}
    for row in rows:
        figures = codecs.setdefault(row.codec, [0, 0, 0])
        for number, value in enumerate((row.batches, row.records, row.bytes)):
            figures[number] += value
        for buckets, exponent in ((sizes, row.s), (counts, row.c)):
            if exponent is not None:
                buckets[exponent] = buckets.get(exponent, 0) + row.batches
    codec_figures = [
        CodecFigures(codec, *figures) for codec, figures in sorted(codecs.items()) if codec != UNKNOWN_CODEC
    ]
    return codec_figures, _buckets(sizes), _buckets(counts)


def _buckets(by_exponent: dict[int, int]) -> list[SizeBucket]:
    """Return a bucket for each power of two from the smallest to the largest, those without batches included; empty
    without any batch."""
    if not by_exponent:
        return []
    exponents = range(min(by_exponent), max(by_exponent) + 1)
    return [SizeBucket(1 << n, 2 << n, by_exponent.get(n, 0)) for n in exponents]


# -- Groups --


def group_lags(admin: AdminClient, ends: Ranges) -> list[GroupLag]:
    """Return a consumer group's lag in each partition of the topics for which it has committed offsets, for all groups
    but share groups. The lag is None in a partition without a committed offset. Raises KafkaError."""
    names = sorted(listing.group_id for listing in list_groups(admin).groups if listing.type != "Share")
    if not names:
        return []
    lags = []
    for group, fetched in sorted(fetch_offsets(admin, names).items()):
        committed = {
            TopicPartition(*partition): entry.offset
            for partition, entry in fetched.offsets.items()
            if partition in ends
        }
        topics = {topic for topic, _ in committed}
        for partition in sorted(partition for partition in ends if partition.topic in topics):
            offset = committed.get(partition)
            lags.append(GroupLag(group, *partition, None if offset is None else max(ends[partition][1] - offset, 0)))
    return lags
