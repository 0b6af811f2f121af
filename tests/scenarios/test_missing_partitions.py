"""Lookups of offsets of a topic or partition that does not exist: an error that names it, and few Metadata requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from support.kt_process import BrokerProcess

from kafkatools import Admin, Consumer, NewTopic
from kafkatools.errors import RequestTimedOut, UnknownTopicOrPartition

LOOKUPS: dict[str, Callable[[Consumer, tuple[str, int]], object]] = {
    "end_offsets": lambda consumer, partition: consumer.end_offsets([partition]),
    "offsets_for_times": lambda consumer, partition: consumer.offsets_for_times({partition: 0}),
    "position": lambda consumer, partition: consumer.position(partition),
    "read_to_end": lambda consumer, partition: list(consumer.read_to_end()),
}
MOST_RESPONSES = 70
"""One response per retry.backoff.ms (100 ms) within the five seconds, and some."""


@pytest.fixture
def consumer(broker: BrokerProcess) -> Iterator[Consumer]:
    with Consumer(bootstrap_servers=broker.bootstrap, allow_auto_create_topics=False) as connected:
        yield connected


@pytest.mark.parametrize("name", LOOKUPS)
def test_a_missing_topic_is_named(consumer: Consumer, name: str) -> None:
    consumer.assign([("nosuch", 0)])
    with pytest.raises(UnknownTopicOrPartition, match=r"^Topic nosuch does not exist$"):
        LOOKUPS[name](consumer, ("nosuch", 0))
    assert consumer.metadata_version < MOST_RESPONSES


def test_a_missing_topic_is_named_by_a_consumer_that_knows_all_topics(consumer: Consumer) -> None:
    consumer.list_topics()
    with pytest.raises(UnknownTopicOrPartition, match=r"^Topic nosuch does not exist$"):
        consumer.end_offsets([("nosuch", 0)])


def test_a_missing_partition_is_named_with_the_partitions_of_its_topic(
    broker: BrokerProcess, consumer: Consumer
) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(NewTopic("two", 2))
    with pytest.raises(UnknownTopicOrPartition, match=r"^Partition two-7 does not exist: topic two has 2 partitions$"):
        consumer.end_offsets([("two", 0), ("two", 7)])


def test_a_topic_that_is_created_meanwhile_is_waited_for(broker: BrokerProcess, consumer: Consumer) -> None:
    consumer.assign([("late", 0)])
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        creation = threading.Timer(0.5, lambda: admin.create_topics("late"))
        creation.start()
        assert consumer.end_offsets([("late", 0)]) == {("late", 0): 0}
        creation.join()


def test_a_deadline_before_that_names_the_partition(broker: BrokerProcess) -> None:
    quick = {"bootstrap.servers": broker.bootstrap, "default.api.timeout.ms": "300", "request.timeout.ms": "300"}
    with Consumer({**quick, "allow.auto.create.topics": "false"}) as consumer, pytest.raises(RequestTimedOut) as caught:
        consumer.end_offsets([("nosuch", 0)])
    assert "nosuch-0" in str(caught.value)
