"""kafkatools.aio.Consumer against the embedded broker: assignment, groups of both protocols, cancellation, closing."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence

import anyio
import pytest
from support.loops import LOOPS, run_on

import kafkatools
from kafkatools import aio
from kafkatools.aio import record_iterators
from kafkatools.errors import IllegalState, KafkaError, NoOffsetForPartition, SaslAuthenticationFailed
from kafkatools.sandbox.security import SecurityOptions

RECORDS = 3000
PROTOCOLS = ("classic", "consumer")
QUICK_GROUPS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 100,
}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with kafkatools.EmbeddedBroker(QUICK_GROUPS) as broker:
        with kafkatools.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([kafkatools.NewTopic("numbers", 3, 1), kafkatools.NewTopic("copies", 1, 1)])
        with kafkatools.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(RECORDS):
                producer.send("numbers", b"%d" % number, partition=number % 3)
        yield broker.bootstrap


def group(bootstrap: str, name: str, **settings: object) -> aio.Consumer:
    if settings.get("group_protocol") != "consumer":
        settings["heartbeat_interval_ms"] = 100
    return aio.Consumer(bootstrap_servers=bootstrap, group_id=name, auto_offset_reset="earliest", **settings)


async def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def test_read_to_end_of_a_group_has_the_records_of_the_poll_that_joined(
    bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll that is long enough joins and fetches in one."""
    monkeypatch.setattr(record_iterators.EndRecords, "_poll_ms", 10_000)

    deserialized: list[bytes] = []

    def value_of(data: bytes) -> bytes:
        deserialized.append(data)
        return data

    async def main() -> None:
        async with group(bootstrap, "joining", value_deserializer=value_of) as consumer:
            consumer.subscribe(["numbers"])
            seen = sorted([int(record.value) async for record in consumer.read_to_end()])
            assert (seen, len(deserialized)) == (list(range(RECORDS)), RECORDS)

    asyncio.run(main())


@pytest.mark.parametrize("loop", LOOPS)
def test_assigned_partitions_are_read_in_every_way(bootstrap: str, loop: str) -> None:
    async def main() -> None:
        before = set(threading.enumerate())
        async with aio.Consumer(bootstrap_servers=bootstrap.replace("127.0.0.1", "localhost")) as consumer:
            consumer.assign([("numbers", index) for index in range(3)])
            consumer.seek_to_beginning()
            first = await anext(aiter(consumer))
            assert first.offset == 0
            rest = [record async for record in consumer.read_to_end()]
            assert sorted(int(record.value) for record in [first, *rest]) == list(range(RECORDS))
            consumer.seek(("numbers", 1), 995)
            assert [record.offset async for record in consumer.records(1000)] == list(range(995, 1000))
            consumer.seek(("numbers", 2), 990)
            columns = await consumer.poll_columns(1000)
            assert [list(item.columns.offsets) for item in columns] == [list(range(990, 1000))]
            assert await consumer.position(("numbers", 2)) == 1000
            assert await consumer.end_offsets([("numbers", 0)]) == {("numbers", 0): 1000}
            assert await consumer.partitions_for("numbers") == [0, 1, 2]
            await consumer.seek_to_time(0)
            assert await consumer.position(("numbers", 0)) == 0
            started = {thread.name.partition("_")[0] for thread in set(threading.enumerate()) - before}
            assert started <= {"asyncio"}  # the loop's executor, which resolves names

    run_on(loop, main)


class Recorder(kafkatools.RebalanceListener):
    """Commits in its coroutines, which a rebalance awaits."""

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


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_share_partitions_and_commit_in_their_listeners(bootstrap: str, protocol: str) -> None:
    async def read(consumer: aio.Consumer, values: list[int]) -> None:
        async for record in consumer:
            values.append(int(record.value))
            if len(values) % 100 == 0:
                await asyncio.sleep(0.005)

    async def main() -> None:
        name, values = f"shared-{protocol}", []
        async with group(bootstrap, name, group_protocol=protocol, max_poll_records=50) as first:
            listener = Recorder(first)
            first.subscribe(["numbers"], listener)
            reading = asyncio.create_task(read(first, values))
            await until(lambda: len(values) > 300)
            async with group(bootstrap, name, group_protocol=protocol, max_poll_records=50) as second:
                second.subscribe(["numbers"])
                other = asyncio.create_task(read(second, values))
                await until(lambda: 0 < len(first.assignment()) < 3 == len(first.assignment() + second.assignment()))
                other.cancel()
                await asyncio.wait({other})
                await second.commit()
            await until(lambda: set(values) == set(range(RECORDS)) and len(first.assignment()) == 3)
            reading.cancel()
            await asyncio.wait({reading})
            await first.commit()
            committed = await first.committed([("numbers", index) for index in range(3)])
            assert [offset.offset for offset in committed.values() if offset] == [1000] * 3
        assert listener.calls[0] == ("assigned", 3)
        revoked = next(count for call, count in listener.calls if call == "revoked")
        assert revoked == 3 if protocol == "classic" else revoked < 3
        assert listener.calls[-1] == ("revoked", 3)
        assert len(values) == len(set(values))

    run_on("asyncio" if protocol == "classic" else "uvloop", main)


