"""The elements of a message are counted without making values: held against the reader."""

import struct
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol import messages
from kafkatools.core.protocol.api_versions import ApiKey, versions_of
from kafkatools.core.protocol.slices import TooManyElements

FIELDS: dict[ApiKey, dict[str, Any]] = {
    ApiKey.PRODUCE: {
        "acks": -1,
        "topic_data": [{"partition_data": [{"index": 3, "records": b"123"}]}] * 2,
    },
    ApiKey.OFFSET_COMMIT: {
        "group_id": "g",
        "topics": [{"partitions": [{"partition_index": i} for i in range(3)]}] * 2,
    },
    ApiKey.FETCH: {"topics": [{"partitions": [{"partition": 1}, {"partition": 2}]}], "forgotten_topics_data": []},
    ApiKey.ALTER_CLIENT_QUOTAS: {"entries": [{"entity": [{"entity_type": "user"}], "ops": [{"key": "x"}]}]},
    ApiKey.CREATE_TOPICS: {"topics": [{"name": "first", "assignments": [{"broker_ids": [1, 2, 3]}]}]},
}
REQUESTS = [
    (kind, messages.encode(messages.build(kind, fields)))
    for api, fields in FIELDS.items()
    for kind in (messages.request_type(api, versions_of(api)[0]), messages.request_type(api, versions_of(api)[-1]))
]


def is_readable(entity_type: Any, data: bytes) -> bool | None:
    """None when a text that is none ends the reading early."""
    try:
        messages.decode(entity_type, data)
    except DecodeError as error:
        return None if isinstance(error.__cause__, UnicodeDecodeError) else False
    return True


def is_sound(entity_type: Any, data: bytes | memoryview, offset: int) -> bool:
    try:
        messages.count_elements(entity_type, data, offset, 1 << 40)
    except DecodeError:
        return False
    return True


@pytest.mark.parametrize(("entity_type", "data"), REQUESTS, ids=lambda part: getattr(part, "__name__", "bytes"))
def test_a_whole_request_is_sound_and_no_part_of_it(entity_type: Any, data: bytes) -> None:
    assert is_sound(entity_type, memoryview(b"xx" + data + b"more"), 2)
    for size in range(len(data)):
        assert not is_sound(entity_type, memoryview(data[:size]), 0)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(
    st.sampled_from(REQUESTS),
    st.lists(st.tuples(st.integers(0, 80), st.binary(min_size=1, max_size=6)), min_size=1, max_size=3),
)
def test_what_can_be_counted_can_be_read(request_: tuple[Any, bytes], edits: list[tuple[int, bytes]]) -> None:
    entity_type, whole = request_
    data = bytearray(whole)
    for position, part in edits:
        data[position : position + len(part)] = part
    readable = is_readable(entity_type, bytes(data))
    assert readable in (is_sound(entity_type, memoryview(data), 0), None)


@pytest.mark.parametrize(
    ("api", "version", "data"),
    [
        (ApiKey.ALTER_CLIENT_QUOTAS, 0, struct.pack(">i", 0x7FFFFFFF) + bytes(20)),
        (ApiKey.ALTER_CLIENT_QUOTAS, 1, b"\xff\xff\xff\xff\x07" + bytes(20)),
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, bytes(4) + b"\0" + b"\0"),  # null, where there is none
        (ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, bytes(4) + struct.pack(">i", -1)),
    ],
)
def test_a_claim_that_cannot_be_met_is_refused(api: ApiKey, version: int, data: bytes) -> None:
    entity_type = messages.request_type(api, version)
    with pytest.raises(DecodeError):
        messages.decode(entity_type, data)


def test_a_known_tagged_field_is_walked_through_too() -> None:
    entity_type = messages.response_type(ApiKey.FETCH, 17)
    fields = {
        "responses": [{"topic_id": uuid.UUID(int=1), "partitions": [{"diverging_epoch": {"epoch": 1}}]}],
        "node_endpoints": [{"node_id": 1, "host": "h", "port": 9, "rack": None}],
    }
    data = messages.encode(messages.build(entity_type, fields))
    assert is_sound(entity_type, memoryview(data), 0)
    place = data.index(b"\x02h") - 5  # the count of endpoints, in the last tagged field
    assert data[place] == 2
    assert not is_sound(entity_type, memoryview(data[:place] + b"\x7f" + data[place + 1 :]), 0)


@pytest.mark.parametrize("most", [0, 3, 8])
def test_more_elements_than_allowed_are_too_many(most: int) -> None:
    entity_type = messages.request_type(ApiKey.OFFSET_COMMIT, 8)
    data = messages.encode_fields(entity_type, FIELDS[ApiKey.OFFSET_COMMIT])
    if most == 8:  # two topics, six partitions
        messages.count_elements(entity_type, data, 0, most)
        most -= 1
    with pytest.raises(TooManyElements):
        messages.count_elements(entity_type, data, 0, most)
