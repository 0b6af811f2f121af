"""Fetch framing against kio's generated codec: every version, both directions, and bytes that are no response."""

from __future__ import annotations

import importlib
import io
import uuid
from datetime import timedelta
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta

from kafkatools.core.consumer import fetch_messages
from kafkatools.core.consumer.fetch_messages import FetchPartition, FetchRequest, ForgottenPartition
from kafkatools.core.errors import DecodeError

VERSIONS = range(fetch_messages.MIN_VERSION, fetch_messages.MAX_VERSION + 1)
IDS = {"orders": uuid.UUID(int=7), "pay": uuid.UUID(int=9)}
NAMES = {topic_id: name for name, topic_id in IDS.items()}


def module(kind: str, version: int) -> Any:
    return importlib.import_module(f"kio.schema.fetch.v{version}.{kind}")


def fields_of(entity: Any) -> set[str]:
    return set(entity.__dataclass_fields__)


def make(entity: Any, **values: Any) -> Any:
    return entity(**{name: value for name, value in values.items() if name in fields_of(entity)})


def response_entity(version: int) -> Any:
    """A response that uses every field of the version: several topics, nulls, tags, aborted transactions."""
    m = module("response", version)
    tags = {}
    if version >= 12:
        tags = {
            "diverging_epoch": m.EpochEndOffset(epoch=3, end_offset=1 << 40),
            "current_leader": m.LeaderIdAndEpoch(leader_id=2, leader_epoch=8),
            "snapshot_id": m.SnapshotId(end_offset=99, epoch=4),
        }

    def partition(index: int, records: bytes | None, aborted: Any, error: int = 0, **more: Any) -> Any:
        from kio.schema.errors import ErrorCode

        return make(
            m.PartitionData,
            partition_index=index,
            error_code=ErrorCode(error),
            high_watermark=1 << 33,
            last_stable_offset=(1 << 33) - 5,
            log_start_offset=17,
            aborted_transactions=aborted,
            preferred_read_replica=3,
            records=records,
            **more,
        )

    aborted = tuple(m.AbortedTransaction(producer_id=n, first_offset=n * 10) for n in (5, 6))
    topics = []
    for name, partitions in (
        ("orders", (partition(0, b"r" * 300, aborted), partition(4, b"", (), 1, **tags))),
        ("pay", (partition(2, None, None, 6),)),
    ):
        topics.append(make(m.FetchableTopicResponse, topic=name, topic_id=IDS[name], partitions=partitions))
    endpoints = ()
    if version >= 16:
        endpoints = (
            m.NodeEndpoint(node_id=2, host="b2", port=9094, rack="r1"),
            m.NodeEndpoint(node_id=3, host="b3", port=9096, rack=None),
        )
    from kio.schema.errors import ErrorCode

    return make(
        m.FetchResponse,
        throttle_time=i32Timedelta.parse(timedelta(milliseconds=250)),
        error_code=ErrorCode.none,
        session_id=1234,
        responses=tuple(topics),
        node_endpoints=endpoints,
    )


