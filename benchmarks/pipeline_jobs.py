"""How fast a core counts and checks a segment, without Spark around it: GB a second of processor time.

KT_BENCH_SEGMENT_MB (512) of uncompressed batches of 16 KiB, in the page cache; best of the rounds. Counting reads
headers alone, as `kt pipeline count log:...` does; checking computes every checksum and compares both indexes; deep
checking reads every record too.
"""

from __future__ import annotations

import os
import pathlib
import tempfile
import time
from collections.abc import Callable

from benchmarks.measure import ROUNDS, report

_SIZE = int(os.environ.get("KT_BENCH_SEGMENT_MB", "512")) << 20
_RECORDS = 150
_COLUMNS = ("topic", "partition", "size", "baseOffset", "lastOffset", "count", "isControl", "isTransactional")


def main() -> None:
    """Makes a segment and reports the three figures."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "big-0" / f"{0:020d}.log"
        path.parent.mkdir()
        records = write_segment(path)
        gigabytes = path.stat().st_size / 1e9
        for name, job in (
            ("count by headers", lambda: count(directory, records)),
            ("check", lambda: check(str(path), deep=False)),
            ("check --deep", lambda: check(str(path), deep=True)),
        ):
            took = min(_processor_time(job) for _ in range(ROUNDS))
            report(f"pipeline {name}", gigabytes_a_core_second=round(gigabytes / took, 2), seconds=round(took, 3))


def _processor_time(job: Callable[[], None]) -> float:
    started = time.process_time()
    job()
    return time.process_time() - started


def write_segment(path: pathlib.Path) -> int:
    """Batches one after the other, and their indexes; how many records."""
    from kafkatools.core.log.partition.log_config import LogConfig
    from kafkatools.core.log.partition.partition_log import PartitionLog
    from kafkatools.core.records.builder import BatchBuilder

    builder = BatchBuilder(1 << 20)
    for number in range(_RECORDS):
        builder.append(1_700_000_000_000 + number, b"k%05d" % number, b"x" * 100)
    batch = bytes(builder.close())
    config = LogConfig.from_values({"segment.bytes": (1 << 31) - 1})
    log = PartitionLog.open(str(path.parent), config, now_ms=1_700_000_000_000)
    batches = _SIZE // len(batch)
    for _ in range(batches):
        log.append_as_leader(memoryview(bytearray(batch)), leader_epoch=0, now_ms=1_700_000_000_000)
    log.flush()
    log.close()
    return batches * _RECORDS


def count(directory: str, records: int) -> None:
    """What an executor does for `count`."""
    from kafkatools.pipeline.sources import schema
    from kafkatools.pipeline.sources.log.options import read_options
    from kafkatools.pipeline.sources.log.source import LogReader

    columns = schema.struct_of({name: schema.BATCH_COLUMNS[name] for name in _COLUMNS})
    reader = LogReader(read_options({"path": directory, "table": "batches"}), columns)
    batches = [rows for task in reader.partitions() for rows in reader.read(task)]
    counted = sum(sum(rows["count"].to_numpy()) for rows in batches)
    if counted != records:
        raise SystemExit(f"benchmark: {counted} records instead of {records}")


def check(path: str, *, deep: bool) -> None:
    """What an executor does for `check`."""
    from kafkatools.pipeline.jobs.check_files import check_segment

    problems, _ = check_segment(path, deep=deep)
    if problems:
        raise SystemExit(f"benchmark: {problems[0]}")
