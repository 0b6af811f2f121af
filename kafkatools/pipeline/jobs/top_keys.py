"""`top-keys`: the keys with most records or bytes, and the skew of keys and partitions.

Skew is computed exactly, from a histogram of records per key, which is small for any number of keys. The Gini
coefficient is 0 if all keys have equally many records and approaches 1 if one key has all. Bytes are those of keys and
values.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from kafkatools.pipeline.jobs.skew import Skew, skew_of


def by_key(records: DataFrame) -> DataFrame:
    """Return topic, key, number of records and bytes for each key; a null key stands for records without a key. Needs
    topic, key and value."""
    length = f.coalesce(f.length("key"), f.lit(0)) + f.coalesce(f.length("value"), f.lit(0))
    return (
        records.select("topic", "key", length.cast("bigint").alias("length"))
        .groupBy("topic", "key")
        .agg(f.count("*").alias("records"), f.sum("length").alias("bytes"))
    )


def top_keys(keys: DataFrame, number: int, *, by: str = "records") -> DataFrame:
    """Return the `number` largest keys of `by_key` by records (or bytes); ties are ordered by topic and key."""
    return keys.orderBy(f.desc(by), "topic", f.asc_nulls_first("key")).limit(number)


def key_skew(keys: DataFrame) -> tuple[Skew, int]:
    """Return the skew of records over the keys of `by_key`, and the number of records without a key."""
    rows = keys.groupBy("records", f.col("key").isNull().alias("isWithout")).agg(f.count("*").alias("many")).collect()
    without = sum(row.records * row.many for row in rows if row.isWithout)
    return skew_of({row.records: row.many for row in rows if not row.isWithout}), without


def partition_skew(partitions: DataFrame) -> DataFrame:
    """Return a row for each topic with its number of partitions, records and bytes, and the largest partition's share
    of each (null of none). `partitions` has topic, partition, records and bytes."""

    def measures(name: str) -> list[Column]:
        total = f.sum(name)
        return [total.alias(name), (f.max(name) / f.nullif(total, f.lit(0))).alias(f"largest{name.capitalize()}Share")]

    return (
        partitions.groupBy("topic")
        .agg(f.count("*").alias("partitions"), *measures("records"), *measures("bytes"))
        .orderBy("topic")
    )
