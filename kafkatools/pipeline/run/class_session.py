"""The session whose classes `class_archive` archives: `python -m kafkatools.pipeline.run.class_session JAVA_OPTIONS
BOOTSTRAP TOPIC LOG OUT`.

It does once what pipelines do: reads a topic and log files, aggregates, joins, decodes JSON, and writes files, a topic
and a stream.
"""

from __future__ import annotations

import sys

from kafkatools.pipeline.run.session import open_session, plain_error


def main(java_options: str, bootstrap: str, topic: str, log: str, out: str) -> None:
    """Read the topic and its partition directory `log`; write below the directory `out`, and to the topic."""
    settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.extraJavaOptions": java_options}
    spark = open_session("kt pipeline prepare", "local[2]", settings, is_verbose=True)
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
    spark.stop()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:  # noqa: BLE001 - whatever Spark raises, in one line
        raise SystemExit(plain_error(error)) from None
