"""Producer.send of plain records, which are collected before a batch takes them: order, results, memory, closing."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import uuid
from collections.abc import Iterator

import pytest
from support.manual_clock import ManualClock

import kafkatools
from kafkatools import ConsumerRecord, EmbeddedBroker, Producer, ProducerRecord, RecordMetadata
from kafkatools.core.clock import SystemClock
from kafkatools.core.net.metadata import ClusterView, Node, PartitionView, TopicView
from kafkatools.core.producer.futures import RecordFuture
from kafkatools.core.producer.partitioners import partition_for_key
from kafkatools.core.producer.unbatched.send_queue import QueuedFuture
from kafkatools.errors import (
    BufferExhausted,
    IllegalState,
    KafkaError,
    MessageTooLarge,
    NotEnoughReplicas,
    RecordTooLarge,
    SerializationError,
    Timeout,
)

THREE = 3


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as started:
        yield started


def make_topic(broker: EmbeddedBroker, name: str, partitions: int = 1, **configs: str) -> str:
    """Create a topic and return its name."""
    with kafkatools.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(kafkatools.NewTopic(name, partitions, 1, configs=configs))
    return name


def read(broker: EmbeddedBroker, topic: str, partitions: int = 1) -> list[ConsumerRecord]:
    """All records of a topic, each partition in order."""
    with kafkatools.Consumer(bootstrap_servers=broker.bootstrap) as consumer:
        consumer.assign([(topic, index) for index in range(partitions)])
        consumer.seek_to_beginning()
        return list(consumer.read_to_end())


def test_results_are_those_of_the_records(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "results", THREE)
    called: list[tuple[RecordMetadata, Exception | None]] = []
    clock = SystemClock()
    before_ms = clock.wall_ms()
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        sent = [
            producer.send(
                topic,
                None if number % 10 == 9 else b"%d" % number,
                None if number % 4 == 3 else b"k%d" % number,
                partition=2 if number % 50 == 0 else None,
                callback=lambda metadata, error: called.append((metadata, error)),
            )
            for number in range(3000)
        ]
        assert any(isinstance(future, QueuedFuture) for future in sent)
        producer.flush()
        assert all(future.done() and future.exception() is None for future in sent)
        assert len(called) == len(sent)
    after_ms = clock.wall_ms()
    records = {(record.partition, record.offset): record for record in read(broker, topic, THREE)}
    assert len(records) == len(sent)
    for number, future in enumerate(sent):
        metadata = future.result()
        assert future.metadata() == metadata
        record = records[metadata.partition, metadata.offset]
        value = None if number % 10 == 9 else b"%d" % number
        key = None if number % 4 == 3 else b"k%d" % number
        assert (record.value, record.key, record.timestamp) == (value, key, metadata.timestamp)
        assert metadata.serialized_value_size == (-1 if value is None else len(value))
        assert metadata.serialized_key_size == (-1 if key is None else len(key))
        assert number % 50 or metadata.partition == 2
        assert before_ms <= metadata.timestamp <= after_ms
    assert {metadata for metadata, _ in called} == {future.result() for future in sent}
    assert all(error is None for _, error in called)


def test_kinds_of_sends_to_a_topic_keep_their_order(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "order")
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for start in range(0, 400, 4):
            producer.send(topic, b"%d" % start)
            producer.send(topic, b"%d" % (start + 1), headers={"h": b"x"})
            producer.send_many(topic, [b"%d" % (start + 2)])
            producer.send(ProducerRecord(topic, b"%d" % (start + 3), timestamp=7))
    assert [int(record.value or b"") for record in read(broker, topic)] == list(range(400))


@pytest.mark.slow
def test_threads_lose_and_double_nothing(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "threads", THREE)
    futures: dict[int, list[RecordFuture]] = {}

    def work(thread: int) -> None:
        futures[thread] = [producer.send(topic, b"%d %d" % (thread, row), b"%d" % thread) for row in range(5000)]
        producer.flush()
        assert all(future.done() for future in futures[thread])

    with Producer(bootstrap_servers=broker.bootstrap, batch_size=2000, buffer_memory=200_000) as producer:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        offsets = {(future.result().partition, future.result().offset) for sent in futures.values() for future in sent}
    assert len(offsets) == 20_000
    rows: dict[int, list[int]] = {}
    for record in read(broker, topic, THREE):
        thread, row = map(int, (record.value or b"").split())
        rows.setdefault(thread, []).append(row)
    assert rows == {number: list(range(5000)) for number in range(4)}


def test_sizes_are_checked_for_each_record(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "sizes")
    errors: list[Exception | None] = []
    with Producer(bootstrap_servers=broker.bootstrap, max_request_size=300_000, buffer_memory=400_000) as producer:
        small = producer.send(topic, b"small")
        large = producer.send(topic, b"v" * 200_000, b"k" * 50_000)
        refused = producer.send(topic, b"v" * 299_990, callback=lambda metadata, error: errors.append(error))
        after = producer.send(topic, b"after")
        assert [future.result().offset for future in (small, large, after)] == [0, 1, 2]
        with pytest.raises(RecordTooLarge, match=r"max\.request\.size"):
            refused.result()
    assert [type(error) for error in errors] == [RecordTooLarge]


def test_a_batch_that_the_broker_refuses_is_split(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "split", **{"max.message.bytes": "2000"})
    with Producer(bootstrap_servers=broker.bootstrap, batch_size=30_000, linger_ms=1000) as producer:
        sent = [producer.send(topic, b"%090d" % number) for number in range(200)]
        refused = producer.send(topic, b"x" * 3000)
        producer.flush()
        assert sorted(future.result().offset for future in sent) == list(range(200))
        with pytest.raises(MessageTooLarge):
            refused.result()
    assert sorted(int(record.value or b"") for record in read(broker, topic)) == list(range(200))


def test_a_callback_that_fails_is_logged_and_disturbs_no_other(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(broker, "callbacks")
    offsets: list[int] = []

    def callback(metadata: RecordMetadata, error: Exception | None) -> None:
        offsets.append(metadata.offset)
        if metadata.offset == 1:
            raise ValueError("a fault of the caller")

    with (
        caplog.at_level(logging.ERROR),
        Producer(bootstrap_servers=broker.bootstrap, linger_ms=50) as producer,
    ):
        sent = [producer.send(topic, b"x", callback=callback) for _ in range(3)]
        assert [future.result().offset for future in sent] == [0, 1, 2]
    assert offsets == [0, 1, 2]
    assert "Error executing user-provided callback on message for topic-partition 'callbacks-0'" in caplog.text


def test_a_full_memory_blocks_and_then_fails_the_records(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "memory")
    settings = {"bootstrap.servers": broker.bootstrap, "buffer.memory": 40_000, "max.block.ms": 300, "linger.ms": 0}
    with Producer(settings) as producer:
        producer.send(topic, b"first").result()
        with broker.faults.add("drop", api="Produce", topic=topic):
            sent = [producer.send(topic, b"x" * 1000) for _ in range(100)]
            failed = [future for future in sent if isinstance(future.exception(), BufferExhausted)]
            assert failed
            assert not any(future.done() for future in sent if future not in failed)
        waiting = [future for future in sent if future not in failed]
        assert waiting
        producer.close(0)
    assert all(future.done() for future in sent)


def test_a_result_that_takes_too_long(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "late")
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send(topic, b"first").result()
        with broker.faults.add("drop", api="Produce", topic=topic):
            future = producer.send(topic, b"late", partition=0)
            with pytest.raises(Timeout, match="20 ms"):
                future.result(20)
            assert (future.done(), future.exception()) == (False, None)
            unknown = (topic, 0, -1, -1, -1, -1)
            assert future.metadata()[:3] == unknown[:3]
            producer.close(0)
        with pytest.raises(IllegalState, match="closed forcefully"):
            future.result(0)


def test_closing_sends_what_was_queued(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "closing")
    producer = Producer(bootstrap_servers=broker.bootstrap, linger_ms=10_000)
    sent = [producer.send(topic, b"%d" % number) for number in range(1000)]
    producer.close()
    assert [future.result(0).offset for future in sent] == list(range(1000))
    with pytest.raises(IllegalState, match="after producer has been closed"):
        producer.send(topic, b"late")


def test_a_callback_may_send_and_close(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "within")
    sent: list[RecordFuture] = []
    has_ended = threading.Event()

    def callback(metadata: RecordMetadata, error: Exception | None) -> None:
        sent.append(producer.send(topic, b"second"))
        producer.close()
        has_ended.set()

    producer = Producer(bootstrap_servers=broker.bootstrap)
    producer.send(topic, b"first", callback=callback)
    assert has_ended.wait(10)
    producer.close()
    assert sent[0].result(10_000).offset == 1


def test_a_record_that_cannot_be_serialized_raises(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "types")
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        producer.send(topic, b"sound")
        with pytest.raises(SerializationError):
            producer.send(topic, "text")
        with pytest.raises(SerializationError):
            producer.send(topic, b"v", "text")
        with pytest.raises(ValueError, match="Invalid partition: -1"):
            producer.send(topic, b"v", partition=-1)
        with pytest.raises(TypeError):
            producer.send(topic, b"v", partition="0")  # type: ignore[call-overload]
        assert producer.send(topic, bytearray(b"copied"), memoryview(b"key")).result().offset == 1
    assert [record.value for record in read(broker, topic)] == [b"sound", b"copied"]


def test_a_single_record_waits_no_longer_than_linger(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "linger")
    clock = SystemClock()
    with Producer(bootstrap_servers=broker.bootstrap, linger_ms=0) as producer:
        producer.send(topic, b"first").result()
        started_ms = clock.now_ms()
        for _ in range(20):
            producer.send(topic, b"x").result(5000)
        assert clock.now_ms() - started_ms < 5000


def test_the_delivery_timeout_counts_from_the_send_and_not_from_a_later_turn_of_the_sender() -> None:
    clock = ManualClock()
    settings = {"bootstrap.servers": "127.0.0.1:1", "delivery.timeout.ms": 5000, "request.timeout.ms": 1000}
    producer = Producer({**settings, "linger.ms": 0}, clock, start_thread=False)
    topic = TopicView("t", uuid.UUID(int=5), False, {0: PartitionView("t", 0, 1, 0)})
    producer._metadata.add("t", 0)
    producer._metadata._cluster = ClusterView({1: Node(1, "127.0.0.1", 1)}, {"t": topic})
    assert isinstance(producer.send("t", b"v", partition=0), QueuedFuture)
    clock.advance_ms(4000)
    producer._collect(clock.now_ms())
    clock.advance_ms(999)
    assert producer._accumulator.expired_batches(clock.now_ms()) == []
    clock.advance_ms(1)
    assert [batch.record_count for batch in producer._accumulator.expired_batches(clock.now_ms())] == [1]
    producer.sender.client.close()


def test_keys_keep_their_partitions_when_the_metadata_is_lost_before_the_append(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "keyed", THREE)
    with Producer(bootstrap_servers=broker.bootstrap, linger_ms=60_000) as producer:
        assert producer.partitions_for(topic) == [0, 1, 2]
        keys = [b"%d" % number for number in range(50)]
        sent = [producer.send(topic, b"v", key) for key in keys]
        assert topic in producer._queue.collected  # type: ignore[union-attr]
        producer._metadata.rebootstrap(producer.clock.now_ms())
        producer.flush()
        partitions = [future.result().partition for future in sent]
    assert partitions == [partition_for_key(key, THREE) for key in keys]


def test_rows_of_one_call_wait_in_vain_for_memory_only_once(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "scarce-memory")
    clock = SystemClock()
    limits = {"buffer.memory": 40_000, "max.block.ms": 200, "linger.ms": 0}
    with Producer(limits, bootstrap_servers=broker.bootstrap) as producer:
        producer.send(topic, b"first").result()
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            started_ms = clock.now_ms()
            refused = producer.send_many(topic, [b"x" * 5000] * 50)
            assert clock.now_ms() - started_ms < 3000
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        assert refused.failed_count > 40
        errors = {str(run.error).partition(". ")[0] for run in refused.get(20_000) if run.error is not None}
        assert errors == {"Failed to allocate 16384 bytes within the configured max blocking time 200 ms"}
        assert sum(run.row_count for run in producer.send_many(topic, [b"x" * 5000] * 50).result()) == 50


def test_a_record_is_written_after_one_whose_retries_are_exhausted(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "retries")
    settings = {"retries": 1, "retry.backoff.ms": 1, "linger.ms": 0}
    with Producer(settings, bootstrap_servers=broker.bootstrap) as producer:
        assert producer.send(topic, b"first").result().offset == 0
        with broker.faults.add("error", api="Produce", topic=topic, error="NOT_ENOUGH_REPLICAS"):
            assert isinstance(_error(producer.send(topic, b"lost")), NotEnoughReplicas)
        assert [producer.send(topic, b"next").result().offset for _ in range(3)] == [1, 2, 3]


def _error(future: RecordFuture) -> Exception | None:
    """Wait for the result of a record and return its error."""
    with contextlib.suppress(KafkaError):
        future.result(20_000)
    return future.exception()


def test_close_after_a_fatal_error_waits_for_nothing(broker: EmbeddedBroker) -> None:
    topic = make_topic(broker, "fatal")
    started_ms = SystemClock().now_ms()
    with Producer(bootstrap_servers=broker.bootstrap, linger_ms=60_000) as producer:
        future = producer.send(topic, b"value")
        producer.flush()
        assert future.result().offset == 0
        future = producer.send(topic, b"lost")
        assert producer.sender.transactions is not None
        producer.sender.transactions.fail(MessageTooLarge())
    assert isinstance(future.exception(), MessageTooLarge)
    assert SystemClock().now_ms() - started_ms < 30_000


@pytest.mark.slow
def test_a_callback_of_a_record_that_found_no_memory_may_send_and_close() -> None:
    errors: list[Exception | None] = []
    with EmbeddedBroker() as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap, buffer_memory=100_000, max_block_ms=300, linger_ms=0)
        producer.send("t", b"first").result()
        os.kill(broker.pid, signal.SIGSTOP)

        def send_again(_: RecordMetadata, error: Exception | None) -> None:
            if error is not None:
                errors.append(error)
                if len(errors) == 1:
                    producer.send("t", b"again")
                    producer.close(0)

        def send_all() -> None:
            with contextlib.suppress(IllegalState):
                for _ in range(300):
                    producer.send("t", b"x" * 1000, callback=send_again)

        sending = threading.Thread(target=send_all, daemon=True)
        try:
            sending.start()
            sending.join(20)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        closing = threading.Thread(target=producer.close, args=(1000,), daemon=True)
        closing.start()
        closing.join(20)
    assert not sending.is_alive() and not closing.is_alive()
    assert isinstance(errors[0], BufferExhausted)
