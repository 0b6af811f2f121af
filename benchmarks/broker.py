"""The embedded broker against Apache Kafka with the same clients: Kafka's producer and consumer perf tests, kcat.

Both brokers run at the same time and are measured in turn; the figure is records per second as the perf tool reports
it.
"""

from __future__ import annotations

import re
import statistics
import subprocess

from benchmarks import measure, peers

COUNT = 1_000_000


def main() -> None:
    """Prints produce and consume ratios."""
    with (
        peers.scratch() as directory,
        peers.embedded_broker(directory) as ours,
        peers.real_broker(directory) as real,
    ):
        for bootstrap in (ours, real):
            peers.create_topic(bootstrap, "perf")
        rounds = 3
        produced = [(produce_rate(ours), produce_rate(real)) for _ in range(rounds + 1)][1:]
        figure("kafka-producer-perf-test 1 M x 100 B", produced, target=1.5)
        consumed = [(consume_seconds(real), consume_seconds(ours)) for _ in range(rounds + 1)][1:]
        figure("kcat consumes 1 M x 100 B", consumed, target=1.0)


def produce_rate(bootstrap: str) -> float:
    """Records per second of one run of the real producer perf tool with its default settings."""
    text = subprocess.run(
        peers.java(
            "producer-perf-test", "--topic", "perf", "--num-records", str(COUNT), "--record-size", "100",
            "--throughput", "-1", "--bootstrap-server", bootstrap,
        ),
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    rates = re.findall(r"([\d.]+) records/sec", text)
    return float(rates[-1])


def consume_seconds(bootstrap: str) -> float:
    """Wall seconds in which kcat reads the first million records."""
    command = ["kcat", "-C", "-q", "-b", bootstrap, "-t", "perf", "-o", "beginning", "-c", str(COUNT)]
    return measure.run(measure.Work(command)).wall_s


def figure(name: str, pairs: list[tuple[float, float]], target: float) -> None:
    """Prints one ratio: the first of each pair over the second (above 1: ours is faster)."""
    ours, peer = (statistics.median(values) for values in zip(*pairs, strict=True))
    measure.report(
        name, ratio=round(ours / peer, 2), target=target, reached=ours / peer >= target, first=ours, second=peer
    )


if __name__ == "__main__":
    main()
