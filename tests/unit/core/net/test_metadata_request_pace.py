"""How often clients request metadata while a topic has no leader: every part that runs in each turn keeps Kafka's
exponential back-off (retry.backoff.ms) between responses without a change."""

import uuid
from collections.abc import Callable
from typing import Any

from support.scripted_broker import partition

from kafkatools.core.config import CONSUMER, Config
from kafkatools.core.consumer.fetcher import Fetcher, FetchSettings
from kafkatools.core.consumer.network import MetadataLeaders
from kafkatools.core.consumer.share.requests import PartitionId, ShareRequests, ShareSettings
from kafkatools.core.consumer.subscription import (
    AutoOffsetResetStrategy,
    FetchPosition,
    LeaderAndEpoch,
    SubscriptionState,
    TopicPartition,
)
from kafkatools.core.net.connection_states import ExponentialBackoff
from kafkatools.core.net.metadata import Metadata
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import build, response_type

ID = uuid.UUID(int=1)
PART = TopicPartition("t", 0)
UNKNOWN_TOPIC_OR_PARTITION = 3
BACKOFF = ExponentialBackoff(100, 1000, random=lambda: 0.5)  # without jitter


def answer(*partitions: dict[str, Any], error: int = 0) -> Any:
    topic = {"name": "t", "topic_id": ID, "partitions": partitions, "error_code": error}
    brokers = [{"node_id": 2, "host": "h", "port": 9092}]
    return build(response_type(ApiKey.METADATA, 12), {"brokers": brokers, "topics": [topic], "controller_id": 2})


def request_times(metadata: Metadata, turn: Callable[[int], object], response: Any) -> list[int]:
    """Run a turn in each of 3,000 ms and return the times of the Metadata requests, each answered at once."""
    times = []
    for now_ms in range(3000):
        turn(now_ms)
        if metadata.time_to_next_update_ms(now_ms) == 0:
            times.append(now_ms)
            metadata.update(metadata.next_request(now_ms)[1], response, False, now_ms)
    return times


def fetching(metadata: Metadata) -> tuple[Fetcher, SubscriptionState]:
    subscriptions = SubscriptionState(AutoOffsetResetStrategy.parse("none"))
    subscriptions.assign([PART])
    subscriptions.seek(PART, FetchPosition(0, -1, LeaderAndEpoch(2, 1)))
    return Fetcher(FetchSettings(), subscriptions, MetadataLeaders(metadata)), subscriptions


def test_reader_of_a_missing_topic_keeps_the_backoff() -> None:
    metadata = Metadata([("h", 1)], backoff=BACKOFF, topics=["t"])
    fetcher, _ = fetching(metadata)
    times = request_times(
        metadata, lambda now_ms: fetcher.prepare(now_ms, bool), answer(error=UNKNOWN_TOPIC_OR_PARTITION)
    )
    assert times == [0, 1, 101, 301, 701, 1501, 2501], "the first change is the topic's first response"


def test_reader_whose_preferred_replica_is_gone_keeps_the_backoff() -> None:
    metadata = Metadata([("h", 1)], backoff=BACKOFF, topics=["t"])
    fetcher, subscriptions = fetching(metadata)

    def turn(now_ms: int) -> None:
        subscriptions.set_preferred_read_replica(PART, 7, now_ms + 5000)
        fetcher.prepare(now_ms, lambda node: False)

    assert len(request_times(metadata, turn, answer(partition(0, leader=2)))) < 10


def test_share_consumer_of_a_partition_without_a_leader_keeps_the_backoff() -> None:
    metadata = Metadata([("h", 1)], backoff=BACKOFF, topics=["t"])
    config = Config(CONSUMER, {"bootstrap.servers": "h:1", "group.id": "g"})
    requests = ShareRequests(ShareSettings.of(config, "member"), MetadataLeaders(metadata))
    assigned = {PartitionId(ID, 0): PART}

    def turn(now_ms: int) -> None:
        requests.prepare(now_ms, assigned, lambda node: True, wants_records=True)

    assert len(request_times(metadata, turn, answer(partition(0, leader=-1)))) < 10
