"""DescribeTopicPartitions framed by hand, and rows of partitions read many at a time, held against the codec that is
generated from Kafka's schema."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.api_versions import ApiKey, versions_of
from kafkatools.core.protocol.messages import build, decode_all, encode, encode_fields, request_type, response_type
from kafkatools.core.protocol.partition_rows import read_rows
from kafkatools.core.protocol.topic_partitions_messages import (
    VERSION,
    TopicPartitionsResponse,
    decode_response,
    encode_request,
)

NUMBERS = st.integers(-(2**31), 2**31 - 1)
IDS = st.lists(NUMBERS, max_size=4) | st.just(list(range(130)))
PARTITIONS = st.fixed_dictionaries(
    {
        "error_code": st.sampled_from([0, 5]),
        "partition_index": NUMBERS,
        "leader_id": NUMBERS,
        "leader_epoch": NUMBERS,
        "replica_nodes": IDS,
        "isr_nodes": IDS,
        "eligible_leader_replicas": st.none() | IDS,
        "last_known_elr": st.none() | IDS,
        "offline_replicas": IDS,
    }
)
# Runs of partitions of one shape, and those of many.
LAYOUTS = st.lists(PARTITIONS, max_size=6) | st.builds(
    lambda one, count: [one] * count, PARTITIONS, st.integers(1, 300)
)
TOPICS = st.fixed_dictionaries(
    {
        "error_code": st.sampled_from([0, 3]),
        "name": st.none() | st.text(max_size=5),
        "topic_id": st.none() | st.just(uuid.UUID(int=7)),
        "is_internal": st.booleans(),
        "partitions": LAYOUTS,
        "topic_authorized_operations": NUMBERS,
    }
)
CURSORS = st.none() | st.fixed_dictionaries({"topic_name": st.text(max_size=5), "partition_index": NUMBERS})
ANSWERS = st.fixed_dictionaries(
    {"throttle_time": st.integers(0, 1000), "topics": st.lists(TOPICS, max_size=3), "next_cursor": CURSORS}
)
ROW = {"replica_nodes": [1, 2], "isr_nodes": [1], "eligible_leader_replicas": [], "last_known_elr": None}
SMALL = {
    "topics": [{"name": "t", "partitions": [{"partition_index": n, "leader_id": 1, **ROW} for n in range(3)]}],
    "next_cursor": {"topic_name": "t", "partition_index": 3},
}


def response_bytes(fields: dict[str, Any]) -> bytes:
    return encode_fields(response_type(ApiKey.DESCRIBE_TOPIC_PARTITIONS, VERSION), fields)


def plain(value: Any) -> Any:
    """An answer by hand or of the generated codec, as plain values."""
    if isinstance(value, TopicPartitionsResponse):
        cursor = value.next_cursor
        return [_plain_topic(each) for each in value.topics], None if cursor is None else tuple(cursor)
    cursor = value.next_cursor
    place = None if cursor is None else (cursor.topic_name, cursor.partition_index)
    return [_plain_topic(each) for each in value.topics], place


def _plain_topic(topic: Any) -> Any:
    parts = [
        (
            int(part.error_code), part.partition_index, part.leader_id, part.leader_epoch, part.replica_nodes,
            part.isr_nodes, part.eligible_leader_replicas, part.last_known_elr, part.offline_replicas,
        )
        for part in topic.partitions
    ]  # fmt: skip
    return (
        int(topic.error_code), topic.name, topic.topic_id, topic.is_internal, parts, topic.topic_authorized_operations,
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(ANSWERS)
def test_answers_are_those_of_the_generated_codec(fields: dict[str, Any]) -> None:
    raw = response_bytes(fields)
    answer = decode_response(raw)
    assert plain(answer) == plain(decode_all(response_type(ApiKey.DESCRIBE_TOPIC_PARTITIONS, VERSION), raw))
    assert answer.throttle_time_ms == fields["throttle_time"]


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "topics": st.lists(st.fixed_dictionaries({"name": st.text(max_size=200)}), max_size=200),
            "response_partition_limit": NUMBERS,
            "cursor": CURSORS,
        },
    )
)
def test_requests_are_those_of_the_generated_codec(fields: dict[str, Any]) -> None:
    kind = request_type(ApiKey.DESCRIBE_TOPIC_PARTITIONS, VERSION)
    assert encode_request(fields) == encode(build(kind, fields))


def test_the_only_version_is_the_one_of_the_tables() -> None:
    assert list(versions_of(ApiKey.DESCRIBE_TOPIC_PARTITIONS)) == [VERSION]
    assert encode_request({"unheard_of": 1}) is None


def test_answer_that_ends_early_is_an_error() -> None:
    raw = response_bytes(SMALL)
    for end in range(len(raw)):
        with pytest.raises(DecodeError):
            decode_response(raw[:end])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 200), st.integers(0, 255))
def test_any_byte_may_be_wrong(place: int, byte: int) -> None:
    raw = bytearray(response_bytes(SMALL))
    raw[place % len(raw)] = byte
    try:
        answer = decode_response(raw)
    except DecodeError:
        return
    assert sum(len(topic.rows) for topic in answer.topics) <= len(raw)


def test_tagged_fields_are_passed_over() -> None:
    raw = response_bytes({"topics": [{"name": "t", "partitions": [{"partition_index": 4, **ROW}] * 2}]})
    part = response_bytes({"topics": [{"name": "t", "partitions": [{"partition_index": 4, **ROW}]}]})
    size = len(raw) - len(part)
    begin = raw.index((4).to_bytes(4, "big")) - 2
    first, second = raw[begin : begin + size], raw[begin + size : begin + 2 * size]
    tagged = raw[:begin] + first[:-1] + b"\1\7\2ab" + second + raw[begin + 2 * size :]
    assert decode_response(tagged) == decode_response(raw)


@pytest.mark.parametrize("lengths", [b"\0\1", b"\1\0"])
def test_null_is_refused_where_it_may_not_be(lengths: bytes) -> None:
    row = memoryview(bytes(14) + lengths + b"\0")
    assert len(read_rows(row, 0, 1, (True, True))[0]) == 1
    with pytest.raises(DecodeError, match="null"):
        read_rows(row, 0, 1, (False, False))
    tagged = memoryview(bytes(14) + lengths + b"\1\0\0")
    with pytest.raises(DecodeError, match="null"):
        read_rows(tagged, 0, 1, (False, False))


def test_more_partitions_than_bytes_are_refused_before_they_are_made() -> None:
    with pytest.raises(DecodeError, match="a length of"):
        decode_response(bytes(4) + b"\xff\xff\xff\xff\x07" + bytes(40))
