"""Three embedded nodes against three of Apache Kafka: acks=all over three replicas with the same clients; and what
the embedded ones take of time and memory for fail-over, many partitions and a reassignment."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable

from benchmarks import measure, peers
from kafkatools import Admin, EmbeddedCluster, Producer
from kafkatools.core.errors import KafkaError

TOPIC = "replicated"
COUNT = int(os.environ.get("KT_BENCH_RECORDS", "500000"))
SESSION_TIMEOUT_S = 9.0
TOPICS, PARTITIONS = 100, 10
MOVED_BYTES = 512 << 20
THROTTLE = 20_000_000
_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Prints the figures."""
    with peers.scratch() as directory:
        replicated(directory)
        fail_over()
        many_partitions()
        reassignment(directory)


# -- acks=all --


def replicated(directory: pathlib.Path) -> None:
    """Records per second of the Java producer, and seconds of kcat, both with acks=all."""
    lines = peers.lines_file(directory, COUNT)
    with EmbeddedCluster(nodes=3) as ours, peers.real_broker(directory, 3) as real:
        for bootstrap in (ours.bootstrap, real):
            create(bootstrap, TOPIC, 3)
        rounds = 3
        rates = [(produce_rate(ours.bootstrap), produce_rate(real)) for _ in range(rounds + 1)][1:]
        figure(f"kafka-producer-perf-test acks=all, 3 replicas, {COUNT} x 100 B", rates)
        walls = [(kcat_seconds(real, lines), kcat_seconds(ours.bootstrap, lines)) for _ in range(rounds + 1)][1:]
        figure(f"kcat acks=all, 3 replicas, {COUNT} x 100 B", walls)


def create(bootstrap: str, topic: str, factor: int, partitions: int = 1, *more: str) -> None:
    """A topic, made with kt."""
    words = ("--create", "--topic", topic, "--partitions", str(partitions), "--replication-factor", str(factor), *more)
    subprocess.run(
        [*peers.KT, "topics", *words, "--bootstrap-server", bootstrap], check=True, stdout=subprocess.DEVNULL
    )


def produce_rate(bootstrap: str) -> float:
    """Records per second of one run of the real producer perf tool; acks=all is its default."""
    words = ("--topic", TOPIC, "--num-records", str(COUNT), "--record-size", "100", "--throughput", "-1")
    command = peers.java("producer-perf-test", *words, "--bootstrap-server", bootstrap)
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(re.findall(r"([\d.]+) records/sec", text)[-1])


def kcat_seconds(bootstrap: str, lines: pathlib.Path) -> float:
    """Wall seconds in which kcat has all lines acknowledged."""
    command = ["kcat", "-P", "-b", bootstrap, "-t", TOPIC, "-X", "acks=all", "-l", str(lines)]
    return measure.run(measure.Work(command)).wall_s


def figure(name: str, pairs: list[tuple[float, float]], target: float = 1.0) -> None:
    """Prints one ratio: the first of each pair over the second (above 1: ours is faster)."""
    first, second = (statistics.median(values) for values in zip(*pairs, strict=True))
    ratio = first / second
    measure.report(name, ratio=round(ratio, 2), target=target, reached=ratio >= target, first=first, second=second)


# -- fail-over --


def fail_over() -> None:
    """How long nobody can produce after the leader was killed, and after it was asked to stop."""
    settings = {"broker.session.timeout.ms": str(int(SESSION_TIMEOUT_S * 1000)), "min.insync.replicas": "2"}
    with EmbeddedCluster(nodes=3, settings=settings) as cluster:
        create(cluster.bootstrap, TOPIC, 3)
        with Producer(bootstrap_servers=cluster.bootstrap, acks="all", delivery_timeout_ms=60000) as producer:
            for name, limit_s, end in (
                ("SIGTERM", 1.0, cluster.restart),
                ("kill -9", SESSION_TIMEOUT_S + 1, cluster.kill),
            ):
                gap = longest_gap(cluster, producer, end)
                measure.report(
                    f"fail-over after {name} of the leader",
                    ours_s=round(gap, 2),
                    limit_s=limit_s,
                    reached=gap < limit_s,
                )


def longest_gap(cluster: EmbeddedCluster, producer: Producer, end: Callable[[int], object]) -> float:
    """Ends the leader while records go in one by one; the longest time between two acknowledgements."""
    leader = leader_of(cluster.bootstrap)
    produce_for(producer, 1.0)
    started = time.monotonic()
    ending = threading.Thread(target=end, args=(leader,))
    ending.start()
    gap, last = 0.0, started
    while time.monotonic() - started < SESSION_TIMEOUT_S + 8:
        try:
            producer.send(TOPIC, b"x" * 100).result(60)
        except KafkaError:
            continue
        now = time.monotonic()
        gap, last = max(gap, now - last), now
        time.sleep(0.01)
    ending.join()
    return gap


