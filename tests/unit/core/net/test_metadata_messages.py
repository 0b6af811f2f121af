"""Metadata requests and responses as a client writes and reads them, version by version."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from support.whole_messages import decode_all

from kafkatools.core.errors import DecodeError
from kafkatools.core.net.bodies import decode_body, throttle_ms_of
from kafkatools.core.net.metadata_updater import metadata_request
from kafkatools.core.protocol.api_versions import ApiKey, versions_of
from kafkatools.core.protocol.messages import encode_fields, request_type, response_type

VERSIONS = versions_of(ApiKey.METADATA)
TOPIC_ID = uuid.UUID("8f0a3b1c-0000-4000-8000-00000000abcd")
ANSWER: dict[str, Any] = {
    "throttle_time": 70,
    "brokers": [
        {"node_id": 1, "host": "a.example", "port": 9092, "rack": None},
        {"node_id": 2, "host": "b.example", "port": 9093, "rack": "r2"},
    ],
    "cluster_id": "cluster",
    "controller_id": 2,
    "topics": [
        {
            "error_code": 0,
            "name": "événements",
            "topic_id": TOPIC_ID,
            "is_internal": True,
            "topic_authorized_operations": 2552,
            "partitions": [
                {
                    "error_code": 5,
                    "partition_index": 3,
                    "leader_id": -1,
                    "leader_epoch": 7,
                    "replica_nodes": [1, 2],
                    "isr_nodes": [2],
                    "offline_replicas": [1],
                }
            ],
        },
        {"error_code": 3, "name": "missing", "topic_id": None, "is_internal": False, "partitions": []},
    ],
}


def response_bytes(version: int) -> bytes:
    return encode_fields(response_type(ApiKey.METADATA, version), ANSWER)


def decode_metadata_response(raw: bytes, version: int) -> Any:
    return decode_body(ApiKey.METADATA, version, memoryview(raw))


def test_all_versions_of_the_table_are_read() -> None:
    assert list(VERSIONS) == list(range(14))


@pytest.mark.parametrize("version", VERSIONS)
def test_response_is_read_as_the_schema_says(version: int) -> None:
    raw = response_bytes(version)
    answer = decode_metadata_response(raw, version)
    assert answer == decode_all(response_type(ApiKey.METADATA, version), raw)
    assert [broker.node_id for broker in answer.brokers] == [1, 2]
    assert [broker.host for broker in answer.brokers] == ["a.example", "b.example"]
    assert getattr(answer.brokers[1], "rack", None) == ("r2" if version >= 1 else None)
    assert getattr(answer, "cluster_id", None) == ("cluster" if version >= 2 else None)
    assert getattr(answer, "controller_id", None) == (2 if version >= 1 else None)
    assert throttle_ms_of(answer) == (70 if version >= 3 else 0)
    first, missing = answer.topics
    assert (first.name, first.error_code, missing.name, missing.error_code) == ("événements", 0, "missing", 3)
    assert getattr(first, "topic_id", None) == (TOPIC_ID if version >= 10 else None)
    assert getattr(first, "is_internal", False) == (version >= 1)
    if version >= 8:
        assert first.topic_authorized_operations == 2552
    (partition,) = first.partitions
    assert (partition.error_code, partition.partition_index, partition.leader_id) == (5, 3, -1)
    assert getattr(partition, "leader_epoch", -1) == (7 if version >= 7 else -1)
    assert (partition.replica_nodes, partition.isr_nodes) == ((1, 2), (2,))
    assert getattr(partition, "offline_replicas", ()) == ((1,) if version >= 5 else ())


@pytest.mark.parametrize("version", VERSIONS)
def test_response_that_ends_early_is_an_error(version: int) -> None:
    raw = response_bytes(version)
    for end in range(len(raw)):
        with pytest.raises(DecodeError):
            decode_metadata_response(raw[:end], version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("names", [None, [], ["a", "événements"]])
def test_request_is_written_as_the_schema_says(version: int, names: list[str] | None) -> None:
    topics = None if names is None else [{"topic_id": None, "name": name} for name in names]
    raw = metadata_request({"topics": topics, "allow_auto_topic_creation": False}, version)
    entity = decode_all(request_type(ApiKey.METADATA, version), raw)
    if names is None:
        assert entity.topics == (() if version == 0 else None)
    else:
        assert [topic.name for topic in entity.topics] == names
    assert entity.allow_auto_topic_creation is (version < 4)


def test_array_longer_than_its_frame_is_refused_before_it_is_made() -> None:
    with pytest.raises(DecodeError, match="collection of size"):
        decode_metadata_response(b"\x7f\xff\xff\xff" + bytes(20), 0)
