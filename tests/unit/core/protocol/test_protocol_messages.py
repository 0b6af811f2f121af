"""Every message of every version: our writer and reader against kio's own, which know nothing of each other."""

import io
import struct
import uuid
from datetime import timedelta
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from kafkatools.core.errors import DecodeError, UnsupportedVersion
from kafkatools.core.protocol import messages
from kafkatools.core.protocol.api_versions import ApiKey, versions_of
from kafkatools.core.protocol.entity_reader import read_entity
from kafkatools.core.protocol.entity_writer import Shared
from kafkatools.core.protocol.plans import FieldPlan, plan_of

UUID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")
SAMPLES: dict[str, Any] = {
    "string": "käfka", "bytes": b"\x00\xff", "records": b"123", "bool": True, "uuid": UUID, "float64": 0.5, "int8": -3,
    "int16": 258, "int32": 70_000, "int64": 1 << 40, "uint16": 65_000, "uint32": 4_000_000_000, "error_code": 3,
    "timedelta_i32": 1500, "timedelta_i64": 86_400_001, "datetime_i64": 1_700_000_000_123,
}  # fmt: skip


def sample(entity_type: Any) -> dict[str, Any]:
    return {plan.name: sample_value(plan) for plan in plan_of(entity_type).all_fields()}


def sample_value(plan: FieldPlan) -> Any:
    item = sample(plan.entity) if plan.type is None else SAMPLES[plan.type]
    return [item, item] if plan.is_array else item


def all_types() -> list[Any]:
    return [
        pytest.param(kind(api, version), id=f"{kind.__name__}-{api.label}-v{version}")
        for api in ApiKey
        for version in versions_of(api)
        for kind in (messages.request_type, messages.response_type)
    ]


@pytest.mark.parametrize("entity_type", all_types())
def test_message_is_written_and_read_as_kio_does(entity_type: Any) -> None:
    for fields in (sample(entity_type), {}):
        entity = messages.build(entity_type, fields)
        buffer = io.BytesIO()
        entity_writer(entity_type)(buffer, entity)
        data = messages.encode(entity)
        assert data == buffer.getvalue()
        assert messages.encode_fields(entity_type, {**fields, "not_in_this_version": 1}) == data
        assert read_entity(entity_type, memoryview(b"xx" + data), 2) == (entity, len(data))
        assert entity_reader(entity_type)(data, 0) == (entity, len(data))


@pytest.mark.parametrize("left_out", ["error_code", "partition_index", "leader_id", "leader_epoch"])
def test_number_that_is_not_given_has_its_default_among_its_neighbours(left_out: str) -> None:
    entity_type = messages.response_type(ApiKey.METADATA, 12)
    part = {"error_code": 3, "partition_index": 4, "leader_id": 5, "leader_epoch": 6, "replica_nodes": (1, 2)}
    del part[left_out]
    fields = {"topics": [{"name": "a", "partitions": [part, part]}]}
    assert messages.encode_fields(entity_type, fields) == messages.encode(messages.build(entity_type, fields))


@pytest.mark.parametrize("version", [1, 4])
def test_shared_elements_are_written_wherever_they_stand(version: int) -> None:
    settings = [{"name": "a", "value": "1"}, {"name": "b", "value": None}]
    shared = Shared(settings)

    def written(version: int, configs: Any) -> bytes:
        results = [{"resource_type": 2, "resource_name": name, "configs": configs} for name in "xyz"]
        return messages.encode_fields(messages.response_type(ApiKey.DESCRIBE_CONFIGS, version), {"results": results})

    for each in (version, 3, version):
        assert written(each, shared) == written(each, settings)


@pytest.mark.parametrize("cut", range(1, 30))
def test_message_that_is_cut_off_is_a_decode_error(cut: int) -> None:
    entity_type = messages.response_type(ApiKey.METADATA, 12)
    data = messages.encode(messages.build(entity_type, sample(entity_type)))
    for _ in range(2 * messages.NATIVE_AFTER):
        with pytest.raises(DecodeError):
            messages.decode(entity_type, data[:-cut])


def test_length_larger_than_the_rest_is_refused_before_allocation() -> None:
    entity_type = messages.response_type(ApiKey.METADATA, 1)
    with pytest.raises(DecodeError, match="a length of 2147483647"):
        messages.decode(entity_type, b"\x7f\xff\xff\xff" + bytes(8))


def test_unknown_error_code_is_kept_as_a_number() -> None:
    entity_type = messages.response_type(ApiKey.DELETE_GROUPS, 2)
    data = messages.encode(messages.build(entity_type, {"results": [{"group_id": "g", "error_code": 9999}]}))
    for _ in range(2 * messages.NATIVE_AFTER):
        entity, _ = messages.decode(entity_type, data)
        assert entity.results[0].error_code == 9999


