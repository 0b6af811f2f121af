"""`kafka-log` in a session: SQL over a log directory, splits on both cores, filters and columns, damage, messages."""

from __future__ import annotations

import pathlib
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from support.recorded_segments import log_directory

pytest.importorskip("pyspark", reason="PySpark is not installed")

from support.file_batches import read_file_batches

from kafkatools.pipeline.run.reports import read_reports
from kafkatools.pipeline.run.session import plain_error, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """A log directory with three partitions of two topics."""
    for name, partition in (("multi-segment", "ledger-0"), ("txn-java", "transfers-0"), ("plain-java", "transfers-1")):
        shutil.copytree(log_directory(name), tmp_path / "logs" / partition)
    return tmp_path / "logs"


def load(spark: SparkSession, path: pathlib.Path, schema: str | None = None, **options: str) -> DataFrame:
    register(spark)
    reader = spark.read.format("kafka-log").options(**options)
    return (reader.schema(schema) if schema else reader).load(str(path))


def test_sql_over_a_log_directory(spark: SparkSession, root: pathlib.Path) -> None:
    load(spark, root, includeMetadata="true").createOrReplaceTempView("input")
    found = spark.sql(
        "select topic, partition, count(*) n, min(offset), max(offset), count(distinct producerId) > 1 "
        "from input group by topic, partition order by 1, 2"
    ).collect()
    assert [tuple(row) for row in found] == [
        ("ledger", 0, 1197, 0, 1196, False), ("transfers", 0, 67, 0, 77, True), ("transfers", 1, 118, 0, 117, False),
    ]  # fmt: skip
    states = spark.sql("select transaction, count(*) from input where transaction is not null group by 1").collect()
    committed = load(spark, root, subscribe="transfers", isolationLevel="read_committed").where("partition = 0").count()
    open_or_aborted = sum(count for state, count in states if state != "committed")
    assert {state for state, _ in states} == {"open", "committed", "aborted"}
    assert committed <= 67 - open_or_aborted


def test_a_segment_is_read_by_several_tasks_and_every_record_once(
    spark: SparkSession, root: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    segment = sorted((root / "ledger-0").glob("*.log"))[0]
    frame = load(spark, segment, "offset bigint", minPartitions="4", reportPath=str(tmp_path / "reports"))
    assert frame.rdd.getNumPartitions() >= 4
    offsets = sorted(row.offset for row in frame.collect())
    want = [record.offset for batch in read_file_batches(segment.read_bytes()) for record in batch.columns()]
    assert offsets == want
    reports = list(read_reports(str(tmp_path / "reports")))
    assert len(reports) >= 4
    assert sum(report.records for report in reports) == len(want)
    assert sum(report.batches for report in reports) == len(list(read_file_batches(segment.read_bytes())))


@pytest.mark.parametrize("pushes", [False, True])
def test_filters_give_exactly_their_rows(spark: SparkSession, root: pathlib.Path, pushes: bool) -> None:
    frame = load(spark, root)
    every = frame.select("topic", "partition", "offset", "timestamp").collect()
    middle = sorted(row.timestamp for row in every)[len(every) // 2]
    for condition, wanted in (
        ("topic = 'ledger' and offset >= 150 and offset < 320", lambda row: row[0] == "ledger" and 150 <= row[2] < 320),
        ("partition = 1", lambda row: row[1] == 1),
        (f"timestamp > timestamp'{middle}'", lambda row: row[3] > middle),
        ("offset = 7 or partition = 1", lambda row: row[2] == 7 or row[1] == 1),
    ):
        source = load(spark, root, pushFilters="true") if pushes else frame
        found = source.where(condition).select("topic", "partition", "offset", "timestamp").collect()
        assert sorted(found) == sorted(row for row in every if wanted(row))


def test_branches_of_a_query_do_not_share_their_filters(spark: SparkSession, root: pathlib.Path) -> None:
    frame = load(spark, root / "ledger-0", "offset bigint")
    low, high = frame.where("offset < 10"), frame.where("offset >= 1190")
    assert low.unionAll(high).unionAll(frame.where("offset % 2 = 0")).count() == 10 + 7 + 599
    assert (low.count(), frame.count()) == (10, 1197)


def test_damage_is_a_table_and_strict_is_an_error(spark: SparkSession, root: pathlib.Path) -> None:
    file = sorted((root / "ledger-0").glob("*.log"))[2]
    data = bytearray(file.read_bytes())
    batch = list(read_file_batches(data))[4]
    data[batch.position + 70] ^= 1
    file.write_bytes(data)
    rows = load(spark, root, table="errors").select("topic", "position", "length", "kind").collect()
    assert [tuple(row) for row in rows] == [("ledger", batch.position, batch.size_bytes, "checksum")]
    assert load(spark, root, "offset bigint", subscribe="ledger").count() == 1197 - batch.record_count
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever Spark wraps it in
        load(spark, root, "offset bigint", subscribe="ledger", strict="true").count()
    assert plain_error(raised.value).startswith(f"{file} at byte {batch.position}: Record is corrupt (stored crc = ")


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("nowhere", {}, "nowhere does not exist"),
        ("", {"subscribe": "leger"}, "leger not found in"),
        (
            "",
            {"startingOfsets": "earliest"},
            "kafka-log has no option startingofsets for reading; did you mean startingOffsets?",
        ),
    ],
)
def test_what_is_refused_is_one_clear_line(
    spark: SparkSession, root: pathlib.Path, path: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever Spark wraps it in
        load(spark, root / path, **options).count()
    text = plain_error(raised.value)
    assert message in text and "\n" not in text
