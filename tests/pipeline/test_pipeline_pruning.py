"""SQL over records makes the columns that it uses, and no query becomes another one by that."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import pytest
from support.log_batches import make_batch, set_crc
from support.pruning_cases import CASES, EVERYTHING, run
from support.recorded_logs import unpack_log

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.batch import columns_schema, run_batch
from kafkatools.pipeline.run.session import register
from kafkatools.pipeline.run.spec import pipeline_from
from kafkatools.pipeline.sources.log.options import read_options
from kafkatools.pipeline.sources.log.source import LogReader
from kafkatools.pipeline.sources.pruning import Needs, needs_of, prune
from kafkatools.pipeline.sources.record_bounds import RecordBounds
from kafkatools.pipeline.sources.schema import spark_schema

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
    assert prune(everything, make) is everything

    def fail(needs: Needs) -> DataFrame:
        table(spark, path, "value binary").createOrReplaceTempView("input")
        return spark.sql(statement)

    assert prune(everything, fail) is everything


def test_a_query_without_these_sources_needs_nothing_of_them(spark: SparkSession) -> None:
    assert needs_of(spark.range(3)) is None
    assert needs_of(spark.createDataFrame([(1, b"x")], "offset bigint, value binary")) is None


def test_a_stream_is_looked_at_too(spark: SparkSession) -> None:
    register(spark)
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "x"}
    stream = spark.readStream.format("kt").options(**options).load()
    needs = needs_of(stream.where("offset > 3").groupBy("key").count())
    assert needs is not None and needs.columns == {"key", "offset"}


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        ("SELECT value FROM input", ["value"]),
        ("SELECT cast(key AS string) AS k, count(*) FROM input WHERE offset > 3 GROUP BY 1", ["key", "offset"]),
        ("SELECT upper(topic) FROM input WHERE length(value) > 2 AND partition < 7", ["value", "topic", "partition"]),
        ("SELECT count(*) FROM input", ["partition"]),
        ("SELECT * FROM input", None),
    ],
)
def test_a_stream_makes_the_columns_of_its_query(
    spark: SparkSession, statement: str, columns: list[str] | None
) -> None:
    register(spark)
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "x"}

    def make(needs: Needs | None) -> DataFrame:
        reader = spark.readStream.format("kt").options(**options)
        reader = reader if needs is None else reader.schema(columns_schema(needs.columns))
        reader.load().createOrReplaceTempView("input")
        return spark.sql(statement)

    everything = make(None)
    pruned = prune(everything, make)
    if columns is None:
        assert pruned is everything
        return
    (leaf,) = _leaves(pruned)
    assert leaf == columns
    assert prune(everything, lambda needs: make(needs).selectExpr("*", "1 AS one")) is everything


def _leaves(frame: DataFrame) -> list[list[str]]:
    """The columns of each source in the analyzed plan of a query."""
    leaves: Any = frame._jdf.queryExecution().analyzed().collectLeaves()
    plans = [leaves.apply(index) for index in range(leaves.size())]
    return [[plan.output().apply(index).name() for index in range(plan.output().size())] for plan in plans]


def test_a_query_that_headers_answer_decodes_no_records(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """Records that no decoder reads, below a valid checksum, show whether they were decoded."""
    directory = tmp_path / "orders-0"
    directory.mkdir()
    batches = [make_batch([b"a", b"b", b"c"], base_offset=start) for start in (0, 3, 6)]
    for batch in batches:
        batch[61:] = b"\xff" * len(batch[61:])
        set_crc(batch)
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))

    def rows(sql: str, **options: str) -> list[tuple[int, ...]]:
        register(spark)
        found: list[tuple[int, ...]] = []
        values = {"from": f"log:{tmp_path}", "from-option": options, "sql": sql, "to": "console:"}
        result = run_batch(
            spark, pipeline_from(values, {}), lambda table: found.extend(map(tuple, table.collect())) or 1
        )
        assert result.damage_count == (3 if options or "value" in sql else 0)
        return found

    assert rows("SELECT count(*) FROM input") == [(9,)]
    assert rows("SELECT count(*), min(offset), max(offset) FROM input WHERE offset > 1") == [(7, 2, 8)]
    assert rows("SELECT count(*) FROM input", decodeRecords="true") == [(0,)]
    assert rows("SELECT count(value) FROM input") == [(0,)]


def test_bounds_from_a_plan_narrow_what_is_read(path: str) -> None:
    """What PySpark 4.0 is given in place of filters; no session is needed for that."""
    bounds = RecordBounds(partitions=frozenset({0}), start_offset=20, end_offset=50)
    reader = LogReader(read_options({"path": path, "bounds": bounds.to_text()}), spark_schema(False, False))
    offsets = [
        each for task in reader.partitions() for batch in reader.read(task) for each in batch["offset"].to_pylist()
    ]
    assert offsets
    assert set(offsets) <= set(range(20, 50))
    elsewhere = RecordBounds(partitions=frozenset({1}))
    assert not LogReader(
        read_options({"path": path, "bounds": elsewhere.to_text()}), spark_schema(False, False)
    ).partitions()
    with pytest.raises(PipelineError, match="^Invalid bounds 7: the option is for kt pipeline only$"):
        read_options({"path": path, "bounds": "7"})
