"""Encode Produce requests, versions 3 to 13, around the memory of the batches.

The generated message encoder would copy every batch twice. Here a request is a list of buffers for one gathering write:
small heads made with struct, and the batches in their pooled buffers. The layout is Kafka's ProduceRequest.json; a test
compares every version with the generated encoding.

    v3-8   transactional_id STRING  acks INT16  timeout_ms INT32  [topic STRING [index INT32 records BYTES]]
    v9-12  compact strings, arrays and bytes, a tag section after each structure
    v13    the topic id (16 bytes) in place of the name (KIP-516)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.varints import compact_string, plain_string, unsigned_varint

Buffer = bytes | bytearray | memoryview
PartitionRecords = tuple[int, Buffer]

FIRST_FLEXIBLE_VERSION = ApiKey.PRODUCE.first_flexible_version
FIRST_TOPIC_ID_VERSION = 13

_ACKS_TIMEOUT_COUNT = struct.Struct(">hii")
_ACKS_TIMEOUT = struct.Struct(">hi")
_INDEX_SIZE = struct.Struct(">ii")
_INDEX = struct.Struct(">i")


def produce_request_body(
    version: int,
    acks: int,
    timeout_ms: int,
    topics: Mapping[str, Sequence[PartitionRecords]],
    topic_ids: Mapping[str, bytes],
    transactional_id: str | None = None,
) -> list[Buffer]:
    """The buffers of a Produce request after its header. `topics`: partition numbers and encoded batches by topic.
    `topic_ids`: 16 bytes for each topic, read from version 13 on."""
    if version >= FIRST_FLEXIBLE_VERSION:
        return _flexible_body(version, acks, timeout_ms, topics, topic_ids, transactional_id)
    head = bytearray(plain_string(transactional_id))
    head += _ACKS_TIMEOUT_COUNT.pack(acks, timeout_ms, len(topics))
    buffers: list[Buffer] = []
    for topic, partitions in topics.items():
        head += plain_string(topic) + _INDEX.pack(len(partitions))
        for index, records in partitions:
            head += _INDEX_SIZE.pack(index, len(records))
            buffers.append(bytes(head))
            buffers.append(records)
            head.clear()
    return buffers


def _flexible_body(
    version: int,
    acks: int,
    timeout_ms: int,
    topics: Mapping[str, Sequence[PartitionRecords]],
    topic_ids: Mapping[str, bytes],
    transactional_id: str | None,
) -> list[Buffer]:
    head = bytearray(compact_string(transactional_id))
    head += _ACKS_TIMEOUT.pack(acks, timeout_ms) + unsigned_varint(len(topics) + 1)
    buffers: list[Buffer] = []
    for topic, partitions in topics.items():
        head += topic_ids[topic] if version >= FIRST_TOPIC_ID_VERSION else compact_string(topic)
        head += unsigned_varint(len(partitions) + 1)
        for index, records in partitions:
            head += _INDEX.pack(index) + unsigned_varint(len(records) + 1)
            buffers.append(bytes(head))
            buffers.append(records)
            head.clear()
            head.append(0)  # tags of the partition
        head.append(0)  # tags of the topic
    head.append(0)  # tags of the request
    buffers.append(bytes(head))
    return buffers
