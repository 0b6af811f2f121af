"""A scan of a log directory by `kafka-log` against Spark's own Kafka connector and Parquet, under PySpark 4.0.0.

10 M records of 100 B (KT_BENCH_RECORDS) in one partition of an Apache Kafka on this machine: the connector reads them
from the broker, `kafka-log` from the broker's own directory, Parquet (uncompressed, one column) from a copy. Every
query counts the records and adds up the lengths of their values, in a warm session with two cores; the sources are
read in turn and a figure is a ratio of medians. The limit is a Python data source that hands out the same Arrow batches
ready-made (`ready_batches`), as PySpark starts its workers. Then once more in a session that has one core of the
machine, with the headers alone, and with what its largest worker took of memory; and the first query of a new session
against the next one, with and without the archive of `kt pipeline prepare`.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.measure import ROUNDS, processor_seconds, report

_TESTS = pathlib.Path(__file__).parents[1] / "tests"
_RECORDS = int(os.environ.get("KT_BENCH_RECORDS", "10000000"))
_VALUE_BYTES = 100
_TOPIC = "records"
_CORES = 2
_MEMORY_MIB = 256
_TARGETS = {
    ("the column needed", "connector"): 6.0,
    ("the column needed", "connector at its best"): 5.0,
    ("all columns", "connector"): 5.0,
    ("all columns", "connector at its best"): 5.0,
}
_FIRST_TO_NEXT = 2.0
_QUERIES = 3
_COUNT_AND_SUM = ("count(*)", "sum(length(value))")
_READY = "ready-batches"
_LIMITS = {"the column needed": "value binary", "all columns": ""}
_LIMIT_RATIO = 1.15

Way = tuple[str, dict[str, str], str, tuple[str, ...]]
"""A source, its options, a schema where only some columns are wanted, and what is selected."""


def main() -> None:
    """Starts Apache Kafka, fills a topic and reports the figures."""
    sys.path.insert(0, str(_TESTS))
    from support.apache_kafka import ApacheKafka

    from benchmarks.pipeline_live import fill

    with tempfile.TemporaryDirectory() as directory:
        home = pathlib.Path(directory)
        cluster = ApacheKafka(home / "kafka", jvm=())
        cluster.start()
        try:
            fill(cluster.bootstrap, _TOPIC, _RECORDS)
            two = two_cores(cluster.bootstrap, cluster.log_dir() / f"{_TOPIC}-0", home)
        finally:
            cluster.stop()
        log = cluster.log_dir() / f"{_TOPIC}-0"
        one_core(log, home, two)
        new_sessions(log)


def two_cores(bootstrap: str, log: pathlib.Path, home: pathlib.Path) -> float:
    """The comparisons; the seconds of a scan of the column that is needed."""
    from support.official_spark import OfficialSpark

    live = {"kafka.bootstrap.servers": bootstrap, "subscribe": _TOPIC}
    path = {"path": str(log)}
    copy = str(home / "copy")
    limits = _ready_made(str(log), home)
    ways: dict[str, Way] = {
        "connector": ("kafka", live, "", _COUNT_AND_SUM),
        "connector at its best": ("kafka", {**live, "minPartitions": str(2 * _CORES)}, "", _COUNT_AND_SUM),
        "uncompressed Parquet": ("parquet", {"path": copy}, "", _COUNT_AND_SUM),
        "all columns": ("kafka-log", path, "", _COUNT_AND_SUM),
        "the column needed": ("kafka-log", path, "value binary", _COUNT_AND_SUM),
        **limits,
    }
    with OfficialSpark(home / "spark", f"local[{_CORES}]") as spark:
        spark.call(register_ready_made)
        spark.call(copy_values, path=str(log), target=copy)
        seconds, processor = medians(spark, ways)
    for ours, limit in zip(_LIMITS, limits, strict=True):
        _tell_limit(ours, (seconds[ours], seconds[limit]), (processor[ours], processor[limit]))
    for ours in ("all columns", "the column needed"):
        for peer in ("connector", "connector at its best", "uncompressed Parquet"):
            target = _TARGETS.get((ours, peer))
            _tell(f"log directory to count and sum, {ours}", seconds[peer] / seconds[ours], target, seconds[ours], peer)
    return seconds["the column needed"]


def one_core(log: pathlib.Path, home: pathlib.Path, two: float) -> None:
    """What a second core brings, and headers alone."""
    from support.official_spark import OfficialSpark

    size = sum(file.stat().st_size for file in log.glob("*.log"))
    headers = {"path": str(log), "table": "batches"}
    ways: dict[str, Way] = {
        "the column needed": ("kafka-log", {"path": str(log)}, "value binary", _COUNT_AND_SUM),
        "headers": ("kafka-log", headers, "count int, size int", ("sum(count)", "sum(size)")),
    }
    with _one_core_of_the_machine(), OfficialSpark(home / "spark1", "local[1]") as spark:
        seconds, _ = medians(spark, ways, sizes={"headers": size})
        peak = spark.call(worker_peak_mib)
    report("log directory, memory of a worker", ours_peak_mib=peak, limit_mib=_MEMORY_MIB, reached=peak < _MEMORY_MIB)
    _tell("log directory, 1 core to 2", seconds["the column needed"] / two, 1.7, two, "one core")
    speed = size / 1e9 / seconds["headers"]
    report(
        "log directory, headers alone on one core",
        gigabytes_a_second=round(speed, 2),
        target=1.0,
        reached=speed >= 1.0,
        ours_s=round(seconds["headers"], 2),
        rounds=ROUNDS,
    )


@contextlib.contextmanager
def _one_core_of_the_machine() -> Iterator[None]:
    """Processes that start within the block run on one core. A session with `local[1]` would use two: its JVM and its
    Python worker run side by side."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def new_sessions(log: pathlib.Path) -> None:
    """The first query of a session against the next one."""
    from support import spark_classes

    spark_classes.quick_options()  # makes the archive
    for archive, home in (("", str(log / "none")), (", with the archive of classes", str(spark_classes.CACHE))):
        environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "KT_HOME": home}
        runs = [_queries_of_a_session(log, environ) for _ in range(ROUNDS)]
        first, following = (statistics.median(run[number] for run in runs) for number in (0, 1))
        report(
            f"log directory to count and sum, first query of a session to the next{archive}",
            ratio=round(first / following, 2),
            at_most=_FIRST_TO_NEXT,
            reached=first / following <= _FIRST_TO_NEXT,
            first_s=round(first, 2),
            next_s=round(following, 2),
            session_s=round(statistics.median(run[-1] for run in runs), 2),
            records=_RECORDS,
            rounds=ROUNDS,
        )


