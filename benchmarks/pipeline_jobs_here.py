"""Profile and forecasts in this process against the same jobs on Spark: whole commands over 1 GiB of log files.

KT_BENCH_LOG_MB (1024) of uncompressed batches of records with values of 100 B, in four segments and an active one, in
the page cache. Each key has several records; with KT_BENCH_KEYS=unique none has. KT_BENCH_SPARK=0 leaves Spark out.
"""

from __future__ import annotations

import os
import pathlib
import struct

from benchmarks import measure, peers

_SIZE = int(os.environ.get("KT_BENCH_LOG_MB", "1024")) << 20
_HAS_UNIQUE_KEYS = os.environ.get("KT_BENCH_KEYS") == "unique"
_WITH_SPARK = os.environ.get("KT_BENCH_SPARK", "1") != "0"
_LIMIT_MIB = 300
_RECORDS, _BATCHES = 1000, 1000
_START_MS = 1_700_000_000_000


def main() -> None:
    """Writes the log and reports time and peak memory of each job on both engines."""
    with peers.scratch() as directory:
        log = directory / "profiles-0"
        write_log(log)
        page = str(directory / "page.html")
        for words in (
            ("topic-profile", f"log:{log}", "--out", page),
            ("topic-profile", f"log:{log}", "--out", page, "--no-keys"),
            ("retention-forecast", str(log)),
            ("compact-forecast", str(log)),
        ):
            here = min((_run(words) for _ in range(measure.ROUNDS)), key=lambda run: run.wall_s)
            peak = here.peak_bytes >> 20
            figures = {"seconds": round(here.wall_s, 2), "cpu": round(here.cpu_s, 2), "peak_mib": peak}
            if _WITH_SPARK:
                spark = _run((*words, "--engine", "spark"))
                figures |= {"spark_seconds": round(spark.wall_s, 1), "ratio": round(spark.wall_s / here.wall_s, 1)}
            name = " ".join(word for word in words if word not in (page, "--out") and str(log) not in word)
            measure.report(name, **figures, limit_mib=_LIMIT_MIB, reached=peak < _LIMIT_MIB)


def _run(words: tuple[str, ...]) -> measure.Run:
    return measure.run(measure.Work([*peers.KT, *words]))


def write_log(path: pathlib.Path) -> None:
    """Batches of 1000 records one after the other; a thousand of them have different keys, then they begin again."""
    from kafkatools.core.log.partition.log_config import LogConfig
    from kafkatools.core.log.partition.partition_log import PartitionLog
    from kafkatools.core.records.builder import BatchBuilder

    config = LogConfig.from_values({"segment.bytes": _SIZE // 4})
    log = PartitionLog.open(str(path), config, now_ms=_START_MS)
    batches: list[bytes] = []
    written = number = 0
    while written < _SIZE:
        if len(batches) < _BATCHES or _HAS_UNIQUE_KEYS:
            builder = BatchBuilder(1 << 20)
            for record in range(_RECORDS):
                key = struct.pack(">q", number * _RECORDS + record)
                builder.append(_START_MS + number * _RECORDS + record, key, b"x" * 100)
            batches.append(bytes(builder.close()))
        batch = batches[-1] if _HAS_UNIQUE_KEYS else batches[number % _BATCHES]
        log.append_as_leader(memoryview(bytearray(batch)), leader_epoch=0, now_ms=_START_MS)
        written, number = written + len(batch), number + 1
        if _HAS_UNIQUE_KEYS:
            batches.clear()
    log.close()


if __name__ == "__main__":
    main()
