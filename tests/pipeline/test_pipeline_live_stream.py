"""A stream from a live topic, turned by hand as Spark turns it: limits, what is new, what is lost, where it goes on.

What Spark calls, in which order, was recorded from PySpark 4.3.0 and 4.0.0; test_pipeline_live.py has the queries.
"""

from __future__ import annotations

import json
import pathlib
import pickle
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.manual_clock import ManualClock
from support.raw_client import RawClient

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import NewPartitions, create_partitions, delete_records, delete_topics
from kafkatools.core.clock import SystemClock
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.live.options import read_options
from kafkatools.pipeline.sources.live.reader import close_idle
from kafkatools.pipeline.sources.live.stream import LiveStreamReader
from kafkatools.pipeline.sources.schema import spark_schema
from kafkatools.pipeline.sources.spark_api import HAS_READ_LIMITS, ReadAllAvailable

BEGAN = "$start"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("stream"), auto_create_topics_enable="false") as bootstrap:
        yield bootstrap


class Topic:
    """A topic of a test, filled as it goes."""

    def __init__(self, bootstrap: str, partitions: int = 2) -> None:
        self.bootstrap = bootstrap
        self.readers: list[LiveStreamReader] = []
        self.name = f"stream-{uuid.uuid4().hex[:8]}"
        with RawClient(bootstrap) as client:
            client.create_topic(self.name, partitions)

    def add(self, **counts: int) -> None:
        """p0=3: three records to partition 0."""
        with RawClient(self.bootstrap) as client:
            for name, count in counts.items():
                client.produce_rows(self.name, int(name[1:]), [(1, None, b"v", ())] * count)

    def admin(self) -> AdminClient:
        return AdminClient(self.bootstrap, {}, SystemClock())

    def reader(self, clock: Any = None, **options: str) -> LiveStreamReader:
        given = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.name, "startingOffsets": "earliest"}
        reader = LiveStreamReader(spark_schema(), read_options({**given, **options}, is_streaming=True), clock)
        self.readers.append(reader)
        return reader

    def at(self, *offsets: int) -> dict[str, Any]:
        """An offset as Spark has it: of partition 0, of partition 1, ..."""
        return {self.name: {str(number): offset for number, offset in enumerate(offsets)}}


@pytest.fixture
def topic(broker: str) -> Iterator[Topic]:
    made = Topic(broker)
    yield made
    for reader in made.readers:
        reader.stop()
    close_idle()


def through_spark(offset: dict[str, Any]) -> dict[str, Any]:
    """What Spark gives back of it: it keeps the JSON."""
    return json.loads(json.dumps(offset))


def ranges(reader: LiveStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int, int]]:
    planned: Any = reader.partitions(through_spark(start), through_spark(end))
    return sorted((split.partition, split.start, split.end) for split in planned)


