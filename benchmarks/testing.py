"""The fixtures of pytest: from the request of `kafka` to its return, and what the plugin costs a run without them."""

from __future__ import annotations

import os
import pathlib
import re
import statistics
import subprocess
import sys

from benchmarks import measure, peers

_TEST = """
import time

def test_ready(request):
    started = time.perf_counter()
    request.getfixturevalue("kafka")
    print("kafka", time.perf_counter() - started)

def test_topic(kafka_topic):
    pass

def test_value_comes_back(kafka_topic):
    started = time.perf_counter()
    kafka_topic.send("x")
    assert kafka_topic.values() == [b"x"]
    print("round", time.perf_counter() - started)
"""


def main() -> None:
    """Prints how long fixtures take and what the plugin adds to a run that does not use it."""
    with peers.scratch() as directory:
        fixtures(directory)
    unused()


def fixtures(directory: pathlib.Path) -> None:
    """The time of the session's first `kafka` and of a round trip through a topic, in runs of pytest of their own."""
    (directory / "test_with.py").write_text(_TEST)
    found: dict[str, list[float]] = {"kafka": [], "round": []}
    for _ in range(measure.ROUNDS + 1):
        output = run(directory, "-s", "-p", "kafkatools.pytest_plugin", "test_with.py")
        for name, seconds in re.findall(r"(kafka|round) ([\d.]+)", output):
            found[name].append(float(seconds))
    ready = statistics.median(found["kafka"][1:])
    measure.report("fixture kafka ready", ours_s=round(ready, 3), limit_s=0.3, reached=ready <= 0.3)
    measure.report("first record through kafka_topic", ours_s=round(statistics.median(found["round"][1:]), 3))


def unused() -> None:
    """The import of the plugin, all that a run without its fixtures pays for."""
    code = (
        "import pytest, time; t = time.perf_counter(); import kafkatools.pytest_plugin; print(time.perf_counter() - t)"
    )
    walls = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3 * measure.ROUNDS)
    ]
    added = statistics.median(walls)
    measure.report("plugin in a run without Kafka", added_s=round(added, 4), limit_s=0.005, reached=added <= 0.005)


def run(directory: pathlib.Path, *arguments: str) -> str:
    """The output of a run of pytest that passes."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parents[1])}
    done = subprocess.run(
        [*command, "-p", "no:kafkatools", "-p", "no:randomly", *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"benchmark: pytest ended with {done.returncode}: {done.stdout[-800:]}{done.stderr[-800:]}")
    return done.stdout


if __name__ == "__main__":
    main()
