"""kafkatools.aio beside aiokafka: records a second of produce and consume, and the memory of idle consumers.

Each figure is of a process of its own that works against one broker; ours and aiokafka's take turns (measure.py). The
processes print the seconds of the work itself, without imports and the connection.
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
IDLE = 1000
VALUE = b"x" * 100
LEAST = 3.0
MOST_MIB = 300


def main() -> None:
    """All figures."""
    with scratch() as directory, embedded_broker(directory, **{"log.retention.bytes": str(1 << 30)}) as bootstrap:
        for topic in ("bench-send", "bench-read"):
            create_topic(bootstrap, topic)
        _seconds("produce_many", "ours", bootstrap, "bench-read")
        for work, peer in (("produce_many", "produce"), ("produce", "produce"), ("iterate", "iterate")):
            _figure(work, peer, bootstrap, "bench-read" if work == "iterate" else "bench-send")
        _figure("columns", "getmany", bootstrap, "bench-read")
        _figure("poll", "getmany", bootstrap, "bench-read")
        mib = _seconds("idle", "ours", bootstrap, "bench-read")
        report("aio idle consumers", consumers=IDLE, mib=round(mib), target=MOST_MIB, reached=mib <= MOST_MIB)


def _figure(work: str, peer: str, bootstrap: str, topic: str) -> None:
    pairs = [
        (_seconds(work, "ours", bootstrap, topic), _seconds(peer, "aiokafka", bootstrap, topic)) for _ in range(ROUNDS)
    ]
    ours, theirs = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
    report(
        f"aio {work}",
        ratio=round(theirs / ours, 2),
        target=LEAST,
        reached=theirs / ours >= LEAST,
        ours_records_s=round(RECORDS / ours),
        peer=f"aiokafka {peer}",
        peer_records_s=round(RECORDS / theirs),
    )


def _seconds(work: str, side: str, bootstrap: str, topic: str) -> float:
    """The number that a process prints: seconds of the work, or MiB."""
    command = [sys.executable, "-m", "benchmarks.aio", work, side, bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout))


async def ours(work: str, bootstrap: str, topic: str) -> float:
    """One work with kafkatools.aio."""
    from kafkatools import aio

    if work.startswith("produce"):
        async with aio.Producer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
            await producer.send_and_wait(topic, VALUE)
            started = time.perf_counter()
            if work == "produce":
                for _ in range(RECORDS):
                    await producer.send(topic, VALUE)
            else:
                for _ in range(RECORDS // 5000):
                    await producer.send_many(topic, [VALUE] * 5000)
            await producer.flush()
            return time.perf_counter() - started
    async with aio.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        started = time.perf_counter()
        await _read(consumer, work)
        return time.perf_counter() - started


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


async def theirs(work: str, bootstrap: str, topic: str) -> float:
    """One work with aiokafka."""
    import aiokafka

    if work == "produce":
        async with aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5) as producer:
            await producer.send_and_wait(topic, VALUE)
            started = time.perf_counter()
            for _ in range(RECORDS):
                await producer.send(topic, VALUE)
            await producer.flush()
            return time.perf_counter() - started
    async with aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        started, count = time.perf_counter(), 0
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
        return time.perf_counter() - started


async def idle(bootstrap: str, topic: str) -> float:
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
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    elif sys.argv[1] == "idle":
        print(asyncio.run(idle(*sys.argv[3:])))
    else:
        print(asyncio.run((ours if sys.argv[2] == "ours" else theirs)(sys.argv[1], *sys.argv[3:])))
