"""DescribeConfigs framed by hand, held against the codec, version by version."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.whole_messages import decode_all

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.api_versions import ApiKey, versions_of
from kafkatools.core.protocol.config_messages import FIRST_VERSION, LAST_VERSION, decode_response
from kafkatools.core.protocol.messages import encode_fields, response_type

VERSIONS = range(FIRST_VERSION, LAST_VERSION + 1)
TEXTS = st.text(max_size=5) | st.just("ü" * 100)
SYNONYMS = st.fixed_dictionaries({"name": TEXTS, "value": st.none() | TEXTS, "source": st.integers(0, 8)})
CONFIGS = st.fixed_dictionaries(
    {
        "name": TEXTS,
        "value": st.none() | TEXTS,
        "read_only": st.booleans(),
        "config_source": st.integers(-1, 8),
        "is_sensitive": st.booleans(),
        "synonyms": st.lists(SYNONYMS, max_size=2),
        "config_type": st.integers(0, 9),
        "documentation": st.none() | TEXTS,
    }
)
RESULTS = st.fixed_dictionaries(
    {
        "error_code": st.sampled_from([0, 3]),
        "error_message": st.none() | TEXTS,
        "resource_type": st.integers(0, 32),
        "resource_name": TEXTS,
        "configs": st.lists(CONFIGS, max_size=3),
    }
)
ANSWERS = st.fixed_dictionaries(
    {
        "throttle_time": st.integers(0, 1000),
        # some results many times, so that settings come again
        "results": st.lists(RESULTS, max_size=3).flatmap(
            lambda found: st.lists(st.sampled_from(found), max_size=12) if found else st.just([])
        ),
    }
)
SMALL = {
    "results": [
        {
            "resource_type": 2,
            "resource_name": name,
            "configs": [{"name": "a", "value": "1", "synonyms": [{"name": "b", "value": None, "source": 5}]}],
        }
        for name in ("x", "y")
    ]
}


def response_bytes(version: int, fields: dict[str, Any]) -> bytes:
    return encode_fields(response_type(ApiKey.DESCRIBE_CONFIGS, version), fields)


def _plain(result: Any) -> Any:
    configs = [
        (
            each.name, each.value, each.read_only, int(each.config_source), each.is_sensitive,
            [(one.name, one.value, int(one.source)) for one in each.synonyms], getattr(each, "config_type", 0),
            getattr(each, "documentation", None),
        )
        for each in result.configs
    ]  # fmt: skip
    return int(result.error_code), result.error_message, int(result.resource_type), result.resource_name, configs


def test_versions_are_those_of_the_tables() -> None:
    assert list(VERSIONS) == list(versions_of(ApiKey.DESCRIBE_CONFIGS))


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=30, deadline=None)
@given(fields=ANSWERS)
def test_answers_are_those_of_the_codec(version: int, fields: dict[str, Any]) -> None:
    raw = response_bytes(version, fields)
    answer = decode_response(version, raw)
    expected = decode_all(response_type(ApiKey.DESCRIBE_CONFIGS, version), raw)
    assert [_plain(result) for result in answer.results] == [_plain(result) for result in expected.results]
    assert answer.throttle_time_ms == fields["throttle_time"]


def test_resources_with_the_same_settings_share_them() -> None:
    answer = decode_response(4, response_bytes(4, SMALL))
    assert [result.resource_name for result in answer.results] == ["x", "y"]
    assert answer.results[0].configs is answer.results[1].configs


@pytest.mark.parametrize("version", VERSIONS)
def test_answer_that_ends_early_is_an_error(version: int) -> None:
    raw = response_bytes(version, SMALL)
    for end in range(len(raw)):
        with pytest.raises(DecodeError):
            decode_response(version, raw[:end])


@pytest.mark.parametrize("version", VERSIONS)
def test_null_and_impossible_lengths_are_refused(version: int) -> None:
    throttle = bytes(4)
    null, huge = (b"\0", b"\xff\xff\xff\xff\x07") if version >= 4 else (b"\xff" * 4, b"\x7f\xff\xff\xff")
    for count in (null, huge):
        with pytest.raises(DecodeError):
            decode_response(version, throttle + count + bytes(40))
