"""Memory is bounded by configuration: 1 GiB through console-producer and back through console-consumer."""

from __future__ import annotations

from benchmarks import measure, peers

LIMIT_MIB = 150
LINES = 10_737_000


def main() -> None:
    """Prints the peak memory of both directions."""
    with peers.scratch() as directory:
        lines = peers.lines_file(directory, LINES, 99)
        with peers.embedded_broker(directory) as bootstrap:
            peers.create_topic(bootstrap, "gib")
            target = ["--topic", "gib", "--bootstrap-server", bootstrap]
            produced = measure.run(measure.Work([*peers.KT, "console-producer", *target], stdin=lines))
            consumed = measure.run(
                measure.Work([*peers.KT, "console-consumer", *target, "--from-beginning", "--max-messages", str(LINES)])
            )
    for name, done in (("console-producer", produced), ("console-consumer", consumed)):
        peak = done.peak_bytes >> 20
        measure.report(f"{name} 1 GiB peak memory", ours_peak_mib=peak, limit_mib=LIMIT_MIB, reached=peak < LIMIT_MIB)


if __name__ == "__main__":
    main()
