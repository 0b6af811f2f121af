"""Queries that the headers of batches answer, against decoding the records and Spark's own Kafka connector.

Records of 100 B (KT_BENCH_RECORDS, 10 M) in zstd batches, in one partition of an Apache Kafka on this machine.
`count(*)` and `max(offset)` from its log directory and from the live topic, by headers and with decodeRecords, and by
the connector, in a warm session of PySpark 4.0.0 with two cores. The sources are read in turn; a figure is a ratio of
medians, of the time and of the processor time of Spark and its workers.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

from benchmarks.measure import ROUNDS, report
from benchmarks.pipeline_scan import Way, medians

_TESTS = pathlib.Path(__file__).parents[1] / "tests"
_RECORDS = int(os.environ.get("KT_BENCH_RECORDS", "10000000"))
_TOPIC = "records"
_CORES = 2
_COUNT = ("count(*)", "min(partition)")
_COUNT_AND_END = ("count(*)", "max(offset)")
_QUERIES = {"count(*)": ("partition int", _COUNT), "max(offset)": ("offset bigint", _COUNT_AND_END)}


def main() -> None:
    """Starts Apache Kafka, fills a topic and reports the figures."""
    sys.path.insert(0, str(_TESTS))
    from support.apache_kafka import ApacheKafka
    from support.official_spark import OfficialSpark

    with tempfile.TemporaryDirectory() as directory:
        home = pathlib.Path(directory)
        cluster = ApacheKafka(home / "kafka", jvm=())
        cluster.start()
        try:
            _fill(cluster.bootstrap, home)
            ways = _ways(cluster.bootstrap, str(cluster.log_dir() / f"{_TOPIC}-0"))
            with OfficialSpark(home / "spark", f"local[{_CORES}]") as spark:
                sizes = {way: _RECORDS - 1 if "max" in way else 0 for way in ways}
                seconds, processor = medians(spark, ways, sizes)
        finally:
            cluster.stop()
    for query in _QUERIES:
        for source in ("log directory", "live topic"):
            ours = f"{source}, {query}, headers"
            for peer in (f"{source}, {query}, decoded", f"connector, {query}"):
                report(
                    f"{ours} against {peer}",
                    ratio=round(seconds[peer] / seconds[ours], 2),
                    processor_ratio=round(processor[peer] / processor[ours], 2),
                    ours_s=round(seconds[ours], 2),
                    ours_processor_s=round(processor[ours], 2),
                    peer_s=round(seconds[peer], 2),
                    peer_processor_s=round(processor[peer], 2),
                    records=_RECORDS,
                    rounds=ROUNDS,
                )


def _fill(bootstrap: str, home: pathlib.Path) -> None:
    """Write values of 100 B that compress to about a third."""
    lines = home / "lines"
    words = [
        f"{number * 2654435761 % 2**32:010d} order of a customer who {number % 977} times came back, " * 2
        for number in range(5000)
    ]
    lines.write_text("\n".join(word[:100] for word in words))
    kt = [sys.executable, "-m", "kafkatools"]
    where = ["--bootstrap-server", bootstrap, "--topic", _TOPIC]
    subprocess.run([*kt, "topics", "--create", *where, "--partitions", "1"], check=True, stdout=subprocess.DEVNULL)
    size = ["--num-records", str(_RECORDS), "--payload-file", str(lines), "--throughput", "-1"]
    codec = ["--command-property", "compression.type=zstd"]
    subprocess.run([*kt, "producer-perf-test", *where, *size, *codec], check=True, stdout=subprocess.DEVNULL)


def _ways(bootstrap: str, log: str) -> dict[str, Way]:
    live = {"kafka.bootstrap.servers": bootstrap, "subscribe": _TOPIC}
    decoded = {"decodeRecords": "true"}
    ways: dict[str, Way] = {}
    for query, (schema, select) in _QUERIES.items():
        for source, form, options in (("log directory", "kafka-log", {"path": log}), ("live topic", "kt", live)):
            ways[f"{source}, {query}, headers"] = (form, options, schema, select)
            ways[f"{source}, {query}, decoded"] = (form, {**options, **decoded}, schema, select)
        ways[f"connector, {query}"] = ("kafka", {**live, "minPartitions": str(2 * _CORES)}, "", select)
    return ways


if __name__ == "__main__":
    main()
