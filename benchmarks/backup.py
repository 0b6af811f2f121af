"""kt backup, kt copy and kt migrate of a topic, beside kcat and MirrorMaker 2.

kcat writes the values of the topic to a file. It neither stores keys, headers and timestamps nor checks or syncs
anything, so that it is a lower bound of what any tool that decodes records needs. MirrorMaker 2 copies the topic to
another embedded broker, as kt copy and kt migrate do; kt backup only stores it. MirrorMaker runs until it is stopped,
so its time ends when the target has all records, and `streaming_s` is the time between the first and the last of them.
`mb_per_s` counts the bytes of records before compression.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import subprocess
from collections.abc import Sequence

from benchmarks import measure, mirror_maker, peers

RECORDS = int(os.environ.get("KT_BENCH_BACKUP_RECORDS", "1000000"))
RECORD_BYTES = 1000
TARGET = 1.5
MIRROR_ROUNDS = min(measure.ROUNDS, 3)


def main() -> None:
    """A topic of 1 GB without compression, and one with zstd."""
    kcat = peers.kcat()
    if kcat is None:
        raise SystemExit("benchmark: kcat is not installed")
    with peers.scratch() as directory:
        for name in ("source", "target"):
            (directory / name).mkdir()
        with (
            peers.embedded_broker(directory / "source") as source,
            peers.embedded_broker(directory / "target") as target,
        ):
            for codec in ("none", "zstd"):
                topic = f"records-{codec}"
                _fill(directory, source, topic, codec)
                _beside_kcat(directory, source, topic, codec, kcat)
                _beside_mirror_maker(directory, (source, target), topic, codec)


def _fill(directory: pathlib.Path, bootstrap: str, topic: str, codec: str) -> None:
    peers.create_topic(bootstrap, topic, 4)
    lines = peers.lines_file(directory, RECORDS // 10, RECORD_BYTES)
    settings = ("--command-property", f"compression.type={codec}", "--command-property", "linger.ms=5")
    subprocess.run(
        [*peers.KT, "producer-perf-test", "--topic", topic, "--num-records", str(RECORDS), "--throughput", "-1",
         "--payload-file", str(lines), *settings, "--bootstrap-server", bootstrap],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def _beside_kcat(directory: pathlib.Path, bootstrap: str, topic: str, codec: str, kcat: str) -> None:
    store = directory / "backup"
    server = f"--bootstrap-server {bootstrap}"
    backup = f"rm -rf {store} && {' '.join(peers.KT)} backup --to {store} --topic {topic} {server}"
    measure.compare(
        f"backup/{codec}",
        measure.Work(["sh", "-c", backup]),
        measure.Work(
            [kcat, "-C", "-e", "-q", "-b", bootstrap, "-t", topic, "-o", "beginning"], stdout=directory / "values"
        ),
        "kcat",
        target=TARGET,
        megabytes=RECORDS * RECORD_BYTES // 1_000_000,
    )
    verify = measure.run(measure.Work([*peers.KT, "backup", "verify", str(store)]))
    megabytes = RECORDS * RECORD_BYTES / 1e6
    measure.report(f"backup verify/{codec}", wall_s=round(verify.wall_s, 3), mb_per_s=megabytes / verify.wall_s)


def _beside_mirror_maker(directory: pathlib.Path, clusters: tuple[str, str], topic: str, codec: str) -> None:
    """MirrorMaker and the commands in turn, each to a new topic or directory."""
    source, target = clusters
    runs: dict[str, list[measure.Run]] = {}
    streaming: list[float] = []
    for number in range(MIRROR_ROUNDS):
        times = directory / "times.json"
        alias = f"{codec}{number}"
        names = {name: f"{alias}-{name}" for name in ("copy", "migrate")}
        through, store = (str(directory / f"{alias}-{name}") for name in ("through", "store"))
        servers = ("--bootstrap-server", source, "--to-bootstrap-server", target)
        commands: dict[str, Sequence[str]] = {
            "mirror maker": mirror_maker.work(source, target, topic, RECORDS, alias, times, codec),
            "copy": [*peers.KT, "copy", topic, names["copy"], "--create", *servers],
            "migrate": [
                *peers.KT, "migrate", "--cut", "--topic", topic, "--rename", f"{topic}={names['migrate']}",
                "--through", through, *servers,
            ],
            "backup": [*peers.KT, "backup", "--topic", topic, "--to", store, "--bootstrap-server", source],
        }  # fmt: skip
        for name, command in commands.items():
            runs.setdefault(name, []).append(measure.run(measure.Work(command)))
        found = json.loads(times.read_text())
        streaming.append(found["last_s"] - found["first_s"])
        subprocess.run(["rm", "-rf", through, store], check=True)
        for name in (f"{alias}.{topic}", *names.values()):
            subprocess.run(
                [*peers.KT, "topics", "--delete", "--topic", name, "--bootstrap-server", target],
                check=True, capture_output=True,
            )  # fmt: skip
    _report_mirror(codec, runs, streaming)


def _report_mirror(codec: str, runs: dict[str, list[measure.Run]], streaming: list[float]) -> None:
    mirror = runs.pop("mirror maker")
    for name, ours in runs.items():
        wall, cpu = (statistics.median(getattr(run, field) for run in ours) for field in ("wall_s", "cpu_s"))
        peer_wall, peer_cpu = (
            statistics.median(getattr(run, field) for run in mirror) for field in ("wall_s", "cpu_s")
        )
        measure.report(
            f"{name} beside MirrorMaker 2/{codec}",
            ratio=round(peer_wall / wall, 2),
            cpu_ratio=round(peer_cpu / cpu, 2),
            ours_s=round(wall, 2),
            ours_cpu_s=round(cpu, 2),
            peer_s=round(peer_wall, 2),
            peer_cpu_s=round(peer_cpu, 2),
            streaming_s=round(statistics.median(streaming), 2),
            ours_peak_mib=max(run.peak_bytes for run in ours) >> 20,
            peer_peak_mib=max(run.peak_bytes for run in mirror) >> 20,
            rounds=len(ours),
            megabytes=RECORDS * RECORD_BYTES // 1_000_000,
            load=os.getloadavg()[0],
        )


if __name__ == "__main__":
    main()
