"""When a broker has said that nothing lies between a position and an end."""

from __future__ import annotations

import uuid

import pytest

from kafkatools.core.consumer.completed_fetch import READ_COMMITTED, FetchOptions
from kafkatools.core.consumer.fetch_messages import FetchedPartition, FetchResponse
from kafkatools.core.consumer.fetcher import Fetcher, FetchSettings
from kafkatools.core.consumer.subscription import (
    AutoOffsetResetStrategy,
    FetchPosition,
    LeaderAndEpoch,
    SubscriptionState,
    TopicPartition,
)
from kafkatools.core.records.builder import BatchBuilder

ID = uuid.UUID(int=1)
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Cluster:
    def leader(self, partition: TopicPartition) -> LeaderAndEpoch | None:
        return LeaderAndEpoch(1, 3)

    def topic_id(self, topic: str) -> uuid.UUID:
        return ID

    def has_replica(self, partition: TopicPartition, node: int) -> bool:
        return True

    def request_update(self) -> None:
        pass

    def note_epoch(self, partition: TopicPartition, epoch: int) -> None:
        pass

    def update_leadership(self, *_: object) -> bool:
        return False


def fetcher(isolation: int = 0) -> tuple[Fetcher, SubscriptionState]:
    subscriptions = SubscriptionState(AutoOffsetResetStrategy.parse("latest"))
    subscriptions.assign((P0, P1))
    for part in (P0, P1):
        subscriptions.seek(part, FetchPosition(40, -1, LeaderAndEpoch(1, 3)))
    return Fetcher(FetchSettings(options=FetchOptions(isolation)), subscriptions, Cluster()), subscriptions


def answer(fetcher: Fetcher, records: bytes = b"", error: int = 0, high_watermark: int = 100, stable: int = 90) -> None:
    """One round: nothing for P0, `records` or `error` for P1."""
    [item] = fetcher.prepare(0, lambda _: True)
    response = FetchResponse(0, 0, 7)
    for part, code in ((P0, 0), (P1, error)):
        data = FetchedPartition("", ID, part.partition, code)
        data.high_watermark, data.last_stable_offset = (-1, -1) if code else (high_watermark, stable)
        data.records = memoryview(records if part == P1 else b"")
        response.partitions.append(data)
    fetcher.handle_response(item.node, response, 17)
    fetcher.collect(100)


def throttled(fetcher: Fetcher) -> None:
    """One round that a broker answers above the client's quota: without any partition."""
    [item] = fetcher.prepare(0, lambda _: True)
    fetcher.handle_response(item.node, FetchResponse(200, 0, 7), 17)
    fetcher.collect(100)


def batch() -> bytes:
    builder = BatchBuilder(1 << 12, base_offset=40)
    builder.append(0, None, b"x")
    return bytes(builder.close())


def test_empty_answer_passes_the_hole_up_to_the_high_watermark() -> None:
    subject, _ = fetcher()
    assert not subject.has_nothing_before(P0, 60)
    answer(subject)
    assert subject.has_nothing_before(P0, 100)
    assert not subject.has_nothing_before(P0, 101), "the broker knows nothing of what lies behind its high watermark"


def test_partition_without_records_beside_one_with_records_may_only_have_found_no_room() -> None:
    subject, _ = fetcher()
    answer(subject, batch())
    assert not subject.has_nothing_before(P0, 60)


def test_throttled_answer_says_nothing_of_records_that_are_there() -> None:
    subject, subscriptions = fetcher()
    answer(subject)
    for part in (P0, P1):
        subscriptions.seek(part, FetchPosition(30, -1, LeaderAndEpoch(1, 3)))
    throttled(subject)
    assert not subject.has_nothing_before(P0, 60)
    answer(subject)
    assert subject.has_nothing_before(P0, 60)


def test_partition_with_an_error_has_said_nothing() -> None:
    subject, _ = fetcher()
    answer(subject, error=6)
    assert subject.has_nothing_before(P0, 60)
    assert not subject.has_nothing_before(P1, 60)


def test_other_position_needs_another_answer() -> None:
    subject, subscriptions = fetcher()
    answer(subject)
    subscriptions.seek(P0, FetchPosition(30, -1, LeaderAndEpoch(1, 3)))
    assert not subject.has_nothing_before(P0, 60)


@pytest.mark.parametrize(("isolation", "end", "expected"), [(READ_COMMITTED, 95, False), (READ_COMMITTED, 90, True)])
def test_read_committed_ends_at_the_last_stable_offset(isolation: int, end: int, expected: bool) -> None:
    subject, _ = fetcher(isolation)
    answer(subject)
    assert subject.has_nothing_before(P0, end) is expected
