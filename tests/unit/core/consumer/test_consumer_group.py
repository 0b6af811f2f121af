"""A consumer in a group of the embedded broker: join, share, commit, go on, leave."""

from __future__ import annotations

import pathlib
import re
import uuid
from collections.abc import Iterator

import pytest
from support.embedded import embedded_broker
from support.raw_client import RawClient
from support.rebalances import Told, settle

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import IllegalState, InvalidGroupId, KafkaError
from kafkatools.core.group.metadata import OffsetAndMetadata

START = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(
        tmp_path_factory.mktemp("groups"),
        auto_create_topics_enable="false",
        group_initial_rebalance_delay_ms="0",
        offsets_topic_num_partitions="4",
    ) as bootstrap:
        yield bootstrap


@pytest.fixture
def client(broker: str) -> Iterator[RawClient]:
    with RawClient(broker) as raw:
        yield raw


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def fill(client: RawClient, topic: str, count: int, partition: int = 0) -> None:
    client.produce_rows(topic, partition, [(START + n, None, b"%d" % n, ()) for n in range(count)])


def topic_of(client: RawClient, *counts: int, name: str | None = None) -> str:
    """A new topic whose partitions hold so many records each."""
    topic = name or unique("topic")
    client.create_topic(topic, len(counts))
    for partition, count in enumerate(counts):
        if count:
            fill(client, topic, count, partition)
    return topic


def member(bootstrap: str, group: str, **settings: str) -> Consumer:
    given = {
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": "100",
        "metadata.max.age.ms": "200",
        "retry.backoff.ms": "20",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    return Consumer(Config(CONSUMER, {"bootstrap.servers": bootstrap, "group.id": group, **given}))


def read(consumer: Consumer, count: int, polls: int = 300) -> list[tuple[int, int]]:
    """(partition, offset) of the next records, until there are `count`."""
    seen: list[tuple[int, int]] = []
    for _ in range(polls):
        seen += [(record.partition, record.offset) for record in consumer.poll(100)]
        if len(seen) >= count:
            return seen
    raise AssertionError(f"only {len(seen)} of {count} records came")


def test_a_member_reads_commits_and_its_successor_goes_on(broker: str, client: RawClient) -> None:
    topic, group = topic_of(client, 5, 3), unique("group")
    with member(broker, group) as consumer:
        consumer.subscribe([topic])
        assert sorted(read(consumer, 8)) == [(0, n) for n in range(5)] + [(1, n) for n in range(3)]
        assert consumer.subscription() == {topic}
        consumer.commit_sync()
        zero = TopicPartition(topic, 0)
        assert consumer.committed([zero, (topic, 1)]) == {
            zero: OffsetAndMetadata(5, 0, ""),
            TopicPartition(topic, 1): OffsetAndMetadata(3, 0, ""),
        }
        found = consumer.group_metadata()
        assert (found.group_id, found.generation_id, bool(found.member_id)) == (group, 1, True)
    fill(client, topic, 2, 1)
    with member(broker, group) as consumer:
        consumer.subscribe([topic])
        assert read(consumer, 2) == [(1, 3), (1, 4)]
        assert consumer.current_lag((topic, 1)) == 0


def test_two_members_share_and_the_listener_is_told_in_kafkas_order(broker: str, client: RawClient) -> None:
    topic, group, told = topic_of(client, 1, 1, 1, 1), unique("group"), Told()
    with member(broker, group) as first, member(broker, group) as second:
        first.subscribe([topic], told)
        settle([first], 4)
        assert told.calls == [("assigned", [0, 1, 2, 3])]
        second.subscribe([topic])
        settle([first, second], 2, 2)
        assert [name for name, _ in told.calls] == ["assigned", "revoked", "assigned"]
        assert told.calls[1] == ("revoked", [0, 1, 2, 3])
        second.close()
        settle([first], 4)
        first.unsubscribe()
        assert told.calls[-1] == ("revoked", [0, 1, 2, 3])
        assert first.assignment() == []


def test_cooperative_members_only_give_up_what_moves(broker: str, client: RawClient) -> None:
    topic, group, told = topic_of(client, 1, 1, 1, 1), unique("group"), Told()
    how = {"partition_assignment_strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"}
    with member(broker, group, **how) as first, member(broker, group, **how) as second:
        first.subscribe([topic], told)
        settle([first], 4)
        second.subscribe([topic])
        settle([first, second], 2, 2)
        moved = sorted(part.partition for part in second.assignment())
        assert [call for call in told.calls if call[1]] == [("assigned", [0, 1, 2, 3]), ("revoked", moved)]


def test_a_patterns_topics_appear(broker: str, client: RawClient) -> None:
    prefix = unique("seen")
    first = topic_of(client, 2, name=f"{prefix}-one")
    topic_of(client, 2, name=f"x-{prefix}")
    with member(broker, unique("group")) as consumer:
        consumer.subscribe(re.compile(f"{prefix}.*"))
        read(consumer, 2)
        assert consumer.subscription() == {first}
        second = topic_of(client, 3, name=f"{prefix}-two")
        read(consumer, 3)
        assert consumer.subscription() == {first, second}


def test_background_commits_hold_what_earlier_polls_returned(broker: str, client: RawClient) -> None:
    topic, group = topic_of(client, 10), unique("group")
    with member(broker, group, max_poll_records="4", auto_commit_interval_ms="0") as consumer:
        consumer.subscribe([topic])
        assert len(read(consumer, 4)) == 4
        assert len(read(consumer, 4)) == 4
        with member(broker, group) as other:
            committed = other.committed([(topic, 0)])[TopicPartition(topic, 0)]
            assert committed is None or committed.offset <= 4
    with member(broker, group) as other:
        assert other.committed([(topic, 0)]) == {TopicPartition(topic, 0): OffsetAndMetadata(8, 0, "")}


def test_async_commits_call_back_in_order(broker: str, client: RawClient) -> None:
    topic = topic_of(client, 1)
    calls: list[tuple[int, KafkaError | None]] = []
    part = TopicPartition(topic, 0)
    with member(broker, unique("group"), enable_auto_commit="false") as consumer:
        consumer.assign([part])
        for offset in (3, 1, 2):
            consumer.commit_async(
                {part: OffsetAndMetadata(offset, -1, "mine")},
                lambda offsets, error: calls.append((offsets[part].offset, error)),
            )
        empty: list[tuple[object, KafkaError | None]] = []
        consumer.commit_async({}, lambda offsets, error: empty.append((offsets, error)))
        consumer.commit_sync({})
        assert calls == [(3, None), (1, None), (2, None)]
        assert empty == [({}, None)]
        assert consumer.committed([]) == {}
        assert consumer.committed([part]) == {part: OffsetAndMetadata(2, -1, "mine")}


def test_topics_partitions_and_patterns_exclude_each_other(broker: str, tmp_path: pathlib.Path) -> None:
    with member(broker, unique("group")) as consumer:
        consumer.subscribe(["a"])
        with pytest.raises(IllegalState, match="mutually exclusive"):
            consumer.assign([("a", 0)])
        with pytest.raises(IllegalState, match="mutually exclusive"):
            consumer.subscribe(re.compile("a"))
        consumer.unsubscribe()
        consumer.subscribe(re.compile("a"))
    with Consumer(Config(CONSUMER, {"bootstrap.servers": broker})) as alone:
        with pytest.raises(InvalidGroupId, match="you must provide a valid group.id"):
            alone.subscribe(["a"])
        with pytest.raises(InvalidGroupId):
            alone.commit_sync()
