"""kafkatools.aio beside aiokafka: records a second of produce and consume, and the memory of idle consumers.

Each figure is of a process of its own that works against one broker; ours and aiokafka's take turns (measure.py). The
processes print the seconds of the work itself, without imports, on the clock and of their processor; a reader's include
its connection and first fetch.

What is compared: aiokafka fetches in tasks of its own and decodes records in C as `getmany` returns them; ours fetches
in turns of the loop while records are read, makes them in C as they are iterated over, and gives columns without an
object for each record. Both have their defaults, batches of 16 KiB too, except linger.ms; `*_large` has 256 KiB.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import subprocess
import sys
import time

from benchmarks.measure import ROUNDS, report
from benchmarks.peers import create_topic, embedded_broker, scratch
from kafkatools.aio import Consumer

RECORDS = 300_000
LARGE_BATCH = 1 << 18
IDLE = 1000
VALUE = b"x" * 100
LEAST = 3.0
MOST_MIB = 300
WORKS = (
    ("produce_many", "produce"),
    ("produce_many_large", "produce_large"),
    ("produce", "produce"),
    ("produce_large", "produce_large"),
    ("iterate", "iterate"),
    ("poll", "getmany"),
    ("columns", "getmany"),
)
"""Ours, and what aiokafka has in its place."""


def main() -> None:
    """All figures."""
    with scratch() as directory, embedded_broker(directory, **{"log.retention.bytes": str(1 << 30)}) as bootstrap:
        for topic in ("bench-send", "bench-read"):
            create_topic(bootstrap, topic)
        _measure("produce_many", "ours", bootstrap, "bench-read")
        for work, peer in WORKS:
            _figure(work, peer, bootstrap, "bench-send" if work.startswith("produce") else "bench-read")
        mib = _measure("idle", "ours", bootstrap, "bench-read")[0]
        report("aio idle consumers", consumers=IDLE, mib=round(mib), target=MOST_MIB, reached=mib <= MOST_MIB)


def _figure(work: str, peer: str, bootstrap: str, topic: str) -> None:
    pairs = [
        (_measure(work, "ours", bootstrap, topic), _measure(peer, "aiokafka", bootstrap, topic)) for _ in range(ROUNDS)
    ]
    # of the clock and of the processor: ours, theirs
    wall, processor = ([statistics.median(pair[side][kind] for pair in pairs) for side in (0, 1)] for kind in (0, 1))
    report(
        f"aio {work}",
        ratio=round(wall[1] / wall[0], 2),
        processor_ratio=round(processor[1] / processor[0], 2),
        target=LEAST,
        reached=processor[1] / processor[0] >= LEAST,
        ours_records_s=round(RECORDS / wall[0]),
        ours_records_processor_s=round(RECORDS / processor[0]),
        peer=f"aiokafka {peer}",
        peer_records_s=round(RECORDS / wall[1]),
        peer_records_processor_s=round(RECORDS / processor[1]),
    )


def _measure(work: str, side: str, bootstrap: str, topic: str) -> tuple[float, float]:
    """The numbers that a process prints: seconds of the work by the clock and by the processor; or MiB twice."""
    command = [sys.executable, "-m", "benchmarks.aio", work, side, bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = json.loads(done.stdout)
    return float(first), float(second)


class Watch:
    """Seconds since it was made, by the clock and by the processor."""

    def __init__(self) -> None:
        self._started = time.perf_counter(), time.process_time()

    def seconds(self) -> list[float]:
        """Return both."""
        return [time.perf_counter() - self._started[0], time.process_time() - self._started[1]]


async def ours(work: str, bootstrap: str, topic: str) -> list[float]:
    """One work with kafkatools.aio."""
    from kafkatools import aio

    if work.startswith("produce"):
        size = {"batch_size": LARGE_BATCH} if work.endswith("large") else {}
        async with aio.Producer(bootstrap_servers=bootstrap, linger_ms=5, **size) as producer:
            await producer.send_and_wait(topic, VALUE)
            watch = Watch()
            if not work.startswith("produce_many"):
                for _ in range(RECORDS):
                    await producer.send(topic, VALUE)
            else:
                for _ in range(RECORDS // 5000):
                    await producer.send_many(topic, [VALUE] * 5000)
            await producer.flush()
            return watch.seconds()
    async with aio.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        watch = Watch()
        await _read(consumer, work)
        return watch.seconds()


async def _read(consumer: Consumer, work: str) -> None:
    count = 0
    if work == "iterate":
        async for _ in consumer:
            count += 1
            if count == RECORDS:
                return
    while count < RECORDS:
        if work == "poll":
            for _ in await consumer.poll(1000):
                count += 1
        else:
            count += sum(item.columns.count for item in await consumer.poll_columns(1000))


async def theirs(work: str, bootstrap: str, topic: str) -> list[float]:
    """One work with aiokafka."""
    import aiokafka

    if work.startswith("produce"):
        size = {"max_batch_size": LARGE_BATCH} if work.endswith("large") else {}
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, **size) as producer:
            await producer.send_and_wait(topic, VALUE)
            watch = Watch()
            for _ in range(RECORDS):
                await producer.send(topic, VALUE)
            await producer.flush()
            return watch.seconds()
    async with aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        watch, count = Watch(), 0
        while count < RECORDS:
            if work == "iterate":
                async for _ in consumer:
                    count += 1
                    if count == RECORDS:
                        break
            else:
                for records in (await consumer.getmany(timeout_ms=1000, max_records=500)).values():
                    for _ in records:
                        count += 1
        return watch.seconds()


async def idle(bootstrap: str, topic: str) -> list[float]:
    """Peak MiB of a process with many consumers at the end of a partition, each having polled for some seconds."""
    from kafkatools import aio

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    consumers = [aio.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="latest") for _ in range(IDLE)]
    for consumer in consumers:
        consumer.assign([(topic, 0)])
    await asyncio.gather(*(consumer.poll(5000) for consumer in consumers))
    positions = [consumer.known_position((topic, 0)) for consumer in consumers]
    print(sum(position is not None for position in positions), "of", IDLE, "have a position", file=sys.stderr)
    await asyncio.gather(*(consumer.close() for consumer in consumers))
    return [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024] * 2


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] == "idle":
        print(asyncio.run(idle(*sys.argv[3:])))
    else:
        print(asyncio.run((ours if sys.argv[2] == "ours" else theirs)(sys.argv[1], *sys.argv[3:])))