def rows(reader: LiveStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int]]:
    """What executors read, with a copy of the reader as they have it."""
    copy = pickle.loads(pickle.dumps(reader))
    batches = [batch for split in reader.partitions(start, end) for batch in copy.read(split)]
    return sorted((row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist())


def test_triggers_take_no_more_than_the_limit_until_all_is_read(topic: Topic) -> None:
    topic.add(p0=6, p1=3)
    reader = topic.reader(maxOffsetsPerTrigger="4")
    limit = reader.getDefaultReadLimit() if HAS_READ_LIMITS else None
    at = start = reader.initialOffset()
    assert start == topic.at(0, 0)
    seen: list[tuple[int, int]] = []
    for _ in range(3):
        end = reader.latestOffset(at, limit)
        found = rows(reader, at, end)
        assert len(found) == 3  # 2 of partition 0 and 1 of the other: their shares of 4, rounded down
        seen, at = seen + found, through_spark(end)
    assert sorted(seen) == [(0, n) for n in range(6)] + [(1, n) for n in range(3)]
    assert reader.latestOffset(at, limit) == at
    assert reader.partitions(at, at) == []
    assert reader.reportLatestOffset() == topic.at(6, 3)


def test_a_first_batch_that_is_run_again_begins_where_it_began(topic: Topic) -> None:
    topic.add(p0=2)
    first = topic.reader(startingOffsets="latest")
    start = first.initialOffset()
    topic.add(p0=3, p1=1)
    end = first.latestOffset(start, None)
    assert end == {**topic.at(5, 1), BEGAN: topic.at(2, 0)}
    # The driver dies. Spark has the end of the batch, and asks for the beginning anew.
    topic.add(p0=4)
    again = topic.reader(startingOffsets="latest")
    assert again.initialOffset() == topic.at(9, 1)
    assert ranges(again, topic.at(9, 1), end) == [(0, 2, 5), (1, 0, 1)]
    after = again.latestOffset(through_spark(end), None)
    assert after == topic.at(9, 1)
    assert ranges(again, end, after) == [(0, 5, 9)]


def test_a_stream_that_goes_on_does_not_look_at_where_it_began(topic: Topic) -> None:
    topic.add(p0=5)
    reader = topic.reader()
    end = {**topic.at(3, 0), BEGAN: topic.at(0, 0)}
    assert reader.partitions(end, end) == []  # PySpark 4.0: this is where the stream is
    after = reader.latestOffset()
    assert after == topic.at(5, 0)
    assert ranges(reader, end, after) == [(0, 3, 5)]


def test_offsets_have_the_name_of_their_source(topic: Topic) -> None:
    name: dict[str, Any] = {"$source orders": {}}
    topic.add(p0=5)
    reader = topic.reader(sourceName="orders", maxOffsetsPerTrigger="2")
    start = reader.initialOffset()
    assert start == {**topic.at(0, 0), **name}
    first = reader.latestOffset(through_spark(start), None)
    assert first == {**topic.at(2, 0), **name, BEGAN: start}
    assert ranges(reader, start, first) == [(0, 0, 2)]
    second = reader.latestOffset(through_spark(first), None)
    assert second == {**topic.at(4, 0), **name}
    assert ranges(reader, first, second) == [(0, 2, 4)]


def test_a_checkpoint_without_the_name_of_the_source_goes_on(topic: Topic) -> None:
    name: dict[str, Any] = {"$source orders": {}}
    topic.add(p0=5)
    reader = topic.reader(sourceName="orders")
    assert reader.latestOffset(topic.at(5, 0), None) == topic.at(5, 0), "nothing to read: not another offset"
    end = reader.latestOffset(topic.at(3, 0), None)
    assert end == {**topic.at(5, 0), **name}
    assert ranges(reader, topic.at(3, 0), end) == [(0, 3, 5)]
    again = topic.reader(sourceName="orders")
    first = {**topic.at(3, 0), BEGAN: topic.at(1, 0)}  # planned by an earlier version, and not committed
    assert ranges(again, again.initialOffset(), first) == [(0, 1, 3)]


def test_without_being_told_where_it_is_the_stream_follows_what_was_planned(topic: Topic) -> None:
    topic.add(p0=5)
    reader = topic.reader(maxOffsetsPerTrigger="2")
    first = reader.latestOffset()
    assert first == {**topic.at(2, 0), BEGAN: topic.at(0, 0)}
    assert ranges(reader, reader.initialOffset(), first) == [(0, 0, 2)]
    second = reader.latestOffset()
    assert second == topic.at(4, 0)
    assert ranges(reader, first, second) == [(0, 2, 4)]


def test_available_now_is_what_was_there_when_it_began(topic: Topic) -> None:
    topic.add(p0=5)
    reader = topic.reader(maxOffsetsPerTrigger="3", minOffsetsPerTrigger="3")
    reader.prepareForTriggerAvailableNow()
    topic.add(p0=5, p1=5)
    at = topic.at(1, 0)
    ends = []
    for _ in range(3):
        at = through_spark(reader.latestOffset(at, None))
        ends.append(at)
    assert ends == [topic.at(4, 0), topic.at(5, 0), topic.at(5, 0)]


def test_a_trigger_waits_for_the_least_but_not_for_ever(topic: Topic) -> None:
    clock = ManualClock()
    reader = topic.reader(clock, minOffsetsPerTrigger="4", maxTriggerDelay="1m")
    topic.add(p0=1)
    start = topic.at(0, 0)
    at = through_spark(reader.latestOffset(start, None))
    assert at == topic.at(1, 0)  # the first one waits for nothing
    topic.add(p0=3)
    assert reader.latestOffset(at, None) == at
    if HAS_READ_LIMITS:
        assert reader.latestOffset(at, ReadAllAvailable()) == topic.at(4, 0)
    clock.advance_ms(60_000)
    assert reader.latestOffset(at, None) == topic.at(4, 0)
    topic.add(p1=4)
    assert reader.latestOffset(topic.at(4, 0), None) == topic.at(4, 4)


def test_partitions_that_appear_are_read_from_their_first_offset(topic: Topic) -> None:
    topic.add(p0=2)
    reader = topic.reader(startingOffsets="latest", maxOffsetsPerTrigger="3")
    at = reader.initialOffset()
    with topic.admin() as admin:
        made = create_partitions(admin, [NewPartitions(topic.name, 3)])
        assert made[topic.name].error is None
    topic.add(p0=1, p2=5)
    end = reader.latestOffset(at, None)
    assert end[topic.name] == {"0": 3, "1": 0, "2": 2}
    assert ranges(reader, at, end) == [(0, 2, 3), (2, 0, 2)]


def test_what_is_gone_is_an_error_or_a_warning(topic: Topic, caplog: pytest.LogCaptureFixture) -> None:
    topic.add(p0=5, p1=2)
    strict, lenient = topic.reader(), topic.reader(failOnDataLoss="false")
    behind = topic.at(7, 2)
    end = strict.latestOffset(topic.at(0, 0), None)
    with pytest.raises(PipelineError, match=f"{topic.name}-0 now ends at offset 5, but the stream had read up to 7"):
        strict.partitions(behind, end)
    assert ranges(lenient, behind, end) == []
    assert "but the stream had read up to 7" in caplog.text
    with topic.admin() as admin:
        assert delete_records(admin, {(topic.name, 1): 2})[topic.name, 1].error is None
    only_first = {topic.name: {"0": 4}}
    with pytest.raises(
        PipelineError, match=f"{topic.name}-1 is new and starts at offset 2: earlier records are deleted"
    ):
        strict.partitions(only_first, topic.at(5, 2))
    assert ranges(lenient, only_first, topic.at(5, 2)) == [(0, 4, 5)]
    with topic.admin() as admin:
        assert delete_topics(admin, [topic.name])[topic.name].error is None
    for reader in (strict, lenient):
        assert reader.latestOffset(end, None) == {}
    with pytest.raises(PipelineError, match=f"{topic.name}-[01] was deleted; the stream had read up to offset"):
        strict.partitions(end, {})
    assert ranges(lenient, end, {}) == []


def test_a_topic_made_again_under_its_name_is_not_taken_for_the_old_one(topic: Topic) -> None:
    topic.add(p0=2)
    reader = topic.reader()
    end = reader.latestOffset(topic.at(0, 0), None)
    with topic.admin() as admin:
        assert delete_topics(admin, [topic.name])[topic.name].error is None
    with RawClient(topic.bootstrap) as client:
        client.create_topic(topic.name, 2)
    topic.add(p0=9)
    with pytest.raises(PipelineError, match=f"topic {topic.name} was deleted and created again"):
        reader.latestOffset(end, None)


def test_a_stream_outlives_the_restart_of_its_broker(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path) as bootstrap:
        topic = Topic(bootstrap)
        topic.add(p0=3)
        reader = topic.reader(**{"fetchOffset.retryIntervalMs": "50"})
        end = reader.latestOffset(topic.at(0, 0), None)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(reader.latestOffset, end, None)
        with embedded_broker(tmp_path, int(bootstrap.rpartition(":")[2])):
            assert asked.result(60) == end == topic.at(3, 0)
            assert rows(reader, topic.at(1, 0), end) == [(0, 1), (0, 2)]
            reader.stop()
            close_idle()


def test_offsets_to_start_at_must_be_there(topic: Topic) -> None:
    topic.add(p0=5)
    given = json.dumps(topic.at(9, -2))
    with pytest.raises(PipelineError, match=f"startingOffsets: offset 9 of {topic.name}-0 is not in the log"):
        topic.reader(startingOffsets=given).initialOffset()
    assert topic.reader(startingOffsets=given, failOnDataLoss="false").initialOffset() == topic.at(5, 0)
    with pytest.raises(PipelineError, match="startingTimestamp: .* has no record at or after 99"):
        topic.reader(startingTimestamp="99").initialOffset()
    late = topic.reader(startingTimestamp="99", startingOffsetsByTimestampStrategy="latest")
    assert late.initialOffset() == topic.at(5, 0)
