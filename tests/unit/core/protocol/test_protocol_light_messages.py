"""Messages framed by the table, held against the codec generated from Kafka's schemas, version by version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.api_versions import ApiKey, versions_of
from kafkatools.core.protocol.light_messages import MESSAGES, decode_response, encode_request
from kafkatools.core.protocol.messages import build, encode, request_type, response_type
from kafkatools.core.protocol.plans import plan_of

CASES = [
    pytest.param(api_key, version, id=f"{ApiKey(api_key).label}-{version}")
    for api_key, message in MESSAGES.items()
    for version in range(message.first, message.last + 1)
]
_VALUES = {
    "string": "gruppe-ä", "bytes": b"\0\1\xff", "bool": True, "int8": 1, "int16": -2, "int32": 70_000, "int64": 1 << 40,
    "timedelta_i32": 4500, "timedelta_i64": 1 << 33, "error_code": 27,
}  # fmt: skip


def filled(entity_type: Any, is_full: bool) -> dict[str, Any]:
    """Every field set, arrays with two elements; or everything as empty as it may be."""
    fields: dict[str, Any] = {}
    for plan in plan_of(entity_type).all_fields():
        value = filled(plan.entity, is_full) if plan.type is None else _VALUES[plan.type]
        if plan.is_array:
            value = [value, value] if is_full else []
        if plan.is_nullable and not is_full:
            value = None
        fields[plan.name] = value
    return fields


def plain(value: Any) -> Any:
    """A decoded message as given to `filled`."""
    if isinstance(value, SimpleNamespace):
        return {name.removesuffix("_ms"): plain(each) for name, each in vars(value).items()}
    return [plain(each) for each in value] if isinstance(value, tuple) else value


@pytest.mark.parametrize("is_full", [True, False])
@pytest.mark.parametrize(("api_key", "version"), CASES)
def test_requests_and_responses_are_those_of_the_generated_codec(api_key: int, version: int, is_full: bool) -> None:
    asked = filled(request_type(api_key, version), is_full)
    expected = encode(build(request_type(api_key, version), asked))
    assert encode_request(api_key, version, asked) == expected
    answer = filled(response_type(api_key, version), is_full)
    body = encode(build(response_type(api_key, version), answer))
    assert plain(decode_response(api_key, version, body)) == answer
    for size in range(len(body)):
        with pytest.raises(DecodeError):
            decode_response(api_key, version, body[:size])


@pytest.mark.parametrize(("api_key", "version"), CASES)
def test_what_is_not_given_has_the_default_of_the_schema(api_key: int, version: int) -> None:
    expected = encode(build(request_type(api_key, version), {}))
    assert encode_request(api_key, version, {}) == expected


def test_what_the_table_does_not_know_is_left_to_the_generated_codec() -> None:
    for api_key, message in MESSAGES.items():
        assert message.first >= versions_of(ApiKey(api_key))[0]
        assert encode_request(api_key, message.last + 1, {}) is None
        assert decode_response(api_key, message.last + 1, b"") is None
    assert encode_request(ApiKey.METADATA, 5, {}) is None
    assert encode_request(ApiKey.HEARTBEAT, 2, {"group_instance_id": "i"}) is None
    assert encode_request(ApiKey.HEARTBEAT, 4, {"group_id": None}) is None
    assert encode_request(ApiKey.HEARTBEAT, 4, {"generation_id": 1 << 40}) is None
