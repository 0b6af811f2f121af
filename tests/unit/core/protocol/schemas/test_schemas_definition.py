"""Entities made from the tables: defaults, versions, nested mappings, frames, and what is refused."""

from __future__ import annotations

import uuid
from math import inf, nan

import pytest

from kafkatools.core.protocol.definitions import camel_case, snake_case, version_range
from kafkatools.core.protocol.schemas import metadata, offsets, remote_log_metadata, snapshot
from kafkatools.core.protocol.schemas.errors import RecordFormatError, UnknownRecordType
from kafkatools.core.protocol.schemas.json_form import json_text, to_json
from kafkatools.core.protocol.schemas.offsets import (
    ConsumerGroupMemberMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkatools.core.protocol.schemas.schema import write_entity
from kafkatools.core.protocol.uuids import uuid_text

TOPIC_ID = uuid.UUID(bytes=bytes(range(16)))


def test_topic_record_has_the_bytes_of_its_schema() -> None:
    frame = metadata.encode_record(metadata.TopicRecord(name="orders", topic_id=TOPIC_ID))
    # frame version 1, api key 2, version 0; compact string; uuid; no tags
    assert frame == b"\x01\x02\x00" + b"\x07orders" + bytes(range(16)) + b"\x00"


def test_missing_fields_have_the_defaults_of_kafka() -> None:
    record = metadata.PartitionRecord(version=2)
    assert (record.leader, record.leader_epoch, record.partition_id) == (-1, -1, -1)
    assert record.replicas == ()
    assert record.eligible_leader_replicas is None
    assert metadata.RegisterBrokerRecord().fenced is True


def test_tagged_field_at_its_default_takes_no_bytes() -> None:
    plain = metadata.encode_record(metadata.PartitionRecord(version=1))
    recovering = metadata.encode_record(metadata.PartitionRecord(version=1, leader_recovery_state=1))
    assert plain.endswith(b"\x00")
    assert recovering == plain[:-1] + b"\x01\x00\x01\x01"


def test_mappings_become_nested_entities() -> None:
    endpoint = {"name": "PLAINTEXT", "host": "localhost", "port": 9092, "security_protocol": 0}
    record = metadata.RegisterBrokerRecord(broker_id=1, end_points=[endpoint])
    assert record.end_points[0].port == 9092
    assert metadata.decode_record(metadata.encode_record(record)) == record


def test_field_of_another_version_is_refused() -> None:
    with pytest.raises(TypeError, match="OffsetCommitValue v0 has no field no_such_field"):
        OffsetCommitValue(version=0, no_such_field=1)
    with pytest.raises(TypeError, match="leader_epoch"):
        OffsetCommitValue(version=0, leader_epoch=1)


def test_unknown_version_is_refused() -> None:
    with pytest.raises(RecordFormatError, match="TopicRecord has no version 9"):
        metadata.TopicRecord(version=9)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b"", "Error while reading frame version"),
        (b"\x00\x02\x00", "with frame version 0"),
        (b"\x02\x02\x00", r"unknown frame version 2\(only frame version 1 is supported\)"),
        (b"\x01\x63\x00", "Unknown metadata id 99"),
        (b"\x01\x02\x00\x07ord", "Failed to deserialize record with type 2"),
        (b"\x01\x14\x00\x00!", r"Found 1 byte\(s\) of garbage after 20"),
        (b"\x01\xff\xff\x03", "Value for type was too large."),
    ],
)
def test_bad_frames_are_refused_in_the_words_of_kafka(frame: bytes, message: str) -> None:
    with pytest.raises(RecordFormatError, match=message):
        metadata.decode_record(frame)


def test_unknown_key_type_is_told_by_its_number() -> None:
    with pytest.raises(UnknownRecordType) as caught:
        offsets.decode_record(b"\x00\x63abc", None)
    assert caught.value.type_id == 99


def test_unknown_value_version_is_refused() -> None:
    key, _ = offsets.encode_record(OffsetCommitKey(group="g", topic="t", partition=0), None)
    with pytest.raises(RecordFormatError, match="Found an unknown record version 9 for 1 type"):
        offsets.decode_record(key, b"\x00\x09")


def test_nullable_tagged_structure_has_a_marker_byte() -> None:
    null = write_entity(ConsumerGroupMemberMetadataValue(classic_member_metadata=None))
    given = write_entity(ConsumerGroupMemberMetadataValue(classic_member_metadata={"session_timeout_ms": 5}))
    default = write_entity(ConsumerGroupMemberMetadataValue())
    assert null == default[:-1] + b"\x01\x00\x01\x00"
    # tag 0, 7 bytes: present, session timeout, no protocols, no tags
    assert given == default[:-1] + b"\x01\x00\x07\x01\x00\x00\x00\x05\x01\x00"
    for data in (null, given, default):
        entity, size = ConsumerGroupMemberMetadataValue.read(0, b"??" + data, 2)
        assert (write_entity(entity), size) == (data, len(data))


def test_control_record_carries_its_version_as_a_field() -> None:
    leader = snapshot.LeaderChangeMessage(version=1, leader_id=3, voters=[{"voter_id": 3}])
    key, value = snapshot.encode_record(leader)
    assert (key, value[:2]) == (b"\x00\x00\x00\x02", b"\x00\x01")
    assert snapshot.decode_record(2, value) == leader


