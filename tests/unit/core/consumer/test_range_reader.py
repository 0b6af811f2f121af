"""Ranges of offsets as raw batches, from the embedded broker: where they end, and what is lost on the way."""

from __future__ import annotations

import pathlib
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from support.embedded import embedded_broker
from support.raw_client import RawClient
from support.scripted_broker import ScriptedBroker, partition

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.offsets import EARLIEST
from kafkatools.core.admin.topics import delete_records, delete_topics
from kafkatools.core.clock import SystemClock
from kafkatools.core.consumer.range_reader import RangeLost, RangeReader
from kafkatools.core.errors import OffsetOutOfRange, RequestTimedOut
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.records.batch import read_batches


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_broker(tmp_path_factory.mktemp("ranges"), auto_create_topics_enable="false") as bootstrap:
        yield bootstrap


@pytest.fixture
def topic(broker: str) -> str:
    """One partition, 50 records in batches of five."""
    name = f"ranges-{uuid.uuid4().hex[:8]}"
    with RawClient(broker) as client:
        client.create_topic(name, 1)
        for first in range(0, 50, 5):
            client.produce_rows(name, 0, [(n, b"k", b"%d" % n, ()) for n in range(first, first + 5)])
    return name


def values(reader: RangeReader, topic: str, start: int, end: int) -> list[int]:
    """What the batches hold of the range itself."""
    return [
        record.offset
        for fetched in reader.read_range((topic, 0), start, end)
        for batch in read_batches(fetched.records)
        for record in batch.records()
        if start <= record.offset < end
    ]


def test_a_range_is_whole_wherever_it_begins_and_ends(broker: str, topic: str) -> None:
    # Answers of at most one batch: the reader has to ask many times, and to stop by itself.
    with RangeReader({"bootstrap.servers": broker, "max.partition.fetch.bytes": "200"}) as reader:
        assert values(reader, topic, 0, 50) == list(range(50))
        assert values(reader, topic, 7, 13) == list(range(7, 13))
        assert values(reader, topic, 49, 50) == [49]
        assert values(reader, topic, 20, 20) == []


def test_fetches_do_not_run_beyond_the_end(broker: str, topic: str) -> None:
    with RangeReader({"bootstrap.servers": broker, "max.partition.fetch.bytes": "200"}) as reader:
        answers = list(reader.read_range((topic, 0), 0, 7))
        assert [(answer.fetch_offset, answer.next_offset) for answer in answers] == [(0, 5), (5, 10)]


def test_offsets_that_were_deleted_are_named_with_the_offset_to_go_on_at(broker: str, topic: str) -> None:
    with AdminClient(broker, {}, SystemClock()) as admin:
        assert delete_records(admin, {(topic, 0): 12})[topic, 0].error is None
    with RangeReader({"bootstrap.servers": broker}) as reader:
        with pytest.raises(RangeLost, match=rf"Offsets 3 to 11 of {topic}-0 .* starts at offset 12 now") as lost:
            values(reader, topic, 3, 20)
        assert lost.value.resume_at == 12
        assert values(reader, topic, 12, 20) == list(range(12, 20))
        with pytest.raises(RangeLost, match=rf"Offsets 3 to 9 of {topic}-0") as lost:
            values(reader, topic, 3, 10)
        assert lost.value.resume_at is None


def test_an_end_behind_the_log_is_lost_not_waited_for(broker: str, topic: str) -> None:
    with RangeReader({"bootstrap.servers": broker}) as reader:
        with pytest.raises(RangeLost, match=rf"Offsets 50 to 59 of {topic}-0 .* the log ends at offset 50 now"):
            values(reader, topic, 45, 60)
        with pytest.raises(RangeLost, match=rf"Offsets 55 to 59 of {topic}-0 .* the log ends at offset 50 now"):
            values(reader, topic, 55, 60)


@pytest.mark.slow
def test_a_deleted_topic_and_one_made_again_are_lost(broker: str, topic: str) -> None:
    with RangeReader({"bootstrap.servers": broker}) as reader:
        with pytest.raises(RangeLost, match="deleted and recreated"):
            list(reader.read_range((topic, 0), 0, 50, uuid.uuid4()))
        with AdminClient(broker, {}, SystemClock()) as admin:
            assert delete_topics(admin, [topic])[topic].error is None
        with pytest.raises(RangeLost, match="the topic no longer exists"):
            list(reader.read_range((topic, 0), 0, 50))


def test_a_broker_that_is_gone_is_given_up_after_the_patience(tmp_path: pathlib.Path) -> None:
    with embedded_broker(tmp_path) as bootstrap, RawClient(bootstrap) as client:
        client.create_topic("gone", 1)
        client.produce_rows("gone", 0, [(1, None, b"v", ())])
    reader = RangeReader({"bootstrap.servers": bootstrap}, patience_ms=300)
    with reader, pytest.raises(RequestTimedOut, match="gone-0 from offset 0 on, where the range ends at 1"):
        list(reader.read_range(("gone", 0), 0, 1))


def test_a_leader_that_refuses_offsets_of_its_log_is_given_up_after_the_patience() -> None:
    def list_offsets(header: Any, request: Any) -> dict[str, Any]:
        (asked,) = request.topics[0].partitions
        found = {"partition_index": 0, "offset": 0 if asked.timestamp == EARLIEST else 10, "timestamp": -1}
        return {"topics": [{"name": "odd", "partitions": [found]}]}

    def fetch(header: Any, request: Any) -> dict[str, Any]:
        (asked,) = request.topics
        refused = {"partition_index": 0, "error_code": OffsetOutOfRange.code, "high_watermark": -1, "records": None}
        return {"responses": [{"topic_id": asked.topic_id, "partitions": [refused]}]}

    broker = ScriptedBroker({ApiKey.FETCH: fetch, ApiKey.LIST_OFFSETS: list_offsets})
    broker.topics = [{"name": "odd", "topic_id": uuid.uuid4(), "partitions": [partition(0)]}]
    with broker.in_background():
        reader = RangeReader({"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": "10"}, patience_ms=300)
        with reader, pytest.raises(RequestTimedOut, match="odd-0 from offset 3 on, where the range ends at 7"):
            list(reader.read_range(("odd", 0), 3, 7))
