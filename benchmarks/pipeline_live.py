"""A batch read of a live topic by `kt` against Spark's own Kafka connector, both under PySpark 4.0.0 in a warm session.

10 M records of 100 B (KT_BENCH_RECORDS) in one partition of an Apache Kafka on this machine; the query counts them and
adds up the lengths of their values. `kt` with all its columns and with the one that the query needs; the connector as
it is and at its best (minPartitions = 2 x cores). The sources are read in turn; a figure is a ratio of medians.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.measure import ROUNDS, report

_TESTS = pathlib.Path(__file__).parents[1] / "tests"
_RECORDS = int(os.environ.get("KT_BENCH_RECORDS", "10000000"))
_VALUE_BYTES = 100
_TOPIC = "records"


def main() -> None:
    """Starts Apache Kafka, fills a topic and reports the figures."""
    sys.path.insert(0, str(_TESTS))
    from support.apache_kafka import ApacheKafka

    with tempfile.TemporaryDirectory() as directory:
        cluster = ApacheKafka(pathlib.Path(directory) / "kafka", jvm=())
        cluster.start()
        try:
            fill(cluster.bootstrap, _TOPIC, _RECORDS)
            compare(cluster.bootstrap, _TOPIC, _RECORDS, pathlib.Path(directory) / "spark")
        finally:
            cluster.stop()


def fill(bootstrap: str, topic: str, records: int) -> None:
    """Makes the topic and writes the records."""
    kt = [sys.executable, "-m", "kafkatools"]
    where = ["--bootstrap-server", bootstrap, "--topic", topic]
    subprocess.run([*kt, "topics", "--create", *where, "--partitions", "1"], check=True, stdout=subprocess.DEVNULL)
    size = ["--num-records", str(records), "--record-size", str(_VALUE_BYTES), "--throughput", "-1"]
    subprocess.run([*kt, "producer-perf-test", *where, *size], check=True, stdout=subprocess.DEVNULL)


def compare(bootstrap: str, topic: str, records: int, directory: pathlib.Path, rounds: int = ROUNDS) -> None:
    """Reads the topic by each way in turn and reports."""
    from support.official_spark import OfficialSpark

    cores = os.cpu_count() or 1
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    ways: dict[str, tuple[str, dict[str, str], str]] = {
        "connector": ("kafka", options, ""),
        "connector at its best": ("kafka", {**options, "minPartitions": str(2 * cores)}, ""),
        "kt, all columns": ("kt", options, ""),
        "kt, the column needed": ("kt", options, "value binary"),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    with OfficialSpark(directory, f"local[{cores}]") as spark:
        for turn in range(rounds + 1):
            for way, (source, given, schema) in ways.items():
                took, count, size = spark.call(scan, source=source, options=given, schema=schema)
                if (count, size) != (records, records * _VALUE_BYTES):
                    raise SystemExit(f"benchmark: {way} read {count} records with {size} bytes")
                if turn:  # the first turn warms up
                    seconds[way].append(took)
    medians = {way: statistics.median(times) for way, times in seconds.items()}
    for ours in ("kt, all columns", "kt, the column needed"):
        for peer, target in (("connector", 6.0), ("connector at its best", 1.0)):
            ratio = medians[peer] / medians[ours]
            report(
                f"live topic to count and sum, {ours}",
                ratio=round(ratio, 2),
                target=target,
                reached=ratio >= target,
                ours_s=round(medians[ours], 2),
                peer=peer,
                peer_s=round(medians[peer], 2),
                records=records,
                rounds=rounds,
            )


def scan(spark: Any, source: str, options: dict[str, str], schema: str) -> tuple[float, int, int]:
    """Runs within Spark's process: seconds, records, bytes of values."""
    import time

    if source != "kafka":
        from kafkatools.pipeline.run.session import register

        register(spark)
    reader = spark.read.format(source).options(**options)
    frame = (reader.schema(schema) if schema else reader).load().selectExpr("count(*)", "sum(length(value))")
    started = time.perf_counter()
    count, size = frame.collect()[0]
    return time.perf_counter() - started, count, size