def _queries_of_a_session(log: pathlib.Path, environ: Mapping[str, str]) -> list[float]:
    """The seconds of its queries, and last those in which the program opened it."""
    words = [sys.executable, "-m", "benchmarks.pipeline_scan", str(log)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"benchmark: a session ended with {done.returncode}: {done.stderr[-800:]}")
    return [float(line) for line in done.stdout.splitlines()]


def queries_of_a_session(log: str) -> None:
    """Open a session, and print the seconds of some queries and of the start."""
    from kafkatools.pipeline.run.session import open_session

    started = time.perf_counter()
    spark = open_session("first and next", f"local[{_CORES}]")
    took = time.perf_counter() - started
    for _ in range(_QUERIES):
        print(scan(spark, "kafka-log", {"path": log}, "value binary", list(_COUNT_AND_SUM))[0])
    print(took)
    spark.stop()


def _ready_made(log: str, home: pathlib.Path) -> dict[str, Way]:
    """Write the batches of the log, and return the limit of each of `_LIMITS`."""
    from benchmarks.ready_batches import write_batches
    from kafkatools.pipeline.sources.schema import RECORD_COLUMNS

    ways: dict[str, Way] = {}
    for way, schema in _LIMITS.items():
        place = home / way.replace(" ", "-")
        columns = [schema.partition(" ")[0]] if schema else [*RECORD_COLUMNS]
        write_batches(log, place, columns)
        text = ", ".join(f"{name} {RECORD_COLUMNS[name]}" for name in columns)
        ways[f"limit of {way}"] = (_READY, {"path": str(place), "columns": text}, "", _COUNT_AND_SUM)
    return ways


