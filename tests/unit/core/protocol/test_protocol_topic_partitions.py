"""DescribeTopicPartitions responses that are cut off, damaged or of a newer broker; rows of partitions with nulls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import decode, encode_fields, response_type

VERSION = 0
RESPONSE = response_type(ApiKey.DESCRIBE_TOPIC_PARTITIONS, VERSION)
ROW = {"replica_nodes": [1, 2], "isr_nodes": [1], "eligible_leader_replicas": [], "last_known_elr": None}
SMALL = {
    "topics": [{"name": "t", "partitions": [{"partition_index": n, "leader_id": 1, **ROW} for n in range(3)]}],
    "next_cursor": {"topic_name": "t", "partition_index": 3},
}


def response_bytes(fields: dict[str, Any]) -> bytes:
    return encode_fields(RESPONSE, fields)


def decode_response(raw: bytes | bytearray) -> Any:
    return decode(RESPONSE, raw)[0]


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
    assert sum(len(topic.partitions) for topic in answer.topics) <= len(raw)


def test_tagged_fields_are_passed_over() -> None:
    raw = response_bytes({"topics": [{"name": "t", "partitions": [{"partition_index": 4, **ROW}] * 2}]})
    part = response_bytes({"topics": [{"name": "t", "partitions": [{"partition_index": 4, **ROW}]}]})
    size = len(raw) - len(part)
    begin = raw.index((4).to_bytes(4, "big")) - 2
    first, second = raw[begin : begin + size], raw[begin + size : begin + 2 * size]
    tagged = raw[:begin] + first[:-1] + b"\1\7\2ab" + second + raw[begin + 2 * size :]
    assert decode_response(tagged) == decode_response(raw)


@pytest.mark.parametrize("field", ["replica_nodes", "isr_nodes"])
def test_null_is_refused_where_it_may_not_be(field: str) -> None:
    lists = {"replica_nodes": [], "isr_nodes": [], "eligible_leader_replicas": [], "last_known_elr": []}
    raw = bytearray(response_bytes({"topics": [{"name": "t", "partitions": [{"partition_index": 4, **lists}]}]}))
    place = raw.index((4).to_bytes(4, "big")) + 12 + list(lists).index(field)
    assert raw[place] == 1
    raw[place] = 0
    with pytest.raises(DecodeError, match="null"):
        decode_response(raw)


def test_null_is_read_where_it_may_be() -> None:
    row = {**ROW, "eligible_leader_replicas": None, "last_known_elr": None}
    answer = decode_response(response_bytes({"topics": [{"name": "t", "partitions": [row]}]}))
    (partition,) = answer.topics[0].partitions
    assert partition.eligible_leader_replicas is None
    assert partition.last_known_elr is None


def test_more_partitions_than_bytes_are_refused_before_they_are_made() -> None:
    with pytest.raises(DecodeError, match="a collection of size"):
        decode_response(bytes(4) + b"\xff\xff\xff\xff\x07" + bytes(40))
