"""What goes away at an Apache Kafka while a task reads it: a topic, and the start of a log."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from support.apache_kafka import ApacheKafka
from support.raw_client import RawClient

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.topics import delete_records, delete_topics
from kafkatools.core.clock import SystemClock
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.live.options import read_options
from kafkatools.pipeline.sources.live.reader import close_idle
from kafkatools.pipeline.sources.live.source import LiveReader
from kafkatools.pipeline.sources.schema import spark_schema

pytestmark = pytest.mark.real_kafka
LARGE = b"x" * 2_000_000


@pytest.fixture
def topic(real_kafka: ApacheKafka) -> Iterator[str]:
    """One partition, ten batches, each larger than what a fetch asks for: they come one by one."""
    name = f"live-{uuid.uuid4().hex[:8]}"
    with RawClient(real_kafka.bootstrap) as client:
        client.create_topic(name, 1, max_message_bytes="3000000")
        for number in range(10):
            client.produce_rows(name, 0, [(1_700_000_000_000 + number, None, LARGE, ())])
    yield name
    close_idle()


def reading(real_kafka: ApacheKafka, topic: str, **options: str) -> Iterator[Any]:
    """The batches of the only task."""
    given = {"kafka.bootstrap.servers": real_kafka.bootstrap, "subscribe": topic, "minPartitions": "1"}
    given |= {"kafka.fetch.max.bytes": "1000", "kafka.max.partition.fetch.bytes": "1000"}
    reader = LiveReader(spark_schema(), read_options({**given, **options}, is_streaming=False))
    (split,) = reader.partitions()
    return reader.read(split)


def test_a_topic_that_is_deleted_in_the_middle(real_kafka: ApacheKafka, topic: str) -> None:
    strict, lenient = reading(real_kafka, topic), reading(real_kafka, topic, failOnDataLoss="false")
    assert all(0 < batch.num_rows < 6 for batch in (next(strict), next(lenient)))
    with AdminClient(real_kafka.bootstrap, {}, SystemClock()) as admin:
        assert delete_topics(admin, [topic])[topic].error is None
    with pytest.raises(
        PipelineError, match=rf"Offsets \d to 9 of {topic}-0 cannot be read: the topic no longer exists"
    ):
        list(strict)
    rest = [offset for batch in lenient for offset in batch.column("offset").to_pylist()]
    assert 9 not in rest


def test_a_start_that_moves_in_the_middle(real_kafka: ApacheKafka, topic: str) -> None:
    strict, lenient = reading(real_kafka, topic), reading(real_kafka, topic, failOnDataLoss="false")
    assert all(0 < batch.num_rows < 6 for batch in (next(strict), next(lenient)))
    with AdminClient(real_kafka.bootstrap, {}, SystemClock()) as admin:
        assert delete_records(admin, {(topic, 0): 9})[topic, 0].error is None
    with pytest.raises(
        PipelineError, match=rf"Offsets \d to 8 of {topic}-0 cannot be read: the log starts at offset 9"
    ):
        list(strict)
    rest = [offset for batch in lenient for offset in batch.column("offset").to_pylist()]
    assert rest[-1] == 9
    assert 8 not in rest
