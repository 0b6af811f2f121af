"""The hand-framed Produce request is the generated one, byte for byte, in every version."""

from __future__ import annotations

import datetime
import importlib
import io
import uuid
from typing import Any

import pytest
from kio.serial import entity_writer

from kafkatools.core.producer.produce_request import produce_request_body
from kafkatools.core.protocol.varints import unsigned_varint

FIRST_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
SECOND_ID = uuid.UUID("a0112233-4455-6677-8899-aabbccddeeff")
TOPICS = {"first": [(0, b"x" * 200), (7, b"")], "zweites-Thema": [(3, bytes(range(256)) * 70)]}
IDS = {"first": FIRST_ID, "zweites-Thema": SECOND_ID}


def generated(version: int, acks: int, transactional_id: str | None) -> bytes:
    request: Any = importlib.import_module(f"kio.schema.produce.v{version}.request")
    topics = []
    for name, partitions in TOPICS.items():
        data = tuple(request.PartitionProduceData(index=index, records=records) for index, records in partitions)
        place = {"topic_id": IDS[name]} if version >= 13 else {"name": name}
        topics.append(request.TopicProduceData(partition_data=data, **place))
    entity = request.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=datetime.timedelta(milliseconds=1500),
        topic_data=tuple(topics),
    )
    out = io.BytesIO()
    entity_writer(request.ProduceRequest)(out, entity)
    return out.getvalue()


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize(("acks", "transactional_id"), [(-1, None), (0, "übertragung"), (1, "")])
def test_the_frame_is_the_generated_one(version: int, acks: int, transactional_id: str | None) -> None:
    ids = {name: topic_id.bytes for name, topic_id in IDS.items()}
    topics = {
        name: [(index, memoryview(records)) for index, records in partitions] for name, partitions in TOPICS.items()
    }
    buffers = produce_request_body(version, acks, 1500, topics, ids, transactional_id)
    assert b"".join(buffers) == generated(version, acks, transactional_id)


def test_a_batch_is_not_copied() -> None:
    batch = memoryview(bytearray(1000))
    buffers = produce_request_body(9, -1, 1500, {"t": [(0, batch)]}, {})
    assert sum(buffer is batch for buffer in buffers) == 1


@pytest.mark.parametrize(
    ("value", "expected"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (16384, b"\x80\x80\x01")]
)
def test_unsigned_varints(value: int, expected: bytes) -> None:
    assert unsigned_varint(value) == expected
