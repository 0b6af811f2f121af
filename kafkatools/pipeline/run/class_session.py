"""The session whose classes `class_archive` archives: `python -m kafkatools.pipeline.run.class_session JAVA_OPTIONS
BOOTSTRAP TOPIC LOG OUT`.

It does once what pipelines do: reads a topic and log files, aggregates, joins, decodes JSON, and writes files, a topic
and a stream. It ends after its JVM, which writes the archive at its end. After an error, Ctrl-C or SIGTERM it kills the
JVM, so that nothing writes an archive.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

from kafkatools.pipeline.run.session import kill_group, open_session, plain_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(java_options: str, bootstrap: str, topic: str, log: str, out: str) -> None:
    """Run the session with these options of Java, and wait for the end of its JVM."""
    settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.extraJavaOptions": java_options}
    spark = open_session("kt pipeline prepare", "local[2]", settings, is_verbose=True)
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    java = gateway.proc
    try:
        use(spark, bootstrap, topic, log, out)
        spark.stop()
        java.stdin.close()
        status = java.wait()
    except BaseException:
        kill_group(java)
        raise
    if status:
        raise SystemExit(f"Java ended with status {status}")


def use(spark: SparkSession, bootstrap: str, topic: str, log: str, out: str) -> None:
    """Read the topic and its partition directory `log`; write below the directory `out`, and to the topic."""
    cluster = {"kafka.bootstrap.servers": bootstrap}
    spark.read.format("kt").options(**cluster).option("subscribe", topic).load().createOrReplaceTempView("topic")
    spark.read.format("kafka-log").load(log).createOrReplaceTempView("input")
    for table in ("topic", "input"):
        spark.sql(
            "SELECT partition, count(*) AS n, max(timestamp) AS t, sum(length(value)) AS bytes "
            f"FROM {table} WHERE offset >= 1 AND topic IS NOT NULL GROUP BY partition ORDER BY n DESC LIMIT 5"
        ).collect()
    rows = spark.table("input").selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
    for kind in ("parquet", "json", "csv"):
        rows.write.partitionBy("partition").format(kind).save(f"{out}/{kind}")
        spark.read.format(kind).load(f"{out}/{kind}").count()
    lines = spark.createDataFrame([('{"a":1}',)], "line STRING")
    texts = lines.selectExpr("from_json(line, 'a LONG').a AS offset", "to_json(struct(line)) AS text")
    texts.join(rows, "offset").collect()
    spark.table("topic").select("key", "value").limit(1).write.format("kt").options(**cluster, topic=topic).save()
    stream = spark.readStream.format("kt").options(**cluster).option("subscribe", topic)
    writer = stream.option("startingOffsets", "earliest").load().selectExpr("CAST(value AS STRING)").writeStream
    writer = writer.format("json").option("checkpointLocation", f"{out}/state").trigger(availableNow=True)
    writer.start(f"{out}/stream").awaitTermination()


def interrupt(number: int, frame: FrameType | None) -> None:
    """Handle SIGTERM as Ctrl-C."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    try:
        main(*sys.argv[1:])
    except Exception as error:  # noqa: BLE001 - whatever Spark raises, in one line
        raise SystemExit(plain_error(error)) from None
