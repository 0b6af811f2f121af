"""kt apply with 2,000 topics of two partitions and three settings each: the plan when all are as declared, when half of
them differ (these are also validated by the broker), and the file from the cluster.

The broker is the embedded one. No other tool is timed: those that keep topics in files need a cluster of their own.
"""

from __future__ import annotations

import os
import pathlib
import statistics

from benchmarks import measure, peers

TOPICS = 2000
TARGET_S = 3.0


def main() -> None:
    """Prints seconds."""
    with peers.scratch() as directory, peers.embedded_broker(directory) as bootstrap:
        declared = _write(directory / "declared.toml", retention_ms=3_600_000)
        apply = [*peers.KT, "apply", "--bootstrap-server", bootstrap]
        made = measure.run(measure.Work([*apply, declared]))
        measure.report(f"apply, {TOPICS} new topics", seconds=round(made.wall_s, 2))
        _report("apply --check, nothing differs", [*apply, declared, "--check"])
        half = _write(directory / "half.toml", retention_ms=7_200_000)
        _report("apply --dry-run, half of them differ", [*apply, half, "--dry-run"])
        _report("apply --from-cluster", [*apply, "--from-cluster"])


def _write(path: pathlib.Path, retention_ms: int) -> str:
    """A file in which every second topic has this retention."""
    path.write_text(
        "".join(
            f'[topics."topic.{number:04}"]\npartitions = 2\nreplication = 1\n'
            f'configs."retention.ms" = {retention_ms if number % 2 else 3_600_000}\n'
            f'configs."cleanup.policy" = "compact,delete"\nconfigs."segment.bytes" = 1048576\n\n'
            for number in range(TOPICS)
        )
    )
    return os.fspath(path)


def _report(name: str, command: list[str]) -> None:
    runs = [measure.run(measure.Work(command)) for _ in range(measure.ROUNDS)]
    wall_s = statistics.median(run.wall_s for run in runs)
    measure.report(
        f"{name}, {TOPICS} topics",
        seconds=round(wall_s, 2),
        cpu_s=round(statistics.median(run.cpu_s for run in runs), 2),
        target_s=TARGET_S,
        reached=wall_s <= TARGET_S,
        peak_mib=max(run.peak_bytes for run in runs) >> 20,
    )


if __name__ == "__main__":
    main()
