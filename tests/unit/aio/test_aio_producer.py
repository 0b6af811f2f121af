"""kafkatools.aio.Producer against the embedded broker: records, back-pressure, cancellation, transactions, closing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import threading
from collections.abc import Iterator

import pytest
from support.loops import LOOPS, run_on

import kafkatools
from kafkatools import aio
from kafkatools.errors import (
    BufferExhausted,
    IllegalState,
    KafkaError,
    PartialFailure,
    RecordTooLarge,
    SerializationError,
    Timeout,
)


@pytest.fixture(scope="module")
def broker() -> Iterator[kafkatools.EmbeddedBroker]:
    with kafkatools.EmbeddedBroker() as broker:  # in a process of its own: the file descriptors here are the client's
        with kafkatools.Admin(bootstrap_servers=broker.bootstrap) as admin:
            for topic in ("memory", "cancelled", "transactions", "late", "flushed"):
                admin.create_topics(kafkatools.NewTopic(topic, 1, 1))
            for topic in ("loops", "rows", "chosen"):
                admin.create_topics(kafkatools.NewTopic(topic, 3, 1))
        yield broker


@pytest.fixture
def bootstrap(broker: kafkatools.EmbeddedBroker) -> str:
    return broker.bootstrap


def read(bootstrap: str, topic: str, partitions: int = 1, **settings: object) -> list[kafkatools.ConsumerRecord]:
    """All records of a topic, by the synchronous consumer."""
    with kafkatools.Consumer(bootstrap_servers=bootstrap, **settings) as consumer:
        consumer.assign([(topic, index) for index in range(partitions)])
        consumer.seek_to_beginning()
        return list(consumer.read_to_end())


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_records_arrive_where_and_as_the_metadata_says(bootstrap: str, loop: str) -> None:
    async def main() -> list[kafkatools.RecordMetadata]:
        async with aio.Producer(bootstrap_servers=bootstrap.replace("127.0.0.1", "localhost")) as producer:
            assert await producer.partitions_for("loops") == [0, 1, 2]
            sent = [await producer.send("loops", b"%d" % i, key=f"{loop}{i}".encode()) for i in range(1000)]
            sent.append(await producer.send("loops", None, partition=2, timestamp=7, headers={"h": b"x"}))
            sent.append(await producer.send(kafkatools.ProducerRecord("loops", bytearray(b"b"), partition=2)))
            await producer.flush()
            assert all(future.done() for future in sent)
            last = await producer.send_and_wait("loops", b"last", partition=2)
            return [await future for future in sent] + [last]

    delivered = run_on(loop, main)
    records = {(record.partition, record.offset): record for record in read(bootstrap, "loops", 3)}
    for number, metadata in enumerate(delivered[:1000]):
        record = records[metadata.partition, metadata.offset]
        assert (record.key, record.value) == (f"{loop}{number}".encode(), b"%d" % number)
        assert (metadata.timestamp, metadata.serialized_value_size) == (record.timestamp, len(record.value))
        assert metadata.partition == kafkatools_partition(record.key, 3)
    tombstone, copied, last = (records[metadata.partition, metadata.offset] for metadata in delivered[1000:])
    assert (tombstone.value, tombstone.timestamp, tombstone.headers) == (None, 7, (("h", b"x"),))
    assert (copied.value, last.value, last.offset) == (b"b", b"last", copied.offset + 1)


def kafkatools_partition(key: bytes, count: int) -> int:
    """Kafka's partition of a key: murmur2 as in org.apache.kafka.common.utils.Utils, written out."""
    mask, seed, m = 0xFFFFFFFF, 0x9747B28C, 0x5BD1E995
    h = (seed ^ len(key)) & mask
    whole = len(key) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    tail = key[whole:]
    if tail:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return ((h ^ (h >> 15)) & 0x7FFFFFFF) % count