def test_unknown_tagged_field_is_skipped() -> None:
    entity_type = messages.response_type(ApiKey.DELETE_GROUPS, 2)
    data = messages.encode(messages.build(entity_type, {}))
    assert data.endswith(b"\x00")
    entity, size = messages.decode(entity_type, data[:-1] + b"\x01\x63\x02ab")
    assert (entity.results, size) == ((), len(data) + 4)


def test_build_converts_milliseconds_and_nests() -> None:
    entity = messages.build(
        messages.request_type(ApiKey.CREATE_TOPICS, 7),
        {"topics": [{"name": "a", "num_partitions": 2, "replication_factor": 1}], "timeout": 30_000},
    )
    assert entity.timeout == timedelta(seconds=30)
    assert entity.topics[0].name == "a"
    assert entity.topics[0].assignments == ()
    assert entity.validate_only is False


def test_field_that_a_version_lacks_is_left_out_when_it_has_its_default() -> None:
    entity_type = messages.request_type(ApiKey.METADATA, 1)
    messages.build(entity_type, {"topics": None, "allow_auto_topic_creation": True})
    with pytest.raises(UnsupportedVersion, match="MetadataRequest v1 cannot carry allow_auto_topic_creation=False"):
        messages.build(entity_type, {"topics": None, "allow_auto_topic_creation": False})


def test_misspelt_field_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="topicz"):
        messages.build(messages.request_type(ApiKey.METADATA, 12), {"topicz": [{"name": "a"}]})


def test_unknown_api_and_version_are_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="no API with key 999"):
        messages.request_type(999, 0)
    with pytest.raises(UnsupportedVersion, match="Produce has no version 2"):
        messages.request_type(ApiKey.PRODUCE, 2)


def test_bytes_left_over_are_an_error_of_decode_all() -> None:
    entity_type = messages.request_type(ApiKey.METADATA, 1)
    assert messages.decode_all(entity_type, b"\xff\xff\xff\xff").topics is None
    with pytest.raises(DecodeError, match="1 bytes are left"):
        messages.decode_all(entity_type, b"\xff\xff\xff\xff\x00")


@pytest.mark.parametrize("version", [4, 5])
def test_an_error_message_is_cut_to_what_a_string_can_hold(version: int) -> None:
    name = "é" * 16_380
    topic = {"name": name, "error_code": 17, "error_message": f"Topic name is invalid: {name}"}
    entity_type = messages.response_type(ApiKey.CREATE_TOPICS, version)
    decoded = messages.decode_all(entity_type, messages.encode_fields(entity_type, {"topics": [topic]}))
    assert decoded.topics[0].name == name
    told = decoded.topics[0].error_message
    assert topic["error_message"].startswith(told)
    assert 32_760 < len(told.encode()) <= 32_767


def test_a_string_is_refused_when_it_is_longer_than_kafka_reads() -> None:
    entity_type = messages.request_type(ApiKey.FIND_COORDINATOR, 3)
    fits, too_long = (b"\x80\x80\x02", b"a" * 32_767), (b"\x81\x80\x02", b"a" * 32_768)
    for turn in range(messages.NATIVE_AFTER * 2):  # both readers
        length, text = fits
        assert messages.decode_all(entity_type, length + text + b"\0\0").key == text.decode(), turn
        length, text = too_long
        with pytest.raises(DecodeError, match="a string of 32768 bytes"):
            messages.decode_all(entity_type, length + text + b"\0\0")


@pytest.mark.parametrize("marker", [-128, -2, -1])
def test_any_negative_marker_of_an_entity_is_null_however_often_the_type_was_read(marker: int) -> None:
    """Kafka's generated readers take every negative marker for null, and write -1."""
    entity_type = messages.response_type(68, 0)
    fields = {"member_id": "m", "member_epoch": 1, "heartbeat_interval": 5}
    whole = messages.encode_fields(entity_type, fields)
    data = whole[:-2] + struct.pack(">b", marker) + whole[-1:] + bytes(4)
    for _ in range(messages.NATIVE_AFTER + 2):
        entity, size = messages.decode(entity_type, data)
        assert (entity.assignment, size) == (None, len(whole))


@pytest.mark.parametrize("milliseconds", [140737488289792, 253402300799999, 1])
def test_a_point_in_time_keeps_its_millisecond_however_often_the_type_was_read(milliseconds: int) -> None:
    entity_type = messages.response_type(39, 2)
    data = messages.encode_fields(entity_type, {"error_code": 0, "expiry_timestamp": milliseconds})
    for _ in range(messages.NATIVE_AFTER + 2):
        assert messages.encode(messages.decode(entity_type, data)[0]) == data
