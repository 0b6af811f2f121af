"""`diff`: the records that are in one source and not in the other.

By offset, partition and offset identify a record. By key, the latest values of keys are compared: over all partitions,
the record with the latest timestamp, where the latest offset counts within a partition. A tombstone counts as absent,
and records without a key are not compared. As multiset, the number of copies of each record is compared, at any offset.
Topic names are compared only if a source has several topics.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.diff_sides import (
    AS_MULTISET,
    BY_KEY,
    BY_OFFSET,
    CHANGED,
    ONLY_LEFT,
    ONLY_RIGHT,
    WAYS,
)

COMPARED = ("key", "value")


def diff(left: DataFrame, right: DataFrame, *, by: str = BY_KEY, compared: Sequence[str] = COMPARED) -> DataFrame:
    """Return the differences: `side` (only-left, only-right, changed), the identifying columns, and the number of
    copies on each side. By key and offset also `left` and `right`: structs of the compared columns that do not identify
    (null if absent). As multiset there is no `changed`.

    `compared` may include `timestamp` and `headers`. A query finds out whether a source has several topics. Raises
    PipelineError for an unknown way or column.
    """
    if by not in WAYS:
        raise PipelineError(f"Records can be compared by {', '.join(WAYS)}, not by {by}")
    sides = [_prepare(side, by, compared) for side in (left, right)]
    names = _identifying_names(sides, by, compared)
    payload = [name for name in compared if name not in names]
    union = _tag_side(sides[0], names, payload, True).unionByName(_tag_side(sides[1], names, payload, False))
    return _compare(union, names, bool(payload))


def summary(differences: DataFrame) -> dict[str, int]:
    """Run the query of `diff` and return the number of surplus records for only-left and only-right, and of changed
    ones; 0 for none."""
    surplus = f.abs(f.col("leftCount") - f.col("rightCount"))
    number = f.sum(f.when(f.col("side") == CHANGED, 1).otherwise(surplus)).alias("number")
    counts = {row.side: int(row.number) for row in differences.groupBy("side").agg(number).collect()}
    return {side: counts.get(side, 0) for side in (ONLY_LEFT, ONLY_RIGHT, CHANGED)}


def without_key(source: DataFrame) -> int:
    """Run a query for the number of records without a key, which a comparison by key leaves out."""
    return source.where(f.col("key").isNull()).count()


def _prepare(side: DataFrame, by: str, columns: Sequence[str]) -> DataFrame:
    missing = [name for name in columns if name not in side.columns]
    if missing:
        raise PipelineError(f"There is no column {missing[0]} to compare; the columns are {', '.join(side.columns)}")
    if by != BY_KEY:
        return side
    payload = f.struct(*[f.col(name) for name in columns if name != "key"])
    in_partition = (
        side.where(f.col("key").isNotNull())
        .groupBy("topic", "partition", "key")
        .agg(
            f.max_by(payload, "offset").alias("payload"),
            f.max_by(f.struct("timestamp", "offset"), "offset").alias("latest"),
            f.max_by(f.col("value").isNull(), "offset").alias("isGone"),
        )
    )
    latest = in_partition.groupBy("topic", "key").agg(
        f.max_by("payload", "latest").alias("payload"), f.max_by("isGone", "latest").alias("isGone")
    )
    return latest.where(~f.col("isGone")).select("topic", "key", "payload.*")


def _identifying_names(sides: Sequence[DataFrame], by: str, columns: Sequence[str]) -> list[str]:
    names = {BY_KEY: ["key"], BY_OFFSET: ["partition", "offset"], AS_MULTISET: list(columns)}[by]
    several = [len(side.select("topic").distinct().limit(2).collect()) > 1 for side in sides]
    return ["topic", *names] if any(several) else names


def _tag_side(side: DataFrame, names: Sequence[str], payload: Sequence[str], is_left: bool) -> DataFrame:
    content = f.struct(*[f.col(name) for name in payload]) if payload else f.lit(True)
    return side.select(*[f.col(name) for name in names], content.alias("content"), f.lit(is_left).alias("isLeft"))


def _compare(union: DataFrame, names: Sequence[str], has_payload: bool) -> DataFrame:
    def of(is_left: bool) -> Column:
        return f.col("isLeft") if is_left else ~f.col("isLeft")

    groups = union.groupBy(*names).agg(
        *[f.first(f.when(of(side), f.col("content")), ignorenulls=True).alias(name) for side, name in _SIDES],
        *[f.count(f.when(of(side), 1)).alias(f"{name}Count") for side, name in _SIDES],
    )
    is_same = f.col("leftCount") == f.col("rightCount")
    if has_payload:
        is_same = is_same & f.col("left").eqNullSafe(f.col("right"))
    side = (
        f.when(f.col("leftCount") == 0, ONLY_RIGHT)
        .when(f.col("rightCount") == 0, ONLY_LEFT)
        .otherwise(
            f.lit(CHANGED)
            if has_payload
            else f.when(f.col("leftCount") > f.col("rightCount"), ONLY_LEFT).otherwise(ONLY_RIGHT)
        )
    )
    differences = groups.where(~is_same).withColumn("side", side)
    contents = ["left", "right"] if has_payload else []
    return differences.select("side", *names, *contents, "leftCount", "rightCount").orderBy(*names, "side")


_SIDES = ((True, "left"), (False, "right"))