def test_rows_are_sent_at_once_and_reported_together(bootstrap: str) -> None:
    async def main() -> list[list[int]]:
        async with aio.Producer(bootstrap_servers=bootstrap, batch_size=1000) as producer:
            rows = await producer.send_many("rows", [b"%d" % i for i in range(500)], partition=1)
            single = await producer.send("rows", b"after", partition=1)
            runs = await rows
            assert (await single).offset == 500
            return [[row + run.base_offset - run.rows[0] for row in run.rows] for run in runs]

    offsets = run_on("asyncio", main)
    assert sorted(sum(offsets, [])) == list(range(500))
    assert [record.value for record in read(bootstrap, "rows", 3)] == [b"%d" % i for i in range(500)] + [b"after"]


def test_a_full_buffer_makes_sends_wait(bootstrap: str) -> None:
    async def main() -> int:
        async with aio.Producer(bootstrap_servers=bootstrap, buffer_memory=40_000, batch_size=8_000) as producer:
            futures = []

            async def send(task: int) -> None:
                for _ in range(200):
                    futures.append(await producer.send("memory", b"%d" % task * 500))  # noqa: PERF401

            most = 0
            sending = asyncio.gather(
                *(send(task) for task in range(5)), producer.send_many("memory", [b"x" * 900] * 300)
            )
            while not sending.done():
                await asyncio.sleep(0)
                most = max(most, len(futures) - sum(future.done() for future in futures))
            await (await sending)[-1]
            await asyncio.gather(*futures)
            return most

    most_waiting = run_on("uvloop", main)
    assert most_waiting * 500 < 40_000 + 2 * 65_536 + 10_000  # the memory, and what tasks collected for the next turn
    assert len(read(bootstrap, "memory")) == 1300


class Moody:
    """A partitioner that raises errors and chooses what is no partition, as the key says."""

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: object) -> object:
        if key == b"error":
            raise RuntimeError("no partition today")
        return {b"none": -3, b"word": "x", b"part": 0.5}.get(key or b"", 1)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("is_many", [False, True])
def test_a_partitioner_may_choose_a_partition_that_was_just_added(bootstrap: str, is_many: bool) -> None:
    topics = [f"growing-{client}-{is_many}" for client in ("aio", "sync")]
    with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
        for topic in topics:
            admin.create_topics(kafkatools.NewTopic(topic, 1, 1))

    def grow(topic: str) -> None:
        with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_partitions({topic: 2})

    async def main(topic: str) -> None:
        async with asyncio.timeout(30), aio.Producer(bootstrap_servers=bootstrap, partitioner=Moody()) as producer:  # type: ignore[arg-type]
            assert await producer.partitions_for(topic) == [0]
            grow(topic)
            if is_many:
                assert [run.partition for run in await (await producer.send_many(topic, [b"value"]))] == [1]
            else:
                assert (await producer.send_and_wait(topic, b"value")).partition == 1

    run_on("asyncio", lambda: main(topics[0]))
    with kafkatools.Producer(bootstrap_servers=bootstrap, partitioner=Moody()) as producer:  # type: ignore[arg-type]
        assert producer.partitions_for(topics[1]) == [0]
        grow(topics[1])
        if is_many:
            assert [run.partition for run in producer.send_many(topics[1], [b"value"]).result(30_000)] == [1]
        else:
            assert producer.send(topics[1], b"value").result(30_000).partition == 1


def test_a_record_that_the_partitioner_refuses_fails_alone(bootstrap: str) -> None:
    keys = [b"good", b"error", b"none", b"good", b"word", b"part", b"good"]

    async def main() -> None:
        async with (
            asyncio.timeout(60),
            aio.Producer(bootstrap_servers=bootstrap, partitioner=Moody()) as producer,  # type: ignore[arg-type]
        ):
            sent = [await producer.send("chosen", b"value", key) for key in keys]
            results = await asyncio.gather(*sent, return_exceptions=True)
            kinds = [int if isinstance(result, tuple) else type(result) for result in results]
            assert kinds == [int, RuntimeError, ValueError, int, TypeError, TypeError, int]
            assert all(result.partition == 1 for result in results if isinstance(result, tuple))
            with pytest.raises(PartialFailure) as raised:
                await (await producer.send_many("chosen", [b"value"] * len(keys), keys))
            assert len(raised.value.errors) == 4
            await producer.flush()

    run_on("asyncio", main)


