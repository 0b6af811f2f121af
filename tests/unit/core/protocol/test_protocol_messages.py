"""Messages by API key and version: defaults, what is refused, and what a version cannot carry."""

import struct
import uuid
from typing import Any

import pytest
from support.message_plans import FieldPlan, plan_of
from support.whole_messages import decode_all

from kafkatools.core.errors import DecodeError, UnsupportedVersion
from kafkatools.core.protocol import messages
from kafkatools.core.protocol.api_versions import ApiKey

UUID = uuid.UUID("01234567-89ab-cdef-0123-456789abcdef")


def sample(entity_type: Any) -> dict[str, Any]:
    """A value of each field that is not its default."""
    return {plan.name: sample_value(plan) for plan in plan_of(entity_type).all_fields()}


def sample_value(plan: FieldPlan) -> Any:
    values = {"string": "käfka", "bool": True, "uuid": UUID, "bytes": b"", "records": b""}
    item = sample(plan.entity) if plan.type is None else values.get(plan.type, 3)
    return [item, item] if plan.is_array else item


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
    shared = messages.Shared(settings)

    def written(version: int, configs: Any) -> bytes:
        results = [{"resource_type": 2, "resource_name": name, "configs": configs} for name in "xyz"]
        return messages.encode_fields(messages.response_type(ApiKey.DESCRIBE_CONFIGS, version), {"results": results})

    for each in (version, 3, version):
        assert written(each, shared) == written(each, settings)


@pytest.mark.parametrize("cut", range(1, 30))
def test_message_that_is_cut_off_is_a_decode_error(cut: int) -> None:
    entity_type = messages.response_type(ApiKey.METADATA, 12)
    data = messages.encode(messages.build(entity_type, sample(entity_type)))
    with pytest.raises(DecodeError):
        messages.decode(entity_type, data[:-cut])


def test_length_larger_than_the_rest_is_refused_before_allocation() -> None:
    entity_type = messages.response_type(ApiKey.METADATA, 1)
    with pytest.raises(DecodeError, match="a collection of size 2147483647, but there are only 8 bytes remaining"):
        messages.decode(entity_type, b"\x7f\xff\xff\xff" + bytes(8))


def test_unknown_error_code_is_kept_as_a_number() -> None:
    entity_type = messages.response_type(ApiKey.DELETE_GROUPS, 2)
    data = messages.encode(messages.build(entity_type, {"results": [{"group_id": "g", "error_code": 9999}]}))
    assert decode_all(entity_type, data).results[0].error_code == 9999


def test_unknown_tagged_field_is_skipped() -> None:
    entity_type = messages.response_type(ApiKey.DELETE_GROUPS, 2)
    data = messages.encode(messages.build(entity_type, {}))
    assert data.endswith(b"\x00")
    entity, size = messages.decode(entity_type, data[:-1] + b"\x01\x63\x02ab")
    assert (entity.results, size) == ((), len(data) + 4)


def test_build_nests() -> None:
    entity = messages.build(
        messages.request_type(ApiKey.CREATE_TOPICS, 7),
        {"topics": [{"name": "a", "num_partitions": 2, "replication_factor": 1}], "timeout": 30_000},
    )
    assert entity.timeout == 30_000
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
    assert decode_all(entity_type, b"\xff\xff\xff\xff").topics is None
    with pytest.raises(DecodeError, match="1 bytes are left"):
        decode_all(entity_type, b"\xff\xff\xff\xff\x00")


@pytest.mark.parametrize("version", [4, 5])
def test_an_error_message_is_cut_to_what_a_string_can_hold(version: int) -> None:
    name = "é" * 16_380
    topic = {"name": name, "error_code": 17, "error_message": f"Topic name is invalid: {name}"}
    entity_type = messages.response_type(ApiKey.CREATE_TOPICS, version)
    decoded = decode_all(entity_type, messages.encode_fields(entity_type, {"topics": [topic]}))
    assert decoded.topics[0].name == name
    told = decoded.topics[0].error_message
    assert topic["error_message"].startswith(told)
    assert 32_760 < len(told.encode()) <= 32_767


def test_a_string_is_refused_when_it_is_longer_than_kafka_reads() -> None:
    entity_type = messages.request_type(ApiKey.FIND_COORDINATOR, 3)
    fits, too_long = (b"\x80\x80\x02", b"a" * 32_767), (b"\x81\x80\x02", b"a" * 32_768)
    length, text = fits
    assert decode_all(entity_type, length + text + b"\0\0").key == text.decode()
    length, text = too_long
    with pytest.raises(DecodeError, match="string field key had invalid length 32768"):
        decode_all(entity_type, length + text + b"\0\0")


@pytest.mark.parametrize("marker", [-128, -2, -1])
def test_any_negative_marker_of_an_entity_is_null(marker: int) -> None:
    """Kafka's generated readers take every negative marker for null, and write -1."""
    entity_type = messages.response_type(68, 0)
    fields = {"member_id": "m", "member_epoch": 1, "heartbeat_interval": 5}
    whole = messages.encode_fields(entity_type, fields)
    data = whole[:-2] + struct.pack(">b", marker) + whole[-1:] + bytes(4)
    entity, size = messages.decode(entity_type, data)
    assert (entity.assignment, size) == (None, len(whole))
