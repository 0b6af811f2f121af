"""kafkatools.aio against a real Apache Kafka: a transaction, groups of both protocols with coroutines as listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from support.apache_kafka import ApacheKafka
from support.loops import LOOPS, run_on

import kafkatools
from kafkatools import aio

pytestmark = [pytest.mark.real_kafka, pytest.mark.slow]

RECORDS = 500


class Recorder(kafkatools.RebalanceListener):
    def __init__(self, consumer: aio.Consumer) -> None:
        self.consumer = consumer
        self.calls: list[tuple[str, int]] = []

    async def on_partitions_assigned(self, partitions: Sequence[kafkatools.TopicPartition]) -> None:
        for partition in partitions:
            await self.consumer.position(partition)
        self.calls.append(("assigned", len(partitions)))

    async def on_partitions_revoked(self, partitions: Sequence[kafkatools.TopicPartition]) -> None:
        await self.consumer.commit()
        self.calls.append(("revoked", len(partitions)))


@pytest.mark.parametrize("loop", LOOPS)
def test_copies_in_transactions_between_topics_and_survives_cancelled_calls(real_kafka: ApacheKafka, loop: str) -> None:
    source, target, name = f"aio-{loop}-source", f"aio-{loop}-target", f"aio-{loop}"
    protocol = "classic" if loop == "asyncio" else "consumer"
    reading = {
        "bootstrap.servers": real_kafka.bootstrap,
        "group.id": name,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
    }

    async def copy(consumer: aio.Consumer, producer: aio.Producer, records: kafkatools.ConsumerRecords) -> int:
        if records:
            async with producer.transaction():
                for record in records:
                    await producer.send(target, record.value, record.key)
                await producer.send_offsets_to_transaction(records.next_offsets(), consumer.group_metadata())
        return len(records)

    async def main() -> list[bytes]:
        async with aio.Admin(bootstrap_servers=real_kafka.bootstrap) as admin:
            await admin.create_topics([kafkatools.NewTopic(source, 3, 1), kafkatools.NewTopic(target, 1, 1)])
        async with aio.Producer(bootstrap_servers=real_kafka.bootstrap, transactional_id=name) as producer:
            async with producer.transaction():
                await producer.send_many(source, [b"%d" % number for number in range(RECORDS)])
            async with aio.Consumer(reading) as consumer:
                listener = Recorder(consumer)
                consumer.subscribe([source], listener)
                copied = 0
                async with asyncio.timeout(60):
                    while copied < RECORDS:
                        polling = asyncio.create_task(consumer.poll(2000))
                        await asyncio.sleep(0.02)
                        polling.cancel()  # first in the middle of joining the group
                        await asyncio.wait({polling})
                        if not polling.cancelled():
                            copied += await copy(consumer, producer, polling.result())
                committed = await consumer.committed([(source, index) for index in range(3)])
                assert sum(offset.offset for offset in committed.values() if offset) >= RECORDS
            assert listener.calls == [("assigned", 3), ("revoked", 3)]
        async with aio.Consumer(bootstrap_servers=real_kafka.bootstrap, isolation_level="read_committed") as consumer:
            consumer.assign([(target, 0)])
            consumer.seek_to_beginning()
            return [record.value async for record in consumer.read_to_end()]

    assert sorted(run_on(loop, main), key=int) == [b"%d" % number for number in range(RECORDS)]


@pytest.mark.parametrize("loop", LOOPS)
def test_share_consumers_acknowledge_and_survive_cancelled_polls(real_kafka: ApacheKafka, loop: str) -> None:
    name = f"aio-{loop}-shared"
    settings = {"bootstrap.servers": real_kafka.bootstrap, "group.id": name}

    async def collected(consumer: aio.ShareConsumer) -> list[tuple[int, int | None]]:
        places: list[tuple[int, int | None]] = []
        async with asyncio.timeout(60):
            while not places:
                try:
                    async with asyncio.timeout(0.05):
                        places += [(record.offset, record.delivery_count) for record in await consumer.poll(1000)]
                except TimeoutError:
                    continue
        return places

    async def main() -> None:
        async with aio.Admin(bootstrap_servers=real_kafka.bootstrap) as admin:
            await admin.create_topics(kafkatools.NewTopic(name, 1, 1))
            await admin.alter_configs({("group", name): {"share.auto.offset.reset": "earliest"}})
        async with aio.Producer(bootstrap_servers=real_kafka.bootstrap) as producer:
            await (await producer.send_many(name, [b"%d" % number for number in range(10)]))
        async with aio.ShareConsumer(settings) as implicit:
            implicit.subscribe([name])
            assert await collected(implicit) == [(offset, 1) for offset in range(10)]
        async with aio.ShareConsumer(settings, share_acknowledgement_mode="explicit") as explicit:
            explicit.subscribe([name])
            assert await collected(explicit) == [(offset, 2) for offset in range(10)]
            for offset in range(10):
                kind = kafkatools.AcknowledgeType.RELEASE if offset == 4 else kafkatools.AcknowledgeType.ACCEPT
                explicit.acknowledge_offset((name, 0), offset, kind)
            assert await explicit.commit() == {(name, 0): None}
            assert await collected(explicit) == [(4, 3)]

    run_on(loop, main)
