"""The share consumer against the embedded broker. tests/real_kafka/test_share_side_by_side.py runs the same calls with
Apache Kafka's client and broker."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import QUICK_HEARTBEATS, embedded_broker
from support.waiting import eventually

import kafkatools
from kafkatools import AcknowledgeType, ConsumerRecord, ShareConsumer, TopicPartition
from kafkatools.core.clock import SystemClock
from kafkatools.core.config import CONSUMER
from kafkatools.core.config.client_settings import config_of
from kafkatools.core.consumer.network import ConsumerNetworkClient
from kafkatools.core.errors import (
    ConfigError,
    IllegalState,
    InvalidGroupId,
    InvalidRecordState,
    KafkaError,
    WakeupError,
)
from kafkatools.errors import RecordDeserializationError

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(
        tmp_path_factory.mktemp("share"),
        group_share_min_record_lock_duration_ms="1000",
        num_partitions="1",
        **QUICK_HEARTBEATS,
    ) as bootstrap:
        yield bootstrap


@pytest.fixture
def topic(broker: str) -> str:
    """A topic with records v0 to v9 in two batches."""
    name = f"jobs{next(_numbers)}"
    with kafkatools.Admin(bootstrap_servers=broker) as admin:
        admin.create_topics(name)
    send(broker, name, [f"v{i}" for i in range(5)])
    send(broker, name, [f"v{i}" for i in range(5, 10)])
    return name


def send(broker: str, topic: str, values: list[str]) -> None:
    with kafkatools.Producer(bootstrap_servers=broker) as producer:
        producer.send_many(topic, [value.encode() for value in values]).result()


def consumer(broker: str, group: str, lock_ms: int = 30_000, **settings: Any) -> ShareConsumer:
    with kafkatools.Admin(bootstrap_servers=broker) as admin:
        admin.alter_configs(
            {("group", group): {"share.auto.offset.reset": "earliest", "share.record.lock.duration.ms": str(lock_ms)}}
        )
    return ShareConsumer(bootstrap_servers=broker, group_id=group, **settings)


def poll(reader: ShareConsumer) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    eventually(lambda: bool(found.extend(reader.poll(200)) or found))
    return found


def collected(reader: ShareConsumer, count: int) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    eventually(lambda: bool(found.extend(reader.poll(200)) or len(found) >= count))
    return found


def offsets(records: list[ConsumerRecord]) -> list[int]:
    return [record.offset for record in records]


def test_implicit_mode_accepts_with_the_next_poll_and_delivers_the_rest_again_after_close(
    broker: str, topic: str
) -> None:
    calls: list[tuple[dict[TopicPartition, set[int]], KafkaError | None]] = []
    with consumer(broker, "implicit", max_poll_records=5) as reader:
        reader.set_acknowledgement_commit_callback(lambda done, error: calls.append((done, error)))
        reader.subscribe([topic])
        first = poll(reader)
        assert [(record.value, record.delivery_count) for record in first] == [(b"v%d" % i, 1) for i in range(5)]
        assert reader.acquisition_lock_timeout_ms() == 30_000
        assert offsets(poll(reader)) == list(range(5, 10))
        eventually(lambda: bool(reader.commit_async() or calls))
        assert calls[0] == ({TopicPartition(topic, 0): {0, 1, 2, 3, 4}}, None)
        send(broker, topic, ["late"])
        assert offsets(poll(reader)) == [10]
    with consumer(broker, "implicit") as reader:
        reader.subscribe([topic])
        (again,) = poll(reader)
        assert (again.offset, again.delivery_count) == (10, 2)
        assert reader.commit_sync() == {TopicPartition(topic, 0): None}
        assert reader.commit_sync() == {}


def test_explicit_mode_sends_each_outcome(broker: str, topic: str) -> None:
    with consumer(
        broker, "explicit", share_acknowledgement_mode="explicit", share_acquire_mode="record_limit", max_poll_records=4
    ) as reader:
        reader.subscribe([topic])
        records = poll(reader)
        assert offsets(records) == [0, 1, 2, 3]
        with pytest.raises(IllegalState, match="All records must be acknowledged"):
            reader.poll(0)
        reader.acknowledge(records[0])
        reader.acknowledge(records[1], REJECT)
        reader.acknowledge(records[1], RELEASE)
        reader.acknowledge_offset((topic, 0), 2, RENEW)
        assert reader.commit_sync() == {TopicPartition(topic, 0): None}
        with pytest.raises(IllegalState, match="cannot be acknowledged"):
            reader.acknowledge(records[2])
        reader.acknowledge(records[3], REJECT)
        renewed = poll(reader)
        assert [(record.offset, record.value) for record in renewed] == [(2, b"v2")]
        reader.acknowledge(renewed[0])
        further = poll(reader)
        assert [(record.offset, record.delivery_count) for record in further] == [(1, 2), (4, 1), (5, 1), (6, 1)]
        for record in further:
            reader.acknowledge(record)
    with consumer(broker, "explicit") as reader:
        reader.subscribe([topic])
        assert offsets(poll(reader)) == [7, 8, 9]


def test_each_of_several_commits_in_a_row_has_its_result(broker: str, topic: str) -> None:
    done: list[int] = []

    def note(offsets: dict[TopicPartition, set[int]], error: KafkaError | None) -> None:
        assert error is None
        done.extend(*offsets.values())

    with consumer(broker, "in-a-row", share_acknowledgement_mode="explicit") as reader:
        reader.set_acknowledgement_commit_callback(note)
        reader.subscribe([topic])
        records = poll(reader)
        assert offsets(records) == list(range(10))
        for record in reversed(records):
            reader.acknowledge(record, RENEW if record.offset < 3 else ACCEPT)
            reader.commit_async()
        renewed: list[int] = []
        while len(renewed) < 3:
            again = poll(reader)
            renewed += offsets(again)
            for record in again:
                reader.acknowledge(record)
        assert sorted(renewed) == [0, 1, 2]
        send(broker, topic, ["late"])
        assert offsets(poll(reader)) == [10]
    assert sorted(done) == [0, 0, 1, 1, 2, 2, *range(3, 10)]


@pytest.mark.slow
def test_acknowledging_after_the_lock_ended_is_reported(broker: str, topic: str) -> None:
    with (
        consumer(broker, "late", 1000, share_acknowledgement_mode="explicit") as slow,
        consumer(broker, "late", 1000) as other,
    ):
        slow.subscribe([topic])
        records = poll(slow)
        other.subscribe([topic])
        assert offsets(poll(other))[0] == 0  # released when the lock of one second ended
        slow.acknowledge(records[0])
        error = slow.commit_sync()[TopicPartition(topic, 0)]
        assert isinstance(error, InvalidRecordState)


def test_records_that_cannot_be_deserialized_are_released_rejected_or_raw(broker: str, topic: str) -> None:
    def number(data: bytes) -> int:
        return int(data[1:]) if data != b"v7" else int("x")

    with consumer(broker, "fails", value_deserializer=number) as reader:
        reader.subscribe([topic])
        seen = [record.value for record in poll(reader)]
        while len(seen) < 9:
            try:
                seen += [record.value for record in reader.poll(200)]
            except RecordDeserializationError as error:
                assert str(error).endswith("The record has been released.") and error.offset == 7
        assert sorted(seen) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    with consumer(broker, "skips", value_deserializer=number, poison="skip") as reader:
        reader.subscribe([topic])
        assert sorted(record.offset for record in collected(reader, 9)) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    with consumer(broker, "raw", value_deserializer=number, poison="raw") as reader:
        reader.subscribe([topic])
        assert b"v7" in [record.value for record in collected(reader, 10)]


def test_control_records_are_acknowledged_as_gaps_and_columns_hold_the_rest(broker: str, topic: str) -> None:
    with kafkatools.Producer(bootstrap_servers=broker, transactional_id="t") as producer, producer.transaction():
        producer.send(topic, b"in transaction")
    send(broker, topic, ["last"])
    with consumer(broker, "gaps") as reader:
        reader.subscribe([topic])
        found: list[int] = []
        while 12 not in found:
            found += [offset for item in reader.poll_columns(200) for offset in item.columns.offsets]
        assert found == [*range(11), 12]
        assert set(reader.commit_sync().values()) == {None}
    with kafkatools.Admin(bootstrap_servers=broker) as admin:
        eventually(lambda: admin.share_group_offsets("gaps")[topic, 0].lag == 0)


def test_a_commit_callback_may_not_call_the_consumer_and_its_error_surfaces(broker: str, topic: str) -> None:
    with consumer(broker, "callbacks") as reader:
        reader.set_acknowledgement_commit_callback(lambda done, error: reader.commit_async())
        reader.subscribe([topic])
        poll(reader)
        with pytest.raises(IllegalState, match="not accessible from"):
            reader.commit_sync()
        reader.set_acknowledgement_commit_callback(lambda done, error: [][0])
        send(broker, topic, ["more"])
        poll(reader)
        with pytest.raises(KafkaError, match="commit callback") as raised:
            reader.commit_sync()
        assert isinstance(raised.value.__cause__, IndexError)
        reader.set_acknowledgement_commit_callback(None)


def test_wakeup_ends_a_poll_and_unsubscribe_leaves_the_group(broker: str, topic: str) -> None:
    with consumer(broker, "woken") as reader:
        with pytest.raises(IllegalState, match="not subscribed"):
            reader.poll(0)
        reader.subscribe([topic, "missing"])
        assert reader.subscription() == {topic, "missing"}
        poll(reader)
        assert reader.assignment() == [TopicPartition(topic, 0)]
        timer = threading.Timer(0.05, reader.wakeup)
        timer.start()
        with pytest.raises(WakeupError):
            while True:
                reader.poll(10_000)
        reader.unsubscribe()
        with kafkatools.Admin(bootstrap_servers=broker) as admin:
            eventually(lambda: admin.describe_share_groups("woken")["woken"].state == "Empty")
        reader.subscribe([topic])
        reader.poll(100)
    with pytest.raises(IllegalState, match="already been closed"):
        reader.poll(0)


def test_a_loop_that_is_left_releases_what_it_has_not_yielded(broker: str, topic: str) -> None:
    with consumer(broker, "loop") as reader:
        reader.subscribe([topic])
        for record in reader:
            assert record.offset == 0
            break
        assert reader.commit_sync() == {TopicPartition(topic, 0): None}
        found: dict[int, int | None] = {}
        while len(found) < 9:
            found |= {record.offset: record.delivery_count for record in reader.poll(200)}
        assert found == {**dict.fromkeys(range(1, 5), 2), **dict.fromkeys(range(5, 10), found[5])}


def test_records_of_a_topic_that_is_no_longer_subscribed_are_acknowledged(broker: str, topic: str) -> None:
    results: list[KafkaError | None] = []
    with consumer(broker, "moved") as reader:
        reader.set_acknowledgement_commit_callback(lambda done, error: results.append(error))
        reader.subscribe([topic])
        poll(reader)
        with kafkatools.Admin(bootstrap_servers=broker) as admin:
            admin.create_topics(f"{topic}-next")
        send(broker, f"{topic}-next", ["v"])
        reader.subscribe([f"{topic}-next"])
        assert [record.topic for record in poll(reader)] == [f"{topic}-next"]
        assert set(reader.commit_sync().values()) == {None}
    assert set(results) == {None}


def test_settings_of_consumer_groups_are_refused(broker: str) -> None:
    with pytest.raises(InvalidGroupId, match="You must provide a valid group.id"):
        ShareConsumer(bootstrap_servers=broker)
    with pytest.raises(ConfigError, match="^auto.offset.reset, isolation.level cannot be set when using a share group"):
        ShareConsumer(
            bootstrap_servers=broker, group_id="g", isolation_level="read_committed", auto_offset_reset="earliest"
        )
    with ShareConsumer(bootstrap_servers=broker, group_id="g") as reader:
        with pytest.raises(TypeError, match="collection of topic names"):
            reader.subscribe("jobs")
        with pytest.raises(ValueError, match="empty topic"):
            reader.subscribe([" "])
        with pytest.raises(IllegalState, match="Implicit acknowledgement"):
            reader.acknowledge_offset(("jobs", 0), 1)


class InterruptedClient(ConsumerNetworkClient):
    """A network client whose waits end with Ctrl-C once `is_interrupted`."""

    is_interrupted = False

    def poll(self, timeout_ms: int) -> None:
        """Poll, or raise KeyboardInterrupt."""
        if self.is_interrupted:
            raise KeyboardInterrupt
        super().poll(timeout_ms)


def test_an_interrupted_close_ends_the_heartbeat_thread(broker: str, topic: str) -> None:
    config = config_of(CONSUMER, {"bootstrap.servers": broker, "group.id": f"{topic}-interrupted"}, {})
    client = InterruptedClient(config, SystemClock())
    reader = ShareConsumer(config, client=client)
    reader.subscribe([topic])
    threads = set(threading.enumerate())
    eventually(lambda: bool(reader.poll(100) or reader.assignment()))
    assert set(threading.enumerate()) > threads
    client.is_interrupted = True
    with pytest.raises(KeyboardInterrupt):
        reader.close()
    assert set(threading.enumerate()) <= threads