def test_every_schema_of_every_version_is_read_as_it_was_written() -> None:
    count = 0
    for schema in metadata.RECORDS.schemas.values():
        for version in schema.valid_versions:
            entity = schema(version=version)
            assert metadata.decode_record(metadata.encode_record(entity)) == entity
            count += 1
    for type_id, key_schema in offsets.RECORDS.keys.items():
        for version in offsets.RECORDS.values[type_id].valid_versions:
            pair = key_schema(), offsets.RECORDS.values[type_id](version=version)
            assert offsets.decode_record(*offsets.encode_record(*pair)) == pair
            count += 1
    assert count > 60


def test_json_leaves_out_tagged_defaults_and_keeps_the_order_of_the_schema() -> None:
    shown = json_text(to_json(metadata.PartitionRecord(version=2, topic_id=TOPIC_ID, last_known_elr=(4,))))
    assert shown == (
        '{"partitionId":-1,"topicId":"AAECAwQFBgcICQoLDA0ODw","replicas":[],"isr":[],"removingReplicas":[],'
        '"addingReplicas":[],"leader":-1,"leaderEpoch":-1,"partitionEpoch":-1,"directories":[],"lastKnownElr":[4]}'
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1048576.0, "1048576.0"),
        (10485760.0, "1.048576E7"),
        (1e-05, "1.0E-5"),
        (-0.0, "-0.0"),
        (nan, '"NaN"'),
    ]
    + [(inf, '"Infinity"'), (-inf, '"-Infinity"')],
)
def test_doubles_are_those_of_jackson(value: float, text: str) -> None:
    record = metadata.ClientQuotaRecord(entity=(), key="producer_byte_rate", value=value)
    assert json_text(to_json(record)) == f'{{"entity":[],"key":"producer_byte_rate","value":{text},"remove":false}}'


def test_json_text_escapes_as_jackson_does() -> None:
    assert json_text('a"b\\c\n\x1b\x7f\u2028é') == '"a\\"b\\\\c\\n\\u001B\x7f\u2028é"'
    assert json_text({"a": [1, None, True]}) == '{"a":[1,null,true]}'


def test_zero_uuid_is_none_and_shown_as_zeros() -> None:
    record = metadata.decode_record(metadata.encode_record(metadata.RemoveTopicRecord()))
    assert record.topic_id is None
    assert uuid_text(None) == "AAAAAAAAAAAAAAAAAAAAAA"


def test_remote_log_record_is_described_as_java_does() -> None:
    partition = {"name": "orders", "id": TOPIC_ID, "partition": 3}
    record = remote_log_metadata.RemotePartitionDeleteMetadataRecord(
        topic_id_partition=partition, broker_id=1, event_timestamp_ms=5, remote_partition_delete_state=1
    )
    read = remote_log_metadata.decode_record(remote_log_metadata.encode_record(record))
    assert remote_log_metadata.describe(read) == (
        "RemotePartitionDeleteMetadata{topicPartition=AAECAwQFBgcICQoLDA0ODw:orders-3, "
        "state=DELETE_PARTITION_STARTED, eventTimestampMs=5, brokerId=1}"
    )


def test_names_and_versions_of_definitions() -> None:
    assert snake_case("lastKnownElr") == "last_known_elr"
    assert camel_case("last_known_elr") == "lastKnownElr"
    assert [version in version_range("2+") for version in (1, 2, 99)] == [False, True, True]
    assert list(version_range("1-3")) == [1, 2, 3]
    assert not version_range("none")


def test_unknown_tags_are_skipped() -> None:
    frame = metadata.encode_record(metadata.TopicRecord(name="orders", topic_id=TOPIC_ID))
    record = metadata.decode_record(frame[:-1] + b"\x01\x63\x02??")
    assert (record.name, record.topic_id) == ("orders", TOPIC_ID)


def test_text_that_is_not_utf8_is_replaced() -> None:
    frame = metadata.encode_record(metadata.TopicRecord(name="orders", topic_id=TOPIC_ID))
    assert metadata.decode_record(frame.replace(b"orders", b"ord\xffrs")).name == "ord\ufffdrs"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x00\x01\x00", "null"),
        (b"\x00\x01" + bytes(8) + b"\x7f\xff", "Error reading byte array of 32767 byte(s): only 0 byte(s) available"),
        (b"\x00\x01" + bytes(8) + b"\xff\xff", "non-nullable field metadata was serialized as null"),
    ],
)
def test_values_that_end_too_early_are_told_in_the_words_of_kafka(value: bytes, reason: str) -> None:
    key, _ = offsets.encode_record(OffsetCommitKey(group="g", topic="t", partition=0), None)
    with pytest.raises(RecordFormatError) as caught:
        offsets.decode_record(key, value)
    assert str(caught.value) == f"Could not read record with version 1 from value's buffer due to: {reason}."


def test_a_count_that_memory_cannot_meet_is_refused() -> None:
    sound = write_entity(metadata.PartitionRecord(version=0, partition_id=1, topic_id=TOPIC_ID, replicas=(1,)))
    # partition, topic id, then the count of replicas
    hostile = sound[:20] + b"\xff\xff\xff\xff\x07" + sound[21:]
    with pytest.raises(RecordFormatError):
        metadata.PartitionRecord.read(0, hostile)