@pytest.mark.slow
def test_memory_that_no_broker_frees_fails_records_in_time() -> None:
    async def main(broker: kafkatools.EmbeddedBroker) -> None:
        settings = {"buffer_memory": 20_000, "batch_size": 8_000, "max_block_ms": 300}
        async with aio.Producer(bootstrap_servers=broker.bootstrap, **settings) as producer:
            await producer.send_and_wait("t", b"x")
            os.kill(broker.pid, signal.SIGSTOP)
            futures = [await producer.send("t", b"x" * 4000)]
            while not any(future.done() for future in futures):
                futures.append(await producer.send("t", b"x" * 4000))
            failed = next(future for future in futures if future.done())
            assert isinstance(failed.exception(), BufferExhausted)
            assert producer.metrics()["buffer-exhausted-total"] > 0
            await producer.close(100)
            assert all(future.exception() for future in futures)

    with kafkatools.EmbeddedBroker() as broker:
        try:
            run_on("asyncio", lambda: main(broker))
        finally:
            broker.kill()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_sends_cancelled_at_random_are_sent_or_not_and_the_producer_goes_on(bootstrap: str, seed: int) -> None:
    random_source = random.Random(seed)
    accepted: set[bytes] = set()

    async def send(producer: aio.Producer, number: int) -> None:
        value = b"%d-%d" % (seed, number)
        future = await producer.send("cancelled", value.ljust(400))
        accepted.add(value)
        await future

    async def main() -> int:
        settings = {"buffer_memory": 30_000, "batch_size": 4_000, "linger_ms": 0}
        async with aio.Producer(bootstrap_servers=bootstrap, **settings) as producer:
            tasks = [asyncio.create_task(send(producer, number)) for number in range(600)]
            cancelled = 0
            while not all(task.done() for task in tasks):
                for _ in range(random_source.randrange(4)):
                    await asyncio.sleep(0)
                cancelled += sum(task.cancel() for task in random_source.sample(tasks, 5))
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
            await producer.flush()
            assert (await producer.send_and_wait("cancelled", b"%d-last" % seed)).offset >= 0
            return cancelled

    assert run_on("asyncio", main) > 10
    values = [record.value.rstrip() for record in read(bootstrap, "cancelled")]
    mine = [value for value in values if value.startswith(b"%d-" % seed)]
    assert len(mine) == len(set(mine))
    assert set(mine) == accepted | {b"%d-last" % seed}


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
def test_transactions_commit_abort_and_survive_a_cancelled_block(bootstrap: str, loop: str) -> None:
    async def block(producer: aio.Producer, begun: asyncio.Event) -> None:
        async with producer.transaction():
            await producer.send("transactions", b"cancelled")
            begun.set()
            await asyncio.sleep(60)

    async def main() -> None:
        async with aio.Producer(bootstrap_servers=bootstrap, transactional_id=f"t-{loop}") as producer:
            async with producer.transaction():
                await producer.send("transactions", f"{loop} 1".encode())
            with pytest.raises(ZeroDivisionError):
                async with producer.transaction():
                    await (await producer.send("transactions", b"aborted"))
                    raise ZeroDivisionError
            begun = asyncio.Event()
            task = asyncio.create_task(block(producer, begun))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await producer.begin_transaction()
            await producer.send("transactions", f"{loop} 2".encode())
            committing = asyncio.create_task(producer.commit_transaction())
            await asyncio.sleep(0)
            committing.cancel()  # the commit goes on
            await asyncio.wait({committing})
            async with producer.transaction():
                await producer.send("transactions", f"{loop} 3".encode())
            with pytest.raises(IllegalState):
                await producer.send("transactions", b"outside")

    run_on(loop, main)
    records = read(bootstrap, "transactions", isolation_level="read_committed")
    values = [record.value.decode() for record in records]
    assert [value for value in values if value.startswith(loop)] == [f"{loop} {number}" for number in (1, 2, 3)]
    assert "aborted" not in values and "cancelled" not in values


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_commit_that_fails_is_aborted_and_the_next_transaction_begins(
    broker: kafkatools.EmbeddedBroker, is_cancelled: bool
) -> None:
    async def fail(producer: aio.Producer) -> None:
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE|larger than"):
            async with producer.transaction():
                await producer.send("transactions", b"refused")

    async def fail_unnoticed(producer: aio.Producer) -> None:
        await producer.begin_transaction()
        delivery = await producer.send("transactions", b"refused")
        committing = asyncio.create_task(producer.commit_transaction())
        while not delivery.done():
            await asyncio.sleep(0)
            committing.cancel()  # the commit goes on, and fails
        assert delivery.exception() is not None
        await asyncio.wait({committing})
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE|larger than"):
            await producer.begin_transaction()
        await producer.abort_transaction()

    async def main() -> None:
        async with aio.Producer(bootstrap_servers=broker.bootstrap, transactional_id=f"fails-{is_cancelled}") as made:
            await made.init_transactions()
            with broker.faults.add("error", api="Produce", topic="transactions", error="MESSAGE_TOO_LARGE"):
                await (fail_unnoticed if is_cancelled else fail)(made)
            async with made.transaction():
                await made.send("transactions", b"after failure %d" % is_cancelled)

    asyncio.run(main())
    values = [record.value for record in read(broker.bootstrap, "transactions", isolation_level="read_committed")]
    assert b"after failure %d" % is_cancelled in values and b"refused" not in values


