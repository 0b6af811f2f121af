"""kt's performance tests against Kafka's own, on one Apache Kafka: 1 M records of 100 bytes, default settings.

The figure is records per second as the tools report them, which leaves out the start of either; of the consumers it is
the rate of fetching (fetch.nMsg.sec). Round trips: the median of e2e-latency in whole milliseconds is too coarse, so
the averages are compared. Ours and theirs run in turn; above 1: ours is faster.
"""

from __future__ import annotations

import re
import statistics
import subprocess
from collections.abc import Callable, Sequence

from benchmarks import measure, peers

COUNT = 1_000_000
ROUNDS = 3
TRIPS = 2_000
_RATE = re.compile(r"([\d.]+) records/sec .* 99\.9th")
_AVERAGE = re.compile(r"Avg latency: ([\d.]+) ms")


def main() -> None:
    """Prints the three ratios."""
    with peers.scratch() as directory, peers.real_broker(directory) as bootstrap:
        for topic in ("ours", "theirs"):
            peers.create_topic(bootstrap, topic)
        sizes = ("--num-records", str(COUNT), "--record-size", "100", "--throughput", "-1")
        compare("producer-perf-test", bootstrap, sizes, _produced, target=1.0)
        compare("consumer-perf-test", bootstrap, ("--num-records", str(COUNT)), _fetched, target=1.0)
        trips = ("--num-records", str(TRIPS), "--producer-acks", "1", "--record-size", "100")
        compare("e2e-latency", bootstrap, trips, lambda text: 1000 / float(_AVERAGE.findall(text)[-1]), target=1.0)


def compare(tool: str, bootstrap: str, words: Sequence[str], figure: Callable[[str], float], *, target: float) -> None:
    """Runs both in turn, after one round that does not count, and prints the ratio of the medians."""
    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS + 1):
        given = ("--bootstrap-server", bootstrap, *words, "--topic")
        rates[0].append(figure(output([*peers.KT, tool, *given, "ours"])))
        rates[1].append(figure(output(peers.java(tool, *given, "theirs"))))
    ours, theirs = (statistics.median(found[1:]) for found in rates)
    measure.report(
        f"kt {tool} against kafka-{tool}",
        ratio=round(ours / theirs, 2),
        target=target,
        reached=ours / theirs >= target,
        ours_per_s=round(ours),
        theirs_per_s=round(theirs),
        rounds=ROUNDS,
    )


def output(command: Sequence[str]) -> str:
    """What a tool printed."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _produced(text: str) -> float:
    return float(_RATE.findall(text)[-1])


def _fetched(text: str) -> float:
    return float(text.strip().splitlines()[-1].split(", ")[-1])


if __name__ == "__main__":
    main()
