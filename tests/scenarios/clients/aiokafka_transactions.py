"""aiokafka: commits, aborts, copies with offsets in the transaction, is fenced. argv: bootstrap, topic."""

import asyncio
import contextlib
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

bootstrap, topic = sys.argv[1:]
copies = topic + "-copies"
PLACE = TopicPartition(topic, 0)


async def producer(name: str) -> AIOKafkaProducer:
    made = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    await made.start()
    return made


async def fill() -> None:
    writer = await producer("aio-writer")
    async with writer.transaction():
        for i in range(20):
            await writer.send_and_wait(topic, b"v%d" % i, partition=0)
    try:
        async with writer.transaction():
            await writer.send_and_wait(topic, b"bad", partition=0)
            raise KeyError("give up")
    except KeyError:
        pass
    await writer.stop()


async def copy() -> None:
    source = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id="aio-copier",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    await source.start()
    copier = await producer("aio-copier")
    values: list[bytes] = []
    while len(values) < 20:
        for place, messages in (await source.getmany(timeout_ms=1000, max_records=8)).items():
            async with copier.transaction():
                for message in messages:
                    await copier.send(copies, message.value, partition=0)
                    values.append(message.value)
                await copier.send_offsets_to_transaction({place: messages[-1].offset + 1}, "aio-copier")
    assert values == [b"v%d" % i for i in range(20)]
    # a transaction's offsets count once its markers are written, shortly after the commit is answered
    for _ in range(100):
        if await source.committed(PLACE) == 20:
            break
        await asyncio.sleep(0.1)
    assert await source.committed(PLACE) == 20
    await source.stop()
    await copier.stop()


async def fence() -> None:
    zombie = await producer("aio-fenced")
    await zombie.begin_transaction()
    await zombie.send_and_wait(copies, b"zombie", partition=0)
    successor = await producer("aio-fenced")
    async with successor.transaction():
        await successor.send_and_wait(copies, b"successor", partition=0)
    await successor.stop()
    try:
        await zombie.commit_transaction()
        raise AssertionError("a zombie has committed")
    except ProducerFenced:
        pass
    with contextlib.suppress(ProducerFenced):
        await zombie.stop()


async def main() -> None:
    await fill()
    await copy()
    await fence()
    reader = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    await reader.start()
    place = TopicPartition(copies, 0)
    reader.assign([place])
    reader.seek(place, 0)
    seen = [(await reader.getone()).value for _ in range(21)]
    assert seen == [*(b"v%d" % i for i in range(20)), b"successor"]
    await reader.stop()


asyncio.run(main())
print("ok")
