"""`for record in consumer`: what a loop hands out is consumed, and nothing else; loops that end, and where they end."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import QUICK_HEARTBEATS, embedded_broker
from support.waiting import eventually

import kafkatools
from kafkatools import errors
from kafkatools.core.consumer import record_iterator
from kafkatools.core.consumer.consumer_records import ConsumerRecords
from kafkatools.core.consumer.ends import EndUnreachable
from kafkatools.core.consumer.subscription import LeaderAndEpoch, TopicPartition

GROUP: dict[str, object] = {"auto.offset.reset": "earliest", "group.id": "g"}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("iteration") / "data"
    with embedded_broker(directory, group_initial_rebalance_delay_ms="0", **QUICK_HEARTBEATS) as address:
        yield address


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """A topic of the test's own: ten records in each of two partitions, with the timestamps 1000 to 1009."""
    name = re.sub(r"\W", "-", request.node.name)[:100]
    with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(kafkatools.NewTopic(name, 2))
    produce(bootstrap, name, range(10))
    return name


def produce(bootstrap: str, topic: str, numbers: range) -> None:
    with kafkatools.Producer(bootstrap_servers=bootstrap) as producer:
        futures = [
            producer.send(topic, b"%d" % number, partition=partition, timestamp=1000 + number)
            for number in numbers
            for partition in (0, 1)
        ]
        for future in futures:
            future.result(10_000)


def reader(bootstrap: str, topic: str, **settings: Any) -> kafkatools.Consumer:
    """A consumer of both partitions from their first records."""
    consumer = kafkatools.Consumer(bootstrap_servers=bootstrap, **settings)
    consumer.assign([(topic, 0), (topic, 1)])
    consumer.seek_to_beginning()
    return consumer


def places(records: Any) -> list[tuple[int, int]]:
    return sorted((record.partition, record.offset) for record in records)


ALL = [(partition, offset) for partition in (0, 1) for offset in range(10)]


def test_loop_that_is_left_goes_on_with_the_next_record(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic) as consumer:
        seen = []
        for _ in range(5):
            for record in consumer:
                seen.append(record)
                if len(seen) % 4 == 0:
                    break
        assert places(seen) == ALL


def test_poll_after_a_loop_that_was_left_returns_what_it_had_not_handed_out(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic) as consumer:
        seen = [next(iter(consumer)) for _ in range(3)]
        while len(seen) < 20:
            polled = list(consumer.poll(5000))
            assert polled
            seen += polled
        assert places(seen) == ALL


def test_poll_within_a_loop_neither_loses_nor_repeats(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic) as consumer:
        seen = []
        for record in consumer.read_to_end():
            seen.append(record)
            if len(seen) == 3:
                seen += list(consumer.poll(5000))
        assert places(seen) == ALL


def test_position_is_that_of_the_next_record_to_be_handed_out(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic, max_poll_records=20) as consumer:
        for count, record in enumerate(consumer, 1):
            assert consumer.position((topic, record.partition)) == record.offset + 1
            if count == 20:
                break
        assert [consumer.position((topic, partition)) for partition in (0, 1)] == [10, 10]


def test_commit_within_a_loop_is_of_what_was_handed_out(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic, group_id="within", enable_auto_commit=False) as consumer:
        consumer.pause([(topic, 1)])
        for record in consumer:
            if record.offset == 3:
                consumer.commit_sync()
                break
        found = consumer.committed([(topic, 0), (topic, 1)])
        assert [None if one is None else one.offset for one in found.values()] == [4, 0]


def test_commit_within_a_loop_leaves_out_a_position_that_is_not_validated(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic, group_id="unvalidated", enable_auto_commit=False) as consumer:
        next(iter(consumer))
        state = consumer._subscriptions.state(TopicPartition(topic, 0))
        assert state.position is not None
        state.validate(state.position._replace(offset_epoch=0, leader=LeaderAndEpoch(1, 1)))
        consumer.commit_sync()
        assert consumer.committed([(topic, 0)]) == {(topic, 0): None}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_background_commit_at_the_end_is_of_what_was_handed_out(bootstrap: str, topic: str, protocol: str) -> None:
    settings = {**GROUP, "bootstrap.servers": bootstrap, "group.id": f"left-{protocol}", "group.protocol": protocol}
    seen: list[Any] = []
    while len(seen) < 20:
        with kafkatools.Consumer(settings) as consumer:
            consumer.subscribe([topic])
            for record in consumer.records(timeout_ms=10_000):
                seen.append(record)
                if len(seen) in (7, 20):
                    break
    assert places(seen) == ALL


