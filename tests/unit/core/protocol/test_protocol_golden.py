"""Messages byte by byte as Apache Kafka's own classes write them."""

import uuid
from pathlib import Path
from typing import Any

import pytest
from support.whole_messages import decode_all

from kafkatools.core.net.api_version_check import read_api_versions
from kafkatools.core.protocol.api_versions import ApiKey, VersionRange
from kafkatools.core.protocol.frames import decode_request_header, encode_request_header
from kafkatools.core.protocol.messages import build, encode, request_type, response_type

ROWS = [
    line.split("\t")
    for line in (Path(__file__).parents[3] / "golden/protocol/messages.tsv").read_text().splitlines()
    if not line.startswith("#")
]


def recorded(name: str, version: int) -> list[bytes]:
    return [bytes.fromhex(row[2]) for row in ROWS if row[0] == name and int(row[1]) == version]


@pytest.mark.parametrize("version", [8, 9, 13])
def test_metadata_response(version: int) -> None:
    part = {
        "partition_index": 3,
        "leader_id": 1,
        "leader_epoch": 4,
        "replica_nodes": (1, 2),
        "isr_nodes": (1,),
        "offline_replicas": (2,),
    }
    topic: dict[str, Any] = {"name": "t", "is_internal": True, "error_code": 5, "partitions": [part]}
    topic["topic_authorized_operations"] = -(2**31)
    if version >= 10:
        topic["topic_id"] = uuid.UUID(int=(1 << 64) + 2)
    fields: dict[str, Any] = {
        "throttle_time": 7,
        "cluster_id": "cluster",
        "controller_id": 2,
        "brokers": [{"node_id": 1, "host": "h", "port": 9092, "rack": "r"}],
        "topics": [topic],
    }
    if version <= 10:
        fields["cluster_authorized_operations"] = -(2**31)
    entity = build(response_type(ApiKey.METADATA, version), fields)
    (data,) = recorded("MetadataResponse", version)
    assert encode(entity) == data
    assert decode_all(type(entity), data) == entity


def test_api_versions_response() -> None:
    (data,) = recorded("ApiVersionsResponse", 4)
    found = read_api_versions(memoryview(data), 4)
    assert found.ranges == {3: VersionRange(0, 13)}
    assert found.supported_features == {"kraft.version": VersionRange(0, 1)}
    assert found.finalized_features == {"group.version": VersionRange(1, 2)}
    assert (found.finalized_features_epoch, found.throttle_time_ms) == (5, 1)


@pytest.mark.parametrize("version", [4, 7])
def test_create_topics_request(version: int) -> None:
    topic = {"name": "t", "num_partitions": 2, "replication_factor": 1, "configs": [{"name": "k", "value": None}]}
    fields = {"topics": [topic], "timeout": 30_000, "validate_only": True}
    assert (
        encode(build(request_type(ApiKey.CREATE_TOPICS, version), fields))
        == recorded("CreateTopicsRequest", version)[0]
    )


def test_structure_that_may_be_null() -> None:
    with_cursor, without = recorded("DescribeTopicPartitionsRequest", 0)
    kind = request_type(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    cursor = {"topic_name": "t", "partition_index": 2}
    fields = {"topics": [{"name": "t"}], "response_partition_limit": 5, "cursor": cursor}
    assert encode(build(kind, fields)) == with_cursor
    assert encode(build(kind, {"response_partition_limit": 5})) == without
    assert decode_all(kind, without).cursor is None
    assert decode_all(kind, with_cursor).cursor.partition_index == 2


def test_request_headers() -> None:
    assert encode_request_header(3, 13, 9, "kt") == recorded("RequestHeader", 2)[0]
    assert encode_request_header(3, 8, 9, None) == recorded("RequestHeader", 1)[0]
    assert decode_request_header(recorded("RequestHeader", 2)[0]).client_id == "kt"
