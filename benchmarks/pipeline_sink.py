"""A batch write to a topic by `kt` against Spark's own Kafka connector, both under PySpark 4.0.0 in a warm session.

1 M rows of 100 B (KT_BENCH_ROWS) from as many tasks as there are cores, into one partition of an Apache Kafka on this
machine: values alone, and values with keys. The sinks write in turn; a figure is a ratio of medians (above 1: `kt` is
faster). The limit is a sink in Python that drops its rows.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import sys
import tempfile
from typing import Any

from benchmarks import peers
from benchmarks.measure import ROUNDS, processor_seconds, report

_TESTS = pathlib.Path(__file__).parents[1] / "tests"
_ROWS = int(os.environ.get("KT_BENCH_ROWS", "1000000"))
_WAYS = {"connector": "kafka", "kt": "kt", "limit": "dropped-rows"}
_TARGET = 2.0
_QUERIES = {
    "values": ("rpad(cast(id as string), 100, 'x') as value",),
    "keys and values": ("rpad(cast(id as string), 100, 'x') as value", "cast(id % 100000 as string) as key"),
}


def main() -> None:
    """Starts Apache Kafka and reports the figures."""
    sys.path.insert(0, str(_TESTS))
    from support.apache_kafka import ApacheKafka
    from support.official_spark import OfficialSpark

    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as directory:
        cluster = ApacheKafka(pathlib.Path(directory) / "kafka", jvm=())
        cluster.start()
        try:
            with OfficialSpark(pathlib.Path(directory) / "spark", f"local[{cores}]") as spark:
                for name, columns in _QUERIES.items():
                    compare(spark, cluster.bootstrap, name, columns)
        finally:
            cluster.stop()


def compare(spark: Any, bootstrap: str, name: str, columns: tuple[str, ...]) -> None:
    """Writes by each way in turn and reports."""
    seconds: dict[str, list[float]] = {way: [] for way in _WAYS}
    processor: dict[str, list[float]] = {way: [] for way in _WAYS}
    for turn in range(ROUNDS + 1):
        for way, sink in _WAYS.items():
            topic = f"{way}-{turn}-{len(columns)}"
            peers.create_topic(bootstrap, topic)
            before = processor_seconds(spark.pid)
            took = spark.call(write, sink=sink, bootstrap=bootstrap, topic=topic, columns=list(columns), rows=_ROWS)
            if turn:  # the first turn warms up
                seconds[way].append(took)
                processor[way].append(processor_seconds(spark.pid) - before)
    took_s, used_s = ({way: statistics.median(values) for way, values in of.items()} for of in (seconds, processor))
    report(
        f"batch write of {name}",
        ratio=round(took_s["connector"] / took_s["kt"], 2),
        target=_TARGET,
        reached=took_s["connector"] / took_s["kt"] >= _TARGET,
        ours_s=round(took_s["kt"], 2),
        peer="connector",
        peer_s=round(took_s["connector"], 2),
        limit_s=round(took_s["limit"], 2),
        processor_ratio=round(used_s["connector"] / used_s["kt"], 2),
        ours_processor_s=round(used_s["kt"], 2),
        peer_processor_s=round(used_s["connector"], 2),
        limit_processor_s=round(used_s["limit"], 2),
        rows=_ROWS,
        rounds=ROUNDS,
    )


def write(spark: Any, sink: str, bootstrap: str, topic: str, columns: list[str], rows: int) -> float:
    """Runs within Spark's process: seconds."""
    import time

    if sink == "kt":
        from kafkatools.pipeline.run.session import register

        register(spark)
    elif sink == "dropped-rows":
        from benchmarks.dropped_rows import DroppedRows

        spark.dataSource.register(DroppedRows)
    frame = spark.range(rows).selectExpr(*columns)
    started = time.perf_counter()
    frame.write.format(sink).options(**{"kafka.bootstrap.servers": bootstrap, "topic": topic}).mode("append").save()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
