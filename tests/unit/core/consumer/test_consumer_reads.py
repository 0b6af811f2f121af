"""The whole consumer on the embedded broker: positions, resets, pause, damage, new partitions, wakeup."""

from __future__ import annotations

import glob
import pathlib
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.raw_client import RawClient

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.errors import CorruptBatch, FetchOffsetOutOfRange, NoOffsetForPartition, WakeupError
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import ConnectionFailed, InvalidTopic
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.tools.lines.topic_follower import TopicFollower

START = 1_700_000_000_000
WAIT_MS = 10_000


@pytest.fixture(scope="module")
def data_directory(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("reads")


@pytest.fixture(scope="module")
def broker(data_directory: pathlib.Path) -> Iterator[str]:
    with embedded_broker(data_directory, auto_create_topics_enable="false") as bootstrap:
        yield bootstrap


@pytest.fixture
def client(broker: str) -> Iterator[RawClient]:
    with RawClient(broker) as raw:
        yield raw


def topic_of(client: RawClient, *counts: int) -> str:
    """A new topic whose partitions hold so many records each, five to a batch."""
    name = f"reads-{uuid.uuid4().hex[:8]}"
    client.create_topic(name, len(counts))
    for partition, count in enumerate(counts):
        for first in range(0, count, 5):
            rows = [(START + n * 1000, b"k", b"%d" % n, ()) for n in range(first, min(count, first + 5))]
            client.produce_rows(name, partition, rows)
    return name


def consumer(bootstrap: str, skip_corrupt: Any = None, **settings: str) -> Consumer:
    given = {"auto.offset.reset": "earliest", **{name.replace("_", "."): value for name, value in settings.items()}}
    return Consumer(Config(CONSUMER, {"bootstrap.servers": bootstrap, **given}), skip_corrupt=skip_corrupt)


def read(reader: Consumer, count: int) -> list[tuple[int, int]]:
    """(partition, offset) of the next records, until there are `count`."""
    seen: list[tuple[int, int]] = []
    while len(seen) < count:
        records = reader.poll(WAIT_MS)
        assert records, f"nothing came after {seen}"
        seen += [(record.partition, record.offset) for record in records]
    return seen


def test_everything_is_read_once_and_in_order_of_each_partition(broker: str, client: RawClient) -> None:
    topic = topic_of(client, 23, 0, 7)
    with consumer(broker, max_poll_records="4") as reader:
        reader.assign([(topic, 0), (topic, 1), (topic, 2)])
        seen = read(reader, 30)
        assert [offset for partition, offset in seen if partition == 0] == list(range(23))
        assert [offset for partition, offset in seen if partition == 2] == list(range(7))
        assert reader.position((topic, 0)) == 23
        assert reader.position((topic, 1)) == 0


def test_poll_hands_out_max_poll_records_at_most(broker: str, client: RawClient) -> None:
    topic = topic_of(client, 23)
    with consumer(broker, max_poll_records="4") as reader:
        reader.assign([(topic, 0)])
        sizes = [len(reader.poll(WAIT_MS)) for _ in range(6)]
    assert sizes == [4, 4, 4, 4, 4, 3]


def test_seek_pause_and_resume(broker: str, client: RawClient) -> None:
    topic = topic_of(client, 10, 10)
    with consumer(broker) as reader:
        reader.assign([(topic, 0), (topic, 1)])
        reader.seek((topic, 0), 8)
        reader.pause([(topic, 1)])
        assert reader.paused() == [TopicPartition(topic, 1)]
        assert read(reader, 2) == [(0, 8), (0, 9)]
        reader.resume([(topic, 1)])
        assert read(reader, 10) == [(1, offset) for offset in range(10)]
        reader.seek_to_beginning([(topic, 0)])
        assert read(reader, 10) == [(0, offset) for offset in range(10)]
        reader.seek_to_end()
        assert reader.position((topic, 0)) == reader.position((topic, 1)) == 10


def test_offsets_by_question(broker: str, client: RawClient) -> None:
    topic = topic_of(client, 10)
    part = TopicPartition(topic, 0)
    with consumer(broker) as reader:
        assert reader.beginning_offsets([part]) == {part: 0}
        assert reader.end_offsets([part]) == {part: 10}
        found = reader.offsets_for_times({part: START + 6500})[part]
        assert found is not None
        assert (found.offset, found.timestamp) == (7, START + 7000)
        assert reader.offsets_for_times({part: START + 10**9}) == {part: None}


def test_reset_policies(broker: str, client: RawClient) -> None:
    topic = topic_of(client, 10)
    with consumer(broker, auto_offset_reset="latest") as reader:
        reader.assign([(topic, 0)])
        assert reader.position((topic, 0)) == 10
    with consumer(broker, auto_offset_reset="none") as reader:
        reader.assign([(topic, 0)])
        with pytest.raises(NoOffsetForPartition):
            reader.poll(WAIT_MS)
        reader.seek((topic, 0), 99)
        with pytest.raises(FetchOffsetOutOfRange, match=f"{topic}-0=99"):
            reader.poll(WAIT_MS)


def test_position_below_the_log_start_is_reset(broker: str, client: RawClient) -> None:
    topic = topic_of(client, 10)
    partition = {"partition_index": 0, "offset": 6}
    fields = {"topics": [{"name": topic, "partitions": [partition]}], "timeout": 5000}
    assert int(client.call(ApiKey.DELETE_RECORDS, 2, fields).topics[0].partitions[0].error_code) == 0
    with consumer(broker) as reader:
        reader.assign([(topic, 0)])
        reader.seek((topic, 0), 2)
        assert read(reader, 4) == [(0, 6), (0, 7), (0, 8), (0, 9)]
        assert reader.beginning_offsets([(topic, 0)]) == {TopicPartition(topic, 0): 6}


def damage(directory: pathlib.Path, topic: str, value: bytes) -> None:
    """Changes a byte of a record on disk, behind the broker's back."""
    [path] = glob.glob(str(directory / f"{topic}-0" / "*.log"))
    data = pathlib.Path(path).read_bytes()
    assert data.count(value) == 1
    with open(path, "r+b") as file:
        file.seek(data.index(value))
        file.write(b"X")


def test_damage_stops_the_reader_and_seek_goes_past(
    broker: str, client: RawClient, data_directory: pathlib.Path
) -> None:
    topic = f"reads-{uuid.uuid4().hex[:8]}"
    client.create_topic(topic)
    for first in (0, 5, 10):
        client.produce_rows(topic, 0, [(START, None, b"value-%02d" % n, ()) for n in range(first, first + 5)])
    damage(data_directory, topic, b"value-07")
    with consumer(broker) as reader:
        reader.assign([(topic, 0)])
        assert read(reader, 5) == [(0, offset) for offset in range(5)]
        for _ in range(2):
            with pytest.raises(CorruptBatch) as raised:
                reader.poll(WAIT_MS)
        assert (raised.value.first_offset, raised.value.last_offset) == (5, 9)
        assert reader.position((topic, 0)) == 5
        reader.seek((topic, 0), raised.value.next_offset)
        assert read(reader, 5) == [(0, offset) for offset in range(10, 15)]
    reported: list[CorruptBatch] = []
    with consumer(broker, reported.append) as reader:
        reader.assign([(topic, 0)])
        assert [offset for _, offset in read(reader, 10)] == [*range(5), *range(10, 15)]
    assert [(item.first_offset, item.last_offset) for item in reported] == [(5, 9)]


def test_follower_reads_new_partitions_from_their_first_record(broker: str, client: RawClient) -> None:
    topic = topic_of(client, 3)
    with consumer(broker, auto_offset_reset="latest", metadata_max_age_ms="50") as reader:
        follower = TopicFollower(reader, topic)
        assert follower.start()
        assert reader.position((topic, 0)) == 3
        fields = {"topics": [{"name": topic, "count": 2, "assignments": None}], "timeout": 5000, "validate_only": False}
        assert int(client.call(ApiKey.CREATE_PARTITIONS, 2, fields).results[0].error_code) == 0
        client.produce_rows(topic, 1, [(START, None, b"new", ())])
        seen: list[tuple[int, int]] = []
        for _ in range(100):
            seen += [(record.partition, record.offset) for record in reader.poll(100)]
            follower.maybe_assign_new()
            if seen:
                break
        assert seen == [(1, 0)]


def test_wakeup_ends_a_poll(broker: str, client: RawClient) -> None:
    topic = topic_of(client, 0)
    with consumer(broker) as reader:
        reader.assign([(topic, 0)])
        waker = threading.Timer(0.1, reader.wakeup)
        waker.start()
        with pytest.raises(WakeupError):
            reader.poll(60_000)
        waker.join()


def test_names_that_are_none_and_servers_that_are_not_there(broker: str) -> None:
    with consumer(broker) as reader:
        assert reader.partitions_for("no-such-topic") == []
        with pytest.raises(InvalidTopic, match="bad name"):
            reader.partitions_for("bad name")
    with consumer("127.0.0.1:1") as reader, pytest.raises(ConnectionFailed, match="127.0.0.1:1"):
        reader.partitions_for("any", timeout_ms=1000)
