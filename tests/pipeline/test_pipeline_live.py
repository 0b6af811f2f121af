"""Queries on a live topic: filters, columns, errors in one line, and a stream that fails and goes on."""

from __future__ import annotations

import pathlib
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from support.embedded import embedded_broker
from support.raw_client import RawClient

from kafkatools.pipeline.run.session import plain_error, register
from kafkatools.pipeline.sources.spark_api import HAS_READ_LIMITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("queries"), auto_create_topics_enable="false") as bootstrap:
        yield bootstrap


@pytest.fixture
def topic(broker: str) -> str:
    """Two partitions of thirty records, a second apart from each other."""
    name = f"queries-{uuid.uuid4().hex[:8]}"
    with RawClient(broker) as client:
        client.create_topic(name, 2)
        for first in range(0, 30, 10):
            for partition in range(2):
                rows: Any = [(n * 1000, None, b"%d" % n, [("h", b"%d" % n)]) for n in range(first, first + 10)]
                client.produce_rows(name, partition, rows)
    return name


def test_filters_and_columns_give_what_spark_gives(spark: SparkSession, broker: str, topic: str) -> None:
    register(spark)
    source = spark.read.format("kt").options(**{"kafka.bootstrap.servers": broker, "subscribe": topic})
    every = source.option("includeHeaders", "true").load()
    wanted = "partition = 1 AND offset >= 5 AND timestamp < timestamp_seconds(12) AND offset <> 7"
    found = every.where(wanted).selectExpr("int(string(value))", "headers[0].value").collect()
    assert sorted((value, int(header)) for value, header in found) == [(n, n) for n in (5, 6, 8, 9, 10, 11)]
    few = source.schema("timestamp timestamp, OFFSET bigint").load()
    assert few.columns == ["timestamp", "OFFSET"]
    assert few.where("offset < 3").count() == 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "nowhere"}, "subscribe: topic nowhere does not exist"),
        ({"subscribePattern": "nowhere.*", "strictOptions": "true"}, "subscribePattern 'nowhere.*' matches no topic"),
        ({}, "One of the options subscribe, subscribePattern and assign is required"),
    ],
)
def test_what_is_wrong_is_one_line(spark: SparkSession, broker: str, options: dict[str, str], words: str) -> None:
    register(spark)
    with pytest.raises(Exception) as failed:  # noqa: PT011 - whatever PySpark makes of it
        spark.read.format("kt").options(**{"kafka.bootstrap.servers": broker, **options}).load().count()
    assert plain_error(failed.value) == words


def test_a_stream_that_fails_goes_on_where_it_was(
    spark: SparkSession, broker: str, topic: str, tmp_path: pathlib.Path
) -> None:
    register(spark)
    seen: dict[int, list[tuple[int, int]]] = {}

    def run(fails_at: int | None, start: str) -> None:
        def take(rows: DataFrame, batch: int) -> None:
            found = [(row["partition"], row["offset"]) for row in rows.collect()]
            if batch == fails_at:
                raise ValueError("told to fail")
            seen[batch] = found

        options = {"kafka.bootstrap.servers": broker, "subscribe": topic, "startingOffsets": start}
        stream = spark.readStream.format("kt").options(**options, maxOffsetsPerTrigger="40").load()
        writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    with pytest.raises(Exception, match="told to fail"):
        run(0, "earliest")
    with RawClient(broker) as client:
        client.produce_rows(topic, 0, [(1, None, b"later", ())] * 10)
    run(None, "latest")  # the first batch is run again: it began at the earliest offsets
    if not HAS_READ_LIMITS:
        run(None, "latest")
    assert {batch: len(rows) for batch, rows in seen.items()} == {0: 40, 1: 30}
    every = sorted(row for rows in seen.values() for row in rows)
    assert every == [(0, n) for n in range(40)] + [(1, n) for n in range(30)]
