"""What has to work under each version of PySpark and Python: `make test-spark-matrix` runs it in all of them."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from support.embedded import embedded_broker
from support.kt import run_kt
from support.pruning_cases import CASES, run
from support.recorded_logs import unpack_log

from kafkatools import Consumer, Producer
from kafkatools.pipeline.run.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PRUNED = "SELECT value FROM input WHERE 4 < offset AND partition IN (0, 3) AND topic = 'log' AND offset <= 40"
ROWS, MORE = 300, 50


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = open_session("matrix", "local[2]", {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with the topic `source`."""
    with embedded_broker(tmp_path_factory.mktemp("broker")) as bootstrap:
        send(bootstrap, "source", range(ROWS))
        yield bootstrap


def send(bootstrap: str, topic: str, numbers: range) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in numbers:
            producer.send(topic, b"value %d" % number, key=b"key %d" % (number % 10))


def committed(bootstrap: str, topic: str) -> list[bytes | None]:
    values: list[bytes | None] = []
    with Consumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([(topic, 0)])
        (end,) = consumer.end_offsets([(topic, 0)]).values()
        while consumer.position((topic, 0)) < end:
            values += [record.value for record in consumer.poll(1000)]
    return values


def kt(*words: str) -> str:
    ran = run_kt("pipeline", *words)
    assert ran.status == 0, ran.err
    return ran.out


def test_files_of_a_log_with_pruned_columns_and_bounds(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    (told,) = run(spark, str(unpack_log("txn-java", tmp_path)), [PRUNED])
    columns, bounds = CASES[PRUNED]
    assert told == {"columns": columns, "bounds": bounds, "is_pruned": True, "is_same": True}


def test_a_topic_as_a_table_and_written_exactly_once(spark: SparkSession, broker: str) -> None:
    table = spark.read.format("kt").option("kafka.bootstrap.servers", broker).option("subscribe", "source").load()
    assert table.where("offset >= 100").selectExpr("count(DISTINCT offset)").first()[0] == ROWS - 100
    rows = table.where("offset < 100").select("key", "value")
    rows.write.format("kt").options(
        **{"kafka.bootstrap.servers": broker, "topic": "copy", "exactlyOnce": "true"}
    ).save()
    assert sorted(committed(broker, "copy")) == sorted(b"value %d" % number for number in range(100))


def test_a_stream_exactly_once_also_after_it_ended(spark: SparkSession, broker: str, tmp_path: pathlib.Path) -> None:
    options = {"kafka.bootstrap.servers": broker, "subscribe": "growing", "startingOffsets": "earliest"}
    for sent, rows in ((0, ROWS), (ROWS, ROWS + MORE)):
        send(broker, "growing", range(sent, rows))
        stream = spark.readStream.format("kt").schema("offset bigint, value binary").options(**options).load()
        query = (
            stream.select("value")
            .writeStream.format("kt")
            .options(**{"kafka.bootstrap.servers": broker, "topic": "streamed", "checkpointLocation": str(tmp_path)})
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        assert committed(broker, "streamed") == [b"value %d" % number for number in range(rows)]


def test_the_jobs_count_and_export(spark: SparkSession, broker: str, tmp_path: pathlib.Path) -> None:
    import pyarrow.parquet

    log = f"log:{unpack_log('codec-lz4-java', tmp_path)}"
    (counted,) = map(json.loads, kt("count", log, "--exact", "--json").splitlines())
    target = tmp_path / "exported"
    kt("export", log, "--to", f"parquet:{target}")
    assert pyarrow.parquet.read_table(target).num_rows == counted["records"] > 0
