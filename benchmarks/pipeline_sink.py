"""A batch write to a topic by `kt` against Spark's own Kafka connector, both under PySpark 4.0.0 in a warm session.

1 M rows of 100 B (KT_BENCH_ROWS) from as many tasks as there are cores, into one partition of an Apache Kafka on this
machine: values alone, and values with keys. The sinks write in turn; a figure is a ratio of medians (above 1: `kt` is
faster).
"""

from __future__ import annotations

import os
import pathlib
import statistics
import sys
import tempfile
from typing import Any

from benchmarks import peers
from benchmarks.measure import ROUNDS, report

_TESTS = pathlib.Path(__file__).parents[1] / "tests"
_ROWS = int(os.environ.get("KT_BENCH_ROWS", "1000000"))
_WAYS = {"connector": "kafka", "kt": "kt"}
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
    for turn in range(ROUNDS + 1):
        for way, sink in _WAYS.items():
            topic = f"{way}-{turn}-{len(columns)}"
            peers.create_topic(bootstrap, topic)
            took = spark.call(write, sink=sink, bootstrap=bootstrap, topic=topic, columns=list(columns), rows=_ROWS)
            if turn:  # the first turn warms up
                seconds[way].append(took)
    ours, peer = (statistics.median(seconds[way]) for way in ("kt", "connector"))
    report(
        f"batch write of {name}",
        ratio=round(peer / ours, 2),
        target=1.0,
        reached=peer / ours >= 1.0,
        ours_s=round(ours, 2),
        peer="connector",
        peer_s=round(peer, 2),
        rows=_ROWS,
        rounds=ROUNDS,
    )


def write(spark: Any, sink: str, bootstrap: str, topic: str, columns: list[str], rows: int) -> float:
    """Runs within Spark's process: seconds."""
    import time

    if sink != "kafka":
        from kafkatools.pipeline.run.session import register

        register(spark)
    frame = spark.range(rows).selectExpr(*columns)
    started = time.perf_counter()
    frame.write.format(sink).options(**{"kafka.bootstrap.servers": bootstrap, "topic": topic}).mode("append").save()
    return time.perf_counter() - started
