"""`top-keys`: which keys have most records and bytes, and how uneven keys and partitions are.

Measures of skew are exact, over the histogram of how many keys have how many records: it is small however many keys
there are. Gini is 0 when all have the same, and nears 1 when one has all. Bytes are those of keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f


@dataclass(frozen=True)
class Skew:
    """How unevenly something is spread over `members`; all of them are above zero."""

    members: int
    total: int
    largest: int
    median: float
    p99: float
    gini: float

    @property
    def largest_share(self) -> float:
        """The part that the largest one has."""
        return self.largest / self.total if self.total else 0.0

    @property
    def p99_to_median(self) -> float:
        """How many times the median the 99th percentile is."""
        return self.p99 / self.median if self.median else 0.0


def skew_of(histogram: Mapping[int, int]) -> Skew:
    """The measures; `histogram`: how many members have how many. The median and the percentile are those of nearest
    rank: the smallest number that at least so many do not exceed."""
    pairs = sorted(histogram.items())
    members = sum(many for _, many in pairs)
    total = sum(number * many for number, many in pairs)
    if not members or not total:
        return Skew(members, total, 0, 0.0, 0.0, 0.0)
    weighted = rank = 0
    for number, many in pairs:
        weighted += number * (many * rank + many * (many + 1) // 2)
        rank += many
    gini = 2 * weighted / (members * total) - (members + 1) / members
    ranks = [-(-members // 2), -(-members * 99 // 100)]
    found = []
    for wanted in ranks:
        passed = 0
        for number, many in pairs:
            passed += many
            if passed >= wanted:
                found.append(float(number))
                break
    return Skew(members, total, pairs[-1][0], found[0], found[1], gini)


def by_key(records: DataFrame) -> DataFrame:
    """Topic, key, records, bytes of every key; records without one are a row of a null key. Wants topic, key, value."""
    length = f.coalesce(f.length("key"), f.lit(0)) + f.coalesce(f.length("value"), f.lit(0))
    return (
        records.select("topic", "key", length.cast("bigint").alias("length"))
        .groupBy("topic", "key")
        .agg(f.count("*").alias("records"), f.sum("length").alias("bytes"))
    )


def top_keys(keys: DataFrame, number: int, *, by: str = "records") -> DataFrame:
    """The keys of `by_key` with most records (or bytes), largest first; ties by key."""
    return keys.orderBy(f.desc(by), "topic", f.asc_nulls_first("key")).limit(number)


def key_skew(keys: DataFrame) -> tuple[Skew, int]:
    """How records are spread over the keys of `by_key`, and how many records have no key."""
    rows = keys.groupBy("records", f.col("key").isNull().alias("isWithout")).agg(f.count("*").alias("many")).collect()
    without = sum(row.records for row in rows if row.isWithout)
    return skew_of({row.records: row.many for row in rows if not row.isWithout}), without


def partition_skew(partitions: DataFrame) -> DataFrame:
    """A row a topic from rows of topic, partition, records, bytes: how uneven its partitions are."""

    def measures(name: str) -> list[Column]:
        total = f.sum(name)
        return [total.alias(name), (f.max(name) / f.nullif(total, f.lit(0))).alias(f"largest{name.capitalize()}Share")]

    return (
        partitions.groupBy("topic")
        .agg(f.count("*").alias("partitions"), *measures("records"), *measures("bytes"))
        .orderBy("topic")
    )
