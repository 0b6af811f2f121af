"""kt backup of a topic to a directory, beside kcat that writes the values of the same topic to a file.

kcat neither stores keys, headers and timestamps nor checks or syncs anything, so that it is a lower bound of what any
tool that decodes records needs. `mb_per_s` counts the bytes of records before compression.
"""

from __future__ import annotations

import subprocess

from benchmarks import measure, peers

RECORDS = 1_000_000
RECORD_BYTES = 1000
TARGET = 1.5


def main() -> None:
    """A topic of 1 GB without compression, and one with zstd."""
    kcat = peers.kcat()
    if kcat is None:
        raise SystemExit("benchmark: kcat is not installed")
    with peers.scratch() as directory, peers.embedded_broker(directory) as bootstrap:
        server = ("--bootstrap-server", bootstrap)
        for codec in ("none", "zstd"):
            topic = f"records-{codec}"
            subprocess.run(
                [*peers.KT, "topics", "--create", "--topic", topic, "--partitions", "4", *server], check=True
            )
            lines = peers.lines_file(directory, RECORDS // 10, RECORD_BYTES)
            settings = ("--command-property", f"compression.type={codec}", "--command-property", "linger.ms=5")
            subprocess.run(
                [*peers.KT, "producer-perf-test", "--topic", topic, "--num-records", str(RECORDS), "--throughput", "-1",
                 "--payload-file", str(lines), *settings, *server],
                check=True, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            store = directory / "backup"
            backup = f"rm -rf {store} && {' '.join(peers.KT)} backup --to {store} --topic {topic} {' '.join(server)}"
            measure.compare(
                f"backup/{codec}",
                measure.Work(["sh", "-c", backup]),
                measure.Work(
                    [kcat, "-C", "-e", "-q", "-b", bootstrap, "-t", topic, "-o", "beginning"],
                    stdout=directory / "values",
                ),
                "kcat",
                target=TARGET,
                megabytes=RECORDS * RECORD_BYTES // 1_000_000,
            )
            verify = measure.run(measure.Work([*peers.KT, "backup", "verify", str(store)]))
            megabytes = RECORDS * RECORD_BYTES / 1e6
            measure.report(f"backup verify/{codec}", wall_s=round(verify.wall_s, 3), mb_per_s=megabytes / verify.wall_s)