class Slow(kafkatools.RebalanceListener):
    """A listener that a cancelled poll finds in the middle."""

    def __init__(self) -> None:
        self.calls = 0

    async def on_partitions_assigned(self, partitions: Sequence[kafkatools.TopicPartition]) -> None:
        await asyncio.sleep(0.02)
        self.calls += 1


async def use(consumer: aio.Consumer, values: list[int], random_source: random.Random) -> None:
    """Calls of a consumer that may be cancelled anywhere."""
    for record in await consumer.poll(1000):
        values.append(int(record.value))
    if random_source.randrange(8) == 0:
        await consumer.commit()
    if random_source.randrange(8) == 0:
        await consumer.end_offsets([("numbers", 0)])
        async for record in consumer:
            values.append(int(record.value))
            if random_source.randrange(3) == 0:
                return


class Caller(kafkatools.RebalanceListener):
    """A listener that makes a call of its consumer, in a task of its own or not."""

    def __init__(self, call: Callable[[], Coroutine[object, object, object]], *, is_in_task: bool) -> None:
        self.call = call
        self.is_in_task = is_in_task

    async def on_partitions_assigned(self, partitions: Sequence[kafkatools.TopicPartition]) -> None:
        await (asyncio.create_task(self.call()) if self.is_in_task else self.call())


@pytest.mark.parametrize("is_in_task", [False, True])
@pytest.mark.parametrize("call", ["unsubscribe", "close", "poll"])
def test_a_listener_cannot_wait_for_its_own_rebalance(bootstrap: str, call: str, is_in_task: bool) -> None:
    async def main() -> None:
        async with group(bootstrap, f"inside {call} {is_in_task}", group_protocol="consumer") as consumer:
            calls = {"unsubscribe": consumer.unsubscribe, "close": consumer.close, "poll": lambda: consumer.poll(100)}
            consumer.subscribe(["numbers"], Caller(calls[call], is_in_task=is_in_task))
            async with asyncio.timeout(60):
                with pytest.raises(KafkaError) as raised:
                    async for _ in consumer:
                        pass
            assert isinstance(raised.value.__cause__, IllegalState)
            assert "in a callback of a rebalance listener" in str(raised.value.__cause__)

    run_on("asyncio", main)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", range(2))
def test_polls_cancelled_at_random_lose_and_repeat_nothing(bootstrap: str, seed: int, protocol: str) -> None:
    random_source = random.Random(seed)

    async def main() -> None:
        listener, values = Slow(), []
        settings = {"group_protocol": protocol, "max_poll_records": 20, "enable_auto_commit": False}
        async with group(bootstrap, f"cancelled-{seed}-{protocol}", **settings) as consumer:
            consumer.subscribe(["numbers"], listener)
            while len(values) < RECORDS:
                task = asyncio.create_task(use(consumer, values, random_source))
                for _ in range(random_source.randrange(1, 12)):
                    await asyncio.sleep(random_source.choice((0, 0, 0, 0.002)))
                task.cancel()
                await asyncio.wait({task})
                assert task.cancelled() or task.exception() is None, task.exception()
            assert sorted(values) == list(range(RECORDS))
            assert listener.calls == 1  # the listener of a cancelled poll ran once, to its end
            await consumer.commit()
            committed = await consumer.committed([("numbers", 0)])
            assert committed[("numbers", 0)].offset == 1000

    run_on(LOOPS[seed], main)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_that_does_not_poll_stays_in_its_group(bootstrap: str, protocol: str) -> None:
    async def main() -> None:
        async with group(bootstrap, f"idle-{protocol}", group_protocol=protocol) as consumer:
            consumer.subscribe(["numbers"])
            await consumer.poll(5000)
            heartbeats = consumer._group._heartbeat
            first = heartbeats._next_ms
            await until(lambda: heartbeats._next_ms > first)  # sent without a call of the application
            assert await consumer.poll(1000)

    run_on("asyncio", main)


@pytest.mark.slow
def test_consumed_offsets_go_with_the_transaction(bootstrap: str) -> None:
    async def main() -> None:
        settings = {"bootstrap_servers": bootstrap, "transactional_id": "copier"}
        reading = {"group_protocol": "consumer", "enable_auto_commit": False, "isolation_level": "read_committed"}
        async with aio.Producer(**settings) as producer, group(bootstrap, "copiers", **reading) as consumer:
            consumer.subscribe(["numbers"])
            copied = 0
            while copied < RECORDS:
                records = await consumer.poll(1000)
                if not records:
                    continue
                async with producer.transaction():
                    for record in records:
                        await producer.send("copies", record.value)
                    await producer.send_offsets_to_transaction(records.next_offsets(), consumer.group_metadata())
                copied += len(records)
            committed = await consumer.committed([("numbers", index) for index in range(3)])
            assert [offset.offset for offset in committed.values() if offset] == [1000] * 3

    run_on("uvloop", main)
    with kafkatools.Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([("copies", 0)])
        consumer.seek_to_beginning()
        assert sorted(int(record.value) for record in consumer.read_to_end()) == list(range(RECORDS))


