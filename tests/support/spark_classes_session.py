"""The session whose classes spark_classes archives: it does a little of what tests do, on LOG, and writes below OUT."""

from __future__ import annotations

import pathlib
import sys

from kafkatools.pipeline.run.session import open_session


def main(log: str, out: str) -> None:
    """Read, aggregate and write, in a batch and in a stream."""
    settings = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    spark = open_session("kafkatools tests", "local[2]", settings, is_verbose=True)
    spark.read.format("kafka-log").load(log).createOrReplaceTempView("input")
    spark.sql(
        "SELECT partition, count(*) AS n, max(timestamp) AS t, sum(length(value)) AS bytes FROM input "
        "WHERE offset >= 1 AND topic IS NOT NULL GROUP BY partition ORDER BY n DESC LIMIT 5"
    ).collect()
    rows = spark.table("input").selectExpr("partition", "offset", "CAST(value AS STRING) AS value")
    for kind in ("parquet", "json", "csv"):
        rows.write.partitionBy("partition").format(kind).save(f"{out}/{kind}")
        spark.read.format(kind).load(f"{out}/{kind}").count()
    lines = spark.createDataFrame([('{"a":1}',)], "line STRING")
    lines.selectExpr("from_json(line, 'a INT').a AS a", "to_json(struct(line)) AS b").join(rows, "a = offset").collect()
    stream = spark.readStream.schema("offset LONG, value STRING").json(f"{out}/json")
    writer = stream.writeStream.format("json").option("checkpointLocation", f"{out}/state")
    writer.trigger(availableNow=True).start(f"{out}/stream").awaitTermination()
    spark.stop()


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).mkdir()
    main(*sys.argv[1:])
