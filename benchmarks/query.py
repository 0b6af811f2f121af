"""`kt query` over a log directory against DuckDB over Parquet, and against Spark; memory, and the first row.

10 M records (KT_BENCH_RECORDS) with JSON values of 100 B in one partition, in batches of 16 KiB as of producers.
The Parquet copy of the values is neither compressed nor encoded. Each figure is a whole process, from its start to its
end: the shell, Python or the JVM included.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile

from benchmarks.measure import Work, at_most, compare, report, run

_RECORDS = int(os.environ.get("KT_BENCH_RECORDS", "10000000"))
_BATCH_RECORDS = 140
_FIRST_MS = 1_700_000_000_000
_COUNT_AND_SUM = "SELECT count(*), sum(length(value)) FROM {}"
_MEMORY_MIB = 300


def main() -> None:
    """Writes the log and its copy as Parquet, and reports the figures."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("KT_BENCH_DIR")) as directory:
        home = pathlib.Path(directory)
        log, copy = home / "orders-0", home / "copy.parquet"
        write_log(log)
        write_copy(log, copy)
        first_row(log)
        against_parquet(log, copy)
        if os.environ.get("JAVA_HOME"):
            against_spark(log)


def write_log(path: pathlib.Path, records: int = _RECORDS) -> None:
    """Segments of 256 MiB with records of a user, an amount and a status."""
    from kafkatools.core.log.partition.log_config import LogConfig
    from kafkatools.core.log.partition.partition_log import PartitionLog
    from kafkatools.core.records.builder import BatchBuilder

    path.mkdir()
    log = PartitionLog.open(str(path), LogConfig.from_values({"segment.bytes": 1 << 28}), now_ms=_FIRST_MS)
    for first in range(0, records, _BATCH_RECORDS):
        builder = BatchBuilder(1 << 20)
        for number in range(first, min(first + _BATCH_RECORDS, records)):
            value = b'{"user":"u%05d","amount":%d,"number":%d}' % (number % 50_000, number % 1000, number)
            builder.append(_FIRST_MS + number, b"k%05d" % (number % 50_000), value.ljust(100))
        log.append_as_leader(memoryview(bytearray(builder.close())), leader_epoch=0, now_ms=_FIRST_MS + first)
    log.flush()
    log.close()


def write_copy(log: pathlib.Path, copy: pathlib.Path) -> None:
    """The values as Parquet."""
    import pyarrow.parquet as parquet

    from kafkatools.pipeline.scan.plans import ScanPlan
    from kafkatools.pipeline.scan.scan import Scan
    from kafkatools.pipeline.uris import Uri

    plan = ScanPlan(Uri("log", str(log)), ("value",), types={"value": "string"})
    with parquet.ParquetWriter(copy, plan.schema, compression="none", use_dictionary=False) as writer:
        for batch in Scan(plan):
            writer.write_batch(batch)


def first_row(log: pathlib.Path) -> None:
    """The time to the first row."""
    at_most("kt query, first row of a log", Work(_kt(f"SELECT * FROM 'log:{log}' LIMIT 1")), limit_s=0.3)


def against_parquet(log: pathlib.Path, copy: pathlib.Path) -> None:
    """Count and sum of lengths: at most 1.5 times as long as DuckDB over the copy."""
    code = f"import duckdb; print(duckdb.sql({_COUNT_AND_SUM.format(repr(str(copy)))!r}).fetchall())"
    ours = Work(_kt(_COUNT_AND_SUM.format(f"'log:{log}'")))
    compare("kt query, count and sum", ours, Work([sys.executable, "-c", code]), "DuckDB over Parquet", target=0.67,
            records=_RECORDS)  # fmt: skip
    peak = run(ours).peak_bytes >> 20
    report("kt query, memory", ours_peak_mib=peak, limit_mib=_MEMORY_MIB, reached=peak < _MEMORY_MIB)


def against_spark(log: pathlib.Path) -> None:
    """The same query by `kt pipeline run`: ten times faster."""
    spark = ["--from", f"log:{log}", "--to", "console:", "--sql", _COUNT_AND_SUM.format("input")]
    peer = Work([sys.executable, "-m", "kafkatools", "pipeline", "run", *spark])
    ours = Work(_kt(_COUNT_AND_SUM.format(f"'log:{log}'")))
    compare("kt query, count and sum from start to end", ours, peer, "Spark pipeline", target=10, rounds=3,
            records=_RECORDS)  # fmt: skip


def _kt(sql: str) -> list[str]:
    return [sys.executable, "-m", "kafkatools", "query", sql]


if __name__ == "__main__":
    main()
