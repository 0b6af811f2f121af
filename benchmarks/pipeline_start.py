"""From the start of a program to its first row of a live topic and of a log directory, and the first query of a
session against the next one.

A program opens a local session with two cores, by `open_session`, and takes the first row of a topic with 10,000
records several times. It is run as `python job.py` and by `spark-submit`, as a new process each time; with the classes
of Spark from an archive too. A figure is a median of the time and of the processor time of the program, its JVM and its
workers, without the broker's.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from benchmarks.measure import ROUNDS, processor_seconds, report

_TESTS = pathlib.Path(__file__).parents[1] / "tests"
_RECORDS = 10_000
_QUERIES = 3
_TO_FIRST_ROW_S = 6.0
_FIRST_TO_NEXT = 2.0
_JOB = """
import json, os, sys
from kafkatools.pipeline.run.session import open_session

def tell(name):
    print(f"reached {name}", flush=True)
    os.read(turns, 1)  # until the benchmark has read the processor time

form, options, queries = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
turns = os.open(sys.argv[4], os.O_RDONLY)
spark = open_session("start", "local[2]")
tell("session")
for number in range(queries):
    assert spark.read.format(form).options(**options).load().first() is not None
    tell(f"row {number}")
spark.stop()
"""


class Moment(NamedTuple):
    """Seconds since the one before, by the clock and of the processor."""

    seconds: float
    processor: float


def main() -> None:
    """Fill a topic and report the figures."""
    sys.path.insert(0, str(_TESTS))
    from support import spark_classes
    from support.embedded import embedded_broker

    from kafkatools import Producer

    with tempfile.TemporaryDirectory() as name:
        home = pathlib.Path(name)
        (home / "job.py").write_text(_JOB)
        with embedded_broker(home / "data") as bootstrap:
            with Producer(bootstrap_servers=bootstrap) as producer:
                for number in range(_RECORDS):
                    producer.send("records", b"%d" % number)
            sources = {
                "live topic": ("kt", {"kafka.bootstrap.servers": bootstrap, "subscribe": "records"}),
                "log directory": ("kafka-log", {"path": str(home / "data" / "records-0")}),
            }
            for classes, options in (("", ""), (", archive of classes", spark_classes.quick_options())):
                environ = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_SUBMIT_OPTS": options}
                for program, command in _programs(home / "job.py").items():
                    for source, (form, given) in sources.items():
                        words = [*command, form, json.dumps(given), str(_QUERIES)]
                        runs = [_run(words, environ, home) for _ in range(ROUNDS)]
                        _tell(f"{program}, {source}{classes}", runs)


def _programs(job: pathlib.Path) -> dict[str, list[str]]:
    import pyspark

    submit = pathlib.Path(pyspark.__file__).parent / "bin" / "spark-submit"
    return {"python": [sys.executable, str(job)], "spark-submit": [str(submit), "--master", "local[2]", str(job)]}


def _run(command: list[str], environ: Mapping[str, str], home: pathlib.Path) -> list[Moment]:
    """Run the program once; returns its session and its queries. At each moment it waits for a byte of a named pipe in
    `home`, since spark-submit does not hand on its stdin."""
    moments = []
    with _named_pipe(home / "turns") as turns, tempfile.TemporaryFile() as errors:
        words = [*command, str(home / "turns")]
        began, used = time.perf_counter(), processor_seconds()
        with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("reached "):
                    now, total = time.perf_counter(), processor_seconds()
                    moments.append(Moment(now - began, total - used))
                    began, used = time.perf_counter(), processor_seconds()
                    os.write(turns, b"\n")
        if process.returncode or len(moments) != 1 + _QUERIES:
            errors.seek(0)
            told = errors.read().decode(errors="replace")
            raise SystemExit(f"benchmark: {command[0]} ended with {process.returncode}: {told[-800:]}")
    return moments


@contextmanager
def _named_pipe(path: pathlib.Path) -> Iterator[int]:
    """Create a named pipe and open it, to write and to read, so that neither end waits for the other."""
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
        path.unlink()


def _tell(name: str, runs: list[list[Moment]]) -> None:
    session, first, *others = (
        Moment(*(statistics.median(values) for values in zip(*moments, strict=True)))
        for moments in zip(*runs, strict=True)
    )
    to_first = session.seconds + first.seconds
    ratio = first.seconds / others[0].seconds
    report(
        f"start of a program to its first row, {name}",
        seconds=round(to_first, 2),
        processor_s=round(session.processor + first.processor, 2),
        at_most_s=_TO_FIRST_ROW_S,
        session_s=round(session.seconds, 2),
        session_processor_s=round(session.processor, 2),
        reached=to_first <= _TO_FIRST_ROW_S,
        load=round(os.getloadavg()[0], 1),
        rounds=len(runs),
    )
    report(
        f"first query of a session to the next, {name}",
        ratio=round(ratio, 2),
        processor_ratio=round(first.processor / others[0].processor, 2),
        at_most=_FIRST_TO_NEXT,
        reached=ratio <= _FIRST_TO_NEXT,
        first_s=round(first.seconds, 2),
        first_processor_s=round(first.processor, 2),
        next_s=[round(other.seconds, 2) for other in others],
        next_processor_s=[round(other.processor, 2) for other in others],
        rounds=len(runs),
    )


if __name__ == "__main__":
    main()
