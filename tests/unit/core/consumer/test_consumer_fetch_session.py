"""Fetch sessions: full and incremental requests, and every answer that ends a session (KIP-227)."""

from __future__ import annotations

import uuid

import pytest

from kafkatools.core.consumer.fetch_messages import FetchedPartition, FetchPartition, FetchResponse
from kafkatools.core.consumer.fetch_session import FetchMetadata, FetchSessionHandler
from kafkatools.core.consumer.subscription import TopicPartition

IDS = {"foo": uuid.UUID(int=1), "bar": uuid.UUID(int=2)}


def wanted(*items: tuple[str, int, int], ids: dict[str, uuid.UUID] = IDS) -> dict[TopicPartition, FetchPartition]:
    return {
        TopicPartition(topic, part): FetchPartition(topic, ids[topic], part, offset, 1000)
        for topic, part, offset in items
    }


def answer(session_id: int, *partitions: tuple[str, int], error: int = 0, throttle_ms: int = 0) -> FetchResponse:
    response = FetchResponse(throttle_ms, error, session_id)
    response.partitions = [FetchedPartition("", IDS[topic], part) for topic, part in partitions]
    return response


def sent(handler: FetchSessionHandler, items: dict[TopicPartition, FetchPartition]) -> tuple[list[str], list[str]]:
    data = handler.build(items)
    to_send = [f"{item.topic}-{item.partition}@{item.fetch_offset}" for item in data.to_send]
    return to_send, [f"{item.topic}-{item.partition}" for item in data.to_forget]


def established() -> FetchSessionHandler:
    handler = FetchSessionHandler(1)
    handler.build(wanted(("foo", 0, 0), ("foo", 1, 10)))
    assert handler.handle_response(answer(123, ("foo", 0), ("foo", 1)), 13)
    return handler


def test_first_request_is_full_and_asks_for_a_session() -> None:
    handler = FetchSessionHandler(1)
    data = handler.build(wanted(("foo", 0, 0), ("foo", 1, 10)))
    assert data.metadata == FetchMetadata(0, 0)
    assert [item.fetch_offset for item in data.to_send] == [0, 10]
    assert data.to_forget == []


def test_incremental_request_names_only_what_changed() -> None:
    handler = established()
    assert handler.next_metadata == FetchMetadata(123, 1)
    # foo-0 as it was, foo-1 further on, bar-0 new.
    assert sent(handler, wanted(("foo", 0, 0), ("foo", 1, 20), ("bar", 0, 5))) == (["foo-1@20", "bar-0@5"], [])
    assert handler.handle_response(answer(123, ("foo", 1)), 13)
    assert handler.next_metadata == FetchMetadata(123, 2)
    # foo-0 and bar-0 are not wanted any more.
    assert sent(handler, wanted(("foo", 1, 20))) == ([], ["foo-0", "bar-0"])
    assert handler.handle_response(answer(123), 13)
    assert list(handler.session_partitions) == [TopicPartition("foo", 1)]


def test_topic_made_again_is_forgotten_by_its_old_id() -> None:
    handler = established()
    again = {"foo": uuid.UUID(int=99)}
    data = handler.build(wanted(("foo", 0, 0), ids=again))
    assert {(item.topic_id, item.partition) for item in data.to_forget} == {(IDS["foo"], 0), (IDS["foo"], 1)}
    assert [item.topic_id for item in data.to_send] == [uuid.UUID(int=99)]


def test_broker_that_gives_no_session_gets_full_requests_again() -> None:
    handler = FetchSessionHandler(1)
    handler.build(wanted(("foo", 0, 0)))
    assert handler.handle_response(answer(0, ("foo", 0)), 13)
    assert handler.next_metadata == FetchMetadata(0, 0)
    assert sent(handler, wanted(("foo", 0, 3))) == (["foo-0@3"], [])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (70, FetchMetadata(0, 0)),  # FETCH_SESSION_ID_NOT_FOUND: nothing is left to close
        (71, FetchMetadata(123, 0)),  # INVALID_FETCH_SESSION_EPOCH: closed by the next full request
        (106, FetchMetadata(123, 0)),  # FETCH_SESSION_TOPIC_ID_ERROR
    ],
)
def test_session_error_leads_to_a_full_request(error: int, expected: FetchMetadata) -> None:
    handler = established()
    handler.build(wanted(("foo", 0, 0)))
    assert not handler.handle_response(answer(0, error=error), 13)
    assert handler.next_metadata == expected
    assert sent(handler, wanted(("foo", 0, 7))) == (["foo-0@7"], [])


def test_answer_with_a_partition_nobody_asked_for_is_not_used() -> None:
    handler = established()
    handler.build(wanted(("foo", 0, 0), ("foo", 1, 10)))
    assert not handler.handle_response(answer(123, ("foo", 2)), 13)
    assert handler.next_metadata == FetchMetadata(123, 0)
    handler = established()
    handler.build(wanted(("foo", 0, 0), ("foo", 1, 10)))
    assert not handler.handle_response(answer(123, ("bar", 0)), 13)


def test_full_answer_must_name_every_partition() -> None:
    handler = FetchSessionHandler(1)
    handler.build(wanted(("foo", 0, 0), ("foo", 1, 10)))
    assert not handler.handle_response(answer(5, ("foo", 0)), 13)
    assert handler.next_metadata == FetchMetadata(0, 0)


def test_throttled_empty_answer_is_no_session() -> None:
    handler = FetchSessionHandler(1)
    handler.build(wanted(("foo", 0, 0)))
    assert not handler.handle_response(answer(0, throttle_ms=10), 13)
    assert handler.next_metadata == FetchMetadata(0, 0)


def test_broker_may_end_a_session_with_its_answer() -> None:
    handler = established()
    handler.build(wanted(("foo", 0, 0), ("foo", 1, 10)))
    assert handler.handle_response(answer(0, ("foo", 0)), 13)
    assert handler.next_metadata == FetchMetadata(0, 0)


def test_lost_request_closes_the_session_with_the_next_one() -> None:
    handler = established()
    handler.build(wanted(("foo", 0, 4)))
    handler.handle_error()
    assert handler.next_metadata == FetchMetadata(123, 0)
    assert sent(handler, wanted(("foo", 0, 4))) == (["foo-0@4"], [])


def test_epoch_wraps_to_one() -> None:
    assert FetchMetadata(9, 2**31 - 1).next_incremental() == FetchMetadata(9, 1)


def test_close_names_the_session_once() -> None:
    handler = established()
    data = handler.close_request()
    assert data is not None
    assert data.metadata == FetchMetadata(123, -1)
    assert handler.close_request() is None
