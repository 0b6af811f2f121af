"""Paired timing of whole processes, and the one JSON line that each figure becomes.

Two commands are run in turn (ours, peer, ours, peer, ...) so that a change of the machine's speed hits both; a figure
is the ratio of the medians of wall time (above 1: ours is faster). Peak memory is what the operating system accounted
to the finished process.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

ROUNDS = int(os.environ.get("KT_BENCH_ROUNDS", "5"))


@dataclass(frozen=True)
class Run:
    """One finished process: wall and processor seconds, peak resident bytes."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True)
class Work:
    """A command to time; stdin and stdout are files (None: nothing, thrown away)."""

    command: Sequence[str]
    stdin: pathlib.Path | None = None
    stdout: pathlib.Path | None = None
    env: dict[str, str] | None = None


def run(work: Work) -> Run:
    """Runs a command to its end; a non-zero exit status ends the benchmark with what it said."""
    environment = {**os.environ, **(work.env or {})}
    with open(work.stdin or os.devnull, "rb") as stdin, open(work.stdout or os.devnull, "wb") as stdout:
        started = time.perf_counter()
        process = subprocess.Popen(work.command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, env=environment)
        assert process.stderr is not None
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(
            f"benchmark: {' '.join(work.command[:6])} ended with {process.returncode}: {errors.decode()[-800:]}"
        )
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def compare(
    name: str, ours: Work, peer: Work, peer_name: str, *, target: float, rounds: int = ROUNDS, **facts: object
) -> float:
    """Times both in turn after one warm-up each and prints the figure; returns the ratio peer / ours."""
    run(ours), run(peer)
    pairs = [(run(ours), run(peer)) for _ in range(rounds)]
    our_wall = statistics.median(pair[0].wall_s for pair in pairs)
    peer_wall = statistics.median(pair[1].wall_s for pair in pairs)
    ratio = peer_wall / our_wall
    report(
        name,
        ratio=round(ratio, 2),
        target=target,
        reached=ratio >= target,
        ours_s=round(our_wall, 3),
        peer=peer_name,
        peer_s=round(peer_wall, 3),
        ours_cpu_s=round(statistics.median(pair[0].cpu_s for pair in pairs), 3),
        peer_cpu_s=round(statistics.median(pair[1].cpu_s for pair in pairs), 3),
        ours_peak_mib=max(pair[0].peak_bytes for pair in pairs) >> 20,
        peer_peak_mib=max(pair[1].peak_bytes for pair in pairs) >> 20,
        rounds=rounds,
        **facts,
    )
    return ratio


def at_most(name: str, ours: Work, *, limit_s: float, rounds: int = ROUNDS) -> None:
    """Times one command against a limit in seconds."""
    run(ours)
    wall = statistics.median(run(ours).wall_s for _ in range(rounds))
    report(name, ours_s=round(wall, 3), limit_s=limit_s, reached=wall <= limit_s, rounds=rounds)


def report(name: str, **figures: object) -> None:
    """Prints one figure as a JSON line."""
    sys.stdout.write(json.dumps({"benchmark": name, **figures}) + "\n")
    sys.stdout.flush()


def processor_seconds(root: int | None = None) -> float:
    """The processor time of all processes below a process (None: this one) that still run, and of those they have
    waited for."""
    root = os.getpid() if root is None else root
    ticks = os.sysconf("SC_CLK_TCK")
    parents, seconds = {}, {}
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(entry.parent.name)
        parents[number] = int(fields[1])
        seconds[number] = sum(map(int, fields[11:15])) / ticks

    def is_below(number: int) -> bool:
        while number > 1 and number != root:
            number = parents.get(number, 0)
        return number == root

    return sum(used for number, used in seconds.items() if number != root and is_below(number))
