"""aiokafka: a group of two members, seek, times, commits, and its admin client. Prints ok. argv: bootstrap, topic (made
here)."""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.structs import OffsetAndMetadata

BOOTSTRAP, TOPIC = sys.argv[1:]
GROUP = TOPIC + "-group"
START_MS = 1_700_000_000_000
FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)


def member() -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        TOPIC, bootstrap_servers=BOOTSTRAP, group_id=GROUP, enable_auto_commit=False, auto_offset_reset="earliest"
    )


async def fill() -> None:
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, enable_idempotence=True) as producer:
        for i in range(20):
            await producer.send_and_wait(TOPIC, b"%d" % i, partition=0, timestamp_ms=START_MS + 10 * i)


async def seek_and_times() -> None:
    async with AIOKafkaConsumer(bootstrap_servers=BOOTSTRAP) as reader:
        reader.assign([FIRST, SECOND])
        assert await reader.end_offsets([FIRST, SECOND]) == {FIRST: 20, SECOND: 0}
        times = await reader.offsets_for_times({FIRST: START_MS + 45, SECOND: START_MS})
        assert (times[FIRST].offset, times[FIRST].timestamp, times[SECOND]) == (5, START_MS + 50, None)
        reader.seek(FIRST, 15)
        assert (await reader.getone()).value == b"15"
        assert await reader.position(FIRST) == 16
        await reader.seek_to_beginning(FIRST)
        assert (await reader.getone()).value == b"0"


async def share() -> None:
    """Two members have a partition each; the one that stays takes over, at what was committed."""
    async with member() as stays:
        async with member() as leaves:
            await until(lambda: len(stays.assignment()) == len(leaves.assignment()) == 1, stays, leaves)
            owner = stays if FIRST in stays.assignment() else leaves
            await owner.commit({FIRST: OffsetAndMetadata(8, "kept")})
            assert await owner.committed(FIRST) == 8
        await until(lambda: len(stays.assignment()) == 2, stays)
        await stays.seek_to_committed()
        assert (await stays.getone()).value == b"8"


async def until(reached, *members: AIOKafkaConsumer) -> None:  # type: ignore[no-untyped-def]
    async with asyncio.timeout(60):
        while not reached():
            for each in members:
                await each.getmany(timeout_ms=50)


async def administer(admin: AIOKafkaAdminClient) -> None:
    offsets = await admin.list_consumer_group_offsets(GROUP)
    assert {place: found.offset for place, found in offsets.items()} == {FIRST: 8}, offsets
    assert GROUP in [name for name, _ in await admin.list_consumer_groups()]
    await admin.create_partitions({TOPIC: NewPartitions(3)})
    (described,) = await admin.describe_topics([TOPIC])
    assert len(described["partitions"]) == 3
    await admin.delete_topics([TOPIC])


async def main() -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP)
    await admin.start()
    await admin.create_topics([NewTopic(TOPIC, 2, 1)])
    await fill()
    await seek_and_times()
    await share()
    await administer(admin)
    await admin.close()


asyncio.run(main())
print("ok")