async def cancel_a_commit(producer: aio.Producer, delivery: asyncio.Future[kafkatools.RecordMetadata]) -> None:
    """Cancel a commit that has begun; return when the record is acknowledged or failed."""
    committing = asyncio.create_task(producer.commit_transaction())
    while not delivery.done():
        await asyncio.sleep(0)
        committing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await committing


@pytest.mark.parametrize("is_aborted", [False, True])
def test_a_call_cancelled_as_the_commit_before_completes_leaves_it_to_the_next_call(
    broker: kafkatools.EmbeddedBroker, is_aborted: bool
) -> None:
    async def main() -> None:
        async with aio.Producer(bootstrap_servers=broker.bootstrap, transactional_id="completes") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            with broker.faults.add("error", api="EndTxn", error="COORDINATOR_LOAD_IN_PROGRESS"):
                await cancel_a_commit(producer, await producer.send("transactions", b"completed %d" % is_aborted))
                waiting = asyncio.create_task(
                    producer.abort_transaction() if is_aborted else producer.begin_transaction()
                )
                await asyncio.sleep(0)
            unfinished = producer._unfinished
            assert unfinished is not None
            while not unfinished.result.is_completed:
                await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            async with producer.transaction():
                await producer.send("transactions", b"completed %d, next" % is_aborted)

    asyncio.run(asyncio.wait_for(main(), 60))
    values = [record.value for record in read(broker.bootstrap, "transactions", isolation_level="read_committed")]
    expected = [b"completed %d" % is_aborted, b"completed %d, next" % is_aborted]
    assert [value for value in values if value in expected] == expected


def test_after_a_cancelled_commit_that_fails_one_transaction_raises_its_error_and_the_next_begins(
    broker: kafkatools.EmbeddedBroker,
) -> None:
    async def main() -> None:
        async with aio.Producer(bootstrap_servers=broker.bootstrap, transactional_id="fails unseen") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            with broker.faults.add("error", api="Produce", topic="transactions", error="MESSAGE_TOO_LARGE"):
                delivery = await producer.send("transactions", b"fails unseen")
                await cancel_a_commit(producer, delivery)
            assert delivery.exception() is not None
            with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE|larger than"):
                async with producer.transaction():
                    pytest.fail("the block has run")
            async with producer.transaction():
                await producer.send("transactions", b"begins again")

    asyncio.run(main())
    values = [record.value for record in read(broker.bootstrap, "transactions", isolation_level="read_committed")]
    assert b"begins again" in values and b"fails unseen" not in values


