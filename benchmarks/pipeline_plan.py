"""Planning of a scan of log segments as they grow in number: seconds per file and per split, and the driver's memory.

The segments are sparse files of 1 GiB with an index entry for each 16 KiB and real batches where splits of 128 MiB can
begin, so 10,000 of them (KT_BENCH_FILES) stand for 10 TB. Without an index a split can begin only where a walk of the
headers leads to, so this is measured on one segment of full batches, per GiB.
"""

from __future__ import annotations

import os
import pathlib
import pickle
import resource
import sys
import tempfile
import time

import numpy as np

from benchmarks.measure import report

_TESTS = pathlib.Path(__file__).parents[1] / "tests"
_FILES = int(os.environ.get("KT_BENCH_FILES", "10000"))
_SEGMENT_BYTES = 1 << 30
_STEP = 16384
_OFFSETS_A_STEP = 100
_SPLIT_STEPS = (128 << 20) // _STEP
_MEMORY_MIB = 1024


def main() -> None:
    """Report planning at a tenth of the files and at all of them, and without an index."""
    sys.path.insert(0, str(_TESTS))
    with tempfile.TemporaryDirectory() as directory:
        home = pathlib.Path(directory)
        index = home / "index"
        index.write_bytes(_index())
        made = 0
        for count in (_FILES // 10, _FILES):
            made = _add_segments(home / "log" / "records-0", index, made, count)
            _plan(home / "log", f"planning of {count} segments of 1 GiB with .index")
        _without_index(home / "plain" / "records-0")
        _plan(home / "plain", "planning of one segment of 1 GiB without .index")


def _index() -> bytes:
    steps = np.arange(1, _SEGMENT_BYTES // _STEP)
    entries = np.empty(len(steps), [("offset", ">i4"), ("position", ">i4")])
    entries["offset"], entries["position"] = (steps + 1) * _OFFSETS_A_STEP - 1, steps * _STEP
    return entries.tobytes()


def _add_segments(place: pathlib.Path, index: pathlib.Path, made: int, count: int) -> int:
    place.mkdir(parents=True, exist_ok=True)
    steps = _SEGMENT_BYTES // _STEP
    for number in range(made, count):
        base = number * steps * _OFFSETS_A_STEP
        with (place / f"{base:020}.log").open("wb") as log:
            log.truncate(_SEGMENT_BYTES)
            for step in range(0, steps, _SPLIT_STEPS):
                log.seek(step * _STEP)
                log.write(_batch(base + step * _OFFSETS_A_STEP))
        os.link(index, place / f"{base:020}.index")
    return count


def _batch(base_offset: int) -> bytes:
    from support.log_batches import make_batch

    return bytes(make_batch([b"v"], base_offset=base_offset, last_offset_delta=_OFFSETS_A_STEP - 1))


def _without_index(place: pathlib.Path) -> None:
    from support.log_batches import make_batch

    place.mkdir(parents=True)
    with (place / f"{0:020}.log").open("wb") as log:
        offset = 0
        while log.tell() < _SEGMENT_BYTES:
            log.write(make_batch([b"v" * 100] * 150, base_offset=offset))
            offset += 150


def _plan(place: pathlib.Path, name: str) -> None:
    """Plan as Spark's planner does, and pickle the tasks as it sends them to the JVM."""
    from kafkatools.pipeline.sources.log.options import read_options
    from kafkatools.pipeline.sources.log.plan import plan_tasks

    options = read_options({"path": str(place)})
    started, processor = time.perf_counter(), time.process_time()
    tasks = plan_tasks(options, ["value"], options.bounds)
    sizes = [len(pickle.dumps(task)) for task in tasks]
    seconds, used = time.perf_counter() - started, time.process_time() - processor
    files = len(list(place.glob("*/*.log")))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    report(
        name,
        seconds=round(seconds, 2),
        processor_s=round(used, 2),
        splits=len(tasks),
        processor_ms_a_file=round(1000 * used / files, 2),
        processor_ms_a_split=round(1000 * used / len(tasks), 3),
        pickled_bytes_a_split=sum(sizes) // len(sizes),
        peak_mib=peak,
        limit_mib=_MEMORY_MIB,
        reached=peak < _MEMORY_MIB,
    )


if __name__ == "__main__":
    main()