def test_exception_in_the_loop_leaves_the_rest_uncommitted(bootstrap: str, topic: str) -> None:
    settings = {**GROUP, "bootstrap.servers": bootstrap, "group.id": "raised"}
    with pytest.raises(ZeroDivisionError), kafkatools.Consumer(settings) as consumer:
        consumer.subscribe(topic)
        for _ in consumer:
            raise ZeroDivisionError
    with kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
        assert sum(one.offset for one in admin.group_offsets("raised").values()) == 1


def test_seek_within_a_loop_takes_effect_with_the_next_record(bootstrap: str, topic: str) -> None:
    with kafkatools.Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek((topic, 0), 2)
        loop = iter(consumer)
        assert next(loop).offset == 2
        consumer.seek((topic, 0), 8)
        assert [next(loop).offset, next(loop).offset] == [8, 9]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_read_to_end_of_a_group_has_the_records_of_the_poll_that_joined(
    bootstrap: str, topic: str, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll that is long enough joins and fetches in one."""
    monkeypatch.setattr(record_iterator.EndIterator, "poll_ms", 10_000)
    settings = {**GROUP, "group.id": f"joining-{protocol}", "group.protocol": protocol}
    values = Interrupts(0)
    with kafkatools.Consumer(settings, bootstrap_servers=bootstrap, value_deserializer=values) as consumer:
        consumer.subscribe([topic])
        assert places(consumer.read_to_end()) == ALL
    assert values.calls == len(ALL)


class Interrupts:
    """A deserializer that is interrupted once, as by Ctrl-C."""

    def __init__(self, at: int) -> None:
        self.calls, self.at = 0, at

    def __call__(self, data: bytes) -> bytes:
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return data


@pytest.mark.parametrize("poll", [True, False])
def test_interrupt_within_a_poll_leaves_its_records_uncommitted(bootstrap: str, topic: str, poll: bool) -> None:
    settings = {**GROUP, "group.id": f"interrupted-{poll}", "max.poll.records": 6, "bootstrap.servers": bootstrap}
    seen: list[Any] = []
    with pytest.raises(KeyboardInterrupt), kafkatools.Consumer(settings, value_deserializer=Interrupts(9)) as consumer:
        consumer.subscribe([topic])
        while poll:
            seen += consumer.poll(5000)
        for record in consumer:
            seen.append(record)
    assert len(seen) == 6
    with kafkatools.Consumer(settings) as consumer:
        consumer.subscribe([topic])
        seen += consumer.read_to_end()
    assert places(seen) == ALL


class ResumeAfterTheEnd:
    """Lets the second partition go on once records came that the loop is not to have."""

    def __init__(self, topic: str) -> None:
        self.second = (topic, 1)
        self.consumer: kafkatools.Consumer | None = None

    def on_consume(self, records: kafkatools.ConsumerRecords) -> kafkatools.ConsumerRecords:
        if self.consumer is not None and any(record.offset >= 10 for record in records):
            self.consumer.resume([self.second])
        return records

    def on_commit(self, offsets: object) -> None:
        pass

    def close(self) -> None:
        pass


def test_read_to_end_leaves_what_comes_meanwhile(bootstrap: str, topic: str) -> None:
    interceptor = ResumeAfterTheEnd(topic)
    with reader(bootstrap, topic, interceptors=[interceptor]) as consumer:
        interceptor.consumer = consumer
        consumer.pause([(topic, 1)])
        seen = []
        for record in consumer.read_to_end():
            if not seen:
                produce(bootstrap, topic, range(10, 15))
            seen.append(record)
        assert places(seen) == ALL
        assert places(consumer.read_to_end()) == [(partition, at) for partition in (0, 1) for at in range(10, 15)]
        assert list(consumer.read_to_end()) == []


def test_background_commit_leaves_out_what_comes_behind_the_end(bootstrap: str, topic: str) -> None:
    interceptor = ResumeAfterTheEnd(topic)
    settings = {"group_id": "behind", "auto_commit_interval_ms": 0, "max_poll_records": 1}
    with reader(bootstrap, topic, interceptors=[interceptor], **settings) as consumer:
        interceptor.consumer = consumer
        consumer.pause([(topic, 1)])
        for count, record in enumerate(consumer.read_to_end()):
            if not count:
                produce(bootstrap, topic, range(10, 15))
            if (record.partition, record.offset) == (1, 8):
                break
        found = consumer.committed([(topic, 0), (topic, 1)])
        assert [None if one is None else one.offset for one in found.values()] == [10, 8]


def test_offsets_that_a_loop_held_back_are_forgotten_with_their_partition(bootstrap: str, topic: str) -> None:
    """While the loop waits for another partition, a second member reads on and leaves."""
    quick = {"max.poll.records": 1, "auto.commit.interval.ms": 50, "heartbeat.interval.ms": 50}
    assignor = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    settings = {**GROUP, **quick, "group.id": "lent", "partition.assignment.strategy": assignor}
    seen: list[Any] = []
    taken: list[Any] = []

    def read_to_end() -> None:
        for record in lender.read_to_end():
            seen.append(record)  # noqa: PERF402 - seen by the other thread

    with kafkatools.Consumer(settings, bootstrap_servers=bootstrap) as lender:
        lender.subscribe([topic])
        while len(lender.assignment()) < 2:
            lender.poll_assignment(100)
        lender.pause([(topic, 0)])
        loop = threading.Thread(target=read_to_end, daemon=True)
        loop.start()
        eventually(lambda: len(seen) == 10)
        produce(bootstrap, topic, range(10, 15))
        eventually(lambda: lender._pending.offsets() == {(topic, 1): 10})
        with kafkatools.Consumer(settings, bootstrap_servers=bootstrap) as borrower:
            borrower.subscribe([topic])
            while len(taken) < 5:
                taken += borrower.poll(100)
        eventually(lambda: len(lender._subscriptions.assigned_partitions()) == 2)
        lender._subscriptions.resume(TopicPartition(topic, 0))
        loop.join(20)
        assert not loop.is_alive()
    assert (len(seen), places(taken)) == (20, [(1, offset) for offset in range(10, 15)])
    with kafkatools.Consumer(settings, bootstrap_servers=bootstrap) as after:
        found = after.committed([(topic, 0), (topic, 1)])
        assert [None if one is None else one.offset for one in found.values()] == [10, 15]


@pytest.mark.slow
def test_read_to_end_of_a_topic_that_is_deleted_is_an_error(bootstrap: str, topic: str) -> None:
    settings = {"metadata_max_age_ms": 100, "max_poll_records": 1}
    with reader(bootstrap, topic, **settings) as consumer, kafkatools.Admin(bootstrap_servers=bootstrap) as admin:
        consumer.pause([(topic, 1)])
        loop = consumer.read_to_end()
        next(loop)
        admin.delete_topics(topic)
        with pytest.raises((EndUnreachable, errors.UnknownTopicOrPartition, errors.UnknownTopicId)):
            for _ in loop:
                pass


def test_group_that_is_not_joined_in_time_is_an_error(bootstrap: str) -> None:
    settings = {**GROUP, "default.api.timeout.ms": 1000, "reconnect.backoff.ms": 10, "allow.auto.create.topics": False}
    with kafkatools.Consumer(settings, bootstrap_servers="127.0.0.1:1") as consumer:
        consumer.subscribe("t")
        with pytest.raises(errors.ConnectionFailed, match="Connection refused"):
            next(consumer.read_to_end())
    with kafkatools.Consumer(settings, bootstrap_servers=bootstrap) as consumer:
        consumer.subscribe("there-is-no-such-topic")
        with pytest.raises(errors.Timeout, match="No partitions were assigned within 1000 ms"):
            next(consumer.read_to_end())


def test_loop_with_a_time_ends_when_nothing_comes(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic) as consumer:
        assert places(consumer.records(timeout_ms=2000)) == ALL
        assert list(consumer.records(timeout_ms=0)) == []


def test_seek_to_time_goes_to_the_first_record_that_is_not_older(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic) as consumer:
        consumer.seek_to_time(1007)
        assert places(consumer.read_to_end()) == [(partition, offset) for partition in (0, 1) for offset in (7, 8, 9)]
        consumer.seek_to_time(5000)
        assert [consumer.position((topic, partition)) for partition in (0, 1)] == [10, 10]


def test_next_offsets_stop_before_a_record_that_cannot_be_deserialized(bootstrap: str, topic: str) -> None:
    def below_six(data: bytes) -> int:
        number = int(data)
        if number == 6:
            raise ValueError(number)
        return number

    with kafkatools.Consumer(bootstrap_servers=bootstrap, value_deserializer=below_six) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek_to_beginning()
        records = consumer.poll(5000)
        assert [record.value for record in records] == list(range(6))
        assert {part: at.offset for part, at in records.next_offsets().items()} == {(topic, 0): 6}
        with pytest.raises(errors.RecordDeserializationError) as refused:
            consumer.poll(5000)
        consumer.seek((topic, 0), refused.value.offset + 1)
        assert [record.value for record in consumer.read_to_end()] == [7, 8, 9]


def test_next_offsets_are_those_behind_the_last_records(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic, max_poll_records=3) as consumer:
        consumer.pause([(topic, 1)])
        assert consumer.poll(5000).next_offsets() == {(topic, 0): kafkatools.OffsetAndMetadata(3)}


class AddPartition:
    """An interceptor that adds two records of a partition that was not fetched."""

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        some = list(records)
        added = [some[0]._replace(partition=7, offset=offset) for offset in (3, 41)]
        return ConsumerRecords(records.columns(), [*some[:1], *added])

    def on_commit(self, offsets: object) -> None:
        pass

    def close(self) -> None:
        pass


def test_next_offsets_are_behind_the_last_record_that_an_interceptor_added(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic, interceptors=[AddPartition()]) as consumer:
        consumer.pause([(topic, 1)])
        offsets = consumer.poll(5000).next_offsets()
        assert {part: at.offset for part, at in offsets.items()} == {(topic, 0): 10, (topic, 7): 42}


def test_assigning_no_partition_ends_a_subscription(bootstrap: str, topic: str) -> None:
    with kafkatools.Consumer(GROUP, bootstrap_servers=bootstrap) as consumer:
        consumer.subscribe([topic])
        consumer.assign([])
        assert consumer.subscription() == set()
        consumer.assign([(topic, 0)])
        assert len(consumer.poll(5000)) == 10


@pytest.mark.parametrize("settings", [{}, GROUP])
def test_a_poll_without_partitions_and_a_negative_time_out_are_mistakes(
    bootstrap: str, topic: str, settings: dict[str, str]
) -> None:
    """The words are those of KafkaConsumer 4.3.1 and its Timer."""
    with kafkatools.Consumer(settings, bootstrap_servers=bootstrap) as consumer:
        with pytest.raises(errors.IllegalState, match="not subscribed to any topics or assigned any partitions"):
            consumer.poll(0)
        assert consumer.poll_columns(0) == []
        consumer.assign([(topic, 0)])
        with pytest.raises(ValueError, match="Invalid negative timeout -1"):
            consumer.poll(-1)
        consumer.assign([])
        with pytest.raises(errors.IllegalState, match="not subscribed"):
            consumer.poll(0)


def test_values_that_can_only_be_mistakes_are_refused(bootstrap: str, topic: str) -> None:
    with reader(bootstrap, topic) as consumer:
        with pytest.raises(ValueError, match="The target time .*-0 is -5"):
            consumer.offsets_for_times({(topic, 0): -5})
        with pytest.raises(ValueError, match="null or empty topic"):
            consumer.assign([("", 0)])
        with pytest.raises(ValueError, match="The timeout cannot be negative"):
            consumer.close(-1)
        assert len(list(consumer.read_to_end())) == 20