def test_a_commit_cancelled_while_its_records_wait_for_memory_is_aborted(broker: kafkatools.EmbeddedBroker) -> None:
    async def block(producer: aio.Producer, rows: asyncio.Future[asyncio.Future[object]]) -> None:
        async with producer.transaction():
            await producer.send("transactions", b"no memory")
            rows.set_result(await producer.send_many("transactions", [b"no memory".ljust(900)] * 100))

    async def main() -> None:
        settings = {"transactional_id": "no memory", "buffer_memory": 20_000, "batch_size": 8_000}
        async with aio.Producer(bootstrap_servers=broker.bootstrap, **settings) as producer:
            await producer.init_transactions()
            rows: asyncio.Future[asyncio.Future[object]] = asyncio.get_running_loop().create_future()
            with broker.faults.add("error", api="Produce", topic="transactions", error="NOT_LEADER_OR_FOLLOWER"):
                task = asyncio.create_task(block(producer, rows))
                failed = await rows
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            with pytest.raises(KafkaError):
                await failed
            async with producer.transaction():
                await producer.send("transactions", b"memory again")

    asyncio.run(main())
    values = [record.value for record in read(broker.bootstrap, "transactions", isolation_level="read_committed")]
    assert b"memory again" in values and not any(value.startswith(b"no memory") for value in values)


@pytest.mark.slow
def test_a_flush_does_not_wait_for_records_that_are_sent_later(broker: kafkatools.EmbeddedBroker) -> None:
    async def send_until(stopped: asyncio.Event, producer: aio.Producer) -> None:
        while not stopped.is_set():
            await producer.send("flushed", b"x" * 1000)

    async def main() -> None:
        settings = {"buffer_memory": 65_536, "batch_size": 4_096, "linger_ms": 0}
        stopped = asyncio.Event()
        async with (
            aio.Producer(bootstrap_servers=broker.bootstrap, **settings) as producer,
            asyncio.TaskGroup() as tasks,
        ):
            for _ in range(3):
                tasks.create_task(send_until(stopped, producer))
            async with asyncio.timeout(60):
                while not producer.metrics()["waiting-threads"]:  # until a send waits for memory
                    await asyncio.sleep(0.001)
                await producer.flush()
            stopped.set()

    with broker.faults.add("delay", api="Produce", delay_ms=20):
        run_on("asyncio", main)


def test_a_commit_whose_records_wait_for_memory_times_out(broker: kafkatools.EmbeddedBroker) -> None:
    async def main() -> None:
        settings = {"transactional_id": "late", "buffer_memory": 20_000, "batch_size": 8_000}
        async with aio.Producer(bootstrap_servers=broker.bootstrap, **settings) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            with broker.faults.add("error", api="Produce", topic="late", error="NOT_LEADER_OR_FOLLOWER"):
                rows = await producer.send_many("late", [b"late".ljust(900)] * 100)
                with pytest.raises(Timeout, match="after 100ms while records of the transaction waited for memory"):
                    await producer.commit_transaction(timeout_ms=100)
            await producer.commit_transaction()
            assert sum(run.row_count for run in await rows) == 100

    run_on("asyncio", main)


