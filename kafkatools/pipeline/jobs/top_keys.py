"""`top-keys`: the keys with most records or bytes, and the skew of keys and partitions.

Skew is computed exactly, from a histogram of records per key, which is small for any number of keys. The Gini
coefficient is 0 if all keys have equally many records and approaches 1 if one key has all. Bytes are those of keys and
values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f


@dataclass(frozen=True)
class Skew:
    """Measures of how unevenly `total` records are spread over `members` keys, each with at least one."""

    members: int
    total: int
    largest: int
    median: float
    p99: float
    gini: float

    @property
    def largest_share(self) -> float:
        """The largest key's fraction of all records, 0 if there are none."""
        return self.largest / self.total if self.total else 0.0

    @property
    def p99_to_median(self) -> float:
        """The ratio of the 99th percentile to the median, 0 if there are no keys."""
        return self.p99 / self.median if self.median else 0.0


def skew_of(histogram: Mapping[int, int]) -> Skew:
    """Compute skew from a histogram that maps a number of records to the number of keys that have that many. Median
    and percentile are by nearest rank."""
    pairs = sorted(histogram.items())
    members = sum(count for _, count in pairs)
    total = sum(number * count for number, count in pairs)
    if not members or not total:
        return Skew(members, total, 0, 0.0, 0.0, 0.0)
    weighted_sum = rank = 0
    ranks = []  # the highest rank of each number
    for number, count in pairs:
        weighted_sum += number * (count * rank + count * (count + 1) // 2)
        rank += count
        ranks.append(rank)
    gini = 2 * weighted_sum / (members * total) - (members + 1) / members
    median = float(pairs[bisect_left(ranks, -(-members // 2))][0])
    p99 = float(pairs[bisect_left(ranks, -(-members * 99 // 100))][0])
    return Skew(members, total, pairs[-1][0], median, p99, gini)


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
    without = sum(row.records for row in rows if row.isWithout)
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