def _tell_limit(ours: str, seconds: tuple[float, float], processor: tuple[float, float]) -> None:
    ratio = seconds[0] / seconds[1]
    report(
        f"log directory to count and sum, {ours}, against ready-made batches",
        ours_to_limit=round(ratio, 2),
        at_most=_LIMIT_RATIO,
        reached=ratio <= _LIMIT_RATIO,
        ours_s=round(seconds[0], 2),
        limit_s=round(seconds[1], 2),
        processor_ours_to_limit=round(processor[0] / processor[1], 2),
        ours_processor_s=round(processor[0], 2),
        limit_processor_s=round(processor[1], 2),
        records=_RECORDS,
        rounds=ROUNDS,
    )


def medians(
    spark: Any, ways: Mapping[str, Way], sizes: Mapping[str, int] | None = None
) -> tuple[dict[str, float], dict[str, float]]:
    """The seconds, and the processor seconds of Spark and its workers, of each way, read in turn after a turn that
    warms up."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    processor: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(ROUNDS + 1):
        for way, (source, options, schema, select) in ways.items():
            before = processor_seconds()
            took, *found = spark.call(scan, source=source, options=options, schema=schema, select=list(select))
            expected = [_RECORDS, (sizes or {}).get(way, _RECORDS * _VALUE_BYTES)]
            if found != expected:
                raise SystemExit(f"benchmark: {way} gave {found}, not {expected}")
            if turn:
                seconds[way].append(took)
                processor[way].append(processor_seconds() - before)
    return _each_median(seconds), _each_median(processor)


def _each_median(figures: Mapping[str, list[float]]) -> dict[str, float]:
    return {way: statistics.median(times) for way, times in figures.items()}


def _tell(name: str, ratio: float, target: float | None, ours: float, peer: str) -> None:
    report(
        name,
        ratio=round(ratio, 2),
        target=target,
        reached=None if target is None else ratio >= target,
        ours_s=round(ours, 2),
        peer=peer,
        peer_s=round(ours * ratio, 2),
        records=_RECORDS,
        rounds=ROUNDS,
    )


# -- within Spark's process; their source is what travels --


def scan(spark: Any, source: str, options: dict[str, str], schema: str, select: list[str]) -> tuple[float, int, int]:
    """A query: seconds, and what it gave."""
    import time

    from kafkatools.pipeline.run.session import register

    if source != "ready-batches":
        register(spark)
    reader = spark.read.format(source).options(**options)
    frame = (reader.schema(schema) if schema else reader).load().selectExpr(*select)
    started = time.perf_counter()
    first, second = frame.collect()[0]
    return time.perf_counter() - started, first, second


def register_ready_made(spark: Any) -> None:
    """Registers the ready-made batches, whose workers start as PySpark starts them."""
    from benchmarks.ready_batches import ReadyBatches

    spark.dataSource.register(ReadyBatches)


def copy_values(spark: Any, path: str, target: str) -> None:
    """The values as Parquet, neither compressed nor encoded."""
    from kafkatools.pipeline.run.session import register

    register(spark)
    values = spark.read.format("kafka-log").schema("value binary").load(path)
    values.write.option("compression", "none").option("parquet.enable.dictionary", "false").parquet(target)


def worker_peak_mib(spark: Any) -> int:
    """The most memory that a Python worker of the session took."""
    import os
    import pathlib

    parents, peaks = {}, {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            lines = entry.read_text().splitlines()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        number = int(entry.parent.name)
        parents[number] = int(fields["PPid"])
        if fields["Name"].strip().startswith(("python", "pt_")):
            peaks[number] = int(fields.get("VmHWM", "0").split()[0]) // 1024

    def is_ours(number: int) -> bool:
        while number > 1 and number != os.getpid():
            number = parents.get(number, 0)
        return number == os.getpid()

    return max(peak for number, peak in peaks.items() if number != os.getpid() and is_ours(number))


if __name__ == "__main__":
    queries_of_a_session(sys.argv[1]) if len(sys.argv) > 1 else main()
