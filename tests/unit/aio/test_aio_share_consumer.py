"""kafkatools.aio.ShareConsumer against the embedded broker: acknowledgement modes, loops, cancellation, closing."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from support.loops import LOOPS, run_on

import kafkatools
from kafkatools import AcknowledgeType, ConsumerRecord, aio
from kafkatools.errors import ConfigError, IllegalState, InvalidGroupId, KafkaError

RECORDS = 20
QUICK_GROUPS = {
    "group.share.heartbeat.interval.ms": 100,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.session.timeout.ms": 500,
    "group.share.min.session.timeout.ms": 500,
}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with kafkatools.EmbeddedBroker(QUICK_GROUPS) as broker:
        yield broker.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A topic with the records 0 to 19; the group of the same name begins at its first record."""
    name = f"jobs{next(_numbers)}"
    with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(kafkatools.NewTopic(name, 1, 1))
        admin.alter_configs({("group", name): {"share.auto.offset.reset": "earliest"}})
    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many(name, [b"%d" % number for number in range(RECORDS)]).result()
    return name


def member(bootstrap: str, topic: str, mode: str = "implicit", **settings: Any) -> aio.ShareConsumer:
    consumer = aio.ShareConsumer(
        bootstrap_servers=bootstrap, group_id=topic, share_acknowledgement_mode=mode, **settings
    )
    consumer.subscribe([topic])
    return consumer


async def collected(consumer: aio.ShareConsumer, count: int = 1) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    async with asyncio.timeout(30):
        while len(records) < count:
            records += await consumer.poll(500)
    return records


def places(records: list[ConsumerRecord]) -> list[tuple[int, int | None]]:
    return [(record.offset, record.delivery_count) for record in records]


@pytest.mark.parametrize("loop", LOOPS)
def test_close_releases_what_no_poll_or_commit_has_accepted(bootstrap: str, topic: str, loop: str) -> None:
    async def main() -> None:
        async with member(bootstrap, topic) as first:
            assert places(await collected(first)) == [(offset, 1) for offset in range(RECORDS)]
            assert first.assignment() == [(topic, 0)]
        async with member(bootstrap, topic) as second:
            columns = []
            while not columns:
                columns = await second.poll_columns(500)
            assert [(list(item.columns.offsets), item.delivery_count) for item in columns] == [
                (list(range(RECORDS)), 2)
            ]
            assert await second.commit() == {(topic, 0): None}
            assert await second.commit() == {}
        async with member(bootstrap, topic) as third:
            assert not await third.poll(600)

    run_on(loop, main)


def test_a_loop_that_is_left_releases_the_records_that_it_has_not_yielded(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with member(bootstrap, topic) as consumer:
            async for record in consumer:
                if record.offset == 7:
                    break
            assert await consumer.commit() == {(topic, 0): None}
            assert places(await collected(consumer)) == [(offset, 2) for offset in range(8, RECORDS)]

    run_on("asyncio", main)


def test_explicit_acknowledgements_of_a_loop_are_committed_one_by_one(bootstrap: str, topic: str) -> None:
    kinds = {0: AcknowledgeType.RELEASE, 1: AcknowledgeType.REJECT}

    async def main() -> None:
        outcomes: list[tuple[set[int], KafkaError | None]] = []
        async with member(bootstrap, topic, "explicit") as consumer:
            consumer.set_acknowledgement_commit_callback(
                lambda offsets, error: outcomes.append((offsets[kafkatools.TopicPartition(topic, 0)], error))
            )
            async for record in consumer:
                consumer.acknowledge(record, kinds.get(record.offset, AcknowledgeType.ACCEPT))
                assert await consumer.commit() == {(topic, 0): None}
                if record.offset == RECORDS - 1:
                    break
            assert outcomes == [({offset}, None) for offset in range(RECORDS)]
            again = await collected(consumer)
            assert places(again) == [(0, 2)]
            with pytest.raises(IllegalState, match="must be acknowledged"):
                await consumer.poll(0)
            with pytest.raises(IllegalState, match="cannot be acknowledged"):
                consumer.acknowledge_offset((topic, 0), 1)

    run_on("uvloop", main)


@pytest.mark.parametrize("seed", [1, 2])
def test_cancelled_polls_lose_no_record_and_deliver_none_twice(bootstrap: str, topic: str, seed: int) -> None:
    chance = random.Random(seed)

    async def main() -> None:
        seen: list[ConsumerRecord] = []
        async with member(bootstrap, topic) as consumer, asyncio.timeout(30):
            while len(seen) < RECORDS:
                try:
                    async with asyncio.timeout(chance.random() / 50):
                        seen += await consumer.poll(1000)
                except TimeoutError:
                    continue
            try:
                async with asyncio.timeout(0):
                    await consumer.commit()
            except TimeoutError:
                pass
            await consumer.commit()
            assert places(seen) == [(offset, 1) for offset in range(RECORDS)]
        async with member(bootstrap, topic) as other:
            assert not await other.poll(300)

    run_on("asyncio", main)


def test_heartbeats_go_on_while_records_are_processed(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with member(bootstrap, topic, "explicit") as consumer:
            records = await collected(consumer)
            with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
                for _ in range(8):
                    await asyncio.sleep(0.1)  # longer than the session in all
                (group,) = (await asyncio.to_thread(admin.describe_share_groups, [topic])).values()
            assert len(group.members) == 1
            for record in records:
                consumer.acknowledge(record)
            assert await consumer.commit() == {(topic, 0): None}

    run_on("asyncio", main)


def test_one_task_polls_and_close_ends_its_poll(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        consumer = member(bootstrap, topic)
        await collected(consumer)
        await consumer.commit()
        polling = asyncio.create_task(consumer.poll(30_000))
        await asyncio.sleep(0)
        for call in (consumer.poll(0), consumer.commit(), consumer.poll_columns(0)):
            with pytest.raises(IllegalState, match="Another task"):
                await call
        with pytest.raises(IllegalState, match="Another task"):
            consumer.commit_async()
        async with asyncio.timeout(10):
            await consumer.close()
            with pytest.raises(IllegalState, match="closed"):
                await polling
        await consumer.close()
        with pytest.raises(IllegalState, match="closed"):
            await consumer.poll(0)

    run_on("asyncio", main)


def test_a_cancelled_close_closes_at_once(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        consumer = member(bootstrap, topic)
        await collected(consumer)
        closing = asyncio.create_task(consumer.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})
        with pytest.raises(IllegalState, match="closed"):
            consumer.subscription()
        async with member(bootstrap, topic) as other:
            assert len(await collected(other)) == RECORDS

    run_on("uvloop", main)


def test_settings_are_checked_before_a_loop_runs() -> None:
    with pytest.raises(InvalidGroupId):
        aio.ShareConsumer(bootstrap_servers="localhost:9092")
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        aio.ShareConsumer(bootstrap_servers="localhost:9092", group_id="g", auto_offset_reset="earliest")
