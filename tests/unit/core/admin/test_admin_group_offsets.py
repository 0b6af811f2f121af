"""OffsetFetch responses as the codec writes them; commits and deletions and their errors."""

from typing import Any

import pytest
from support.scripted_broker import ScriptedBroker
from support.unit_admin import coordinator_of_all, fast_admin

from kafkatools.core import errors
from kafkatools.core.admin import group_offsets
from kafkatools.core.admin.group_offsets import GroupOffsets, read_offset_fetch
from kafkatools.core.errors import DecodeError
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.messages import build, encode, response_type

TOPICS = [
    {"name": "plain", "partitions": [(0, 5, 1, "", 0), (1, 2**40, -1, "", 0), (2, -1, -1, "", 0)]},
    {"name": "told", "partitions": [(0, 7, 3, "text é", 0), (1, 1, -1, "x" * 200, 0)]},
    {"name": "refused", "partitions": [(4, -1, -1, "", 29)]},
    {"name": "nothing", "partitions": []},
]


def _response(version: int, group_error: int = 0) -> bytes:
    topics = [
        {
            "name": topic["name"],
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": offset,
                    "metadata": text,
                    "error_code": code,
                    **({"committed_leader_epoch": epoch} if version >= 5 else {}),
                }
                for index, offset, epoch, text, code in topic["partitions"]
            ],
        }
        for topic in TOPICS
    ]
    fields: dict[str, Any] = {"topics": topics, "error_code": group_error}
    if version >= 8:
        fields = {"groups": [{"group_id": "g", **fields}, {"group_id": "none", "topics": [], "error_code": 0}]}
    return encode(build(response_type(ApiKey.OFFSET_FETCH, version), fields))


def _expected(version: int) -> dict[tuple[str, int], OffsetAndMetadata]:
    return {
        (topic["name"], index): OffsetAndMetadata(offset, epoch if version >= 5 else -1, text)
        for topic in TOPICS
        for index, offset, epoch, text, code in topic["partitions"]
        if offset >= 0
    }


@pytest.mark.parametrize("version", range(2, 10))
def test_response_is_read_as_the_generated_codec_writes_it(version: int) -> None:
    found = read_offset_fetch(memoryview(_response(version)), version, "g")["g"]
    assert found.offsets == _expected(version)
    assert {key: type(error) for key, error in found.errors.items()} == {
        ("refused", 4): errors.TopicAuthorizationFailed
    }


@pytest.mark.parametrize("version", [8, 9])
def test_many_groups_come_in_one_response(version: int) -> None:
    found = read_offset_fetch(memoryview(_response(version)), version, "")
    assert list(found) == ["g", "none"]
    assert found["none"] == GroupOffsets({}, {})


@pytest.mark.parametrize("version", [2, 7, 9])
def test_error_of_a_group(version: int) -> None:
    found = read_offset_fetch(memoryview(_response(version, group_error=30)), version, "g")["g"]
    assert isinstance(found, errors.GroupAuthorizationFailed)


@pytest.mark.parametrize("version", [2, 5, 8])
def test_truncated_response_is_an_error_at_every_byte(version: int) -> None:
    whole = _response(version)
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            read_offset_fetch(memoryview(whole)[:size], version, "g")


def test_new_offsets_that_a_group_refuses_are_its_error() -> None:
    def commit(header: Any, request: Any) -> dict[str, Any]:
        code = {"alive": 25, "half": 0}[request.group_id]
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {"partition_index": part.partition_index, "error_code": code or 29 * part.partition_index}
                        for part in topic.partitions
                    ],
                }
                for topic in request.topics
            ]
        }

    broker = ScriptedBroker({ApiKey.FIND_COORDINATOR: coordinator_of_all, ApiKey.OFFSET_COMMIT: commit})
    new = {("t", 0): OffsetAndMetadata(1), ("t", 1): OffsetAndMetadata(2, 4, "m")}
    with broker.in_background(), fast_admin(broker) as client:
        found = group_offsets.alter_offsets(client, {"alive": new, "half": new})
    assert isinstance(found["alive"].error, errors.UnknownMemberId)
    assert found["half"].error is None
    assert {key: type(error) for key, error in found["half"].errors.items()} == {
        ("t", 1): errors.TopicAuthorizationFailed
    }
    requested = next(request for header, request in broker.requests if header.api_key == ApiKey.OFFSET_COMMIT)
    sent = requested.topics[0].partitions[1]
    assert (sent.committed_offset, sent.committed_leader_epoch, sent.committed_metadata) == (2, 4, "m")
    assert (requested.generation_id_or_member_epoch, requested.member_id) == (-1, "")