def test_a_commit_has_records_that_tasks_send_while_it_waits_for_memory(broker: kafkatools.EmbeddedBroker) -> None:
    async def main() -> None:
        settings = {"transactional_id": "meanwhile", "buffer_memory": 20_000, "batch_size": 8_000}
        async with aio.Producer(bootstrap_servers=broker.bootstrap, **settings) as producer:

            async def send(turns: int) -> kafkatools.RecordMetadata | None:
                for _ in range(turns):
                    await asyncio.sleep(0)
                try:
                    delivery = await producer.send("late", b"meanwhile")
                except IllegalState:  # the commit has begun
                    return None
                return await delivery

            await producer.init_transactions()
            has_sent = False
            async with asyncio.timeout(60):
                while not has_sent:  # a send may also come too late for the commit
                    await producer.begin_transaction()
                    rows = await producer.send_many("late", [b"late".ljust(900)] * 100)
                    committing = asyncio.create_task(producer.commit_transaction())
                    sends = [asyncio.create_task(send(turns)) for turns in range(5)]
                    await committing
                    has_sent = any(await asyncio.gather(*sends))
                    assert sum(run.row_count for run in await rows) == 100

    run_on("asyncio", main)


def test_a_prepared_transaction_has_all_records_that_tasks_have_sent(broker: kafkatools.EmbeddedBroker) -> None:
    async def main() -> None:
        deliveries: list[asyncio.Future[kafkatools.RecordMetadata]] = []

        async def send_on(producer: aio.Producer) -> None:
            with contextlib.suppress(IllegalState):  # once the transaction is prepared
                for _ in range(300):
                    deliveries.append(await producer.send("late", b"prepared"))
                    await asyncio.sleep(0)

        async with aio.Producer(bootstrap_servers=broker.bootstrap, transactional_id="prepared") as producer:
            await producer.init_transactions()
            for _ in range(20):
                await producer.begin_transaction()
                await producer.send("late", b"prepared")
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(3):
                        tasks.create_task(send_on(producer))
                    prepared = await producer.prepare_transaction()
                await asyncio.gather(*deliveries)
                await producer.complete_transaction(prepared)

    run_on("asyncio", main)


def test_a_transaction_inside_of_another_one_is_refused_and_aborts_nothing(bootstrap: str) -> None:
    async def main() -> None:
        settings = {"transactional_id": "outer"}
        async with aio.Producer(bootstrap_servers=bootstrap, **settings) as producer, producer.transaction():
            await producer.send("transactions", b"outer 1")
            with pytest.raises(IllegalState, match="IN_TRANSACTION"):
                async with producer.transaction():
                    pytest.fail("the block has run")
            await producer.send("transactions", b"outer 2")

    asyncio.run(main())
    values = [record.value for record in read(bootstrap, "transactions", isolation_level="read_committed")]
    assert [value for value in values if value.startswith(b"outer")] == [b"outer 1", b"outer 2"]


def test_an_abort_waits_for_a_cancelled_commit_within_its_own_timeout(broker: kafkatools.EmbeddedBroker) -> None:
    async def main() -> None:
        settings = {"transactional_id": "busy", "max_block_ms": 5000}
        async with aio.Producer(bootstrap_servers=broker.bootstrap, **settings) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            with broker.faults.add("error", api="EndTxn", error="COORDINATOR_LOAD_IN_PROGRESS"):
                await cancel_a_commit(producer, await producer.send("transactions", b"busy"))
                with pytest.raises(Timeout, match="expired after 100ms"):
                    await producer.abort_transaction(timeout_ms=100)
            await producer.commit_transaction()

    asyncio.run(main())
    values = [record.value for record in read(broker.bootstrap, "transactions", isolation_level="read_committed")]
    assert b"busy" in values


