"""A broker with 2,000 partitions: start after a clean stop and after a kill, memory, descriptors, clean stop; and a log
of a million records compacted.

Each step is a process of its own (`python -m benchmarks.scale <step> <directory>`), which prints what it measured.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time

from benchmarks import measure, peers

TOPICS, PARTITIONS = 200, 10
BATCHES, RECORDS, VALUE_BYTES = 5, 20, 500
COMPACTED_RECORDS, COMPACTED_KEYS = 1_000_000, 100_000
LIMITS = {"clean start": 5.0, "unclean start": 30.0, "clean stop": 30.0}
LIMIT_MIB = 1024


def main() -> None:
    """Prints the figures of a broker and of the cleaner."""
    with peers.scratch() as directory:
        made = step("make", directory)
        unclean = step("start", directory)
        clean = step("start", directory)
        compacted = step("compact", directory)
    seconds = {"clean start": clean["start_s"], "unclean start": unclean["start_s"], "clean stop": unclean["stop_s"]}
    for name, took in seconds.items():
        measure.report(
            f"broker with {TOPICS * PARTITIONS} partitions: {name}",
            ours_s=round(took, 2),
            limit_s=LIMITS[name],
            reached=took < LIMITS[name],
        )
    peak = max(run["peak_mib"] for run in (made, unclean, clean))
    measure.report(
        f"broker with {TOPICS * PARTITIONS} partitions: memory",
        ours_peak_mib=peak,
        limit_mib=LIMIT_MIB,
        reached=peak < LIMIT_MIB,
        open_files=max(run["open_files"] for run in (made, unclean, clean)),
    )
    measure.report(f"compaction of {COMPACTED_RECORDS} records", **compacted)


def step(name: str, directory: pathlib.Path) -> dict[str, float]:
    """Runs one step in a process; what it printed."""
    command = [sys.executable, "-m", "benchmarks.scale", name, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"benchmark: {name} failed: {done.stderr[-800:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def run_step(name: str, directory: str) -> None:
    """One step, in its process."""
    if name == "compact":
        print(json.dumps(compact(directory)))
        return
    from kafkatools.core.broker.node import single_node_config, start_node
    from kafkatools.core.broker.node_setup import NodeSetup
    from kafkatools.core.clock import SystemClock

    setup = NodeSetup(single_node_config(f"{directory}/data", "127.0.0.1", 0), SystemClock())
    began, began_work = time.perf_counter(), time.process_time()
    node = start_node(setup, format_if_needed=True)
    figures = {"start_s": time.perf_counter() - began, "start_processor_s": time.process_time() - began_work}
    if name == "make":
        fill(node)
    figures |= {"peak_mib": peak_mib(), "open_files": len(os.listdir("/proc/self/fd"))}
    if name == "start":
        began, began_work = time.perf_counter(), time.process_time()
        node.close()
        figures |= {"stop_s": time.perf_counter() - began, "stop_processor_s": time.process_time() - began_work}
    print(json.dumps(figures), flush=True)
    os._exit(0)  # "make" ends as a kill does


def fill(node: object) -> None:
    """Topics and some records in every partition."""
    from kafkatools.core.broker.metadata.controller.topics import NewTopic
    from kafkatools.core.broker.node import Node
    from kafkatools.core.records.builder import BatchBuilder

    assert isinstance(node, Node)
    for number in range(TOPICS):
        node.controller.create_topics([NewTopic(f"topic-{number}", PARTITIONS, 1)])
    builder = BatchBuilder(1 << 16)
    now_ms = node.clock.wall_ms()
    for number in range(RECORDS):
        builder.append(now_ms, b"key-%d" % number, b"v" * VALUE_BYTES)
    batch = bytes(builder.close())
    for _ in range(BATCHES):
        for partitions in node.replicas.partitions.values():
            for partition in partitions.values():
                partition.append(memoryview(bytearray(batch)), now_ms)


def peak_mib() -> float:
    """The largest resident size of this process so far. getrusage also counts what its parent had when it forked."""
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) >> 10


def compact(directory: str) -> dict[str, float]:
    """One round of the cleaner over a log in which every key came ten times."""
    from kafkatools.core.log.cleaner.cleaner import Cleaner
    from kafkatools.core.log.cleaner.manager import LogCleanerManager
    from kafkatools.core.log.files import RealFileSystem
    from kafkatools.core.log.partition.log_config import LogConfig
    from kafkatools.core.log.partition.partition_log import PartitionLog
    from kafkatools.core.log.partition.segment_swap import swap_in
    from kafkatools.core.records.builder import BatchBuilder

    config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=32 << 20)
    log = PartitionLog.open(f"{directory}/compacted-0", config, RealFileSystem())
    for first in range(0, COMPACTED_RECORDS, 100):
        builder = BatchBuilder(1 << 20)
        for number in range(first, first + 100):
            builder.append(1, b"key-%d" % (number * 7919 % COMPACTED_KEYS), b"v" * 100)
        log.append_as_leader(memoryview(bytearray(builder.close())), leader_epoch=0, now_ms=1)
    log.update_high_watermark(log.log_end_offset)
    log.roll(1)
    size = log.size_bytes
    grabbed = LogCleanerManager().grab_filthiest_log([log], 1)
    assert grabbed is not None
    began = time.perf_counter()
    stats = Cleaner(RealFileSystem()).clean(grabbed[1], 1, lambda plan, cleaned: swap_in(log, plan, cleaned, 1))
    took = time.perf_counter() - began
    assert stats.counts.records_retained == COMPACTED_KEYS
    return {
        "ours_s": round(took, 2),
        "mb_per_s": round(size / took / 1e6, 1),
        "records_per_s": round(COMPACTED_RECORDS / took),
        "peak_mib": peak_mib(),
    }


if __name__ == "__main__":
    run_step(*sys.argv[1:])