def encoded(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


@pytest.mark.parametrize("version", VERSIONS)
def test_response_equals_the_generated_codec(version: int) -> None:
    data = b"head" + encoded(response_entity(version))
    expected, size = entity_reader(module("response", version).FetchResponse)(data, 4)
    assert size == len(data) - 4
    response = fetch_messages.decode_fetch_response(memoryview(data), version, 4)
    assert response.throttle_time_ms == round(expected.throttle_time.total_seconds() * 1000) == 250
    assert response.error_code == int(getattr(expected, "error_code", 0))
    assert response.session_id == getattr(expected, "session_id", 0)
    assert [tuple(e) for e in response.node_endpoints] == [
        (e.node_id, e.host, e.port, e.rack) for e in getattr(expected, "node_endpoints", ())
    ]
    wanted = [(topic, data) for topic in expected.responses for data in topic.partitions]
    assert len(response.partitions) == len(wanted) == 3
    for ours, (topic, theirs) in zip(response.partitions, wanted, strict=True):
        if version >= fetch_messages.TOPIC_ID_VERSION:
            assert (ours.topic, ours.topic_id) == ("", topic.topic_id)
        else:
            assert (ours.topic, ours.topic_id) == (topic.topic, fetch_messages.ZERO_UUID)
        assert ours.partition == theirs.partition_index
        assert ours.error_code == int(theirs.error_code)
        assert ours.high_watermark == theirs.high_watermark
        assert ours.last_stable_offset == theirs.last_stable_offset
        assert ours.log_start_offset == getattr(theirs, "log_start_offset", -1)
        assert ours.preferred_read_replica == getattr(theirs, "preferred_read_replica", -1)
        assert (None if ours.records is None else bytes(ours.records)) == theirs.records
        aborted = theirs.aborted_transactions
        ours_aborted = ours.aborted_transactions
        assert (ours_aborted is None) == (aborted is None)
        assert [tuple(a) for a in ours_aborted or ()] == [(a.producer_id, a.first_offset) for a in aborted or ()]
        if version >= 12:
            assert tuple(ours.diverging_epoch) == (theirs.diverging_epoch.epoch, theirs.diverging_epoch.end_offset)
            assert tuple(ours.current_leader) == (theirs.current_leader.leader_id, theirs.current_leader.leader_epoch)
            assert tuple(ours.snapshot_id) == (theirs.snapshot_id.epoch, theirs.snapshot_id.end_offset)


def test_records_are_a_slice_of_the_receive_buffer() -> None:
    data = bytearray(encoded(response_entity(12)))
    response = fetch_messages.decode_fetch_response(memoryview(data), 12)
    records = response.partitions[0].records
    assert records is not None
    data[data.index(b"r" * 300)] = ord("x")
    assert bytes(records[:2]) == b"xr"


@pytest.mark.parametrize("version", (4, 7, 11, 12, 18))
def test_truncated_response_is_refused_at_every_length(version: int) -> None:
    data = encoded(response_entity(version))
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            fetch_messages.decode_fetch_response(memoryview(data)[:size], version)


@pytest.mark.parametrize("version", (11, 12))
def test_announced_counts_are_checked_before_they_are_used(version: int) -> None:
    head = b"\x00" * 10
    count = b"\x7f\xff\xff\xff" if version == 11 else b"\xff\xff\xff\xff\x07"
    with pytest.raises(DecodeError, match="2147483646|2147483647"):
        fetch_messages.decode_fetch_response(memoryview(head + count + b"\x00" * 40), version)


def request(version: int) -> FetchRequest:
    partitions = [
        FetchPartition("orders", IDS["orders"], 0, 1 << 35, 1048576, 5, 4),
        FetchPartition("orders", IDS["orders"], 3, 0, 1048576),
        FetchPartition("pay", IDS["pay"], 2, 77, 4096, 9, -1),
        FetchPartition("orders", IDS["orders"], 1, 6, 1048576),
    ]
    forgotten = [
        ForgottenPartition("pay", IDS["pay"], 1),
        ForgottenPartition("orders", IDS["orders"], 8),
        ForgottenPartition("pay", IDS["pay"], 5),
    ]
    return FetchRequest(500, 1, 52428800, 1, 42, 7, partitions, forgotten if version >= 7 else (), "rack-a")


@pytest.mark.parametrize("version", VERSIONS)
def test_request_is_read_by_the_generated_codec(version: int) -> None:
    wanted = request(version)
    data = fetch_messages.encode_fetch_request(wanted, version)
    entity, size = entity_reader(module("request", version).FetchRequest)(data, 0)
    assert size == len(data)
    assert round(entity.max_wait.total_seconds() * 1000) == 500
    assert (entity.min_bytes, entity.max_bytes, entity.isolation_level) == (1, 52428800, 1)
    replica = entity.replica_state.replica_id if version >= 15 else entity.replica_id
    assert replica == -1
    if version >= 7:
        assert (entity.session_id, entity.session_epoch) == (42, 7)
        assert {(name(t), tuple(t.partitions)) for t in entity.forgotten_topics_data} == {
            ("pay", (1, 5)),
            ("orders", (8,)),
        }
    if version >= 11:
        assert entity.rack_id == "rack-a"
    ours = [(p.topic, p.partition, p.fetch_offset, p.max_bytes) for p in wanted.partitions]
    theirs = [
        (name(t), p.partition, p.fetch_offset, p.partition_max_bytes) for t in entity.topics for p in t.partitions
    ]
    assert theirs == ours
    read = [p for t in entity.topics for p in t.partitions]
    if version >= 9:
        assert [p.current_leader_epoch for p in read] == [5, -1, 9, -1]
    if version >= 12:
        assert [p.last_fetched_epoch for p in read] == [4, -1, -1, -1]


def name(topic: Any) -> str:
    return getattr(topic, "topic", "") or NAMES[topic.topic_id]


def test_topic_ids_are_used_only_when_every_topic_has_one() -> None:
    full = request(13)
    assert full.can_use_topic_ids
    without = full.partitions[0]._replace(topic_id=fetch_messages.ZERO_UUID)
    assert not full._replace(partitions=[*full.partitions, without]).can_use_topic_ids
