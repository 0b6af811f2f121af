"""A streaming query from one topic to another, as a process that a test kills: arguments are the address, the two
topics, the checkpoint, the records of an epoch, and `once` for a query that ends with what is there."""

from __future__ import annotations

import sys

from kafkatools.pipeline.run.session import open_session

SETTINGS = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


def main(bootstrap: str, source: str, sink: str, checkpoint: str, records: str, how: str) -> None:
    spark = open_session("kafkatools tests", "local[2]", SETTINGS)
    cluster = {"kafka.bootstrap.servers": bootstrap}
    stream = spark.readStream.format("kt").options(**cluster).option("subscribe", source)
    rows = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", records).load()
    writer = rows.select("key", "value").writeStream.format("kt").options(**cluster)
    writer = writer.option("topic", sink).option("checkpointLocation", checkpoint)
    writer = writer.trigger(availableNow=True) if how == "once" else writer.trigger(processingTime="0 seconds")
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