def test_wrong_use_is_refused_in_one_line(bootstrap: str) -> None:
    async def main() -> None:
        async with aio.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="none", group_id="wrong") as consumer:
            with pytest.raises(ValueError, match="unsubscribe"):
                consumer.assign([])
            with pytest.raises(ValueError, match="unsubscribe"):
                consumer.subscribe([])
            with pytest.raises(TypeError, match="int of milliseconds"):
                await consumer.poll(0.5)
            consumer.assign([("numbers", 0)])
            with pytest.raises(NoOffsetForPartition):
                await consumer.position(("numbers", 0))
            consumer.seek(("numbers", 0), 1000)
            polling = asyncio.create_task(consumer.poll(60_000))
            await asyncio.sleep(0)
            with pytest.raises(IllegalState, match="Another task"):
                await consumer.poll(0)
            assert await consumer.end_offsets([("numbers", 0)])  # other calls may overlap with a poll
            await consumer.close()
            with pytest.raises(IllegalState, match="closed"):
                await polling
            with pytest.raises(IllegalState, match="closed"):
                await consumer.poll(0)
            await consumer.close()

    run_on("asyncio", main)


def test_a_coroutine_listener_is_refused_by_the_synchronous_consumer(bootstrap: str) -> None:
    class Listener(kafkatools.RebalanceListener):
        async def on_partitions_assigned(self, partitions: Sequence[kafkatools.TopicPartition]) -> None:
            raise AssertionError

    with (
        kafkatools.Consumer(bootstrap_servers=bootstrap, group_id="coroutine") as consumer,
        pytest.raises(KafkaError) as raised,
    ):
        consumer.subscribe(["numbers"], Listener())
        while True:
            consumer.poll(1000)
    assert isinstance(raised.value.__cause__, TypeError)
    assert "kafkatools.aio" in str(raised.value.__cause__)


@pytest.mark.slow
def test_closing_is_bounded_without_a_broker_and_with_a_hanging_listener() -> None:
    class Hanging(kafkatools.RebalanceListener):
        async def on_partitions_revoked(self, partitions: Sequence[kafkatools.TopicPartition]) -> None:
            await asyncio.sleep(3600)

    async def main(broker: kafkatools.EmbeddedBroker) -> None:
        consumer, hanging = group(broker.bootstrap, "bounded"), group(broker.bootstrap, "hanging")
        consumer.subscribe(["t"])
        hanging.subscribe(["t"], Hanging())
        while not consumer.assignment():
            await consumer.poll(50)
        while not hanging.assignment():
            await asyncio.gather(consumer.poll(50), hanging.poll(50))
        os.kill(broker.pid, signal.SIGSTOP)
        async with asyncio.timeout(30):
            await consumer.close(300)
            try:
                await hanging.close(300)
            except KafkaError as error:
                assert "listener" in str(error.__cause__) or "listener" in str(error)

    with kafkatools.EmbeddedBroker(QUICK_GROUPS) as broker:
        with kafkatools.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics("t")
        try:
            run_on("asyncio", lambda: main(broker))
        finally:
            broker.kill()


def test_cancel_scopes_of_anyio_end_all_clients_at_once(bootstrap: str) -> None:
    async def use(delay_s: float) -> bool:
        with anyio.move_on_after(delay_s) as scope:
            async with (
                aio.Producer(bootstrap_servers=bootstrap, transactional_id="scopes") as producer,
                group(bootstrap, "scopes") as consumer,
                aio.Admin(bootstrap_servers=bootstrap) as admin,
            ):
                consumer.subscribe(["numbers"])
                async with producer.transaction():
                    await producer.send("copies", b"never committed")
                    await admin.list_topics()
                    await asyncio.sleep(60)
        return scope.cancelled_caught

    async def main() -> None:
        for delay_s in (0, 0.001, 0.02, 0.1):
            assert await use(delay_s)

    run_on("anyio", main)


@pytest.mark.slow
def test_tls_and_scram_need_no_thread_either() -> None:
    async def main(settings: dict[str, str]) -> None:
        async with aio.Producer(settings) as producer:
            await producer.send_and_wait("t", b"secret")
        async with aio.Consumer(settings, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            assert [record.value for record in await consumer.poll(20_000)] == [b"secret"]
        wrong = settings["sasl.jaas.config"].replace('password="', 'password="x')
        async with aio.Producer({**settings, "sasl.jaas.config": wrong}) as producer:
            with pytest.raises(SaslAuthenticationFailed):
                await (await producer.send("t", b""))

    security = SecurityOptions(tls=True, sasl="scram", users={"alice": "word"})
    with kafkatools.EmbeddedBroker(QUICK_GROUPS, security=security) as broker:
        run_on("uvloop", lambda: main(broker.client_settings("alice")))
