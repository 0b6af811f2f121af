"""SQL over records makes the columns that it uses, and no query becomes another one by that."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import pytest
from support.pruning_cases import CASES, EVERYTHING, run
from support.recorded_logs import unpack_log

from kafkatools.pipeline.pruning import Needs, needed_columns, pruned
from kafkatools.pipeline.session import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    return str(unpack_log("txn-java", tmp_path))


def table(spark: SparkSession, path: str, columns: str = "") -> DataFrame:
    register(spark)
    reader = spark.read.format("kafka-log")
    return (reader.schema(columns) if columns else reader).load(path)


def test_queries_need_what_they_use(spark: SparkSession, path: str) -> None:
    before = spark.conf.get("spark.sql.python.filterPushdown.enabled")
    for statement, told in zip(CASES, run(spark, path, list(CASES)), strict=True):
        columns, bounds = CASES[statement]
        assert told == {"columns": columns, "bounds": bounds, "is_pruned": True, "is_same": True}, statement
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == before


def test_a_query_over_everything_stays_as_it_is(spark: SparkSession, path: str) -> None:
    (told,) = run(spark, path, [EVERYTHING])
    assert len(told["columns"]) == 14
    assert not told["is_pruned"]


def test_a_query_that_would_become_another_stays_as_it_is(spark: SparkSession, path: str) -> None:
    """A name that falls back to an outer table's column, a star that stands for less: both would go unnoticed."""
    spark.sql("SELECT 7L AS sequence, 1L AS offset").createOrReplaceTempView("other")
    statement = "SELECT o.sequence, (SELECT max(offset) FROM input WHERE timestamp = timestamp) FROM other o"

    def make(needs: Needs) -> DataFrame:
        table(spark, path, "offset bigint").createOrReplaceTempView("input")
        return spark.sql(statement.replace("timestamp = timestamp", "sequence = 7"))

    table(spark, path).createOrReplaceTempView("input")
    everything = spark.sql(statement)
    assert pruned(everything, make) is everything

    def fail(needs: Needs) -> DataFrame:
        table(spark, path, "value binary").createOrReplaceTempView("input")
        return spark.sql(statement)

    assert pruned(everything, fail) is everything


def test_a_query_without_these_sources_needs_nothing_of_them(spark: SparkSession) -> None:
    assert needed_columns(spark.range(3)) is None
    assert needed_columns(spark.createDataFrame([(1, b"x")], "offset bigint, value binary")) is None


def test_a_stream_is_looked_at_too(spark: SparkSession) -> None:
    register(spark)
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "x"}
    stream = spark.readStream.format("kt").options(**options).load()
    assert needed_columns(stream.where("offset > 3").groupBy("key").count()) == {"key", "offset"}