def produce_for(producer: Producer, seconds: float) -> None:
    """Records one by one."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        producer.send(TOPIC, b"x" * 100).result(60)


def leader_of(bootstrap: str, topic: str = TOPIC) -> int:
    """The leader of the first partition."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        return int(admin.describe_topics([topic])[topic].partitions[0].leader)


# -- many partitions --


def many_partitions() -> None:
    """1,000 partitions with three replicas: made, memory of all processes, processor time at rest."""
    with EmbeddedCluster(nodes=3) as cluster:
        started = time.monotonic()
        for number in range(TOPICS):
            create(cluster.bootstrap, f"many-{number}", 3, PARTITIONS)
        seconds = time.monotonic() - started
        name = f"{TOPICS * PARTITIONS} partitions x 3"
        measure.report(f"{name}: made", ours_s=round(seconds, 1), limit_s=60, reached=seconds < 60)
        time.sleep(5)
        pids = [cluster.pid(node) for node in (1, 2, 3)]
        mib = sum(resident_mib(pid) for pid in pids)
        measure.report(f"{name}: memory of all nodes", ours_mib=mib, limit_mib=2048, reached=mib < 2048)
        before = sum(map(cpu_seconds, pids))
        time.sleep(20)
        share = (sum(map(cpu_seconds, pids)) - before) / 20
        measure.report(
            f"{name}: processor at rest, share of a core", ours=round(share, 3), limit=0.1, reached=share < 0.1
        )


def resident_mib(pid: int) -> int:
    """What a process has in memory."""
    found = re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
    return 0 if found is None else int(found[1]) >> 10


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS


# -- reassignment --


def reassignment(directory: pathlib.Path) -> None:
    """A partition moved from node to node: against copies of its files, and against a throttle."""
    lines = peers.lines_file(directory, MOVED_BYTES // 1000 // 10, 1000)
    with EmbeddedCluster(nodes=3) as cluster:
        for topic in (TOPIC, "small"):
            create_on(cluster.bootstrap, topic, "1")
        for _ in range(10):
            kcat_seconds(cluster.bootstrap, lines)
        move_seconds(cluster.bootstrap, "small", 2)  # what a node does for the first time
        copies, moves = [], []
        for source, target in ((1, 2), (2, 3), (3, 1), (1, 2), (2, 3)):
            partition = pathlib.Path(cluster.directory(source)) / f"{TOPIC}-0"
            size = sum(path.stat().st_size for path in partition.glob("*.log"))
            copies.append(copy_seconds(partition, directory / "copy"))
            moves.append(move_seconds(cluster.bootstrap, TOPIC, target))
        copied, moved = statistics.median(copies), statistics.median(moves)
        measure.report(
            "reassignment without a throttle against cp", ratio=round(copied / moved, 2), target=0.5,
            reached=copied / moved >= 0.5, ours_mb_s=[round(size / each / 1e6) for each in moves],
            cp_mb_s=[round(size / each / 1e6) for each in copies],
        )  # fmt: skip
        rate = size / throttled_seconds(cluster.bootstrap, 1)
        measure.report(
            "reassignment with a throttle", ratio=round(rate / THROTTLE, 2), target="0.8 to 1.2",
            reached=0.8 <= rate / THROTTLE <= 1.2,
        )  # fmt: skip


def create_on(bootstrap: str, topic: str, replicas: str) -> None:
    """A topic with its one partition where it is wanted."""
    words = ("--create", "--topic", topic, "--replica-assignment", replicas)
    subprocess.run(
        [*peers.KT, "topics", *words, "--bootstrap-server", bootstrap], check=True, stdout=subprocess.DEVNULL
    )


def copy_seconds(source: pathlib.Path, target: pathlib.Path) -> float:
    """A copy of a directory from disk to disk."""
    started = time.monotonic()
    shutil.copytree(source, target)
    os.sync()
    took = time.monotonic() - started
    shutil.rmtree(target)
    return took


def move_seconds(bootstrap: str, topic: str, to: int) -> float:
    """From the request to move the partition until it has moved."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        started = time.monotonic()
        admin.alter_reassignments({(topic, 0): [to]})
        while admin.list_reassignments():
            time.sleep(0.02)
        return time.monotonic() - started


def throttled_seconds(bootstrap: str, to: int) -> float:
    """The same with a throttle, which the tool sets."""
    plan = f'{{"version":1,"partitions":[{{"topic":"{TOPIC}","partition":0,"replicas":[{to}]}}]}}'
    path = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"kt-bench-plan-{os.getpid()}.json"  # noqa: S108
    path.write_text(plan)
    tool = [*peers.KT, "reassign-partitions", "--bootstrap-server", bootstrap, "--reassignment-json-file", str(path)]
    started = time.monotonic()
    subprocess.run([*tool, "--execute", "--throttle", str(THROTTLE)], check=True, stdout=subprocess.DEVNULL)
    with Admin(bootstrap_servers=bootstrap) as admin:
        while admin.list_reassignments():
            time.sleep(0.2)
    path.unlink()
    return time.monotonic() - started


if __name__ == "__main__":
    main()