def test_prepared_transactions_are_completed_here_and_elsewhere(bootstrap: str) -> None:
    """KIP-939: the last one is ended by an admin client after its producer is closed."""

    async def main() -> None:
        async with aio.Producer(bootstrap_servers=bootstrap, transactional_id="prepared") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send("transactions", b"prepared 1")
            first = await producer.prepare_transaction()
            assert await producer.complete_transaction(first)
            await producer.begin_transaction()
            await producer.send("transactions", b"not decided")
            await producer.prepare_transaction()
            assert not await producer.complete_transaction(first)
            await producer.begin_transaction()
            with pytest.raises(IllegalState, match="call prepare_transaction first"):
                await producer.complete_transaction(first)
            await producer.send("transactions", b"prepared 2")
            last = await producer.prepare_transaction()
        async with aio.Admin(bootstrap_servers=bootstrap) as admin:
            await admin.end_transaction(last, commit=True)

    asyncio.run(main())
    values = [record.value for record in read(bootstrap, "transactions", isolation_level="read_committed")]
    assert [value for value in values if value.startswith((b"prepared", b"not"))] == [b"prepared 1", b"prepared 2"]


def test_transactions_cancelled_at_random_points_keep_whole_transactions_only(bootstrap: str) -> None:
    random_source = random.Random(5)

    async def transact(producer: aio.Producer, number: int) -> None:
        async with producer.transaction():
            for part in range(3):
                await producer.send("transactions", b"whole %d %d" % (number, part))

    async def main() -> list[int]:
        committed = []
        async with aio.Producer(bootstrap_servers=bootstrap, transactional_id="whole") as producer:
            for number in range(40):
                task = asyncio.create_task(transact(producer, number))
                if number % 4:
                    for _ in range(random_source.randrange(12)):
                        await asyncio.sleep(random_source.choice((0, 0, 0.0005)))
                    task.cancel()
                await asyncio.wait({task})
                assert task.cancelled() or task.exception() is None
                if not task.cancelled():
                    committed.append(number)
        return committed

    committed = run_on("asyncio", main)
    values = [record.value for record in read(bootstrap, "transactions", isolation_level="read_committed")]
    numbers = [int(value.split()[1]) for value in values if value.startswith(b"whole")]
    assert set(committed) <= set(numbers)
    assert all(numbers.count(number) == 3 for number in numbers)


def test_wrong_use_is_an_error_of_the_call_or_of_the_future(bootstrap: str) -> None:
    producer = aio.Producer(bootstrap_servers=bootstrap, max_request_size=1000, max_block_ms=2000)

    async def main() -> None:
        with pytest.raises(SerializationError):
            await producer.send("loops", 5)
        with pytest.raises(ValueError, match="Invalid partition"):
            await producer.send("loops", b"", partition=-1)
        with pytest.raises(TypeError):
            await producer.send("loops", b"", partition="0")
        with pytest.raises(IllegalState, match="transactional.id"):
            await producer.begin_transaction()
        with pytest.raises(ValueError, match="2 values with 1 keys"):
            await producer.send_many("loops", [b"", b""], [b""])
        large = await producer.send("loops", b"x" * 2000)
        with pytest.raises(RecordTooLarge):
            await large
        missing = await producer.send("loops", b"", partition=9)
        with pytest.raises(Timeout, match="Partition 9 of topic loops with partition count 3"):
            await missing

    async def elsewhere() -> None:
        with pytest.raises(IllegalState, match="another event loop"):
            await producer.send("loops", b"")

    async def closed() -> None:
        await main()
        await asyncio.to_thread(asyncio.run, elsewhere())
        await producer.close()
        await producer.close()
        with pytest.raises(IllegalState, match="closed"):
            await producer.send("loops", b"")

    asyncio.run(closed())


def test_unreachable_names_and_servers_are_told_and_closing_is_bounded() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            producer = aio.Producer(bootstrap_servers=f"no.such.host.invalid:1,{address}", max_block_ms=400)
            before = set(threading.enumerate())
            future = await producer.send("t", b"")
            assert isinstance(future.exception(), KafkaError)
            assert {thread.name.partition("_")[0] for thread in set(threading.enumerate()) - before} <= {"asyncio"}
            waiting = asyncio.create_task(producer.partitions_for("t"))
            await asyncio.sleep(0)
            await producer.close(200)
            with pytest.raises(IllegalState):
                await waiting

    asyncio.run(asyncio.wait_for(main(), 60))
